"""Random filters and notifications for every matching engine: all operators, own ones, and values at every edge."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from tidings.model import Conjunction, Constraint, Filter, Kind, Location, Matches, Negated, Notification, Scalar
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
TIMES += [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    datetime(1969, 7, 20, tzinfo=UTC),
]
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
