"""What each strategy promises, over random trees, caches and schedules."""

from __future__ import annotations

import pytest
from history.strategy_world import (
    ALL,
    BY_IDENTITY,
    COUNTING,
    FOUR_FILTERS,
    ONE_FILTER,
    check_liveness,
    check_nothing_is_left,
    check_safety,
    faults_of,
    random_run,
)
from soaking import SOAK_SECONDS, soak_seeds

from tidings.history import MergeOrder
from tidings.history.caching import BorderBrokerCaching, CachingStrategy, FullReplay, MergingCaching, SequenceReplay

SEEDS = 12
NONE = {"duplicate": 0, "order": 0, "gap": 0}


@pytest.mark.req("HIS-022", "HIS-066", "HIS-069", "HIS-094", "HIS-095")
@pytest.mark.parametrize("racing", [False, True])
@pytest.mark.parametrize("kind", BY_IDENTITY)
def test_with_one_filter_nothing_is_lost_repeated_or_out_of_order(kind: type[CachingStrategy], racing: bool) -> None:
    """While subscriptions end, notifications are under way that come behind a hole: so none does in a race here."""
    for seed in range(SEEDS):
        run = random_run(seed, kind, filters=ONE_FILTER, racing=racing, ending=not racing)
        assert faults_of(run) == NONE, f"seed {seed}"
        check_safety(run)
        check_liveness(run)


@pytest.mark.req("HIS-005", "HIS-062")
def test_border_broker_caching_answers_and_registers_in_one_step() -> None:
    """Otherwise something would fall between what is remembered and what is new, or come twice."""
    got_some = 0
    for seed in range(SEEDS):
        run = random_run(seed, BorderBrokerCaching, filters=ONE_FILTER, racing=True, routing="simple", ending=False)
        assert faults_of(run) == NONE, f"seed {seed}"
        check_safety(run)
        check_liveness(run)
        check_nothing_is_left(run)
        got_some += any(is_past for sent in run.sent.values() for _, _, is_past in sent)
    assert got_some > SEEDS // 2


@pytest.mark.req("HIS-081")
@pytest.mark.parametrize("routing", ["simple", "identity", "covering", "merging"])
@pytest.mark.parametrize("kind", ALL)
def test_overlapping_filters_racing_subscriptions(kind: type[CachingStrategy], routing: str) -> None:
    for seed in range(SEEDS // 2):
        run = random_run(seed, kind, filters=FOUR_FILTERS, racing=True, routing=routing)
        if kind in BY_IDENTITY:
            found = faults_of(run)
            assert (found["duplicate"], found["order"]) == (0, 0), f"seed {seed}"
        check_safety(run)
        check_liveness(run)
        check_nothing_is_left(run)


@pytest.mark.parametrize(
    ("kind", "seed", "routing"),
    [
        (FullReplay, 106, "identity"),
        (FullReplay, 225, "covering"),
        (MergingCaching, 33, "covering"),
        (MergingCaching, 72, "identity"),
        (SequenceReplay, 218, "identity"),
        (SequenceReplay, 219, "covering"),
    ],
)
def test_what_came_meanwhile_may_lie_before_what_is_found(kind: type[CachingStrategy], seed: int, routing: str) -> None:
    """Here a narrower filter let something through; only in its origin's order does it come in order."""
    run = random_run(seed, kind, filters=FOUR_FILTERS, racing=True, routing=routing)
    assert faults_of(run)["order"] == 0


@pytest.mark.parametrize("kind", BY_IDENTITY)
def test_everything_that_brokers_say_travels_as_bytes(kind: type[CachingStrategy]) -> None:
    for seed in range(4):
        run = random_run(seed, kind, filters=FOUR_FILTERS, racing=True, routing="covering", through_wire=True)
        check_safety(run)
        check_liveness(run)
        check_nothing_is_left(run)


@pytest.mark.req("HIS-078")
@pytest.mark.parametrize("order", MergeOrder)
def test_every_merge_order_keeps_the_order_of_each_origin(order: MergeOrder) -> None:
    for seed in range(SEEDS):
        run = random_run(seed, MergingCaching, filters=ONE_FILTER, racing=True, options={"merge_order": order})
        assert faults_of(run)["order"] == 0, f"seed {seed}"
        check_safety(run)


@pytest.mark.req("HIS-032", "HIS-082")
@pytest.mark.parametrize("kind", BY_IDENTITY)
def test_links_that_break_end_no_subscription_and_leave_nothing_behind(kind: type[CachingStrategy]) -> None:
    for seed in range(SEEDS):
        run = random_run(seed, kind, filters=FOUR_FILTERS, racing=True, routing="covering", faults=True)
        found = faults_of(run, at_clients=True)
        assert (found["duplicate"], found["order"]) == (0, 0), f"seed {seed}"
        check_liveness(run, timers=True)
        check_nothing_is_left(run)


@pytest.mark.soak
@pytest.mark.parametrize("kind", BY_IDENTITY)
def test_many_more_runs(kind: type[CachingStrategy]) -> None:
    for seed in soak_seeds(SOAK_SECONDS / 10, first=1_000):
        run = random_run(seed, kind, filters=ONE_FILTER, racing=bool(seed % 2), ending=not seed % 2)
        assert faults_of(run) == NONE, f"seed {seed}"
        check_safety(run)
        check_liveness(run)
        run = random_run(seed, kind, filters=FOUR_FILTERS, racing=True, routing="merging", faults=bool(seed % 2))
        found = faults_of(run, at_clients=True)
        assert (found["duplicate"], found["order"]) == (0, 0), f"seed {seed}"
        check_liveness(run, timers=True)
        check_nothing_is_left(run)


def test_counting_loses_and_repeats_where_identities_do_not() -> None:
    """The central fault of the documents: unequal caches behind a junction, narrower filters already flowing."""
    total = dict(NONE)
    for seed in range(60):
        run = random_run(seed, MergingCaching, filters=FOUR_FILTERS, racing=False, options=COUNTING)
        for fault, count in faults_of(run).items():
            total[fault] += count
    assert total["duplicate"] > 0
    assert total["gap"] > 0
