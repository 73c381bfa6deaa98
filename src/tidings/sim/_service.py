"""The time that work takes: a broker handles one message after the other, and each takes a while.

Without a `Service`, a simulated broker is infinitely fast: latencies exist, load does not. With one, every frame that
reaches a broker waits until those before it are done, and then takes as many microseconds as its kind says. So a broker
has a throughput in virtual time, a queue grows in front of one that is asked for more, and experiments about load mean
something. `python -m bench simulator` measures the figures on a machine; whoever shows a result shows them with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidings.model import ArgumentRefused
from tidings.wire import Frame

from ._scheduler import Event, Scheduler

OTHERS = "*"


@dataclass(frozen=True, slots=True)
class Service:
    """How many microseconds of a broker's time each kind of message takes.

    >>> service = Service({"Publish": 30, "*": 5})
    >>> print(service)
    Publish 30 µs, others 5 µs
    """

    times: Mapping[str, int] = field(default_factory=dict)
    """By the name of the message type, such as Publish or Notify; `*` stands for all others."""

    def __post_init__(self) -> None:
        for kind, time in self.times.items():
            if type(time) is not int or time < 0:
                raise ArgumentRefused(f"{kind!r} takes {time!r}; give whole microseconds, 0 or more")

    def of(self, frame: Frame) -> int:
        """Return what a frame takes."""
        return self.times.get(type(frame.message).__name__, self.times.get(OTHERS, 0))

    def __str__(self) -> str:
        named = [f"{kind} {time:,} µs" for kind, time in sorted(self.times.items()) if kind != OTHERS]
        return ", ".join([*named, f"others {self.times.get(OTHERS, 0):,} µs"])


class Workplace:
    """What one broker has to do, in one of its incarnations."""

    def __init__(self, scheduler: Scheduler, service: Service) -> None:
        self._scheduler = scheduler
        self._service = service
        self._free_at = 0
        self._waiting: deque[Event] = deque()
        self.busy = 0
        """Microseconds that it has worked, or will have when its queue is done."""
        self.handled = 0
        self.longest = 0
        """The most frames that have waited at a time."""

    @property
    def queued(self) -> int:
        """How many frames wait, the one that is being handled among them."""
        return len(self._waiting)

    def submit(self, frame: Frame, handle: Callable[[], None]) -> None:
        """Handle a frame when those before it are done, and its own time is over."""
        takes = self._service.of(frame)
        self.busy += takes
        self._free_at = max(self._free_at, self._scheduler.now) + takes

        def done() -> None:
            self._waiting.popleft()
            self.handled += 1
            handle()

        self._waiting.append(self._scheduler.at(self._free_at, done))
        self.longest = max(self.longest, len(self._waiting))

    def stop(self) -> None:
        """The broker is dead: nothing of it is done."""
        for event in self._waiting:
            event.cancel()
        self._waiting.clear()
