"""A peer: one link of the broker, with the session behind it and the connection of the moment.

Theory of operation
-------------------
What the broker sends goes into the session's window and out on the connection at once, while the window has room.
Beyond that it waits in the *queue*. When an acknowledgement makes room, the queue moves on. A cut connection changes
nothing of this: the window and the queue wait for the peer to come back.

A full queue is what *congestion* means, and the policy decides. Neighbours, and subscribers with the policy `block`,
hold up those who fill their queues: see `_congestion`. Other subscribers lose their oldest notifications, or are
disconnected. A queue far beyond its limit is never waited for: a subscriber loses its oldest notifications, and
whoever has nothing to lose, or is a neighbour, loses its link.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections import deque
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, cast

from tidings.broker import Link
from tidings.wire import (
    HEADER,
    MSGPACK,
    AnyMessage,
    Deliver,
    Frame,
    Gap,
    Part,
    PublishAck,
    Serialiser,
    Session,
    Stream,
    Written,
    ack,
    data_parts,
    part,
    read_times,
    times,
)

from ._access import AccessEntry
from ._budget import PART_BYTES
from ._clock import Clock
from ._congestion import Congestion
from ._losses import Losses
from ._options import SlowPolicy
from ._vigil import Vigil

if TYPE_CHECKING:
    from ._host import Host

log = logging.getLogger("tidings.net")

OVERSHOOT_PARTS = 8_192
"""Parts beyond a full queue that may come from peers that have been read from already."""
OVERSHOOT_BYTES = 4_194_304
"""The same in bytes."""
BATCH_BYTES = 4_194_304
"""The bytes after which a batch is closed: what does not fit into a queue must not be encoded first."""
BATCH_STEP = 32
"""How many frames are encoded between two looks at the size of a batch."""
GAPS_PART = 8
"""At most this part of a queue tells of losses; beyond, they are told together, less exactly."""
COMPLAINT_SECONDS = 60.0
"""How often the log says that a client loses notifications."""
ACK_DELAY = 0.02
"""Seconds after which what arrived is acknowledged at the latest."""


class _Written(enum.Enum):
    """What is known of a message that the data plane has written, until somebody must know more: then it is read."""

    NOTIFICATION = enum.auto()


class _Queued(NamedTuple):
    """Something that waits for room in the window."""

    data: bytes
    message: Deliver | Gap | PublishAck | _Written | None
    """A notification, which may be dropped; or the report of such a loss or an acknowledgement, which can grow."""


class Batch(NamedTuple):
    """The frames that one turn sends to a peer, as bytes."""

    parts: list[bytes]
    data: bytes
    largest: int
    """The size of the largest part, as peers count it."""

    @classmethod
    def encode(cls, frames: list[Frame], serialiser: Serialiser) -> Batch:
        """The frames as parts: as many of the first ones as a batch may hold."""
        parts: list[bytes] = []
        size = 0
        while len(parts) < len(frames) and size < BATCH_BYTES:
            more = data_parts(map(serialiser.encode, frames[len(parts) : len(parts) + BATCH_STEP]))
            size += sum(map(len, more))
            parts += more
        return cls(parts, b"".join(parts), max(map(len, parts)) - 4)


class Peer:
    """One link of the broker to a neighbour or client."""

    def __init__(self, host: Host, link: Link, session: Session, policy: SlowPolicy) -> None:
        self.host = host
        self.link = link
        self.owner = link.owner
        """Whose memory it is that it takes."""
        self.session = session
        self.policy = policy
        self._limits = limits = host.options.limits
        self.identity: AccessEntry | None = None
        """Whose credentials it has shown; None: this side has dialled it, and it has shown none."""
        self.serialiser: Serialiser = MSGPACK
        self.stream: Stream | None = None
        self.last_pong = 0.0
        """When it last answered a ping, in seconds of the loop's clock."""
        self.outbox: list[Frame | Written] = []
        """What this turn sends."""
        self.has_written = False
        """Whether there is something among it that is written already."""
        self._queue: deque[_Queued] = deque()
        self._queue_bytes = 0
        self._counted = 0
        self._window_counted = 0
        self._last_ack: PublishAck | None = None
        self._ack_timer: asyncio.TimerHandle | None = None
        self.expiry: asyncio.TimerHandle | None = None
        self.silence = 0.0
        """Of a client: after how many seconds of silence its connection is given up; 0: as the broker's limits say."""
        self._vigil: Vigil | None = None
        self.awaited_since = host.loop.time()
        """When a neighbour was last seen where the tree wants it: joined, or not needed."""
        self.away = False
        """Whether a client is not there, or says nothing, and the broker has been told so."""
        self.congestion = Congestion(self, host.patience, limits.stall_seconds)
        self.max_part = limits.max_part
        """The largest part that the peer accepts."""
        self.dropped = 0
        """Notifications that were dropped because the peer was too slow."""
        self._complained: float | None = None
        self.epoch = 0
        """Of a neighbour: its incarnation."""
        self.authority: str | None = None
        """Of a neighbour that connected to this broker: who it says orders changes of the scope graph."""
        self.dialled = False
        """Whether this side opened the connection."""
        self.clock = Clock(link.name, limits.clock_offset) if link.is_broker else None
        """Of a neighbour: what is known of its clock."""

    @property
    def queued(self) -> int:
        """How many parts wait for room."""
        return len(self._queue)

    @property
    def queued_bytes(self) -> int:
        """The bytes of these, as the budget counts them."""
        return self._counted

    @property
    def congested_since(self) -> float | None:
        """When the queue became full, if it is."""
        return self.congestion.since

    @property
    def waits(self) -> bool:
        """Whether it is not read from, because it has filled the queues of others."""
        return bool(self.congestion.waits_for)

    @property
    def busy(self) -> bool:
        """Whether what can wait should wait."""
        return self._over(self._limits.queue_parts // 4, self._limits.queue_bytes // 4)

    # --- towards the peer -----------------------------------------------------------------------------

    def flush(self, batches: dict[tuple[Serialiser, tuple[int, ...]], Batch]) -> None:
        """Send the frames of this turn as soon as there is room. Peers who get the same frames share a batch."""
        outbox, self.outbox = self.outbox, []
        if not self.has_written:
            self._flush_frames(cast(list[Frame], outbox), batches)
            return
        self.has_written = False
        for kind, some in groupby(outbox, type):
            if kind is Written:
                self._flush_written(Written.joined(cast(list[Written], list(some))))
            else:
                self._flush_frames(cast(list[Frame], list(some)), batches)

    def _flush_written(self, written: Written) -> None:
        """Send frames that are written already; a peer that reads them in another way gets them written anew."""
        if self.serialiser is not MSGPACK:
            self._flush_frames(written.frames(), {})
            return
        data, count, largest, _ = written
        if largest <= self.max_part and not self._queue and self.session.offer(data, count):
            if self.stream is not None:
                self.stream.write_now(data)
            return
        for one in written.parts():
            self._send(one, _Written.NOTIFICATION)

    def _flush_frames(self, outbox: list[Frame], batches: dict[tuple[Serialiser, tuple[int, ...]], Batch]) -> None:
        while outbox:
            key = (self.serialiser, tuple(map(id, outbox)))
            batch = batches.get(key)
            if batch is None:
                batches[key] = batch = Batch.encode(outbox, self.serialiser)
            self._flush_batch(batch, outbox)
            if len(batch.parts) == len(outbox):
                return
            batches.pop(key)  # so large that it is not worth keeping
            outbox = outbox[len(batch.parts) :]

    def _flush_batch(self, batch: Batch, outbox: list[Frame]) -> None:
        if batch.largest <= self.max_part and not self._queue and self.session.offer(batch.data, len(batch.parts)):
            if self.stream is not None:
                self.stream.write_now(batch.data)
            return
        for frame, data in zip(outbox, batch.parts, strict=False):  # a large outbox takes several batches
            self._send(data, frame.message)

    def _send(self, data: bytes, message: AnyMessage | _Written) -> None:
        """Send one part as soon as there is room for it."""
        if len(data) - 4 > self.max_part:
            self._too_large(_read(data) if isinstance(message, _Written) else message)
            return
        if not self._queue and not self.session.full:
            self._transmit(data)
            return
        self._enqueue(data, message)
        if self._over(self._limits.queue_parts, self._limits.queue_bytes):
            self._overflow()
        self._count()

    def _enqueue(self, data: bytes, message: AnyMessage | _Written) -> None:
        if isinstance(message, PublishAck) and self._queue:
            last = self._queue[-1].message
            if isinstance(last, PublishAck) and (joined := last.joined(message)) is not None:
                # A publisher that is slow to read has one acknowledgement waiting, not thousands.
                message = joined
                self._queue_bytes -= len(self._queue.pop().data)
                data = part(Part.DATA, self.serialiser.encode(Frame(message)))
        if isinstance(message, _Written):
            known: Deliver | Gap | PublishAck | _Written | None = message if self.link.is_client else None
        else:
            known = message if isinstance(message, Deliver | Gap | PublishAck) else None
        self._queue.append(_Queued(data, known))
        self._queue_bytes += len(data)

    def _count(self) -> None:
        """Tell the budget what waits in the queue."""
        if self.link.is_client:
            size = self._queue_bytes + PART_BYTES * len(self._queue)
            grown, self._counted = size - self._counted, size
            self.host.keeps(self, grown)

    def count_window(self) -> None:
        """Tell the budget what waits for acknowledgement, and what has been read but is not whole."""
        size = self.session.held + (self.stream.half_read if self.stream is not None else 0)
        grown, self._window_counted = size - self._window_counted, size
        self.host.budget.add(self.owner, grown)

    @property
    def kept(self) -> int:
        """The bytes that are kept for it, as the budget counts them."""
        return self._counted + self._window_counted

    def _over(self, parts: int, size: int) -> bool:
        return len(self._queue) > parts or self._queue_bytes > size

    def _too_large(self, message: AnyMessage) -> None:
        if isinstance(message, Deliver):
            self.dropped += 1
            gap = _gap(message)
            self._note(gap)
            self._send(part(Part.DATA, self.serialiser.encode(Frame(gap))), gap)
        else:
            self.host.disconnect(self, "size", f"a {type(message).__name__} exceeds the size that this peer accepts")

    def _transmit(self, data: bytes) -> None:
        self.session.sent(data)
        if self.stream is not None:
            self.stream.write(data)

    def _overflow(self) -> None:
        """The queue is full. Who fills it waits; what has been read before may fill it further."""
        if self.policy is SlowPolicy.DISCONNECT:
            self.give_up("it does not take fast enough what it is sent")
            return
        self.congestion.begin()
        limits = self._limits
        far_beyond = self._over(limits.queue_parts + OVERSHOOT_PARTS, limits.queue_bytes + OVERSHOOT_BYTES)
        if self.congestion.hold_up(self.host.reading) and not far_beyond:
            return
        if not self.link.is_broker:
            self._drop_oldest(limits.queue_parts * 9 // 10, limits.queue_bytes * 9 // 10)
        if self._over(self._limits.queue_parts, self._limits.queue_bytes):
            self.give_up("it does not take fast enough what it is sent")

    def give_up(self, why: str) -> None:
        """End the link after this turn: nothing else bounds what waits for the peer."""
        self._queue.clear()
        self._queue_bytes = 0
        self._count()
        self.host.disconnect(self, "slow", f"this {self.link.kind.value} is too slow: {why}")

    def shorten(self) -> bool:
        """Lose the older half of the queue, so that others have room; False: there is nothing to lose."""
        before = self._counted
        self._drop_oldest(len(self._queue) // 2, self._queue_bytes // 2)
        self._count()
        return self._counted < before

    def _drop_oldest(self, parts: int, size: int) -> None:
        """Make room until so many parts and bytes are left; what is dropped is reported where it would have been."""
        kept: deque[_Queued] = deque()
        lost = Losses()
        before = self.dropped
        while self._queue and (len(self._queue) + len(kept) > parts or self._queue_bytes > size):
            queued = self._queue.popleft()
            message = queued.message
            if not isinstance(message, Deliver | Gap | _Written):
                kept.append(queued)
                continue
            self._queue_bytes -= len(queued.data)
            if isinstance(message, _Written):
                message = cast(Deliver, _read(queued.data))
            if isinstance(message, Deliver):
                self.dropped += 1
                message = _gap(message)
            lost.add(message)
        for gap in lost.gaps(parts // GAPS_PART):
            self._note(gap)
            data = part(Part.DATA, self.serialiser.encode(Frame(gap)))
            kept.append(_Queued(data, gap))
            self._queue_bytes += len(data)
        self._queue.extendleft(reversed(kept))
        if self.dropped > before:
            self.host.broker.statistics.gaps += 1
            self._complain()

    def _complain(self) -> None:
        """Tell the log, once in a minute, that this peer loses something."""
        now = self.host.loop.time()
        if self._complained is None or now - self._complained >= COMPLAINT_SECONDS:
            self._complained = now
            log.warning(
                "client %s reads too slowly: %s notifications were dropped so far, and Gaps tell it so",
                self.link.name,
                f"{self.dropped:,}",
            )

    def _note(self, gap: Gap) -> None:
        if self.host.ledger is not None:
            self.host.ledger.gap(self.link, gap)

    def acknowledged(self, number: int) -> None:
        """The peer has everything up to this number; the queue moves on."""
        self.session.acknowledge(number)
        if self.congestion.since is not None:
            self.congestion.progress()
        self._move_on()

    def _move_on(self) -> None:
        while self._queue and not self.session.full:
            queued = self._queue.popleft()
            self._queue_bytes -= len(queued.data)
            self._transmit(queued.data)
        if self._counted:
            self._count()
        if self.congestion.since is not None and not self._over(
            self._limits.queue_parts // 2, self._limits.queue_bytes // 2
        ):
            self.congestion.end()

    # --- from the peer --------------------------------------------------------------------------------

    def arrived(self, parts: int) -> None:
        """So many DATA parts have arrived: acknowledge now or soon."""
        if self.session.arrived(parts):
            self.acknowledge()
        elif self._ack_timer is None and self.stream is not None:
            self._ack_timer = self.host.loop.call_later(ACK_DELAY, self.acknowledge)

    def acknowledge(self) -> None:
        """Say what has arrived. A peer that takes nothing hears it when it does: see `Connection.ready`."""
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        if self.stream is None or self.stream.clogged:
            return
        number = self.session.tell()
        if number is not None:
            self.stream.write(ack(number))

    def still_here(self) -> None:
        """Say again what has arrived, to a neighbour that would take silence for a standstill."""
        if self.stream is not None and not self.stream.clogged:
            self.session.tell()
            self.stream.write(ack(self.session.received))

    # --- its clock ------------------------------------------------------------------------------------

    def ask_time(self) -> None:
        """Ask a neighbour for its time; it is a ping as any other."""
        if self.clock is not None and self.stream is not None and not self.stream.clogged:
            self.stream.write(part(Part.PING, times(self.clock.ask(self.host.now()))))

    def told_time(self, pong: bytes) -> None:
        """The peer has answered a ping."""
        self.last_pong = self.host.loop.time()
        told = read_times(pong)
        if self.clock is not None and len(told) == 2:
            self.clock.answered(*told, now=self.host.now())

    # --- connections come and go ----------------------------------------------------------------------

    def connected(self, stream: Stream) -> None:
        """The peer has a connection, perhaps after a while without."""
        self.parted()
        self.stream = stream
        self._vigil = Vigil(self.host, self, stream)
        if self.expiry is not None:
            self.expiry.cancel()
            self.expiry = None
        if self.congestion.waits_for:
            stream.pause()  # connecting again buys nothing

    def parted(self) -> None:
        """The peer has no connection, or another one."""
        self.stream = None
        if self._vigil is not None:
            self._vigil.end()
            self._vigil = None

    def resume(self, received: int) -> None:
        """The peer has everything up to this number: send the rest again."""
        for data in self.session.resume(received):
            if self.stream is not None:
                self.stream.write(data)
        self._move_on()

    def close(self) -> None:
        """The link has ended."""
        self.parted()
        for timer in (self._ack_timer, self.expiry):
            if timer is not None:
                timer.cancel()
        self._ack_timer = self.expiry = None
        self._queue.clear()
        self._queue_bytes = 0
        self._count()
        self.host.budget.add(self.owner, -self._window_counted)
        self._window_counted = 0
        self.congestion.close()


def _read(data: bytes) -> AnyMessage:
    """The message in a part that was written as bytes."""
    return MSGPACK.decode(data[HEADER.size :]).message


def _gap(deliver: Deliver) -> Gap:
    """The report that a notification was not delivered."""
    identity = deliver.envelope.identity
    return Gap(identity.origin, identity.epoch, identity.seq, identity.seq, deliver.subscriptions)
