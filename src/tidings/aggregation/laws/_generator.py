"""Records to test a definition with, drawn from a seed: the same everywhere, so a broker repeats what `check` has done.

A definition tells what it looks at by looking: attributes that it asks a record for are given values, and the
constants that stand in its code are among them. Values are kept from the simplest to the strangest, so that a
simpler one is one nearer to the start.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import CodeType
from typing import Any, Final

import msgspec

from tidings.aggregation.definitions import JP, Aggregate, Attribute, Composite, Measured, Record
from tidings.model import EVERYTHING, Filter, Location, Notification, TidingsError, Value

MAX_ATTRIBUTES = 32
"""The most attributes that are learnt from a definition."""
LEARNT_FROM = 60
"""How many records a definition is shown to learn what it asks for, in each of two rounds."""
MAX_CONSTANTS = 64
"""The most constants that are learnt from its code."""

VALUES: Final[tuple[Value, ...]] = (
    *(0, 1, 2, -1, 3, "", "a", "b", True, False, 0.5, 0.1, 0.2, -2.5, 10, 100, 1_000_000, "some text"),
    *(1e-9, 1e300, -1e300, 2**53 + 1, 2**63 - 1, -(2**63), 1 / 3, (1, 2), ("a", "b"), (), b"x"),
    *("é", "x" * 100, datetime(2026, 1, 1, tzinfo=UTC), Location("a/b"), math.pi),
)
"""From the simplest to the strangest."""
_PEERS = ("p1", "p2", "p3", "p4")


class Curious(Mapping[str, Value]):
    """Attributes that note what they are asked for."""

    def __init__(self, attributes: Mapping[str, Value], asked: dict[str, None]) -> None:
        self._attributes = attributes
        self._asked = asked

    def __getitem__(self, name: str) -> Value:
        if len(self._asked) < MAX_ATTRIBUTES:
            self._asked[name] = None
        return self._attributes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    def __len__(self) -> int:
        return len(self._attributes)


@dataclass(frozen=True, slots=True)
class Case:
    """What one record is made of, small enough to be shown and to be made smaller."""

    attrs: tuple[tuple[str, Value], ...] = ()
    jp: JP = JP.PUBLISHED
    edge: int = 1
    peer: str = "p1"
    ts_ms: int = 0

    def record(self) -> Record:
        """The record."""
        attrs = dict(self.attrs)
        topic = attrs.get("type")
        return Record(
            ts_ms=self.ts_ms,
            broker="b1",
            jp=self.jp,
            topic=topic if isinstance(topic, str) else "",
            peer=self.peer,
            edge=self.edge,
            attrs=Notification.trusted(attrs),
        )

    def __str__(self) -> str:
        words = [f"{name}={value!r:.60}" for name, value in self.attrs]
        if self.jp is not JP.PUBLISHED:
            words += [f"jp={self.jp}", f"edge={self.edge}", f"peer={self.peer}"]
        return f"Record({', '.join(words)})"


class Generator:
    """Cases for one definition, in the order of a seed."""

    def __init__(self, aggregate: Aggregate[Any], seed: int) -> None:
        self._draw = random.Random(seed)  # noqa: S311 - a test that repeats, not a secret
        self._joinpoints = sorted(aggregate.joinpoints) or [JP.PUBLISHED]
        self._base = _witness(aggregate)
        self._examples = [Case(tuple(dict(one).items())) for one in getattr(aggregate, "examples", ())]
        constants = _constants(aggregate)
        self.values = tuple(dict.fromkeys([*constants, *VALUES])) if constants else VALUES
        self._names: Sequence[str] = tuple(dict.fromkeys([*self._base, *_operands(aggregate)]))
        for rounds in (1, LEARNT_FROM, LEARNT_FROM):  # what it asks for may depend on what it was told before
            self._names = self._learn(aggregate, [self.case() for _ in range(rounds)])

    def case(self) -> Case:
        """The next case; simple values are likelier than strange ones."""
        draw = self._draw
        if self._examples and draw.random() < 0.3:
            return draw.choice(self._examples)
        attrs = dict(self._base)
        for name in self._names:
            chance = draw.random()
            if chance < 0.9 and (name not in attrs or chance < 0.3):
                at = min(int(draw.expovariate(1.5 / len(self.values)) if chance < 0.6 else draw.randrange(12)), 10**6)
                attrs[name] = self.values[at % len(self.values)]
        jp = draw.choice(self._joinpoints)
        edge = -1 if jp in (JP.SUB_DEL, JP.AD_DEL) else 1
        return Case(tuple(attrs.items()), jp, edge, draw.choice(_PEERS), draw.randrange(0, 600_000))

    def _learn(self, aggregate: Aggregate[Any], cases: Sequence[Case]) -> Sequence[str]:
        asked: dict[str, None] = dict.fromkeys(self._names)
        for case in [*cases, *self._examples]:
            plain = case.record()
            curious = msgspec.structs.replace(plain, attrs=Curious(plain.attrs, asked))
            for look in (aggregate.key, aggregate.lift):
                try:
                    look(curious)
                except Exception:  # noqa: S112 - what it raises is found when it is tested
                    continue
        return tuple(asked)[:MAX_ATTRIBUTES]


def _witness(aggregate: Aggregate[Any]) -> dict[str, Value]:
    """Attributes that pass the filter of a definition of the catalogue."""
    where = EVERYTHING if aggregate.where == "" else aggregate.where
    try:
        found = (Filter.parse(where) if isinstance(where, str) else where).witness()
    except TidingsError:
        found = None
    return {} if found is None else dict(found)


def _operands(aggregate: Aggregate[Any]) -> list[str]:
    """Attributes that a definition of the catalogue measures or groups by."""
    parts = aggregate.parts if isinstance(aggregate, Composite) else [aggregate]
    names: list[str] = []
    for one in parts:
        if isinstance(one, Measured):
            names += [*one.by, *([one.operand.name] if isinstance(one.operand, Attribute) else [])]
    return names


def _constants(aggregate: Aggregate[Any]) -> list[Value]:
    """The numbers and texts in the code of a definition that is not of the catalogue."""
    if type(aggregate).__module__.startswith("tidings.aggregation."):
        return []
    found: list[Value] = []
    codes = [getattr(getattr(type(aggregate), name, None), "__code__", None) for name in ("lift", "key")]
    while codes and len(found) < MAX_CONSTANTS:
        code = codes.pop()
        for constant in code.co_consts if code else ():
            if isinstance(constant, CodeType):
                codes.append(constant)
            elif (isinstance(constant, str) and len(constant) <= 40 and "\n" not in constant) or (
                type(constant) is int and abs(constant) < 2**63
            ):
                found.append(constant)
    return found
