"""An event loop in virtual time: asyncio's own, with another clock and another idea of waiting.

Theory of operation
-------------------
asyncio waits in one place, the selector. Here the selector does not wait: if nothing is ready, it lets the simulated
network go on, event by event, until something becomes ready or the next timer is due, and moves the clock there. So
`asyncio.sleep`, timeouts and every library on top of them run in virtual time, and a run takes as long as its work.

What is ready at the same time runs in an order that is drawn from the seed. Callbacks keep the order that asyncio
promises for them; tasks change places among themselves. They are first sorted by age, so that nothing depends on the
order of a set, where asyncio keeps tasks in one.

The loop that runs already is taken over, and given back at the end: an application is started by `asyncio.run` as
always. Timers that were set before, such as a timeout around the whole world, rest meanwhile.

What would wait for something real, a socket, a thread or a process, is refused.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from ._processes import current
from ._reality import OutsideWorld, refusal
from ._scheduler import START, Scheduler

MAX_TURNS = 200_000
"""Turns of the loop without the clock moving, after which an application goes round in circles."""


class Driver(Protocol):
    """The world, as its loop sees it."""

    def dial(self, factory: Callable[[], Any], host: str, port: int) -> Any:
        """Open a simulated connection; return its transport and protocol, to be awaited."""

    def watch(self, local: Any) -> Callable[[Any], None]:
        """A client opens on this loop: return what its frames shall be given to."""

    def stuck(self, why: str) -> None:
        """The application does not end."""

    def broke(self, error: Exception) -> None:
        """Something in the simulated network has raised."""


class WorldLoop(asyncio.SelectorEventLoop):
    """asyncio's loop while a world has it. It is never made, only taken over: see `take_over`."""

    driver: Driver
    _clock: Scheduler
    _tasks_made: int
    _ages: dict[asyncio.Task[Any], int]

    def time(self) -> float:
        """Return the seconds of virtual time."""
        return (self._clock.now - START) / 1_000_000

    def create_task(self, *args: Any, **more: Any) -> Any:
        """Make a task, and note its age, and whose it is, until it is done.

        asyncio holds tasks weakly: one that nobody else holds ends when the garbage collector comes by, and that is not
        drawn from the seed. Here it is held.
        """
        task = super().create_task(*args, **more)
        self._tasks_made += 1
        self._ages[task] = self._tasks_made
        task.add_done_callback(self._ages.pop)
        if (process := current.get()) is not None:
            process.tasks.add(task)
            task.add_done_callback(process.tasks.discard)
        return task

    def witness(self, local: Any) -> Callable[[Any], None]:
        """Watch the local broker of a client; return what the frames of its link shall be given to."""
        return self.driver.watch(local)

    async def create_connection(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, *, ssl: Any = None, **more: Any
    ) -> Any:
        """Connect to a simulated broker."""
        if ssl:
            raise refusal("TLS", "connections here cannot be read by others: connect to `world.url(...)`")
        return await self.driver.dial(protocol_factory, str(host), int(port or 0))


def _refused(what: str, remedy: str) -> Callable[..., Any]:
    def refused(self: Any, *args: Any, **more: Any) -> Any:
        raise refusal(what, remedy)

    return refused


_SOCKETS = "connect to `world.url(...)`; applications talk to each other through brokers here"
_THREADS = "make it a coroutine: nothing waits in virtual time"
for _names, _what, _remedy in (
    ("create_server create_unix_server create_unix_connection connect_accepted_socket", "a real socket", _SOCKETS),
    ("create_datagram_endpoint add_reader add_writer start_tls sendfile", "a real socket", _SOCKETS),
    ("sock_recv sock_recv_into sock_sendall sock_connect sock_accept sock_sendfile", "a real socket", _SOCKETS),
    ("sock_recvfrom sock_recvfrom_into sock_sendto", "a real socket", _SOCKETS),
    ("getaddrinfo getnameinfo", "asking for the address of a host", _SOCKETS),
    ("run_in_executor", "a thread", _THREADS),
    ("add_signal_handler", "a signal of the system", "leave it out: `world.crash` kills"),
    ("subprocess_exec subprocess_shell connect_read_pipe connect_write_pipe", "another process", _THREADS),
):
    for _name in _names.split():
        setattr(WorldLoop, _name, _refused(_what, _remedy))


def _due(when: float, resolution: float) -> int:
    """The first microsecond at which asyncio calls a timer of this time.

    Its condition is repeated here: far from the beginning, where floats are coarse, equal times are not enough.
    """
    due = math.ceil(when * 1_000_000)
    while due / 1_000_000 + resolution <= when:
        due += 1
    return due


class _Selector:
    """Does not wait: lets time pass."""

    def __init__(self, real: Any, loop: Any, rng: random.Random) -> None:
        self._real = real
        self._loop = loop
        self._clock: Scheduler = loop._clock
        self._rng = rng
        self._turns = 0
        self._then = 0
        self.deadline: int | None = None
        self.dead: BaseException | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def select(self, timeout: float | None = None) -> list[Any]:
        if self.dead is not None:
            raise self.dead
        ready: deque[Any] = self._loop._ready
        if not ready and not self._loop._stopping:
            self._pass_time(ready)
        if self._clock.now != self._then:
            self._turns, self._then = 0, self._clock.now
        self._turns += 1
        if self._turns > MAX_TURNS:
            self._turns = 0
            self._loop.driver.stuck(f"it has taken {MAX_TURNS:,} turns without waiting for anything")
        if self.deadline is not None and self._clock.now > self.deadline:
            self.deadline = None
            self._loop.driver.stuck("its time is over")
        if len(ready) > 1:
            self._mix(ready)
        return []

    def _pass_time(self, ready: deque[Any]) -> None:
        """Go on to whatever comes next: an event of the network, or a timer of the application."""
        clock = self._clock
        while not ready:
            timers = self._loop._scheduled
            due = START + _due(timers[0]._when, self._loop._clock_resolution) if timers else None
            at = clock.next_at()
            if at is None or (due is not None and due < at):
                if due is None:
                    self._loop.driver.stuck("nothing is left that could happen")
                else:
                    clock.now = max(clock.now, due)
                return
            if self.deadline is not None and at > self.deadline:
                clock.now = at
                return
            try:
                clock.step()
            except Exception as error:
                self._loop.driver.broke(error)

    def _mix(self, ready: deque[Any]) -> None:
        """Let the tasks that are ready change places."""
        ages = self._loop._ages
        places: list[int] = []
        steps: list[tuple[int, int, Any]] = []
        for at, handle in enumerate(ready):
            task = getattr(handle._callback, "__self__", None)
            if isinstance(task, asyncio.Task):
                places.append(at)
                steps.append((ages.get(task, -1), at, handle))
        if len(steps) > 1:
            steps.sort(key=lambda step: step[:2])
            self._rng.shuffle(steps)
            for at, (_, _, handle) in zip(places, steps, strict=True):
                ready[at] = handle


def _own_loop() -> Any:
    """The running loop, if it is asyncio's own."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, WorldLoop):
        raise OutsideWorld("this is inside a world already; a world has one network: add brokers to that")
    if type(loop) is not asyncio.SelectorEventLoop:
        raise OutsideWorld(
            f"{type(loop).__name__} cannot run in virtual time; use asyncio's own: "
            "asyncio.Runner(loop_factory=asyncio.SelectorEventLoop)"
        )
    return loop


class Takeover:
    """The running loop in virtual time, until it is given back."""

    def __init__(self, driver: Driver, clock: Scheduler, seed: object) -> None:
        loop = self._loop = _own_loop()
        self._before = (loop._selector, loop._scheduled, loop._timer_cancelled_count)
        loop.__class__ = WorldLoop
        loop._clock, loop.driver, loop._ages, loop._tasks_made = clock, driver, {}, 0
        self._selector = loop._selector = _Selector(loop._selector, loop, random.Random(f"order {seed}"))
        loop._scheduled, loop._timer_cancelled_count = [], 0

    def set_deadline(self, at: int | None) -> None:
        """Set the time at which the application must have ended."""
        self._selector.deadline = at

    @property
    def deadline(self) -> int | None:
        """The time at which the application must have ended; None: there is none."""
        return self._selector.deadline

    def kill(self, error: BaseException) -> None:
        """End the loop for good: the application swallows its cancellation, and would go on for ever."""
        self._selector.dead = error
        raise error

    def give_back(self) -> None:
        """Let the loop be as it was."""
        loop = self._loop
        loop.__class__ = asyncio.SelectorEventLoop
        loop._selector, loop._scheduled, loop._timer_cancelled_count = self._before
        del loop._clock, loop.driver, loop._ages, loop._tasks_made
        if loop.get_debug():  # this step began at another clock, and would seem to have taken hours
            usual, loop.slow_callback_duration = loop.slow_callback_duration, math.inf
            loop.call_soon(setattr, loop, "slow_callback_duration", usual)
