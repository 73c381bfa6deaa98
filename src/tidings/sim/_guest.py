"""A guest: a client that a simulated broker has let in, with its link and its session.

What the broker sends in one turn goes out together. Beyond the window of the session it waits in a queue, and a client
that lets `MAX_QUEUE` frames wait is sent away, as by the policy `disconnect` of a server.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidings.broker import Link
from tidings.wire import (
    TAKEN_OVER,
    Frame,
    Part,
    Reject,
    Serialiser,
    Session,
    Settled,
    ack,
    data_parts,
    encode_words,
    part,
)

if TYPE_CHECKING:
    from ._door import Door, Doors

ACK_DELAY = 0.02
"""Seconds after which what arrived is acknowledged at the latest."""
MAX_QUEUE = 32_768
"""Frames that wait for a client; at the limit it is sent away."""


class Guest:
    """A client that a broker has let in."""

    def __init__(self, doors: Doors, link: Link, session: Session, serialiser: Serialiser) -> None:
        self._doors = doors
        self._loop = asyncio.get_running_loop()
        self.link = link
        self.session = session
        self.serialiser = serialiser
        self.door: Door | None = None
        self.reaches: deque[frozenset[str]] = deque()
        """Which brokers its broker reached, for each Settled that was sent."""
        self.attached = 0
        """The epoch under which its broker hosts it; 0: names have no host."""
        self.parting: Door | None = None
        """The connection of a guest that was sent away, and may not have heard it yet."""
        self.announced = False
        """Whether the client has said what it wants."""
        self.expiry: asyncio.TimerHandle | None = None
        self._ack_timer: asyncio.TimerHandle | None = None
        self._outbox: list[Frame] = []
        self._queue: deque[bytes] = deque()

    def send(self, frame: Frame) -> None:
        """Send a frame at the end of this turn."""
        if type(frame.message) is Settled:
            self.reaches.append(self._doors.reach())
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(frame)

    def cut(self) -> None:
        """Lose what is not sent yet: the broker is dead, or the link has ended."""
        self._outbox.clear()
        self._queue.clear()
        for timer in (self.expiry, self._ack_timer):
            if timer is not None:
                timer.cancel()

    def ping(self) -> Callable[[], bool | None]:
        """Ask the client whether it is there; what this returns says so, None: not yet."""
        door, asked = self.door, self._loop.time()
        if door is None:
            return lambda: False
        door.write(part(Part.PING))

        def answered() -> bool | None:
            if self.door is not door:
                return self.door is not None
            return True if door.paused or door.last_heard > asked else None

        return answered

    def end(self, reason: str) -> None:
        """The broker sends the client away: another process uses its name."""
        if self.door is not None:
            self.door.write(part(Part.REJECT, encode_words(Reject(TAKEN_OVER, reason))))
            self.parting = self.door
        self._doors.end(self)

    def _flush(self) -> None:
        frames, self._outbox = self._outbox, []
        if not frames:
            return
        self._doors.count(len(frames))
        parts = data_parts(map(self.serialiser.encode, frames))
        data = b"".join(parts)
        if not self._queue and self.session.offer(data, len(parts)):
            if self.door is not None:
                self.door.write(data)
            return
        self._queue.extend(parts)
        self._move_on()
        if len(self._queue) > MAX_QUEUE:
            why = Reject("slow", "this client is too slow: it does not take fast enough what it is sent")
            if self.door is not None:
                self.door.write(part(Part.REJECT, encode_words(why)))
            self._doors.end(self)

    def _move_on(self) -> None:
        while self._queue and not self.session.full:
            data = self._queue.popleft()
            self.session.sent(data)
            if self.door is not None:
                self.door.write(data)

    def acknowledged(self, number: int) -> None:
        """The client has everything up to this number."""
        self.session.acknowledge(number)
        self._move_on()

    def arrived(self, parts: int) -> None:
        """Frames have come: acknowledge them now or soon."""
        if self.session.arrived(parts):
            self._acknowledge()
        elif self._ack_timer is None:
            self._ack_timer = self._loop.call_later(ACK_DELAY, self._acknowledge)

    def _acknowledge(self) -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        if self.door is not None and (number := self.session.tell()) is not None:
            self.door.write(ack(number))

    def resume(self, received: int) -> None:
        """The client is back and has everything up to this number: send the rest again."""
        for data in self.session.resume(received):
            if self.door is not None:
                self.door.write(data)
        self._move_on()

    @property
    def at_rest(self) -> bool:
        """Whether nothing waits to be sent or acknowledged."""
        return not (self._outbox or self._queue or self.session.waiting) and self._ack_timer is None
