"""The search for a seed that fails: an application in many worlds, and the smallest plan of faults that breaks it."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tidings.model import ArgumentRefused

from ._arguments import kinds_of, seconds_of, seed_of, shown
from ._fault_plan import DEFAULT, Fault, Trouble, shrunk
from ._reality import is_library
from ._world import BrokenPromises, NeverEnds, World


@dataclass(frozen=True, slots=True)
class Finding:
    """A seed that fails, with few faults that are enough."""

    seed: int
    error: BaseException
    """What the application raised with these faults."""
    faults: tuple[Fault, ...]
    """Those that are enough."""
    kept: tuple[int, ...]
    """Their places in the plan of the seed."""
    drawn: int
    """How many faults the plan of the seed has."""
    repeat: str
    """The command that repeats the run."""

    def __str__(self) -> str:
        needed = "without any fault" if not self.faults else f"with {len(self.faults)} of its {self.drawn} faults"
        faults = (f"    {fault}" for fault in self.faults)
        return "\n".join([f"seed {self.seed} fails {needed}", *faults, f"repeat with: {self.repeat}"])


def _seeds_of(given: object) -> Iterable[int]:
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise ArgumentRefused(f"seeds={shown(given)}; give whole numbers, as in range(200)")
    return map(seed_of, given)


def _bug(error: BaseException | None) -> tuple[type[BaseException], str] | None:
    """What tells two bugs apart: the type of the error, and the line of the application that has raised it."""
    if error is None:
        return None
    if isinstance(error, BaseExceptionGroup):
        return _bug(error.exceptions[0])
    if isinstance(error, BrokenPromises):
        return type(error), error.guarantee
    if isinstance(error, NeverEnds):
        return type(error), error.waits_at
    frames = traceback.walk_tb(error.__traceback__)
    own = [f"{frame.f_code.co_filename}:{line}" for frame, line in frames if not is_library(frame)]
    return type(error), own[-1] if own else ""


def _call(seed: int, kept: Sequence[int] | None) -> str:
    """How a search is asked for one run."""
    return f"search.run({seed})" if kept is None else f"search.run({seed}, {tuple(kept)})"


class Search:
    """Runs an application, a coroutine function that gets a `World`, for one seed after the other.

    With `faults`, things go wrong from the start of each world for so many seconds; 0: nothing goes wrong. `settings`
    are those of `World`. Each run ends with `World.check`.
    """

    def __init__(
        self,
        application: Callable[[World], Awaitable[None]],
        *,
        faults: float = 30.0,
        kinds: Iterable[Trouble] = DEFAULT,
        **settings: Any,
    ) -> None:
        self._application = application
        self._faults = seconds_of(faults, "faults")
        self._kinds = kinds_of(kinds)
        self._settings = settings
        self.repeat: Callable[[int, Sequence[int] | None], str] = _call
        """Tells the command that repeats a seed with some of its faults; None: with all of them."""
        self.ends: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit)
        """What ends the search instead of failing a seed."""
        self.world: World | None = None
        """The last one."""

    def run(self, seed: int, kept: Sequence[int] | None = None) -> BaseException | None:
        """Run one seed, with all of its faults or with some; return what was raised."""
        world = self.world = World(seed, **self._settings)
        world.kept = kept
        world.repeat = self.repeat(seed, kept)
        try:
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(self._in(world))
        except self.ends:
            raise
        except BaseException as error:  # whatever it is: pytest's own failures are no `Exception`
            return error
        return None

    async def _in(self, world: World) -> None:
        async with world:
            if self._faults:
                world.random_faults(seconds=self._faults, kinds=self._kinds)
            await self._application(world)
            await world.check()

    def first(self, seeds: Iterable[int]) -> Finding | None:
        """Return the first seed that fails, with as few faults as possible; None: all of them pass."""
        seed = None
        for seed in _seeds_of(seeds):
            if (error := self.run(seed)) is not None:
                return self.shrink(seed, error)
        if seed is None:
            raise ArgumentRefused(f"seeds={shown(seeds)} holds no seed, so nothing would be run; give range(200)")
        return None

    def shrink(self, seed: int, error: BaseException) -> Finding:
        """Find few faults with which a seed fails as it did: with an error of the same type, at the same place."""
        assert self.world is not None
        plan, bug = self.world.drawn, _bug(error)
        kept = shrunk(plan, lambda kept: _bug(self.run(seed, kept)) == bug)
        last = self.run(seed, kept)
        if last is None:  # it depends on something that is not simulated
            kept, last = tuple(range(len(plan))), error
        faults = tuple(plan[place] for place in kept)
        return Finding(seed, last, faults, kept, len(plan), self.repeat(seed, kept))
