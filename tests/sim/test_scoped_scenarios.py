"""Random runs with scopes: graphs, interfaces and mappings that change while everything is under way.

`make replay SEED=s...` shows one of them, `m...` where mappings undo each other, `p...` where the places change at
which edges are crossed.
"""

from __future__ import annotations

import pytest
from soaking import long, spread_seeds

from tidings.sim import Promises, Scenario

PROMISES = Promises.load()
CHUNK = 5
"""Seeds per test: small enough to be shared among processes, large enough to cost little."""


def run(seed: int, *, mirrored: bool = False, placed: bool = False) -> None:
    result = Scenario.scoped(seed, mirrored=mirrored, placed=placed).run(PROMISES)
    assert not result.violations, result.report()


@pytest.mark.req("VIS-303", "VIS-304", "VIS-305", "VIS-306", "VIS-307", "VIS-308", "VIS-309", "VIS-312", "VIS-317")
@pytest.mark.req("VIS-318", "VIS-320", "VIS-401", "VIS-402", "VIS-403", "VIS-404", "VIS-405", "VIS-501", "VIS-502")
@pytest.mark.req("VIS-503", "VIS-505", "ARC-130", "ARC-131", "ARC-134", "ARC-148", "ARC-149", "ARC-152", "ARC-176")
@pytest.mark.parametrize("first", range(0, 2 * 2 * CHUNK, 2 * CHUNK))
def test_random_graphs_show_everybody_what_they_should_see_and_nothing_else(first: int) -> None:
    for seed in range(first, first + 2 * CHUNK, 2):
        run(seed)


@pytest.mark.req("VIS-306", "VIS-503", "ARC-132", "ARC-141", "ARC-143", "ARC-144")
@pytest.mark.parametrize("first", range(1, 2 * 2 * CHUNK, 2 * CHUNK))
def test_what_breaks_meanwhile_makes_no_difference(first: int) -> None:
    for seed in range(first, first + 2 * CHUNK, 2):
        run(seed)


@pytest.mark.req("VIS-411")
@pytest.mark.parametrize("seed", [94, 108, 210, 278, 292, 298, 302, 398])
def test_members_of_ordered_scopes_get_everything_in_order_over_gateways(seed: int) -> None:
    run(seed, mirrored=True)


@pytest.mark.parametrize("first", range(0, 2 * CHUNK, CHUNK))
def test_mappings_that_undo_each_other_make_no_second_copies(first: int) -> None:
    for seed in range(first, first + CHUNK):
        run(seed, mirrored=True)


@pytest.mark.parametrize("first", range(0, 2 * CHUNK, CHUNK))
def test_where_an_edge_is_crossed_may_change_at_any_time(first: int) -> None:
    for seed in range(first, first + CHUNK):
        run(seed, placed=True)


ONCE_BROKEN = (
    61,
    157,
    130,
    179,
    264,
    265,
    285,
    538,
    595,
    597,
    681,
    707,
    1039,
    1197,
    50_000,
    50_014,
    50_052,
    50_001_004,
    84_500_045,
)
"""Seeds that have found something: entries withdrawn before the version that needs them, brokers that a change left
behind, announcements to neighbours that no longer listen, forms of one event torn apart; and a checker that took
what had waited for its advertisement for something that was taken at once."""


ONCE_BROKEN_MIRRORED = (401_079, 49, 129, 1040, 1966, 2096, 3082)
"""What was published under a graph that has changed since was not shown to a broker that came back and carries other
scopes of that time now; what crosses at a gateway was asked for behind it, too; what waits for its order was taken for
something old; a broker failed that gave up three scopes at once, each in the next."""


@pytest.mark.parametrize("seed", ONCE_BROKEN)
def test_what_was_broken_once_stays_mended(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("seed", ONCE_BROKEN_MIRRORED)
def test_what_was_broken_where_mappings_undo_each_other_stays_mended(seed: int) -> None:
    run(seed, mirrored=True)


ONCE_BROKEN_PLACED = (408, 2372, 3578, 5292, 400_060, 84_300_028)
"""A broker died that asked a version of the graph about a scope that it does not know any more; a broker that became a
gateway did not pass on advertisements that it had heard before."""


@pytest.mark.parametrize("seed", ONCE_BROKEN_PLACED)
def test_what_was_broken_where_places_change_stays_mended(seed: int) -> None:
    run(seed, placed=True)


ONCE_BROKEN_WITH_POLICIES = (
    "ts9301169",
    "ths9300048",
    "ths9100016",
    long("tws9500025"),
    "tp9500041",
    "tp82000050",
    "tm84001102",
)
"""What was due while its origin could not be reached was lost; what the graph showed by another way when it was due was
dropped; what waited for a subscription that had ended reached the next one of its id; a gap was told instead of
a second copy. The last one had a gateway before its broker was in the tree."""


@pytest.mark.parametrize("name", ONCE_BROKEN_WITH_POLICIES)
def test_what_was_broken_where_policies_choose_stays_mended(name: str) -> None:
    result = Scenario.named(name).run(PROMISES)
    assert not result.violations, result.report()


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_thousands_of_graphs(part: int) -> None:
    """Fresh seeds until the time is used up; the parts are spread over the processes."""
    for seed in spread_seeds(part):
        run(seed, mirrored=seed % 4 >= 2, placed=seed % 8 < 2)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_thousands_of_graphs_with_policies(part: int) -> None:
    """The same with policies that come and go, and clients that roam in some."""
    for seed in spread_seeds(part):
        result = Scenario.named(f"{('ts', 'tm', 'tp', 'tws')[seed % 4]}{seed}").run(PROMISES)
        assert not result.violations, result.report()
