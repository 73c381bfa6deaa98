"""Topologies as data: the shapes that networks have, and those that the documents draw."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidings.broker import Role


@dataclass(frozen=True, slots=True)
class Shape:
    """Brokers, the links between them, and where the clients of a document sit."""

    brokers: tuple[str, ...]
    links: tuple[tuple[str, str], ...] = ()
    clients: Mapping[str, str] = field(default_factory=dict)
    """Which broker each client is attached to."""
    inner: frozenset[str] = frozenset()
    """The brokers that take no clients."""

    def role(self, broker: str) -> Role:
        """Return the role of a broker: inner, or border."""
        return Role.INNER if broker in self.inner else Role.BORDER

    @property
    def borders(self) -> tuple[str, ...]:
        """The brokers that take clients."""
        return tuple(broker for broker in self.brokers if broker not in self.inner)


def _names(count: int) -> tuple[str, ...]:
    return tuple(f"b{number:02}" for number in range(1, count + 1))


def line(count: int) -> Shape:
    """b01 - b02 - b03 - ..."""
    names = _names(count)
    return Shape(names, tuple(itertools.pairwise(names)))


def star(count: int) -> Shape:
    """One broker in the middle."""
    names = _names(count)
    return Shape(names, tuple((names[0], other) for other in names[1:]))


def balanced(levels: int, fan_out: int) -> Shape:
    """A tree in which each broker above the last level has `fan_out` below it."""
    count = sum(fan_out**level for level in range(levels))
    names = _names(count)
    return Shape(names, tuple((names[(at - 1) // fan_out], names[at]) for at in range(1, count)))


def random_tree(count: int, rng: random.Random) -> Shape:
    """Each broker is linked to a random one before it; the names say nothing about the shape."""
    names = list(_names(count))
    rng.shuffle(names)
    links = tuple((names[rng.randrange(at)], names[at]) for at in range(1, count))
    return Shape(tuple(sorted(names)), links)


def ring(count: int) -> Shape:
    """A line whose ends are linked, too."""
    shape = line(count)
    return Shape(shape.brokers, (*shape.links, (shape.brokers[-1], shape.brokers[0]))) if count > 2 else shape


def meshed(count: int, extra: int, rng: random.Random) -> Shape:
    """A random tree with some more links, which close cycles."""
    shape = random_tree(count, rng)
    links = {tuple(sorted(link)): None for link in shape.links}
    others = [(a, b) for a in shape.brokers for b in shape.brokers if a < b and (a, b) not in links]
    rng.shuffle(others)
    return Shape(shape.brokers, (*shape.links, *others[:extra]))


AGGREGATION = Shape(
    ("b1", "b2", "b3", "b4", "b5"),
    (("b1", "b4"), ("b4", "b3"), ("b4", "b2"), ("b2", "b5")),
    {"c1": "b1", "c2": "b1", "c3": "b3", "c4": "b5"},
    frozenset({"b2", "b4"}),
)
"""The example network of the aggregation document (spec/aggregation.md 2.3)."""

SCOPES = Shape(
    ("B1", "B2", "B3", "B4", "B5"),
    (("B1", "B2"), ("B1", "B5"), ("B2", "B3"), ("B2", "B4")),
    {"c1": "B1", "c2": "B1", "c3": "B3", "c4": "B4", "c5": "B5", "c6": "B4"},
    frozenset({"B2"}),
)
"""The broker tree FX-3 of the visibility document (spec/visibility-architecture.md 2.8)."""

HISTORY = Shape(
    ("ER1", "ER2", "ER3", "ER4"),
    (("ER1", "ER3"), ("ER2", "ER3"), ("ER3", "ER4")),
    {"X1": "ER1", "X2": "ER1", "X3": "ER1", "X4": "ER2", "X5": "ER2", "X6": "ER4", "X7": "ER4"},
    frozenset({"ER3"}),
)
"""The reference topology of the history thesis (spec/history.md 3.3)."""

HISTORY_PAPER = Shape(
    ("B1", "B2", "B3", "B4", "B5"),
    (("B1", "B3"), ("B2", "B3"), ("B3", "B4"), ("B4", "B5")),
    {"X1": "B1", "X6": "B4", "X7": "B5"},
)
"""The reference topology of the history paper (spec/history.md 3.3)."""

HISTORY_EXPERIMENT = balanced(3, 3)
"""13 routers: a root, 3, 9 (spec/history.md 6.1)."""

MOBILITY = Shape(
    ("B1", "B2", "B3", "B4", "B5", "B6"),
    (
        ("B1", "B2"),
        ("B2", "B3"),
        ("B3", "B4"),
        ("B3", "B5"),
        ("B6", "B1"),
        ("B6", "B2"),
        ("B6", "B3"),
        ("B6", "B4"),
    ),
)
"""The testbed of the mobility thesis, with cycles (spec/mobility.md 3.11.3)."""
