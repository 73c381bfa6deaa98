"""A connection to a server: the hello, then parts in both directions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tidings.broker import LinkKind, Reading, Role
from tidings.mobility import Denied, Newcomer, Verdict
from tidings.model import AccessDenied, FeatureError, TidingsError, Value, ValueRefused
from tidings.wire import (
    ARRIVALS,
    BEATS,
    EVACUATED,
    GROUP_LOOKS,
    GROUPS,
    MAX_BROUGHT,
    MAX_HELLO,
    MAX_SILENCE,
    MIN_SILENCE,
    MSGPACK,
    REQUESTS,
    SERIALISERS,
    VERSION,
    WORK,
    Frame,
    Hello,
    Part,
    PeerRole,
    Reject,
    Serialiser,
    Stream,
    Welcome,
    WireError,
    ack_number,
    brief,
    checked_body,
    decode_words,
    encode_words,
    part,
    read_times,
    times,
)

from ._access import AccessEntry
from ._listener import Visitor
from ._names import MAX_NAME
from ._peer import Peer
from ._turns import HEAVY_IDS, LIGHT, LIGHT_SLICE, SLICE, is_light

if TYPE_CHECKING:
    from ._host import Host
    from ._options import Options

log = logging.getLogger("tidings.net")

FULL = Reject(
    "full", "this broker has no room for more connections; try again later, or use another broker", retry=True
)
STOPPING = Reject("stopping", "this broker is stopping", retry=True)
_DATA = int(Part.DATA)  # to compare with it is faster than with a member of an enum
DENIAL_DELAY = 1.0
"""Seconds that a peer with wrong credentials waits for its answer: guessing must be slow."""


class _Rest(NamedTuple):
    """What was read and waits for its turn: a frame that has been decoded, parts, and bytes that follow them.

    Bytes are kept as they are, so that the broker may take them whole when their turn comes.
    """

    parts: list[tuple[int, bytes]]
    frame: Frame | None
    data: bytes = b""


class _Client(NamedTuple):
    """A client that wants to begin a session."""

    hello: Hello
    name: str
    identity: AccessEntry
    serialiser: Serialiser
    brought: Mapping[str, Value]


class Connection(Stream):
    """One connection, opened by either side, from its hello on."""

    def __init__(self, host: Host) -> None:
        super().__init__(MAX_HELLO + 1)  # until it is known who is there
        self.host = host
        self.peer: Peer | None = None
        self._greeted = False
        self.refused: Reject | None = None
        self._rest: _Rest | None = None
        """What was read and waits for its turn."""
        self.done: asyncio.Future[None] = self.loop.create_future()
        """Done when the connection is gone."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        super().connection_made(transport)
        self.host.connections.add(self)

    # --- parts ----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Bytes have come: the broker takes some of them as they are, the others are handled part by part."""
        peer, rest = self.peer, self._rest
        if rest is not None and rest.data:
            self.last_heard = self.loop.time()
            self._rest = rest._replace(data=rest.data + data)  # which the parser has not seen either
            return
        if peer is None or rest is not None or peer.serialiser is not MSGPACK:
            super().data_received(data)
            return
        host, parser = self.host, self._parser
        self.last_heard = self.loop.time()
        try:
            if data := parser.begun(data):
                if not host.stopping and host.broker.feeds(peer.link, data, parser.limit):
                    self._handle(peer, [], self.last_heard, data=data)
                elif parts := parser.feed(data):
                    self.parts_received(parts)
        except WireError as error:
            self.bad_input(error)

    def _go_on(self, peer: Peer, data: bytes) -> None:
        """Handle bytes whose turn has come."""
        now = self.loop.time()
        if not self.host.stopping and self.host.broker.feeds(peer.link, data, self._parser.limit):
            self._handle(peer, [], now, in_turn=True, data=data)
        elif parts := self._parser.feed(data):
            self._handle(peer, parts, now, in_turn=True)

    def parts_received(self, parts: list[tuple[int, bytes]]) -> None:
        """Handle all parts of a read."""
        peer = self.peer
        if peer is None:
            if self._greeted:
                return  # it has its answer, or waits for it: a second hello would be a second guess
            self._greeted = True
            self.first(*parts[0])
            peer = self.peer
            parts = parts[1:]
            if peer is not None:
                self._parser.limit = self.host.options.limits.max_part
            if peer is None or not parts:
                return
        if self._rest is not None:
            self._rest.parts.extend(parts)
        else:
            self._handle(peer, parts, self.last_heard)

    def take_turn(self) -> None:
        """Go on with a read that took long; see `Turns`."""
        if self._rest is None:
            return  # the connection is gone
        (parts, frame, data), self._rest = self._rest, None
        peer = self.peer
        if peer is None or peer.stream is not self:
            return  # what was not handled was not acknowledged either, so it comes again
        started = self.loop.time()
        try:
            if parts or frame is not None:
                self._handle(peer, parts, started, frame=frame, in_turn=True)
            if self._rest is not None:
                self._rest = self._rest._replace(data=self._rest.data + data)
            elif data and peer.stream is self:
                if self.loop.time() - started > SLICE:
                    self._wait(_Rest([], None, data))
                else:
                    self._go_on(peer, data)
        except WireError as error:
            self.bad_input(error)
        if not peer.congestion.waits_for:
            self.unpause()

    def _put_off(
        self,
        left: Reading | Iterator[tuple[int, bytes]],
        frame: Frame | None = None,
        part: tuple[int, bytes] | None = None,
    ) -> None:
        """Let what is left of a read wait, behind a frame that has been decoded or a part that has not."""
        data = left.rest() if isinstance(left, Reading) else b""
        parts = [*([] if part is None else [part]), *([] if isinstance(left, Reading) else left)]
        if parts or frame is not None or data:
            self._wait(_Rest(parts, frame, data))

    def _wait(self, rest: _Rest) -> None:
        self._rest = rest
        self.pause()
        self.host.turns.wait(self)

    def unpause(self) -> None:
        """Read again, unless something that was read waits for its turn."""
        if self._rest is None:
            super().unpause()

    def _handle(
        self,
        peer: Peer,
        parts: list[tuple[int, bytes]],
        started: float,
        *,
        frame: Frame | None = None,
        in_turn: bool = False,
        data: bytes = b"",
    ) -> None:
        """Handle parts, after a frame that has been decoded already; or bytes, of which the broker takes some whole."""
        if self.host.stopping:
            # What is not taken is not acknowledged either: its sender still has it, and hands it over again.
            parts, frame = [one for one in parts if one[0] != _DATA], None
        host, clock = self.host, self.loop.time
        receive, link = self.host.broker.receive, peer.link
        decode = peer.serialiser.decode_sparingly if link.is_client else peer.serialiser.decode
        kind_of_data, turns = _DATA, host.turns
        arrived = 0
        if self.host.flushing:
            self.host.flush()  # what was sent before is not this peer's doing
        self.host.reading = peer
        self.host.flushing = True  # below, when everything has been read
        left: Reading | Iterator[tuple[int, bytes]] = iter(parts)
        if data:
            left = Reading(link, data, host.broker, self._parser, lambda: clock() - started > LIGHT_SLICE)
        try:
            if frame is not None:
                arrived += 1
                receive(link, frame)
                if parts and self.loop.time() - started > SLICE:
                    self._put_off(left)
                    return
            for kind, payload in left:
                if kind == kind_of_data:
                    if turns.busy and not in_turn and not is_light(payload):
                        self._put_off(left, part=(kind, payload))
                        break
                    try:
                        frame = decode(payload)
                    except WireError as error:
                        arrived += 1
                        self._refuse(peer, payload, error)
                        if clock() - started > SLICE:
                            turns.used_up()  # to find out that it cannot be read took long, too
                            self._put_off(left)
                            break
                        continue
                    if type(frame.message) in LIGHT:
                        arrived += 1
                        receive(link, frame)
                        if clock() - started > LIGHT_SLICE or host.heavy > HEAVY_IDS:
                            self._put_off(left)
                            break
                        continue
                    if self.loop.time() - started > SLICE:
                        self._put_off(left, frame)  # to read its filter took long enough
                        break
                    arrived += 1
                    receive(link, frame)
                    if self.loop.time() - started > SLICE:
                        turns.used_up()
                        self._put_off(left)
                        break
                elif kind == Part.ACK:
                    peer.acknowledged(ack_number(payload))
                elif kind == Part.PING:
                    self._answer(payload)
                elif kind == Part.BYE:
                    self.host.end(peer, "it said goodbye")
                    return
                elif kind == Part.REJECT:
                    self.refused = decode_words(payload, Reject)
                    self.host.end(peer, self.refused.reason)
                    return
                elif kind == Part.PONG:
                    peer.told_time(payload)
                else:
                    raise WireError(f"a {Part(kind).name} in the middle of a session")
            if isinstance(left, Reading) and left.late:
                self._put_off(left)
        except WireError:
            raise
        except FeatureError as error:
            log.exception("the broker failed")
            self.host.on_failure(error)
            return
        except TidingsError as error:
            raise WireError(str(error)) from error
        except Exception as error:
            log.exception("cannot handle a message from %s", self._who())
            raise WireError("the broker could not handle a message; its log says why") from error
        finally:
            self.host.flush()
            self.host.reading = None
            if isinstance(left, Reading):
                arrived += left.taken
            if arrived:
                peer.arrived(arrived)
        if peer.congestion.waits_for:
            self.pause()

    def _refuse(self, peer: Peer, payload: bytes, error: WireError) -> None:
        """Answer a frame that cannot be read. One of a neighbour ends the session, and so do too many of a client."""
        if peer.link.is_broker:
            raise error
        refusal = self.host.unreadable.refuse(peer.link, payload, peer.serialiser, error, self.loop.time())
        self.host.broker.statistics.refused += 1
        self.host.broker.send(peer.link, refusal)

    def _answer(self, ping: bytes) -> None:
        asked = read_times(ping)
        self.pong(times(*asked, self.host.now()) if len(asked) == 1 else b"")

    def first(self, kind: int, payload: bytes) -> None:
        """The first part of a connection."""
        raise NotImplementedError

    def bad_input(self, error: WireError) -> None:
        """Say what was wrong and close; the peer may come back and go on."""
        log.warning("bad input from %s: %s", self._who(), error)
        self.reject(Reject("protocol", str(error)))
        if self.peer is not None:
            self.host.end(self.peer, f"bad input: {error}")

    def reject(self, why: Reject) -> None:
        """Tell the other side why this ends, and end it."""
        self.write(part(Part.REJECT, encode_words(why)))
        self.close()

    def ready(self) -> None:
        """The peer takes again what is sent."""
        if self.peer is not None and self.peer.stream is self:
            self.peer.acknowledge()

    def lost(self, error: Exception | None) -> None:
        """The connection is gone; the session waits."""
        self.host.connections.discard(self)
        self._rest = None
        if self.peer is not None and self.peer.stream is self:
            self.host.cut(self.peer)
        if not self.done.done():
            self.done.set_result(None)

    def _who(self) -> str:
        if self.peer is not None:
            return f"{self.peer.link.kind.value} {self.peer.link.name}"
        address = self.transport.get_extra_info("peername") if self.transport is not None else None
        return str(address)


class Accepted(Connection, Visitor):
    """A connection that the other side opened."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._deadline = self.loop.call_later(host.options.limits.handshake, self._too_slow)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has come, and is through with TLS."""
        super().connection_made(transport)
        if self.loop.time() >= self._deadline.when():
            self._too_slow()

    @property
    def known(self) -> bool:
        """Whether it has said hello and was let in."""
        return self.peer is not None

    def _too_slow(self) -> None:
        if self.peer is None and self.transport is not None:
            self.reject(Reject("timeout", "no hello arrived in time", retry=True))

    def lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        self._deadline.cancel()
        super().lost(error)

    def first(self, kind: int, payload: bytes) -> None:
        """The other side says hello."""
        if kind != Part.HELLO:
            raise WireError(f"a connection begins with HELLO, not with a part of kind {kind}")
        self._deadline.cancel()
        hello = decode_words(payload, Hello)
        if self.host.stopping:
            self.reject(STOPPING)
            return
        try:
            self._welcome(hello)
        except AccessDenied as error:
            log.warning("denied %s %s at %s: %s", hello.role.value, hello.name[:80], self._who(), error)
            self.loop.call_later(DENIAL_DELAY, self.reject, Reject("denied", str(error)))
        except TidingsError as error:
            self.reject(Reject("refused", str(error)))

    def _welcome(self, hello: Hello) -> None:
        host = self.host
        if VERSION not in hello.versions:
            spoken = brief(", ".join(map(str, hello.versions)))
            self.reject(Reject("version", f"this broker speaks version {VERSION} of the protocol, not {spoken}"))
            return
        serialiser = next((SERIALISERS[name] for name in hello.serialisers if name in SERIALISERS), None)
        if serialiser is None:
            spoken = ", ".join(sorted(SERIALISERS))
            self.reject(Reject("serialiser", f"this broker speaks {spoken}; offer one of these"))
            return
        identity = host.options.access.identify(hello.token, _subject(self.transport))
        kind = LinkKind.BROKER if hello.role is PeerRole.BROKER else LinkKind.CLIENT
        name = hello.name
        if not name and kind is LinkKind.CLIENT:
            name = host.names.given_to(identity)
        if kind is LinkKind.BROKER and not identity.broker:
            raise AccessDenied(f"'{identity.name}' may not connect as a broker")
        if objection := host.names.objection_to(name, kind, identity):
            log.warning("turned away %s at %s: %s", kind.value, self._who(), objection)
            self.reject(Reject("name", objection))
            return
        if kind is LinkKind.BROKER and (objection := host.governance.objection_to(name, hello.authority)):
            self.reject(Reject("authority", objection, retry=True))
            return
        if kind is LinkKind.BROKER and (objection := _other_routing(host.options, hello)):
            log.warning("turned away broker %s at %s: %s", name, self._who(), objection)
            self.reject(Reject("routing", objection, retry=True))
            return
        if kind is LinkKind.CLIENT and host.options.role is Role.INNER:
            self.reject(Reject("role", f"'{host.options.name}' is an inner broker; clients use a border broker"))
            return
        if kind is LinkKind.CLIENT and hello.evacuated and host.evacuation.running:
            self.reject(Reject(EVACUATED, f"'{host.options.name}' is being evacuated, too", retry=True))
            return
        if kind is LinkKind.CLIENT:
            _check_silence(hello)
        brought = _brought(hello, identity) if kind is LinkKind.CLIENT else {}
        peer = host.find(hello.session)
        if peer is not None and peer.link.name == name and peer.link.kind is kind and peer.identity == identity:
            self._resume(hello, peer)
        elif kind is LinkKind.BROKER:
            self._begin_neighbour(hello, identity, serialiser)
        else:
            self._begin_client(_Client(hello, name, identity, serialiser, brought))

    def _resume(self, hello: Hello, peer: Peer) -> None:
        """Let a session go on."""
        if peer.serialiser.name not in hello.serialisers:
            self.reject(
                Reject("serialiser", f"this session speaks {peer.serialiser.name}; offer it, or start a new session")
            )
            return
        if peer.stream is not None:
            peer.stream.abort()  # the other side gave that connection up before this one noticed
        self._let_in(hello, peer, resumed=True, attached=self.host.hosts.epoch_of(peer.link.name))
        peer.resume(hello.received)
        self.host.back(peer)

    def _begin_neighbour(self, hello: Hello, identity: AccessEntry, serialiser: Serialiser) -> None:
        host = self.host
        known = host.peer_of(hello.name, LinkKind.BROKER)
        if known is not None and not self._replaces(hello, known, identity):
            self.reject(Reject("duplicate", f"broker '{hello.name}' is already connected", retry=True))
            return
        if self._is_full(known):
            return
        if known is not None:
            host.end(known, "it started a new session")
        peer = host.admit(hello.name, LinkKind.BROKER, identity)
        peer.serialiser = serialiser
        if self._begin(hello, peer):
            host.names.compare(hello.name, hello.names)
            host.schemes.compare(hello.name, hello.features)

    def _begin_client(self, client: _Client) -> None:
        """Let a client begin a session, unless its name is in use; to find that out may take a while."""
        hello, host = client.hello, self.host
        owner = client.name if host.options.access.open else client.identity.name
        newcomer = Newcomer(
            client.name, owner, hello.attached, hello.last[:MAX_NAME], hello.take_over, fresh=not hello.name
        )
        host.hosts.enter(newcomer, lambda verdict: self._decided(client, verdict))

    def _decided(self, client: _Client, verdict: Verdict) -> None:
        if self.done.done() or self.transport is None or self.transport.is_closing():
            return  # it did not wait
        if self.host.stopping:
            self.reject(STOPPING)
            return
        if isinstance(verdict, Denied):
            self.reject(Reject(verdict.code, verdict.reason, retry=verdict.code in ("duplicate", "busy")))
            return
        host = self.host
        known = host.peer_of(client.name, LinkKind.CLIENT)
        if self._is_full(known):
            return
        if known is not None:
            host.replace(known)
        peer = host.admit(client.name, LinkKind.CLIENT, client.identity, attributes=client.brought)
        peer.serialiser = client.serialiser
        if self._begin(client.hello, peer, verdict.epoch):
            host.hosts.host(peer.link, verdict, overlap=client.hello.overlap)

    def _is_full(self, known: Peer | None) -> bool:
        full = self.host.peer_count - (known is not None) >= self.host.max_connections
        if full:
            self.reject(FULL)
        return full

    def _begin(self, hello: Hello, peer: Peer, attached: int = 0) -> bool:
        """Let a new session begin; False if the broker refuses it."""
        self._let_in(hello, peer, resumed=False, attached=attached)
        try:
            self.host.begin(peer)
        except TidingsError as error:
            self.peer = None
            self.reject(Reject("refused", str(error)))
            return False
        return True

    def _let_in(self, hello: Hello, peer: Peer, *, resumed: bool, attached: int) -> None:
        host = self.host
        peer.epoch = hello.epoch
        peer.authority = hello.authority
        peer.max_part = hello.max_part
        if peer.link.is_client:
            peer.silence = hello.silence or host.options.mobility.silence_of(peer.link.name)
        self.peer = peer
        peer.connected(self)
        words = Welcome(
            VERSION,
            host.options.name,
            peer.session.id,
            resumed=resumed,
            received=peer.session.received,
            serialiser=peer.serialiser.name,
            epoch=host.epoch,
            max_part=host.options.limits.max_part,
            heartbeat=peer.silence / BEATS if peer.silence else host.options.limits.heartbeat,
            published=0 if peer.link.is_broker else host.broker.publications.latest(peer.link.name),
            client="" if peer.link.is_broker else peer.link.name,
            names=host.names.digest if peer.link.is_broker else "",
            attached=attached,
            features=host.schemes.told if peer.link.is_broker else (ARRIVALS, GROUPS, GROUP_LOOKS, REQUESTS, WORK),
            place=str(host.broker.place) if peer.link.is_client and host.broker.place is not None else "",
        )
        self._parser.limit = host.options.limits.max_part
        self.write(part(Part.WELCOME, encode_words(words)))

    def _replaces(self, hello: Hello, known: Peer, identity: AccessEntry) -> bool:
        """Whether a new connection takes the place of a known neighbour of the same name."""
        if known.identity is not None and known.identity.name != identity.name:
            return False
        if known.stream is None:
            return True  # the old one is only waited for
        if known.dialled and hello.epoch == known.epoch:
            # Both have opened a connection at the same time: the one opened by the smaller name stays.
            return hello.name < self.host.options.name
        return hello.epoch >= known.epoch  # it has given the old connection up before this side noticed


def _check_silence(hello: Hello) -> None:
    """Refuse a silence that would keep both sides busy with pings, or a dead connection for ever."""
    if hello.silence and not MIN_SILENCE <= hello.silence <= MAX_SILENCE:
        raise ValueRefused(
            f"a silence of {hello.silence:g} seconds; ask for one from {MIN_SILENCE:g} to {MAX_SILENCE:g}, or for none"
        )


def _brought(hello: Hello, identity: AccessEntry) -> Mapping[str, Value]:
    """What a client says about itself, if it may; a session that goes on keeps what it began with."""
    if not hello.attributes:
        return {}
    if len(hello.attributes) > MAX_BROUGHT:
        raise ValueRefused(
            f"the attributes that a client brings have at most {MAX_BROUGHT:,} bytes, these have "
            f"{len(hello.attributes):,}; leave some out"
        )
    brought = checked_body(hello.attributes).attributes
    identity.check_attributes(brought)
    return brought


def _other_routing(options: Options, hello: Hello) -> str:
    """Why two brokers would lose notifications between them; "": they would not."""
    if hello.routing == options.routing_kind:
        return ""
    return (
        f"'{hello.name}' routes by {brief(hello.routing) or 'rules that it does not name'} and '{options.name}' by "
        f"{options.routing_kind}, so notifications would be lost between them; run the same version of Tidings in "
        "both, with the same `algorithm` and `advertisements` under [routing]"
    )


def _subject(transport: asyncio.Transport | None) -> str | None:
    """The common name in the certificate of the other side, if it showed one that was verified."""
    certificate: Any = transport.get_extra_info("peercert") if transport is not None else None
    for entries in (certificate or {}).get("subject", ()):
        for key, value in entries:
            if key == "commonName":
                return str(value)
    return None
