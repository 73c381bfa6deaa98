"""A connection to a server: the hello, then parts in both directions."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from tidings.broker import LinkKind
from tidings.model import FeatureError, TidingsError
from tidings.wire import (
    SERIALISERS,
    VERSION,
    Hello,
    Part,
    PeerRole,
    Reject,
    Stream,
    Welcome,
    WireError,
    ack_number,
    decode_words,
    encode_words,
    part,
)

from ._access import AccessDenied
from ._peer import Peer

if TYPE_CHECKING:
    from ._host import Host

log = logging.getLogger("tidings.net")

DENIAL_DELAY = 1.0
"""Seconds that a peer with wrong credentials waits for its answer: guessing must be slow."""


class Connection(Stream):
    """One connection, opened by either side, from its hello on."""

    def __init__(self, host: Host) -> None:
        super().__init__(host.options.limits.max_part)
        self.host = host
        self.peer: Peer | None = None
        self.paused = False
        self.refused: Reject | None = None
        self.done: asyncio.Future[None] = self.loop.create_future()
        """Done when the connection is gone."""

    # --- parts ----------------------------------------------------------------------------------------

    def parts_received(self, parts: list[tuple[int, bytes]]) -> None:
        """Handle all parts of a read."""
        peer = self.peer
        if peer is None:
            self.first(*parts[0])
            peer = self.peer
            parts = parts[1:]
            if peer is None or not parts:
                return
        decode = peer.serialiser.decode
        receive, link = self.host.broker.receive, peer.link
        arrived = 0
        try:
            for kind, payload in parts:
                if kind == Part.DATA:
                    arrived += 1
                    receive(link, decode(payload))
                elif kind == Part.ACK:
                    peer.acknowledged(ack_number(payload))
                elif kind == Part.PING:
                    self.write(part(Part.PONG))
                elif kind == Part.BYE:
                    self.host.end(peer, "it said goodbye")
                    return
                elif kind == Part.REJECT:
                    self.refused = decode_words(payload, Reject)
                    self.host.end(peer, self.refused.reason)
                    return
                elif kind != Part.PONG:
                    raise WireError(f"a {Part(kind).name} in the middle of a session")
        except WireError:
            raise
        except FeatureError as error:
            log.exception("the broker failed")
            self.host.on_failure(error)
            return
        except TidingsError as error:
            raise WireError(str(error)) from error
        except Exception as error:
            log.exception("a message of %s could not be handled", self._who())
            raise WireError("a message could not be handled; the log of this broker says why") from error
        finally:
            if arrived:
                peer.arrived(arrived)
        if self.host.must_wait(peer, self._resume) and self.transport is not None:
            self.paused = True
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self.paused and self.transport is not None and not self.transport.is_closing():
            self.paused = False
            self.transport.resume_reading()

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

    def lost(self, error: Exception | None) -> None:
        """The connection is gone; the session waits."""
        if self.peer is not None and self.peer.stream is self:
            self.host.cut(self.peer)
        if not self.done.done():
            self.done.set_result(None)

    def _who(self) -> str:
        if self.peer is not None:
            return f"{self.peer.link.kind.value} {self.peer.link.name}"
        address = self.transport.get_extra_info("peername") if self.transport is not None else None
        return str(address)


class Accepted(Connection):
    """A connection that the other side opened."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._deadline = self.loop.call_later(host.options.limits.handshake, self._too_slow)

    def _too_slow(self) -> None:
        if self.peer is None:
            self.reject(Reject("timeout", "no hello came", retry=True))

    def lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        self._deadline.cancel()
        super().lost(error)

    def first(self, kind: int, payload: bytes) -> None:
        """The other side says hello."""
        if kind != Part.HELLO:
            raise WireError(f"a connection begins with HELLO, not with kind {kind}")
        self._deadline.cancel()
        hello = decode_words(payload, Hello)
        try:
            self._welcome(hello)
        except AccessDenied as error:
            log.warning("%s %s at %s was denied: %s", hello.role.value, hello.name[:80], self._who(), error)
            self.loop.call_later(DENIAL_DELAY, self.reject, Reject("denied", str(error)))
        except TidingsError as error:
            self.reject(Reject("refused", str(error)))

    def _welcome(self, hello: Hello) -> None:
        host = self.host
        if VERSION not in hello.versions:
            spoken = ", ".join(map(str, hello.versions))
            self.reject(Reject("version", f"this broker speaks version {VERSION} of the protocol, not {spoken}"))
            return
        serialiser = next((SERIALISERS[name] for name in hello.serialisers if name in SERIALISERS), None)
        if serialiser is None:
            spoken = ", ".join(sorted(SERIALISERS))
            self.reject(Reject("serialiser", f"this broker speaks {spoken}; offer one of these"))
            return
        if not hello.name or len(hello.name) > 256:
            self.reject(Reject("name", "a name has 1 to 256 characters"))
            return
        identity = host.options.access.identify(hello.token, _subject(self.transport))
        kind = LinkKind.BROKER if hello.role is PeerRole.BROKER else LinkKind.CLIENT
        if kind is LinkKind.BROKER and not identity.broker:
            raise AccessDenied(f"'{identity.name}' may not connect as a broker")
        peer = host.find(hello.session)
        resumed = peer is not None and peer.link.name == hello.name and peer.link.kind is kind
        if peer is None or not resumed:
            known = host.peer_of(hello.name, kind)
            if known is not None and not self._replaces(hello, known):
                self.reject(Reject("duplicate", f"{kind.value} '{hello.name}' is connected already", retry=True))
                return
            if known is not None:
                host.end(known, "it started anew")
            if len(host.peers) >= host.options.limits.connections:
                self.reject(Reject("full", "this broker has as many connections as it may", retry=True))
                return
            peer = host.admit(hello.name, kind, identity)
        elif peer.stream is not None:
            peer.stream.abort()  # the other side gave that connection up before this one noticed
        peer.serialiser = serialiser
        peer.epoch = hello.epoch
        self.peer = peer
        peer.connected(self)
        words = Welcome(
            VERSION,
            host.options.name,
            peer.session.id,
            resumed=resumed,
            received=peer.session.received,
            serialiser=serialiser.name,
            epoch=host.epoch,
            max_part=host.options.limits.max_part,
            heartbeat=host.options.limits.heartbeat,
        )
        self.write(part(Part.WELCOME, encode_words(words)))
        if resumed:
            peer.resume(hello.received)
            return
        try:
            host.begin(peer)
        except TidingsError:
            self.peer = None
            raise

    def _replaces(self, hello: Hello, known: Peer) -> bool:
        """Whether a new connection takes the place of a known peer of the same name."""
        if known.stream is None:
            return True  # the old one is only waited for
        if known.link.is_broker:
            # Both may have opened a connection at the same time: the one opened by the smaller name stays.
            return hello.epoch > known.epoch or (known.dialled and hello.name < self.host.options.name)
        return False


def _subject(transport: asyncio.Transport | None) -> str | None:
    """The common name in the certificate of the other side, if it showed one that was verified."""
    certificate: Any = transport.get_extra_info("peercert") if transport is not None else None
    for entries in (certificate or {}).get("subject", ()):
        for key, value in entries:
            if key == "commonName":
                return str(value)
    return None
