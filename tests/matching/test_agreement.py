"""Every engine finds what the loop finds, whatever the filters, notifications and order of changes."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from bench._counting_index import CountingIndex
from bench._naive_index import NaiveIndex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule
from soaking import SOAK_SECONDS, soak_seeds

from tidings.matching import Index, Matcher, _estimate, _index, _node, _segment, _shape
from tidings.model import (
    Conjunction,
    Constraint,
    Filter,
    Kind,
    Location,
    Matches,
    Negated,
    Notification,
    Scalar,
)
from tidings.model.operators import (
    Contains,
    Equal,
    Exists,
    IsNull,
    Member,
    MyLoc,
    Prefix,
    Range,
    Suffix,
    Within,
    like,
)

NAMES = ["a", "b", "c", "d", "rare"]
NUMBERS: list[Scalar] = [
    0, 1, 2, 3, 5, 8, -1, -7, 0.0, -0.0, 1.0, 1.5, 2.5, 1e300, -1e300, 5e-324, 1e-9, 100, 1000,
    2**53, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), float(2**63),
]  # fmt: skip
TEXTS: list[Scalar] = [
    "",
    "a",
    "b",
    "ab",
    "abc",
    "abcd",
    "bcd",
    "cd",
    "äöü",
    "\U0010ffff",
    "a\nb",
    "1",
    "True",
]
BYTES: list[Scalar] = [b"", b"a", b"ab", b"abc", b"1"]
START = datetime(2024, 1, 1, tzinfo=UTC)
TIMES: list[Scalar] = [START + timedelta(seconds=s) for s in (-1, 0, 1, 60, 3600, 86400, 0.000001)]
PLACES: list[Scalar] = [Location(path) for path in ("/", "/x", "/x/y", "/x/y/z", "/x/z", "/y")]
KINDS: list[list[Scalar]] = [NUMBERS, TEXTS, BYTES, TIMES, PLACES, [True, False]]
PATTERNS = ["a%", "%b", "%b%", "a%d", "_b%", "%", "a_c", "%b_d", "", "abc"]


class Even(Constraint):
    """A constraint that no engine knows."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def kind(self) -> Kind:
        return Kind.NUMBER

    def holds(self, scalar: Scalar) -> bool:
        return type(scalar) is int and scalar % 2 == 0

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.name == self.name

    def __hash__(self) -> int:
        return hash((type(self), self.name))

    def __str__(self) -> str:
        return f"{self.name} IS EVEN"


class AtMost(Equal):
    """A subclass that changes the meaning of a known operator."""

    def holds(self, scalar: Scalar) -> bool:
        return type(scalar) is type(self.value) and scalar <= self.value  # type: ignore[operator]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AtMost) and (self.name, self.value, type(self.value)) == (
            other.name,
            other.value,
            type(other.value),
        )

    def __hash__(self) -> int:
        return hash((AtMost, self.name, self.value))

    def __str__(self) -> str:
        return f"AT MOST {super().__str__()}"


class Absent(Even):
    """An unknown constraint that passes when the attribute is missing."""

    def passes(self, value: object) -> bool:
        return value is None

    def __str__(self) -> str:
        return f"{self.name} IS ABSENT"


class Sized:
    """A filter that has only `matches`."""

    def __init__(self, size: int) -> None:
        self.size = size

    def matches(self, notification: Notification) -> bool:
        return len(notification) >= self.size


class Whimsical(Filter):
    """A subclass that changes the meaning of the whole filter."""

    def matches(self, notification: object) -> bool:
        return isinstance(notification, Notification) and "a" in notification


def random_constraint(rng: random.Random) -> Constraint:
    name = rng.choice(NAMES)
    pool = rng.choice(KINDS) if rng.random() < 0.4 else rng.choice([NUMBERS, TEXTS])
    choice = rng.random()
    constraint: Constraint
    if choice < 0.25:
        constraint = Equal(name, rng.choice(pool))
    elif choice < 0.5:
        ordered = pool if pool not in (PLACES, KINDS[-1]) else NUMBERS
        low, high = rng.choice(ordered), rng.choice(ordered)
        if rng.random() < 0.8 and low > high:  # type: ignore[operator]
            low, high = high, low
        sides = rng.choice([(low, None), (None, high), (low, high), (low, high)])
        constraint = Range(name, *sides, low_open=rng.random() < 0.5, high_open=rng.random() < 0.5)
    elif choice < 0.6:
        constraint = Member(name, tuple(rng.sample(pool, min(len(pool), rng.randint(1, 4)))))
    elif choice < 0.75:
        text = str(rng.choice(TEXTS))
        constraint = rng.choice(
            [
                Prefix(name, text),
                Suffix(name, text or "a"),
                Contains(name, text or "b"),
                like(name, rng.choice(PATTERNS)),
            ]
        )
    elif choice < 0.85:
        constraint = rng.choice(
            [Exists(name), IsNull(name), Even(name), Absent(name), AtMost(name, rng.choice(NUMBERS))]
        )
    else:
        place = rng.choice(PLACES)
        assert isinstance(place, Location)
        constraint = Within(name, place) if rng.random() < 0.9 else Within(name, MyLoc(1))
    return Negated(constraint) if rng.random() < 0.2 else constraint


def random_filter(rng: random.Random) -> Filter | Matches:
    if rng.random() < 0.03:
        return rng.choice([Sized(rng.randint(0, 5)), Whimsical([])])
    many = rng.choice([0, 1, 1, 1, 1, 1, 2, 3]) if rng.random() < 0.3 else 1
    return Filter(
        Conjunction(random_constraint(rng) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4]) if many else 0))
        for _ in range(many)
    )


def random_notification(rng: random.Random, *, lists: float = 0.05) -> Notification:
    attributes: dict[str, object] = {}
    for name in NAMES:
        if rng.random() < (0.8 if name != "rare" else 0.05):
            pool = rng.choice(KINDS) if rng.random() < 0.4 else rng.choice([NUMBERS, TEXTS])
            attributes[name] = rng.choice(pool)
            if rng.random() < lists:
                pool = rng.choice([pool, pool, NUMBERS + TEXTS])
                attributes[name] = rng.sample(pool, min(len(pool), rng.randint(0, 3)))
    return Notification(attributes)


HASTY = {
    _index: {"STRIDE": 1, "PATIENT_STRIDE": 1, "SPARED": 2.0, "RARE": 0.1, "BETTER": 1.2},
    _estimate: {"ENOUGH": 3, "SAMPLE": 24, "OPERANDS": 5, "FEW": 4},
    _node: {"CROWD": 3, "FEW": 1},
    _segment: {"SLOTS": 8, "PRECISION": 2},
    _shape: {"PATIENCE": 1},
}
"""Limits so small that a small table reaches every part of the index."""


@pytest.fixture(params=["as it is", "hasty"])
def haste(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "hasty":
        for module, limits in HASTY.items():
            for name, limit in limits.items():
                monkeypatch.setattr(module, name, limit)


def engines() -> list[Matcher[int]]:
    return [Index(), CountingIndex(), NaiveIndex()]


def assert_agree(indexes: list[Matcher[int]], notification: Notification) -> None:
    *others, naive = indexes
    expected = sorted(naive.match(notification))
    for index in others:
        found = index.match(notification)
        assert sorted(found) == expected, (type(index).__name__, notification)


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
    index: Index[int] = Index()
    naive: NaiveIndex[int] = NaiveIndex()
    for key, (a, b, low_open, high_open) in enumerate(ranges):
        bounds = Range("x", min(a, b), max(a, b), low_open=low_open, high_open=high_open)
        for engine in (index, naive):
            engine.add(Filter([Conjunction([bounds])]), key)
    ends = [value for a, b, _, _ in ranges for value in (a, b)]
    for value in (*values, *ends):
        event = Notification(x=value)
        assert sorted(index.match(event)) == naive.match(event)


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
        assert answers[0] == answers[1] == answers[2]

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
