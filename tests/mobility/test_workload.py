"""The workload of the experiments, and what they measure."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import statistics
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidings
from tidings.broker import Feature
from tidings.mobility import Following, GraphOptions, Hosts, Neighbourhood
from tidings.mobility.models import ctmc, stats
from tidings.mobility.workload import (
    BUILDING,
    BUILDING_EDGES,
    SELECTORS,
    TABLE_4_1,
    WIDTH,
    Arrival,
    Member,
    Pattern,
    Publication,
    Receipt,
    State,
    Stay,
    Workload,
    measured,
    walk,
)
from tidings.model import TidingsError
from tidings.scopes import Scopes
from tidings.sim import World
from tidings.sim._topologies import MOBILITY

PATTERNS = [Pattern.RANDOM, Pattern.NEIGHBOURING]


def stays(seed: int, pattern: Pattern, count: int, times: ctmc.Times = ctmc.Times(), start: str = "B1") -> list[Stay]:  # noqa: B008
    return list(itertools.islice(walk(random.Random(seed), start, BUILDING, pattern, times), count))


# --- walks --------------------------------------------------------------------------------------------


@pytest.mark.req("MOB-108")
@given(st.integers(0, 2**32), st.sampled_from(PATTERNS), st.sampled_from(sorted(BUILDING)))
@settings(max_examples=50)
def test_a_walk_goes_on_without_holes_along_the_ways_that_there_are(seed: int, pattern: Pattern, start: str) -> None:
    found = stays(seed, pattern, 60, start=start)
    assert found == stays(seed, pattern, 60, start=start), "the same seed, the same walk"
    assert (found[0].state, found[0].broker, found[0].begin) == (State.CONNECTED, start, 0)
    for one, two in itertools.pairwise(found):
        assert one.end == two.begin >= one.begin
        if one.state is State.HANDOFF:
            assert two.state is State.CONNECTED
            assert two.broker != one.broker
            assert pattern is Pattern.RANDOM or two.broker in BUILDING[one.broker]
        else:
            assert two.broker == one.broker
            assert two.state is not one.state


@pytest.mark.req("MOB-108")
@pytest.mark.parametrize("pattern", PATTERNS)
def test_odds_times_and_targets_are_those_of_the_documents(pattern: Pattern) -> None:
    found = stays(11, pattern, 40_000)
    ways = Counter((one.state, two.state) for one, two in itertools.pairwise(found))
    for state in (State.CONNECTED, State.DISCONNECTED):
        other = State.DISCONNECTED if state is State.CONNECTED else State.CONNECTED
        on, over = ways[state, State.HANDOFF], ways[state, other]
        assert on / (on + over) == pytest.approx(0.5, abs=0.02)
    means = {State.CONNECTED: 60, State.DISCONNECTED: 12, State.HANDOFF: 3}
    for state, mean in means.items():
        lengths = [one.end - one.begin for one in found if one.state is state]
        assert statistics.fmean(lengths) == pytest.approx(mean, rel=0.04)
        above = sum(length > mean for length in lengths) / len(lengths)
        assert above == pytest.approx(math.exp(-1), abs=0.015), "exponential: 37 % last longer than the mean"
    targets = Counter((one.broker, two.broker) for one, two in itertools.pairwise(found) if one.state is State.HANDOFF)
    for broker in BUILDING:
        ends = sorted(BUILDING[broker] if pattern is Pattern.NEIGHBOURING else BUILDING.keys() - {broker})
        counts = [targets[broker, end] for end in ends]
        expected = sum(counts) / len(ends)
        assert sum((count - expected) ** 2 / expected for count in counts) < 25, (broker, counts)


@pytest.mark.req("MOB-108", "MOB-102")
@pytest.mark.parametrize("pattern", PATTERNS)
def test_clients_are_where_the_exact_model_says_within_binomial_bounds(pattern: Pattern) -> None:
    model = ctmc.neighbour_model(BUILDING if pattern is Pattern.NEIGHBOURING else ctmc.complete_graph(6))
    looks, clients = 40, 200
    counts: Counter[str] = Counter()
    away = 0
    for client in range(clients):
        at = 5_000.0  # long after the beginning; looks are so far apart that they say nothing of one another
        for one in walk(random.Random(client), f"B{client % 6 + 1}", BUILDING, pattern):
            while at < one.end and at < 5_000 + looks * 1_000:
                if one.state is State.CONNECTED:
                    counts[one.broker] += 1
                else:
                    away += 1
                at += 1_000
            if at >= 5_000 + looks * 1_000:
                break
    total = looks * clients
    assert sum(counts.values()) + away == total
    for broker, share in model.connected.items():
        bounds = stats.binomial_bounds(total, share, z=4)  # of twelve brokers none is outside by chance
        assert bounds is not None
        assert bounds.low <= counts[broker] <= bounds.high
    assert away == pytest.approx(total * model.away, rel=0.1)


@pytest.mark.parametrize(
    ("start", "graph", "error"),
    [
        ("B9", BUILDING, "begins at 'B9', which is not in the graph"),
        ("a", {"a": ()}, "nothing leads on from 'a'; give"),
    ],
)
def test_a_walk_that_cannot_go_on_is_refused(start: str, graph: dict[str, tuple[str, ...]], error: str) -> None:
    with pytest.raises(TidingsError, match=error):
        next(walk(random.Random(1), start, graph, Pattern.NEIGHBOURING))


@pytest.mark.req("MOB-132")
@pytest.mark.parametrize("pattern", PATTERNS)
def test_brokers_learn_the_graph_that_clients_walk_along_and_then_lack_nothing(pattern: Pattern) -> None:
    """Six brokers and ten walkers in virtual time, edges that last: the physical graph, or the complete one."""
    options = GraphOptions(max_degree=0, new_edge_interval=0, edge_timeout=1e6, window=1_200)

    def features(name: str) -> Iterable[Feature]:
        hosts = Hosts()
        return Scopes("B1"), hosts, Following(hosts.epoch_of), Neighbourhood(hosts, options)

    world = World(limit=36_000, brokers=sorted(BUILDING), links=BUILDING_EDGES, features=features)

    async def walker(number: int) -> None:
        rng = random.Random(number)
        begun = asyncio.get_running_loop().time()
        async with tidings.connect(world.url(f"B{number % 6 + 1}"), name=f"walker-{number}") as client:
            here = f"B{number % 6 + 1}"
            for stay in walk(rng, here, BUILDING, pattern):
                if stay.begin > 3_000:
                    return
                await asyncio.sleep(max(begun + stay.begin - asyncio.get_running_loop().time(), 0))
                if stay.state is State.CONNECTED and stay.broker != here:
                    here = stay.broker
                    await client.move(world.url(here))

    async def run() -> None:
        async with world, asyncio.TaskGroup() as group:
            for number in range(10):
                group.create_task(walker(number))

    asyncio.run(run())
    graphs = [world.network.brokers[broker].features["neighbours"] for broker in sorted(BUILDING)]
    physical = BUILDING if pattern is Pattern.NEIGHBOURING else {one: BUILDING.keys() - {one} for one in BUILDING}
    for feature in graphs:
        assert isinstance(feature, Neighbourhood)
        assert set(feature.neighbours()) == set(physical[feature.context.name])
        assert feature.graph.f_neg(feature.context.now()) == 0, "for 20 minutes every move used a known edge"
        assert feature.graph.quality.handoffs > 20


# --- Table 4.1 and the building -----------------------------------------------------------------------


@pytest.mark.req("MOB-115")
def test_the_building_has_the_degrees_of_the_documents_and_is_the_simulators_topology() -> None:
    assert [len(BUILDING[f"B{number}"]) for number in range(1, 7)] == [2, 3, 4, 2, 1, 4]
    assert BUILDING["B5"] == ("B3",)
    assert {frozenset(edge) for edge in BUILDING_EDGES} == {frozenset(edge) for edge in MOBILITY.links}
    for broker, others in BUILDING.items():
        assert all(broker in BUILDING[other] for other in others)


@pytest.mark.req("MOB-109")
def test_the_defaults_are_those_of_the_table() -> None:
    default = Workload()
    assert {name: getattr(default, name) for name in TABLE_4_1} == {
        "subscribers": 200,
        "sleep": 0,
        "bandwidth": 11,
        "queue_bytes": 1_000_000,
        "disconnected": 12,
        "connected": 60,
        "handoff": 3,
        "pattern": Pattern.RANDOM,
    }
    assert all(getattr(default, name) in values for name, values in TABLE_4_1.items())
    assert default.times == ctmc.Times(60, 12, 3)


@pytest.mark.req("MOB-109")
@given(st.integers(0, 2**32), st.integers(1, 200))
def test_subscribers_want_a_fifth_in_a_row_and_begin_evenly_spread(seed: int, subscribers: int) -> None:
    workload, rng = Workload(subscribers), random.Random(seed)
    wanted = workload.interests(rng)
    assert len(wanted) == subscribers
    assert all(low >= 0 and high == low + WIDTH - 1 < SELECTORS for low, high in wanted)
    spread = Counter(workload.starts(sorted(BUILDING)))
    assert sum(spread.values()) == subscribers
    assert max(spread.values()) - min(spread[broker] for broker in BUILDING) <= 1


@pytest.mark.req("MOB-109")
def test_numbers_and_ranges_are_all_equally_likely() -> None:
    workload, rng = Workload(20_000), random.Random(1)
    drawn = Counter(workload.selector(rng) for _ in range(20_000))
    lows = Counter(low for low, _ in workload.interests(rng))
    assert (set(drawn), set(lows)) == (set(range(100)), set(range(81)))
    for counts, kinds in ((drawn, 100), (lows, 81)):
        assert sum((count - 20_000 / kinds) ** 2 / (20_000 / kinds) for count in counts.values()) < 1.6 * kinds


@pytest.mark.parametrize(
    ("given_values", "error"), [({"subscribers": 0}, "subscribers: 0; give more than 0"), ({"sleep": -1}, "0 or more")]
)
def test_a_workload_that_makes_no_sense_is_refused(given_values: dict[str, int], error: str) -> None:
    with pytest.raises(TidingsError, match=error):
        Workload(**given_values)  # type: ignore[arg-type]


# --- measures -----------------------------------------------------------------------------------------

PUBLISHED = [Publication("p", seq, at=seq, selector=10 * seq) for seq in range(1, 6)]
"""Numbers 10 to 50, one a second."""
MEMBERS = [Member("s", 0, 35, 0, 100), Member("t", 0, 99, 2.5, 4.5)]
"""s wants 1, 2 and 3; t is there for 3 and 4."""


@pytest.mark.req("MOB-111")
def test_measures_are_those_of_the_documents() -> None:
    receipts = [
        Receipt("s", "p", 1, 1.5, "B1"),
        Receipt("s", "p", 1, 1.9, "B2"),  # twice at the application
        Receipt("s", "p", 2, 2.1, "B2", transferred=True),
        Receipt("s", "p", 2, 2.2, "B2", handed_over=False),  # the library knew it
        Receipt("t", "p", 3, 3.3, "B1"),
    ]
    arrivals = [Arrival("s", 1.6, first=1.9, ready=1.8), Arrival("t", 3.0, first=3.3), Arrival("t", 9.0)]
    found = measured(PUBLISHED, MEMBERS, receipts, arrivals, duration=10)
    assert found.ts == pytest.approx(3 / 10)
    assert found.tb == {"B1": 0.2, "B2": 0.3}
    assert found.loss == pytest.approx(100 * (5 - 3) / 5), "s lacks 3, and t lacks 4"
    assert found.duplication == pytest.approx(100 * 1 / 4)
    assert found.duplication_on_wire == pytest.approx(100 * 2 / 5)
    assert found.delay == pytest.approx((0.5 + 0.1 + 0.3) / 3)
    assert found.handoff_latency == pytest.approx((0.3 + 0.3) / 2)
    assert found.ready == pytest.approx(0.2)
    assert found.transfer_share == pytest.approx(100 * 1 / 4)


@pytest.mark.req("MOB-111")
@given(st.lists(st.tuples(st.sampled_from("st"), st.integers(1, 5), st.booleans()), max_size=30))
def test_loss_and_duplication_are_shares_of_what_should_come_and_of_what_came(
    drawn: list[tuple[str, int, bool]],
) -> None:
    everyone = [Member(name, 0, 99, 0, 100) for name in "st"]
    receipts = [Receipt(who, "p", seq, at, "B1", handed_over) for at, (who, seq, handed_over) in enumerate(drawn, 10)]
    found = measured(PUBLISHED, everyone, receipts, [], duration=1)
    distinct = len({(who, seq) for who, seq, handed_over in drawn if handed_over})
    assert found.loss == pytest.approx(100 * (10 - distinct) / 10)
    assert 0 <= found.duplication <= found.duplication_on_wire <= 100 or not distinct
    assert found.ts == distinct
    assert sum(found.tb.values()) == len(drawn)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(TidingsError, match="'s' got p#9, which nobody published; record publications, too"):
        measured(PUBLISHED, MEMBERS, [Receipt("s", "p", 9, 1, "B1")], [], 10)
    with pytest.raises(TidingsError, match="a run of 0 seconds has no rates"):
        measured([], [], [], [], 0)
    nothing = measured([], [], [], [], 10)
    assert (nothing.loss, nothing.delay, nothing.handoff_latency, nothing.ready) == (0, None, None, None)
