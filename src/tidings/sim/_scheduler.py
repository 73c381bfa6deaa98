"""The virtual clock: what happens next, in an order that only the seed decides."""

from __future__ import annotations

import heapq
from collections.abc import Callable

START = 1_767_225_600_000_000
"""Where virtual time begins: 2026-01-01 UTC, in microseconds."""


class Event:
    """Something that will happen unless it is cancelled."""

    __slots__ = ("action", "at")

    def __init__(self, at: int, action: Callable[[], None] | None) -> None:
        self.at = at
        self.action = action

    def cancel(self) -> None:
        """Forget it."""
        self.action = None


class Scheduler:
    """A queue of events in virtual time; equal times keep the order in which they were put in."""

    def __init__(self) -> None:
        self.now = START
        self._queue: list[tuple[int, int, Event]] = []
        self._number = 0

    def at(self, time: int, action: Callable[[], None]) -> Event:
        """Let something happen at a time, not before now."""
        event = Event(max(time, self.now), action)
        self._number += 1
        heapq.heappush(self._queue, (event.at, self._number, event))
        return event

    def after(self, delay: int, action: Callable[[], None]) -> Event:
        """Let something happen after a delay."""
        return self.at(self.now + delay, action)

    def run(self, until: int | None = None) -> int:
        """Let everything happen, up to and including a time; how many events did. None: until nothing is left."""
        count = 0
        queue = self._queue
        while queue and (until is None or queue[0][0] <= until):
            at, _, event = heapq.heappop(queue)
            if event.action is None:
                continue
            self.now = at
            action, event.action = event.action, None
            action()
            count += 1
        if until is not None:
            self.now = max(self.now, until)
        return count
