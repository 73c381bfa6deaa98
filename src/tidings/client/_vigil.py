"""A vigil: notices that a connection is dead, long before the system does.

Theory of operation
-------------------
A connection that nothing has come from for a heartbeat is asked for a sign of life, and again every half of one. After
three heartbeats without any it is given up. That is too slow for whoever has a reason to doubt: then the broker is
*asked* at once, and has `ANSWER` seconds. There are two reasons.

- The process slept: a laptop was closed, or an application suspended. It shows in that a timer is much too late, by the
  clock of the loop or, where that stands still while the machine sleeps, by the time of day. What such a connection
  was before says nothing about it now.
- The application asks, because it has heard of a new network.

A process that sleeps again while it waits for the answer asks again. A side that does not read, because its application
does not keep up, cannot hear an answer: it only says that it is there.
"""

from __future__ import annotations

import asyncio
import logging
import time

from tidings.wire import BEATS, Part, Stream, part

log = logging.getLogger("tidings.client")

LOOK = 1.0
"""The most seconds between two looks: a process that wakes up notices within this time that it has slept."""
SOONEST = 0.001
"""The least seconds between two looks: a clock may show a little less than the time for which a timer was set."""
SLEPT = 1.0
"""Seconds by which a timer must be too late before the process counts as having slept."""
ANSWER = 1.0
"""Seconds within which a broker that is asked gives a sign of life."""


class Vigil:
    """Watches one connection until it ends."""

    def __init__(self, stream: Stream, heartbeat: float) -> None:
        self._stream = stream
        self._heartbeat = heartbeat
        self._slept = min(SLEPT, 2 * heartbeat)
        self._asked: float | None = None
        """When the broker was asked, if it has not answered."""
        self._waiting: list[asyncio.Future[bool]] = []
        self._pinged = stream.last_heard
        self.gave_up = False
        """Whether the connection ended because nothing came from it any more."""
        self._plan(heartbeat)

    def _plan(self, seconds: float) -> None:
        seconds = min(max(seconds, SOONEST), LOOK)
        self._due, self._due_by_day = self._stream.loop.time() + seconds, time.time() + seconds
        self._timer = self._stream.loop.call_at(self._due, self._look)

    async def ask(self) -> bool:
        """Return whether the broker gives a sign of life; if it does not, the connection is given up."""
        answer: asyncio.Future[bool] = self._stream.loop.create_future()
        self._waiting.append(answer)
        if self._asked is None:
            self._timer.cancel()
            self._ask()
        return await answer

    def _ask(self) -> None:
        self._asked = self._pinged = self._stream.loop.time()
        self._stream.write(part(Part.PING))
        self._plan(ANSWER)

    def heard(self) -> None:
        """Something has come."""
        if self._asked is not None:
            self._asked = None
            self._tell(True)

    def end(self) -> None:
        """The connection is gone."""
        self._timer.cancel()
        self._tell(False)

    def _tell(self, alive: bool) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(alive)

    def _look(self) -> None:
        stream = self._stream
        now = stream.loop.time()
        late = max(now - self._due, time.time() - self._due_by_day)
        if stream.paused:
            self.heard()
            if now >= self._pinged + self._heartbeat:
                self._ping(now)
        elif late > self._slept:
            if late > SLEPT:
                log.info("this process has slept for %.1f seconds; asking the broker whether it is there", late)
            self._ask()
            return
        elif self._asked is not None and now >= self._asked + ANSWER:
            self._give_up("the broker does not answer")
            return
        elif now >= stream.last_heard + BEATS * self._heartbeat:
            self._give_up("the broker is silent")
            return
        elif now >= max(stream.last_heard + self._heartbeat, self._pinged + self._heartbeat / 2):
            self._ping(now)
        self._plan(self._next(now))

    def _ping(self, now: float) -> None:
        self._pinged = now
        self._stream.write(part(Part.PING))

    def _next(self, now: float) -> float:
        """In how many seconds there is something to do."""
        if self._stream.paused:
            return self._pinged + self._heartbeat - now
        ping = max(self._stream.last_heard + self._heartbeat, self._pinged + self._heartbeat / 2)
        end = self._stream.last_heard + BEATS * self._heartbeat
        answer = self._asked + ANSWER if self._asked is not None else end
        return min(ping, end, answer) - now

    def _give_up(self, why: str) -> None:
        log.warning("%s; closing the connection", why)
        self.gave_up = True
        self._tell(False)
        self._stream.abort()
