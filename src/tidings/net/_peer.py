"""A peer: one link of the broker, with the session behind it and the connection of the moment.

Theory of operation
-------------------
What the broker sends goes into the session's window and out on the connection at once, while the window has room. Beyond
that it waits in the *queue*. When an acknowledgement makes room, the queue moves on. A cut connection changes nothing of
this: the window and the queue wait for the peer to come back.

A full queue is what *congestion* means, and the policy decides. Neighbours always block: whoever sends towards a congested
peer is not read from until it has room again. Because the brokers form a tree, a broker that is not read from is never waited
for by the one that does not read, so this cannot lock up. Subscribers block, lose their oldest notifications, or are
disconnected.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from tidings.broker import Link
from tidings.wire import (
    MSGPACK,
    Deliver,
    Frame,
    Gap,
    Part,
    PublishAck,
    Serialiser,
    Session,
    Stream,
    ack,
    part,
)

from ._options import Limits, SlowPolicy

if TYPE_CHECKING:
    from ._host import Host

ACK_DELAY = 0.02
"""Seconds after which what arrived is acknowledged at the latest."""


class _Queued(NamedTuple):
    """Something that waits for room in the window."""

    data: bytes
    deliver: Deliver | None
    """Set if it may be dropped."""


class Peer:
    """One link of the broker to a neighbour or client."""

    def __init__(self, host: Host, link: Link, session: Session, policy: SlowPolicy, limits: Limits) -> None:
        self.host = host
        self.link = link
        self.session = session
        self.policy = policy
        self._limits = limits
        self.serialiser: Serialiser = MSGPACK
        self.stream: Stream | None = None
        self._queue: deque[_Queued] = deque()
        self._queue_bytes = 0
        self._last_ack: PublishAck | None = None
        self._ack_timer: asyncio.TimerHandle | None = None
        self.expiry: asyncio.TimerHandle | None = None
        self.congested_since: float | None = None
        self.dropped = 0
        """Notifications that were dropped because the peer was too slow."""
        self.epoch = 0
        """Of a neighbour: its incarnation."""
        self.dialled = False
        """Whether this side opened the connection."""

    @property
    def queued(self) -> int:
        """How many parts wait for room."""
        return len(self._queue)

    # --- towards the peer -----------------------------------------------------------------------------

    def send(self, frame: Frame) -> None:
        """Send a frame as soon as there is room for it."""
        message = frame.message
        data = part(Part.DATA, self.serialiser.encode(frame))
        if not self._queue and not self.session.full:
            self._transmit(data)
            return
        self._queue.append(_Queued(data, message if isinstance(message, Deliver) else None))
        self._queue_bytes += len(data)
        if len(self._queue) > self._limits.queue_parts or self._queue_bytes > self._limits.queue_bytes:
            self._overflow()

    def _transmit(self, data: bytes) -> None:
        self.session.sent(data)
        if self.stream is not None:
            self.stream.write(data)

    def _overflow(self) -> None:
        if self.policy is SlowPolicy.DISCONNECT:
            self.host.disconnect(self, "slow", "this client does not take its notifications fast enough")
            return
        if self.congested_since is None:
            self.congested_since = self.host.loop.time()
            if self.blocks:
                self.host.congested(self)
        if not self.blocks:
            self._drop_oldest()

    @property
    def blocks(self) -> bool:
        """Whether others have to wait for this peer now."""
        if self.link.is_broker:
            return True
        if self.policy is not SlowPolicy.BLOCK or self.congested_since is None:
            return self.policy is SlowPolicy.BLOCK
        return self.host.loop.time() - self.congested_since < self._limits.block_seconds

    def _drop_oldest(self) -> None:
        """Make room for a tenth of the queue; what is dropped is reported where it would have been."""
        kept: deque[_Queued] = deque()
        gaps: dict[tuple[str, int, tuple[str, ...]], Gap] = {}
        target = min(len(self._queue) * 9 // 10, self._limits.queue_parts * 9 // 10)
        while self._queue and len(self._queue) > target:
            queued = self._queue.popleft()
            if queued.deliver is None:
                kept.append(queued)
                continue
            self.dropped += 1
            self._queue_bytes -= len(queued.data)
            identity = queued.deliver.envelope.identity
            key = (identity.origin, identity.epoch, queued.deliver.subscriptions)
            first = gaps[key].first if key in gaps else identity.seq
            gaps[key] = Gap(identity.origin, identity.epoch, first, identity.seq, queued.deliver.subscriptions)
        for gap in gaps.values():
            data = part(Part.DATA, self.serialiser.encode(Frame(gap)))
            kept.append(_Queued(data, None))
            self._queue_bytes += len(data)
        self._queue.extendleft(reversed(kept))

    def acknowledged(self, number: int) -> None:
        """The peer has everything up to this number; the queue moves on."""
        self.session.acknowledge(number)
        self._move_on()

    def _move_on(self) -> None:
        while self._queue and not self.session.full:
            queued = self._queue.popleft()
            self._queue_bytes -= len(queued.data)
            self._transmit(queued.data)
        if self.congested_since is not None and len(self._queue) <= self._limits.queue_parts // 2:
            self.congested_since = None
            self.host.relieved(self)

    # --- from the peer --------------------------------------------------------------------------------

    def arrived(self, parts: int) -> None:
        """So many DATA parts have arrived: acknowledge now or soon."""
        if self.session.arrived(parts):
            self._acknowledge()
        elif self._ack_timer is None:
            self._ack_timer = self.host.loop.call_later(ACK_DELAY, self._acknowledge)

    def _acknowledge(self) -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        number = self.session.tell()
        if number is not None and self.stream is not None:
            self.stream.write(ack(number))

    # --- connections come and go ----------------------------------------------------------------------

    def connected(self, stream: Stream) -> None:
        """The peer has a connection, perhaps after a while without."""
        self.stream = stream
        if self.expiry is not None:
            self.expiry.cancel()
            self.expiry = None

    def resume(self, received: int) -> None:
        """The peer has everything up to this number: send the rest again."""
        for data in self.session.resume(received):
            if self.stream is not None:
                self.stream.write(data)
        self._move_on()

    def close(self) -> None:
        """The link has ended."""
        for timer in (self._ack_timer, self.expiry):
            if timer is not None:
                timer.cancel()
        self._ack_timer = self.expiry = None
        self._queue.clear()
        if self.congested_since is not None:
            self.congested_since = None
            self.host.relieved(self)
