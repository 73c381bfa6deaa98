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
        self.after_each: Callable[[], None] | None = None
        """Called after everything that happens."""

    def at(self, time: int, action: Callable[[], None]) -> Event:
        """Schedule an action for this time, or for now if the time has passed."""
        event = Event(max(time, self.now), action)
        self._number += 1
        heapq.heappush(self._queue, (event.at, self._number, event))
        return event

    def after(self, delay: int, action: Callable[[], None]) -> Event:
        """Schedule an action after a delay."""
        return self.at(self.now + delay, action)

    def next_at(self) -> int | None:
        """Return when the next thing happens; None: never."""
        queue = self._queue
        while queue and queue[0][2].action is None:
            heapq.heappop(queue)
        return queue[0][0] if queue else None

    @property
    def waiting(self) -> int:
        """How many events will happen, as far as is known."""
        return sum(event.action is not None for _, _, event in self._queue)

    def step(self) -> None:
        """Let the next thing happen, if there is one."""
        if (at := self.next_at()) is not None:
            event = heapq.heappop(self._queue)[2]
            action, event.action = event.action, None
            self.now = at
            assert action is not None
            action()

    def run(self, until: int) -> int:
        """Run all events up to and including a time; return how many there were."""
        count = self._run(until)
        self.now = max(self.now, until)
        return count

    def drain(self, limit: int) -> bool:
        """Run events until none are left; the clock stays at the last one. Return False if the limit came first."""
        self._run(limit)
        return all(event.action is None for _, _, event in self._queue)

    def _run(self, until: int) -> int:
        count = 0
        queue = self._queue
        pop = heapq.heappop
        while queue and queue[0][0] <= until:
            at, _, event = pop(queue)
            action = event.action
            if action is not None:
                self.now = at
                event.action = None
                action()
                count += 1
                if self.after_each is not None:
                    self.after_each()
        return count
