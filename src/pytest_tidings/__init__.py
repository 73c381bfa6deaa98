"""The pytest plug-in: an async test runs in simulated worlds, one for each of many seeds.

    @pytest.mark.tidings_world(seeds=200, brokers=["berlin", "paris"])
    async def test_orders(world):
        async with tidings.connect(world.url("berlin")) as client:
            ...

Everything else in the mark goes to `tidings.sim.Search` and `tidings.sim.World`. A seed that fails is tried again with
fewer faults, and the report names those that are enough, and the command that repeats the run.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tidings.sim import Finding

SEEDS = 100
"""How many seeds a test is run with unless its mark says."""
_MARK = "tidings_world"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that repeat one run."""
    group = parser.getgroup("tidings")
    group.addoption("--tidings-seed", type=int, metavar="SEED", help="run simulated worlds with this seed only")
    group.addoption(
        "--tidings-faults",
        type=_places,
        metavar="PLACES",
        help="with --tidings-seed: only these faults of its plan, by their places, as in 0,3; an empty text: none",
    )


def _places(given: str) -> tuple[int, ...]:
    """The places of faults in a plan, as an option has them."""
    places = [place.strip() for place in given.split(",")] if given.strip() else []
    if not all(place.isdecimal() for place in places):
        raise argparse.ArgumentTypeError(f"{given!r} names no faults; give their places in the plan, as in 0,3")
    return tuple(map(int, places))


def pytest_configure(config: pytest.Config) -> None:
    """Say what the mark means."""
    if config.getoption("--tidings-faults") is not None and config.getoption("--tidings-seed") is None:
        raise pytest.UsageError("--tidings-faults chooses faults of the plan of one seed; give --tidings-seed, too")
    config.addinivalue_line(
        "markers",
        f"{_MARK}(seeds={SEEDS}, faults=30.0, brokers=[...], ...): run this async test in simulated worlds",
    )


@pytest.fixture
def world(request: pytest.FixtureRequest) -> None:
    """The simulated world of a test with the mark `tidings_world`, another one for each seed."""
    if request.node.get_closest_marker(_MARK) is None:
        pytest.fail(f"a test that takes `world` needs the mark @pytest.mark.{_MARK}", pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a marked test, once for each seed."""
    mark = pyfuncitem.get_closest_marker(_MARK)
    if mark is None:
        return None
    from tidings.sim import Search  # noqa: PLC0415 - a test run without a world does not pay for it

    names = inspect.signature(pyfuncitem.obj).parameters
    if mark.args or not inspect.iscoroutinefunction(pyfuncitem.obj) or "world" not in names:
        pytest.fail(
            f"@pytest.mark.{_MARK} marks a test that is `async def` and takes `world`; everything in the mark has a "
            "name, as in seeds=200",
            pytrace=False,
        )
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames if name != "world"}
    settings: dict[str, Any] = dict(mark.kwargs)
    seeds = _seeds(settings.pop("seeds", SEEDS))
    search = Search(lambda world: pyfuncitem.obj(world=world, **given), **settings)
    search.repeat = functools.partial(_command, pyfuncitem.nodeid)
    search.ends += (pytest.skip.Exception, pytest.exit.Exception)
    chosen = pyfuncitem.config.getoption("--tidings-seed")
    if chosen is None:
        finding = search.first(seeds)
        if finding is not None:
            raise _told(finding)
        return True
    kept: tuple[int, ...] | None = pyfuncitem.config.getoption("--tidings-faults")
    error = search.run(chosen, kept)
    if error is not None:
        raise error
    assert search.world is not None
    drawn = len(search.world.drawn)
    if missing := [place for place in kept or () if place >= drawn]:
        pytest.fail(
            f"--tidings-faults has {', '.join(map(str, missing))}, but the plan of seed {chosen} has {drawn} faults; "
            "their places begin with 0",
            pytrace=False,
        )
    return True


def _seeds(given: object) -> Iterable[int]:
    """The seeds of a mark: how many, or which."""
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return range(given)
    if isinstance(given, Iterable) and not isinstance(given, str) and (seeds := list(given)):
        return seeds
    pytest.fail(
        f"seeds={given!r} in @pytest.mark.{_MARK} would run nothing; give how many seeds, as in seeds=200, or which, "
        "as in seeds=[7, 9]",
        pytrace=False,
    )


def _command(test: str, seed: int, kept: Sequence[int] | None) -> str:
    """The command that repeats one run."""
    words = ["pytest", test, "--tidings-seed", str(seed)]
    if kept is not None:
        words += ["--tidings-faults", ",".join(map(str, kept))]
    return shlex.join(words)


def _told(finding: Finding) -> BaseException:
    """The error of the smallest run, with what was found; the command stands in it once."""
    error, told = finding.error, str(finding)
    if any(finding.repeat in text for text in (str(error), *getattr(error, "__notes__", ()))):
        told = told.removesuffix(f"\nrepeat with: {finding.repeat}")
    error.add_note(told)
    return error
