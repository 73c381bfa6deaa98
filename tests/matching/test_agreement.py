"""Every engine finds what the loop finds, whatever the filters, notifications and order of changes."""

from __future__ import annotations

import random

import pytest
from bench._counting_index import CountingIndex
from bench._naive_index import NaiveIndex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule
from matching_world import NUMBERS, random_filter, random_notification
from soaking import SOAK_SECONDS, soak_seeds

from tidings import _native
from tidings.matching import (
    CompiledIndex,
    Index,
    Matcher,
    _compiled,
    _estimate,
    _index,
    _node,
    _segment,
    _shape,
)
from tidings.model import Conjunction, Filter, Matches, Notification
from tidings.model.operators import Range
from tidings.wire import encode_body

HASTY = {
    _index: {"STRIDE": 1, "PATIENT_STRIDE": 1, "SPARED": 2.0, "RARE": 0.1, "BETTER": 1.2},
    _estimate: {"ENOUGH": 3, "SAMPLE": 24, "OPERANDS": 5, "FEW": 4},
    _node: {"CROWD": 3, "FEW": 1},
    _segment: {"SLOTS": 8, "PRECISION": 2},
    _shape: {"PATIENCE": 1},
    _compiled: {"STRIDE": 1},
}
"""Limits so small that a small table reaches every part of the index."""


@pytest.fixture(params=["as it is", "hasty"])
def haste(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "hasty":
        for module, limits in HASTY.items():
            for name, limit in limits.items():
                monkeypatch.setattr(module, name, limit)


def engines() -> list[Matcher[int]]:
    compiled: list[Matcher[int]] = [CompiledIndex()] if _native.engine is not None else []
    return [Index(), CountingIndex(), *compiled, NaiveIndex()]


def assert_agree(indexes: list[Matcher[int]], notification: Notification) -> None:
    *others, naive = indexes
    expected = sorted(naive.match(notification))
    for index in others:
        found = index.match(notification)
        assert sorted(found) == expected, (type(index).__name__, notification)
        if index.match_body is not None:
            found_in_body = index.match_body(encode_body(notification))
            assert found_in_body is None or sorted(found_in_body) == expected, (type(index).__name__, notification)


def run_seed(seed: int, *, filters: int, events: int, churn: float = 0.3) -> None:
    """Adds, removals and notifications in a random order, from one seed."""
    rng = random.Random(seed)
    indexes = engines()
    held: dict[int, Filter | Matches] = {}
    key = 0
    for _ in range(filters):
        if held and rng.random() < churn:
            gone = rng.choice(list(held))
            del held[gone]
            for index in indexes:
                index.remove(gone)
        else:
            held[key] = random_filter(rng)
            for index in indexes:
                index.add(held[key], key)
            key += 1
        if rng.random() < events / filters:
            assert_agree(indexes, random_notification(rng))
    for lists in (0.0, 0.5, 0.0):
        for _ in range(15):
            assert_agree(indexes, random_notification(rng, lists=lists))
    assert {len(index) for index in indexes} == {len(held)}
    for gone in held:
        for index in indexes:
            index.remove(gone)
    for index in indexes:
        assert len(index) == 0
        assert index.match(random_notification(rng)) == []


@pytest.mark.req("AGG-025", "ARC-159", "ARC-204")
@pytest.mark.usefixtures("haste")
@pytest.mark.parametrize("seed", range(60))
def test_engines_agree_on_random_tables(seed: int) -> None:
    run_seed(seed, filters=150, events=40)


@pytest.mark.usefixtures("haste")
@pytest.mark.parametrize("seed", range(4))
def test_engines_agree_on_large_tables(seed: int) -> None:
    run_seed(seed, filters=2500, events=60, churn=0.1)


@pytest.mark.soak
@pytest.mark.usefixtures("haste")
def test_engines_agree_for_long() -> None:
    for seed in soak_seeds(SOAK_SECONDS / 8):
        run_seed(seed, filters=300, events=100)
        run_seed(seed, filters=3000, events=100, churn=0.2)


seeds = st.integers(0, 2**32 - 1).map(random.Random)
"""Hypothesis chooses a generator: cheap to draw, and it shrinks to one number that reproduces the case."""
numbers = st.one_of(st.sampled_from(NUMBERS), st.integers(-(2**63), 2**63 - 1), st.floats(-1e300, 1e300))


@given(
    st.lists(st.tuples(numbers, numbers, st.booleans(), st.booleans()), min_size=1, max_size=60),
    st.lists(numbers),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.usefixtures("haste")
def test_ranges_on_numbers_are_exact(ranges: list[tuple[int, int, bool, bool]], values: list[int]) -> None:
    indexes = engines()
    for key, (a, b, low_open, high_open) in enumerate(ranges):
        bounds = Range("x", min(a, b), max(a, b), low_open=low_open, high_open=high_open)
        for engine in indexes:
            engine.add(Filter([Conjunction([bounds])]), key)
    ends = [value for a, b, _, _ in ranges for value in (a, b)]
    for value in (*values, *ends):
        assert_agree(indexes, Notification(x=value))


class Interleaving(RuleBasedStateMachine):
    """Any order of add, remove and match, over all engines at once."""

    keys = Bundle("keys")

    def __init__(self) -> None:
        super().__init__()
        self.indexes = engines()
        self.held = 0
        self.next = 0

    @rule(target=keys, rng=seeds)
    def add(self, rng: random.Random) -> int:
        filter = random_filter(rng)
        self.next += 1
        for index in self.indexes:
            index.add(filter, self.next)
        self.held += 1
        return self.next

    @rule(key=consumes(keys))
    def remove(self, key: int) -> None:
        for index in self.indexes:
            index.remove(key)
            assert key not in index
        self.held -= 1

    @rule(key=keys)
    def add_again(self, key: int) -> None:
        for index in self.indexes:
            with pytest.raises(KeyError):
                index.add(Filter([]), key)
            assert key in index

    @rule(rng=seeds)
    def match(self, rng: random.Random) -> None:
        for _ in range(5):
            assert_agree(self.indexes, random_notification(rng))

    @rule(rng=seeds)
    def match_many(self, rng: random.Random) -> None:
        batch = [random_notification(rng) for _ in range(4)]
        answers = [[sorted(keys) for keys in index.match_many(batch)] for index in self.indexes]
        assert all(answer == answers[0] for answer in answers)

    @invariant()
    def sizes_agree(self) -> None:
        for index in self.indexes:
            assert len(index) == self.held == index.statistics()["filters"]


class HastyInterleaving(Interleaving):
    """The same with small limits."""

    def __init__(self) -> None:
        self.patch = pytest.MonkeyPatch()
        for module, limits in HASTY.items():
            for name, limit in limits.items():
                self.patch.setattr(module, name, limit)
        super().__init__()

    def teardown(self) -> None:
        self.patch.undo()


TestInterleaving = Interleaving.TestCase
TestHastyInterleaving = HastyInterleaving.TestCase
TestInterleaving.settings = TestHastyInterleaving.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
