"""A world: brokers, links, weather and time for an application that is tested as it is.

Theory of operation
-------------------
Inside `async with World(seed=7) as world:` the running event loop is in virtual time (`_loop`), nothing reaches the
real network, clock or threads (`_reality`), and `tidings.connect(world.url("berlin"))` opens a simulated connection to
a production broker (`_connections`). Latencies, the order of tasks that are ready together, faults and the randomness
of the application are drawn from the seed; so the same seed gives the same run.

Everything that clients do and that reaches them is written into a trace. `check` waits until nothing is under way, and
holds the trace to docs/promises.md.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import shlex
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

from tidings.aggregation import Aggregation, AggregationOptions, Quenching, Receivers
from tidings.broker import Feature, LocalBroker, Role, RoutingOptions
from tidings.groups import Acknowledged, Choosing, Desk, Groups
from tidings.history import HistoryOptions, Strict
from tidings.mobility import Arrivals, Evacuation, Following, Hosts, Neighbourhood
from tidings.model import ArgumentRefused, Location, TidingsError
from tidings.scopes import Requests, Rules, Scopes
from tidings.wire import Frame

from ._arguments import brokers_of, kinds_of, name_of, seconds_of, seed_of, shown
from ._checker import Checker
from ._connections import Connections
from ._fault_plan import DEFAULT, Fault, Trouble, draw
from ._guest import Guest
from ._loop import Takeover
from ._mishaps import Mishaps
from ._network import Network, NeverQuiet
from ._pipes import Weather
from ._processes import current
from ._promises import Promises
from ._reality import Border
from ._scheduler import START
from ._trace import Trace, describe
from ._waiting import fail, waits

SEED = "TIDINGS_SEED"
"""The variable of the environment that has the seed of a world that is given none."""
LIMIT = 3_600.0
"""Seconds of virtual time after which an application must have ended."""
REST = 12.0
"""Seconds in which nothing happens but heartbeats before a world is at rest: a client that looks for a broker tries
more often than that."""
MAX_UNREST = 600.0
"""Seconds within which a world must come to rest."""
MIN_LIMIT = 1.0
"""The least seconds that can be the limit of a world."""
MAX_ATTEMPTS = 3
"""How often an application that has ignored its cancellation is stopped by an error, before the loop ends."""
MAX_SHOWN = 20
"""The most broken promises in a report."""


class NeverEnds(TidingsError):
    """The application does not end: it waits for something that never happens, or goes round in circles."""

    def __init__(self, reason: str, waits_at: str = "") -> None:
        super().__init__(reason)
        self.waits_at = waits_at
        """Where the test itself waits."""


class StandingFaults(UserWarning):
    """A world was judged while something was broken, which excuses much: a loss could hide behind it."""


class BrokenPromises(TidingsError, AssertionError):
    """A run in which a promise of docs/promises.md was not kept."""

    def __init__(self, report: str, guarantee: str = "") -> None:
        super().__init__(report)
        self.guarantee = guarantee
        """The first one that was not kept."""


def _seed_of_environment() -> int:
    given = os.environ.get(SEED, "0")
    try:
        return int(given)
    except ValueError:
        raise ArgumentRefused(
            f"the environment variable {SEED} is {shown(given)}; set it to a whole number, or unset it"
        ) from None


def _features(authority: str) -> tuple[Feature, ...]:
    """Those of a server."""
    hosts, aggregation = Hosts(), Aggregation()
    aggregation.serve(hosts)
    following, neighbourhood = Following(hosts.epoch_of), Neighbourhood(hosts)
    counting = aggregation, Receivers(AggregationOptions()), Quenching()
    moving = (hosts, following, neighbourhood, Arrivals(), Evacuation(hosts))
    scopes, plain = Scopes(authority), Groups()
    work = Acknowledged(plain)
    sharing = plain, work, Choosing(), Desk(plain, work)
    return (scopes, Rules(scopes), Requests(), *sharing, Strict(HistoryOptions()), *counting, *moving)


class World(Mishaps):
    """A simulated world for an application that uses `tidings.connect`. Use it with `async with`.

    `brokers` are linked as `links` says, pairs of names; by default each is linked with the next. Without a `seed`, it
    is that of the environment variable TIDINGS_SEED, or 0. An application that has not ended after `limit` seconds of
    virtual time is stopped with `NeverEnds`, which says what it waited for.
    """

    def __init__(
        self,
        seed: int | None = None,
        *,
        brokers: Sequence[str] = ("berlin",),
        links: Iterable[tuple[str, str]] | None = None,
        weather: Weather | None = None,
        client_weather: Weather | None = None,
        routing: RoutingOptions | None = None,
        features: Callable[[str], Iterable[Feature]] | None = None,
        limit: float = LIMIT,
    ) -> None:
        for what, given in (("weather", weather), ("client_weather", client_weather)):
            if given is not None and not isinstance(given, Weather):
                raise ArgumentRefused(f"{what}={shown(given)}; give a Weather, as in Weather(latency=(1_000, 30_000))")
        self.seed = _seed_of_environment() if seed is None else seed_of(seed)
        self._names = brokers_of(brokers)
        self._links = list(itertools.pairwise(self._names)) if links is None else list(links)
        authority = self._names[0]
        network = Network(
            self.seed,
            weather=weather,
            client_weather=client_weather,
            routing=routing,
            features=features or (lambda name: _features(authority)),
        )
        network.timed_epochs = True
        super().__init__(network, Connections(network, self.broke), Border(network.scheduler, self.seed))
        self._limit = seconds_of(limit, "limit", least=MIN_LIMIT)
        self._takeover: Takeover | None = None
        self._main: asyncio.Task[Any] | None = None
        self._before: set[asyncio.Task[Any]] = set()
        self._stopped: NeverEnds | None = None
        self._attempts = 0
        """How often the application was asked to stop."""
        self._leaving = False
        self._failure: Exception | None = None
        self.faults: tuple[Fault, ...] = ()
        """What goes wrong in this world according to a plan."""
        self.drawn: tuple[Fault, ...] = ()
        """What `random_faults` has drawn; `kept` says what of it happens."""
        self.kept: Sequence[int] | None = None
        """The places of the faults that shall happen, of those that are drawn; None: all. Set before they are."""
        self.repeat = f"{SEED}={self.seed} {shlex.join(sys.orig_argv)}"
        """The command that repeats this run."""

    # --- beginning and end ----------------------------------------------------------------------------

    async def __aenter__(self) -> World:
        self._main = asyncio.current_task()
        self._before = asyncio.all_tasks()
        self._takeover = Takeover(self, self.network.scheduler, self.seed)
        try:
            self._border.close()
            self._extend()
            for name in self._names:
                self.add_broker(name)
            for one, two in self._links:
                self.link(one, two)
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._main is not None
        if self._takeover is not None:
            self._extend()
            self._leaving = True
            left = asyncio.all_tasks() - self._before
            for task in left:
                task.cancel()
            try:
                await asyncio.gather(*left, return_exceptions=True)
            except asyncio.CancelledError:  # by itself, or by somebody outside
                if self._failure is None and self._stopped is None:
                    raise
            finally:
                self._end()
        if self._failure is None and self._stopped is None:
            return
        if self._main.cancelling():
            self._main.uncancel()
        if self._failure is not None:
            raise self._failure
        assert self._stopped is not None
        raise self._stopped from None

    def _end(self) -> None:
        takeover, self._takeover = self._takeover, None
        if takeover is not None:
            self._border.open()
            takeover.give_back()

    # --- building -------------------------------------------------------------------------------------

    def add_broker(self, name: str, role: Role = Role.BORDER, *, place: Location | str | None = None) -> None:
        """Add a broker with a disk; `place` is where it stands, which is what `myloc` means to its clients."""
        self._border.require_closed()
        if name_of(name, "a broker") in self.network.names:
            raise ArgumentRefused(f"{name!r} is a broker of this world already; give another name")
        self.network.add_broker(name, role, Location(place) if isinstance(place, str) else place)
        self._connections.add(name)
        self._opened(name)

    def link(self, one: str, two: str) -> None:
        """Link two brokers."""
        self._check(one, two)
        self.network.connect(one, two)

    def url(self, broker: str) -> str:
        """Return the address of a broker, for `tidings.connect`."""
        self._check(broker)
        return self._connections.url(broker)

    def guests(self, broker: str) -> list[Guest]:
        """Return the clients that a living broker has let in, connected or waited for."""
        self._check(broker)
        return self._connections.guests(broker)

    def start(self, name: str, application: Callable[[], Awaitable[Any]]) -> asyncio.Task[Any]:
        """Start an application as a process of its own, which `crash` kills and `restart` starts again.

        It is a coroutine function without arguments; its clients are what it connects. An error that it raises is
        raised by the task that is returned, and ends the world.
        """
        self._border.require_closed()
        if name_of(name, "an application") in (*self.network.names, *self.processes.names):
            raise ArgumentRefused(f"{name!r} is the name of a broker or application already; give another one")
        if not callable(application):
            if asyncio.iscoroutine(application):
                application.close()  # nobody will ever await it
            raise ArgumentRefused(
                f"{shown(application)} is no application that can be run again; give a coroutine function without "
                "arguments, as in `lambda: book(url)`"
            )
        return self.processes.start(name, self._minded(application))

    def _minded(self, application: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
        async def run() -> Any:
            try:
                return await application()
            except Exception as error:
                if (process := current.get()) is not None and process.alive:
                    self.broke(error)
                raise

        return run

    def random_faults(
        self, seed: int | None = None, *, seconds: float = 30.0, kinds: Iterable[Trouble] = DEFAULT
    ) -> tuple[Fault, ...]:
        """Let things go wrong from now on, for so many seconds; return the plan. By default the world's seed draws it.

        The plan is drawn over the brokers, links and started applications that there are now; one that has ended by
        itself stays so.
        """
        self._border.require_closed()
        rng = random.Random(f"faults {self.seed if seed is None else seed_of(seed)}")
        seconds, kinds = seconds_of(seconds, "seconds"), kinds_of(kinds)
        network, applications = self.network, self.processes.living
        plan = draw(rng, network.names, network.links, applications, seconds=seconds, kinds=kinds)
        before, self.drawn = len(self.drawn), self.drawn + plan
        if self.kept is not None:
            plan = tuple(fault for place, fault in enumerate(plan, before) if place in self.kept)
        self.happen(plan)
        return plan

    def happen(self, plan: Iterable[Fault]) -> None:
        """Let these faults happen, their times counted from now."""
        self._border.require_closed()
        for fault in plan:
            self.faults += (fault,)
            self._after(fault.at, lambda fault=fault: self.begin(fault))  # type: ignore[misc]
            self._after(fault.until, lambda fault=fault: self.end(fault))  # type: ignore[misc]

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self.network.scheduler.after(round(seconds * 1_000_000), action)

    # --- time -----------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """The seconds of virtual time since the world began."""
        return (self.network.scheduler.now - START) / 1_000_000

    async def rest(self) -> None:
        """Wait until nothing is under way and no client looks for a broker; `NeverQuiet` after ten minutes.

        This does not count towards the limit of the world.
        """
        self._border.require_closed()
        takeover, begun = self._takeover, self.network.scheduler.now
        assert takeover is not None
        deadline = takeover.deadline
        takeover.set_deadline(None)
        try:
            await self._rest()
        finally:
            if deadline is not None and takeover.deadline is None:
                takeover.set_deadline(deadline + self.network.scheduler.now - begun)

    async def _rest(self) -> None:
        begun = since = self.now
        seen = -1
        while self.now - since < REST:
            if self.now - begun > MAX_UNREST:
                raise NeverQuiet(
                    f"the world has not come to rest for {MAX_UNREST:g} seconds of virtual time; end what publishes, "
                    "and mend what is broken"
                )
            if self._busy or self._frames != seen:
                seen, since = self._frames, self.now
            await asyncio.sleep(0.5)
        self.trace.quiesce()

    @property
    def _frames(self) -> int:
        return self.network.frames + self._connections.frames

    @property
    def _busy(self) -> bool:
        """Whether a broker, a link or a fault has something to do, or a client something under way."""
        return self.network.scheduler.waiting > self._connections.under_way or not self._connections.at_rest

    # --- judging --------------------------------------------------------------------------------------

    @property
    def trace(self) -> Trace:
        """What clients have done, and what has reached them."""
        return self.network.trace

    async def check(self, promises: Promises | None = None) -> None:
        """Wait until the world is at rest; raise `BrokenPromises` unless everything in docs/promises.md was kept.

        Warns with `StandingFaults` of what is still broken.
        """
        await self.rest()
        checker = Checker(promises, advertisements=self.network.routing.advertisements)
        for record in self.trace.records:
            checker.step(record)
        if checker.violations:
            raise BrokenPromises(self.report(list(map(str, checker.violations))), checker.violations[0].guarantee)
        if standing := self.standing:
            warnings.warn(
                f"this world was judged while {', '.join(standing)}: little is owed to those whom that concerns; use "
                "`heal`, `restart` or `full_disk(..., full=False)` before `check`",
                StandingFaults,
                stacklevel=2,
            )

    def report(self, broken: Sequence[str]) -> str:
        """Return what was broken, what went wrong before, and the command that repeats the run."""
        more = len(broken) - MAX_SHOWN
        return "\n".join(
            [
                f"seed {self.seed}: {len(broken)} promises of docs/promises.md were not kept",
                *broken[:MAX_SHOWN],
                *([f"and {more} more"] if more > 0 else []),
                *self.circumstances(),
            ]
        )

    def circumstances(self) -> list[str]:
        """Return the faults of this run, and the command that repeats it."""
        faults = ["faults:", *(f"    {fault}" for fault in self.faults)] if self.faults else ["faults: none planned"]
        service = self.network.weather.service
        work = [] if service is None else [f"time that work takes: {service}"]
        return [*faults, *work, f"repeat with: {self.repeat}"]

    def transcript(self) -> str:
        """Return the trace, one line for each record."""
        return "\n".join(map(describe, self.trace.records))

    # --- what the loop calls --------------------------------------------------------------------------

    def dial(self, factory: Callable[[], Any], host: str, port: int) -> Any:
        """Open a simulated connection."""
        return self._connections.dial(factory, host, port)

    def watch(self, local: LocalBroker) -> Callable[[Frame], None]:
        """Write down what a client does, from its opening on."""
        return self._connections.watch(local)

    def stuck(self, why: str) -> None:
        """Stop the application, which does not end, and say what it waits for.

        It is cancelled. If it goes on all the same, what it waits for fails with the error; the loop ends in the end.
        """
        if self._stopped is not None:
            self._insist(self._stopped)
            return
        lines = waits(asyncio.all_tasks() - self._before | {self._main} if self._main is not None else set())
        waited = "".join(f"\n    {line}" for line in lines)
        self._stopped = NeverEnds(
            f"the application was stopped after {self.now:g} seconds of virtual time: {why}. It waits at:{waited}\n"
            + "\n".join(self.circumstances()),
            "".join(waits([] if self._main is None else [self._main])),
        )
        self._stop()

    def _insist(self, error: NeverEnds) -> None:
        assert self._main is not None
        self._attempts += 1
        if self._attempts > MAX_ATTEMPTS and self._takeover is not None:
            self._border.open()
            takeover, self._takeover = self._takeover, None
            takeover.kill(error)
        self._extend()
        for task in asyncio.all_tasks() - self._before if self._leaving else {self._main}:
            fail(task, error)

    def broke(self, error: Exception) -> None:
        """A broker has raised: that is a bug of Tidings, and ends the run."""
        error.add_note("\n".join(self.circumstances()))
        self._failure = self._failure or error
        self._stop()

    def _stop(self) -> None:
        assert self._main is not None
        self._extend()
        self._main.cancel()

    def _extend(self) -> None:
        """Begin the time of the application anew."""
        if self._takeover is not None:
            self._takeover.set_deadline(self.network.scheduler.now + int(self._limit * 1_000_000))
