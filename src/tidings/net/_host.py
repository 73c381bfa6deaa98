"""The host: runs one broker on an asyncio loop, and keeps its peers.

It is the broker's `Runtime`: real time, real links, a real disk. Everything runs on the loop's thread; the store has a
thread of its own and posts back.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from tidings.broker import Broker, Feature, Guard, Link, LinkKind, Log
from tidings.groups import Acknowledged, Choosing, Desk, Groups
from tidings.mobility import Arrivals, Edge, Evacuation, Following, Hosts, Neighbourhood, Roaming, Scheme
from tidings.model import Location, TidingsError, Value
from tidings.scopes import Requests, Rules
from tidings.wire import (
    TAKEN_OVER,
    Deliver,
    Frame,
    Part,
    PublishAck,
    Reject,
    Serialiser,
    Session,
    Written,
    encode_words,
    part,
)

from ._access import AccessEntry
from ._budget import Budget
from ._governance import Governance
from ._ledger import Ledger
from ._names import Names
from ._options import Options, SlowPolicy
from ._patience import Patience
from ._peer import Batch, Peer
from ._schemes import Schemes
from ._turns import Turns
from ._unreadable import Unreadable

if TYPE_CHECKING:
    from ._connection import Connection

log = logging.getLogger("tidings.net")

MANY_IDS = 64
"""A notification for more subscriptions of one client than these takes long to encode."""
UNDER_WAY = 0.5
"""Seconds for which what a client has sent before it left may still arrive, and is no sign that it is there."""


class _Timer:
    __slots__ = ("_handle",)

    def __init__(self, handle: asyncio.TimerHandle) -> None:
        self._handle = handle

    def cancel(self) -> None:
        self._handle.cancel()


class Host:
    """One broker, its clock, its peers."""

    def __init__(
        self,
        options: Options,
        epoch: int,
        store: Log | None,
        features: Iterable[Feature] = (),
        neighbours: Iterable[Edge] = (),
    ) -> None:
        """`neighbours` are the edges of the neighbour graph that are configured."""
        self.options = options
        self.loop = asyncio.get_running_loop()
        self.epoch = epoch
        self.log = store
        self._peers: dict[Link, Peer] = {}
        self.flushing = False
        """Whether somebody is going to call `flush`."""
        self._touched: list[Peer] = []
        """Those whose outboxes are not empty."""
        self._group: Mapping[Link, None] = {}
        """Links that get the same frames for the moment, and the frames that are in no outbox yet."""
        self._group_frames: list[Frame] = []
        self.heavy = 0
        """How many ids of subscriptions are in large frames that have not been encoded yet."""
        self._inside: dict[Link, Callable[[Frame], None]] = {}
        """The clients inside the broker."""
        self._sessions: dict[str, Peer] = {}
        self._names: dict[tuple[str, LinkKind], Peer] = {}
        self.max_connections = options.limits.connections
        """Fewer than the options say if there are not enough file descriptors."""
        self.connections: set[Connection] = set()
        """All connections, with or without a peer."""
        self.stopping = False
        """Whether nothing more is taken from peers but their acknowledgements."""
        self.reading: Peer | None = None
        """Whose turn it is: what the broker sends now is the doing of this peer."""
        self.budget = Budget(options.limits.identity_bytes, options.limits.memory_bytes)
        self.turns = Turns(self.loop)
        self.unreadable = Unreadable()
        self.patience = Patience(options.limits.block_seconds)
        self.on_failure: Callable[[BaseException], None] = lambda error: None
        """Called when the broker cannot go on."""
        self.ledger: Ledger | None = None
        """Notes what clients are sent, if anybody wants to know."""
        self.governance = Governance(options, self)
        self.names = Names(options.access)
        self.schemes = Schemes(options.mobility.scheme)
        self.hosts = Hosts(log.warning)
        """Who is attached here, and nowhere else."""
        self.hosts.end = self._taken_over
        self.hosts.ping = self._ping
        self.following = Following(self.hosts.epoch_of, log.warning)
        """Lets durable subscriptions follow their clients."""
        self.neighbourhood = Neighbourhood(self.hosts, options.mobility.graph, neighbours)
        """Where clients go, and come from."""
        self.arrivals = Arrivals()
        """Tells clients that have moved when they have everything."""
        self.evacuation = Evacuation(self.hosts)
        """Sends clients elsewhere before the broker stops."""
        self.requests = Requests()
        """Brings replies back to those who asked."""
        self.rules = Rules(self.governance.scopes)
        """Watches for what rules of scopes wait for."""
        self.roaming: Roaming | None = None
        """Keeps copies of clients ready, if the configuration says so."""
        if options.mobility.scheme is not Scheme.ORIGINS:
            self.roaming = Roaming(
                options.mobility,
                self.hosts,
                self.neighbourhood,
                room=self.budget,
                guard_of=self._guard_of,
                warn=log.warning,
                locate=options.locate,
            )
            self.arrivals.scheme_of = self.roaming.scheme_of
            self.roaming.controlling.in_use = self.following.in_use
        self.groups = Groups()
        """Subscribers that share what they get."""
        self.work = Acknowledged(self.groups)
        """The same, and each says what it has handled."""
        self.choosing = Choosing()
        """Scopes whose policies compare their members."""
        self.desk = Desk(self.groups, self.work)
        """Says how groups are."""
        sharing = (self.groups, self.work, self.choosing, self.desk)
        around = (self.neighbourhood, self.arrivals, self.evacuation)
        moving = (self.hosts, self.following, *around, *sharing, self.requests, self.rules)
        self.broker = Broker(
            options.name,
            self,
            routing=options.routing,
            role=options.role,
            strict_topology=options.strict_topology,
            place=Location(options.mobility.place) if options.mobility.place is not None else None,
            features=[*features, self.governance.scopes, *moving, *([self.roaming] if self.roaming else [])],
        )
        self.broker.borders.keys = {key.name: key for key in options.border_key}
        self.broker.crowded = self._crowded
        self.broker.held_up = self._held_up
        self.broker.charge = self._charge
        self.broker.remembering.told = self._told_of_store
        self.broker.register = self.budget.register

    # --- Runtime: what the broker asks for ------------------------------------------------------------

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        return time.time_ns() // 1_000

    def send(self, link: Link, frame: Frame) -> None:
        """Send a frame to whoever is at the other end."""
        if link in self._group:
            self._end_group()  # what was sent to it before comes first
        peer = self._peers.get(link)
        if peer is None:
            if (receive := self._inside.get(link)) is not None:
                receive(frame)
            return
        if self.ledger is not None and link.is_client:
            self.ledger.sent(link, frame.message)
        if not peer.outbox:
            self._touched.append(peer)
            if not self.flushing:
                self._flush_soon()
        elif type(frame.message) is PublishAck and (joined := _joined(peer.outbox[-1], frame.message)):
            peer.outbox[-1] = Frame(joined)
            return
        peer.outbox.append(frame)

    def send_all(self, links: Mapping[Link, None], frame: Frame) -> None:
        """Send a frame to several. As long as they are the same, it is done for all frames together."""
        if self._inside and not self._inside.keys().isdisjoint(links):
            for link in links:
                self.send(link, frame)
            return
        if self.ledger is not None:
            self.ledger.sent_to_all(links, frame.message)
        message = frame.message
        if type(message) is Deliver and len(message.subscriptions) > MANY_IDS:
            self.heavy += len(message.subscriptions) * len(links)
        if links is self._group:
            self._group_frames.append(frame)
            return
        self._end_group()
        self._group, self._group_frames = links, [frame]
        if not self.flushing:
            self._flush_soon()

    def send_written(self, links: Mapping[Link, None], written: Written) -> None:
        """Send frames that are written already to several."""
        if self._inside and not self._inside.keys().isdisjoint(links):
            for frame in written.frames():
                self.send_all(links, frame)
            return
        if self.ledger is not None:
            self.ledger.sent_written(links, written)
        self._end_group()
        peers = self._peers
        for link in links:
            if (peer := peers.get(link)) is not None:
                if not peer.outbox:
                    self._touched.append(peer)
                peer.outbox.append(written)
                peer.has_written = True
        if not self.flushing:
            self._flush_soon()

    def _flush_soon(self) -> None:
        self.flushing = True
        self.loop.call_soon(self.flush)

    def _end_group(self) -> None:
        """Put the frames of the group into the outboxes."""
        links, frames = self._group, self._group_frames
        self._group, self._group_frames = {}, []
        peers = self._peers
        for link in links:
            if (peer := peers.get(link)) is not None:
                if not peer.outbox:
                    self._touched.append(peer)
                peer.outbox += frames

    def flush(self) -> None:
        """Hand over what the broker has sent since the last time: many frames for a peer at once."""
        self.flushing = False
        self.heavy = 0
        if self._group:
            self._end_group()
        touched, self._touched = self._touched, []
        batches: dict[tuple[Serialiser, tuple[int, ...]], Batch] = {}
        for peer in touched:
            if peer.outbox:
                self._hand_over(peer, batches)

    def _hand_over(self, peer: Peer, batches: dict[tuple[Serialiser, tuple[int, ...]], Batch]) -> None:
        """Send what is in the outbox of a peer. If that cannot be encoded, this peer is disconnected, and no other."""
        try:
            peer.flush(batches)
        except Exception as error:
            log.exception("cannot encode what is sent to %s %s", peer.link.kind.value, peer.link.name)
            why = Reject("encoding", f"the broker cannot encode what it has for this peer: {error}", retry=True)
            if peer.stream is not None:  # nothing more may reach it: it would not know what is missing before
                peer.stream.write(part(Part.REJECT, encode_words(why)))
                peer.stream.close()
            self.loop.call_soon(self.end, peer, why.reason)

    def _crowded(self, link: Link) -> bool:
        """Whether what can wait for this link should wait."""
        peer = self._peers.get(link)
        return peer is not None and peer.busy

    def _held_up(self, link: Link) -> bool:
        """Whether a client waits for somebody whose queue it has filled, or does not take what is sent to it."""
        peer = self._peers.get(link)
        return peer is not None and (peer.waits or peer.congestion.since is not None)

    def _charge(self, link: Link, action: Callable[[], int]) -> int:
        """Do something as if it were the turn of this peer, which then waits for the queues that it has filled."""
        self.flush()  # what was sent before is not its doing
        before, self.reading = self.reading, self._peers.get(link)
        try:
            result = action()
            self.flush()
            if self.reading is not None and self.reading.waits and self.reading.stream is not None:
                self.reading.stream.pause()
        finally:
            self.reading = before
        return result

    def _told_of_store(self, trouble: str) -> None:
        """Said once when the store begins to refuse what nobody insists on, and once when it takes that again."""
        unstored = self.broker.statistics.unstored
        if trouble:
            log.error("the store refuses publications: %s; those without a quality continue as accepted", trouble)
        else:
            log.warning("the store takes publications again; %d were only accepted since the start", unstored)

    def open_local(self, link: Link, receive: Callable[[Frame], None]) -> None:
        """Let frames for this link reach a client inside the broker, at once."""
        self._inside[link] = receive

    def close_local(self, link: Link) -> None:
        """Let nothing more reach it."""
        self._inside.pop(link, None)

    def call_later(self, delay: int, action: Callable[[], None]) -> _Timer:
        """A timer of the loop."""
        return _Timer(self.loop.call_later(delay / 1_000_000, self.guarded, action))

    def guarded(self, action: Callable[[], None]) -> None:
        """Run a turn of the broker; an error in it stops the server rather than leave a broken broker running."""
        try:
            action()
        except Exception as error:
            log.exception("the broker failed")
            self.on_failure(error)

    # --- peers ----------------------------------------------------------------------------------------

    @property
    def peers(self) -> list[Peer]:
        """All peers, connected or waited for."""
        return list(self._peers.values())

    @property
    def peer_count(self) -> int:
        """How many peers there are."""
        return len(self._peers)

    def find(self, session: str | None) -> Peer | None:
        """The peer of a session that may go on."""
        return self._sessions.get(session) if session else None

    def peer_of(self, name: str, kind: LinkKind) -> Peer | None:
        """The peer of this name."""
        return self._names.get((name, kind))

    def admit(
        self,
        name: str,
        kind: LinkKind,
        identity: AccessEntry | None,
        session: str | None = None,
        attributes: Mapping[str, Value] | None = None,
    ) -> Peer:
        """Make a new link of the broker; without an identity, to a neighbour that this side has dialled."""
        guard = None if kind is LinkKind.BROKER or self.options.access.open else identity
        link = Link(name, kind, guard, attributes=attributes or {})
        limits = self.options.limits
        policy = SlowPolicy.BLOCK if kind is LinkKind.BROKER else self.options.slow_policy
        peer = Peer(
            self,
            link,
            Session(session or secrets.token_urlsafe(18), max_parts=limits.window_parts, max_bytes=limits.window_bytes),
            policy,
        )
        peer.identity = identity
        return peer

    def begin(self, peer: Peer) -> None:
        """Tell the broker of a new link, now that frames can be sent on it."""
        self._peers[peer.link] = peer
        self._sessions[peer.session.id] = peer
        self._names[peer.link.name, peer.link.kind] = peer
        try:
            if peer.link.is_broker:
                self.broker.link_up(peer.link)
            else:
                self.broker.attach(peer.link)
        except TidingsError:
            self._forget(peer)
            raise
        peer.ask_time()
        log.info("%s %s connected", peer.link.kind.value, peer.link.name)

    def cut(self, peer: Peer) -> None:
        """The connection of a peer is gone; wait for it to come back."""
        peer.parted()
        if peer.link.is_client:
            peer.congestion.release()  # who is not there holds nobody up
            self.away(peer)
        limits = self.options.limits
        patience = limits.broker_resume if peer.link.is_broker else limits.client_resume
        peer.expiry = self.loop.call_later(patience, self.end, peer, "it did not come back")

    def away(self, peer: Peer) -> None:
        """A client is not there, or says nothing."""
        if not peer.away and self._peers.get(peer.link) is peer:
            peer.away = True
            self.guarded(lambda: self.broker.away(peer.link))

    def back(self, peer: Peer) -> None:
        """A client that was away is there again."""
        if peer.away and self._peers.get(peer.link) is peer:
            peer.away = False
            self.guarded(lambda: self.broker.back(peer.link))

    def end(self, peer: Peer, why: str) -> None:
        """The link has ended for good."""
        if self._peers.get(peer.link) is not peer:
            return
        if peer.link in self._group:
            self._end_group()
        if peer.outbox:
            self._hand_over(peer, {})
        self._forget(peer)
        if self.reading is peer:
            self.reading = None
        stream = peer.stream
        peer.close()
        if stream is not None:
            stream.close()
        log.info("%s %s disconnected: %s", peer.link.kind.value, peer.link.name, why)
        self.guarded(lambda: self.broker.link_down(peer.link) if peer.link.is_broker else self.broker.detach(peer.link))

    def disconnect(self, peer: Peer, code: str, reason: str) -> None:
        """End a link and tell the other side why, after this turn of the broker."""
        self.loop.call_soon(self._disconnect, peer, Reject(code, reason, retry=peer.link.is_broker))

    def replace(self, peer: Peer) -> None:
        """End a client's session, because another begins in its place."""
        why = Reject(TAKEN_OVER, f"client '{peer.link.name}' started a new session")
        self._disconnect(peer, why, for_good=False)

    def _disconnect(self, peer: Peer, why: Reject, *, for_good: bool = True) -> None:
        if for_good and self.roaming is not None:
            self.guarded(lambda: self._dismissed(peer.link))
        if peer.stream is not None:
            peer.stream.write(part(Part.REJECT, encode_words(why)))
        self.end(peer, why.reason)

    def _dismissed(self, link: Link) -> None:
        """A client that this broker sends away is not waited for elsewhere."""
        if self.roaming is not None:
            self.roaming.dismissed(link)

    def _guard_of(self, owner: str) -> Guard | None:
        """What clients of an identity may do here; raises `TidingsError` if it is none of this broker."""
        if self.options.access.open:
            return None
        for entry in self.options.access.identities:
            if entry.name == owner and not entry.broker:
                return entry
        raise TidingsError(f"'{owner}' is no identity of broker '{self.options.name}'; add an [[access]] entry")

    def _taken_over(self, link: Link, reason: str) -> None:
        if (peer := self._peers.get(link)) is not None:
            self.disconnect(peer, TAKEN_OVER, reason)

    def _ping(self, link: Link) -> Callable[[], bool | None]:
        """Ask a client whether it is there; what this returns says so."""
        peer = self._peers.get(link)
        stream = peer.stream if peer is not None else None
        if peer is None or stream is None:
            return lambda: False
        asked = self.loop.time()
        stream.write(part(Part.PING))

        def answered() -> bool | None:
            if peer.stream is not stream:
                return peer.stream is not None
            heard = peer.last_pong > asked or stream.last_heard > asked + UNDER_WAY
            return True if stream.paused or heard else None  # paused: this side does not listen

        return answered

    def _forget(self, peer: Peer) -> None:
        self._peers.pop(peer.link, None)
        self._sessions.pop(peer.session.id, None)
        self._names.pop((peer.link.name, peer.link.kind), None)

    # --- memory ---------------------------------------------------------------------------------------

    def keeps(self, peer: Peer, grown: int) -> None:
        """So much more waits for a client; beyond the budget, the longest queue loses its oldest notifications."""
        self.budget.add(peer.owner, grown)
        if grown > 0 and self._exceeds(peer):
            clients = [one for one in self._peers.values() if one.link.is_client and self._exceeds(one)]
            if clients:
                self._shorten(clients)

    def _exceeds(self, peer: Peer) -> bool:
        return self.budget.exceeded or self.budget.exceeded_by(peer.owner)

    def _shorten(self, clients: list[Peer]) -> bool:
        if not max(clients, key=lambda one: one.queued_bytes).shorten():
            return False
        self.budget.shortened += 1
        return True

    def census(self) -> None:
        """Count what waits for acknowledgement; beyond the budget, some clients are waited for no longer."""
        clients = [peer for peer in self._peers.values() if peer.link.is_client]
        for peer in clients:
            peer.count_window()
        while clients := [peer for peer in clients if self._exceeds(peer)]:
            if self._shorten(clients):
                continue
            peer = max(clients, key=lambda peer: (peer.stream is None, peer.kept))
            clients.remove(peer)
            self.budget.ended += 1
            if peer.stream is None:
                self.end(peer, "too much is queued for it while it is away")
            else:
                self._disconnect(
                    peer, Reject("slow", "too much is queued for this client, and the broker is out of memory for it")
                )


def _joined(last: Frame | Written, new: PublishAck) -> PublishAck | None:
    """One acknowledgement for two: a publisher hears at once of all that one read brought."""
    message = last.message if type(last) is Frame else None
    return message.joined(new) if type(message) is PublishAck else None
