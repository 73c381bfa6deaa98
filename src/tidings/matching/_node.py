"""A node: the conjunctions that hang under one pivot, and what is left of them to be tested.

Most nodes hold a handful of rows, so rows start as *singles*, checked one by one. When singles pile up,
those that share a shape move into a *group*, which one comprehension scans. Conjunctions of which
nothing is left once the pivot has been found are mere *keys*.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any

from tidings.model import Conjunction

from ._code import Leaf, Row
from ._pivot import Pivot
from ._shape import Shape

CROWD = 12
"""So many singles make a node look for groups among them."""
GROUP = 4
"""So many singles of one shape make a group."""


class Home:
    """Where one conjunction of one key lives: under nodes, or in a segment."""

    __slots__ = ("conjunction", "key", "pivot", "place", "row", "seq", "shape", "slot")

    def __init__(self, conjunction: Conjunction, key: Any, seq: int) -> None:
        self.conjunction = conjunction
        self.key = key
        self.seq = seq
        self.pivot: Pivot | None = None
        self.place: Any = None
        """The nodes, or the segment."""
        self.shape: Shape | None = None
        """What the nodes have to test; None if the pivot says it all."""
        self.row: Any = None
        """The operands of that."""
        self.slot = 0
        """Which bit of its segment it is."""


class Node:
    """The conjunctions under one value of one pivot."""

    __slots__ = ("at", "epoch", "groups", "keys", "limit", "review_at", "singles", "size", "table")

    def __init__(self, table: dict[Any, Node], at: object) -> None:
        self.table = table
        self.at = at
        table[at] = self
        self.keys: dict[Home, Any] | None = None
        self.singles: list[tuple[Shape, Row]] = []
        self.groups: dict[Shape, Leaf] | None = None
        self.limit = CROWD
        self.size = 0
        self.review_at = 2 * CROWD
        """At this size, somebody should look whether its members have better places by now."""
        self.epoch = 0
        """When that was done last, in epochs of the estimates."""

    def add(self, home: Home) -> None:
        """Hang a conjunction here."""
        self.size += 1
        shape = home.shape
        if shape is None:
            if self.keys is None:
                self.keys = {}
            self.keys[home] = home.key
        elif self.groups is not None and shape in self.groups:
            _insert(self.groups[shape], shape, home.row)
        else:
            self.singles.append((shape, home.row))
            if len(self.singles) >= self.limit:
                self._regroup()

    def remove(self, home: Home) -> None:
        """Take a conjunction away; an empty node leaves its table."""
        self.size -= 1
        shape = home.shape
        if shape is None:
            keys = self.keys or {}
            del keys[home]
            self.keys = keys or None
        elif self.groups is not None and shape in self.groups:
            leaf = self.groups[shape]
            _delete(leaf, shape, home.row)
            if not leaf:
                del self.groups[shape]
                self.groups = self.groups or None
        else:
            row = home.row
            at = next(at for at, (_, other) in enumerate(self.singles) if other is row)
            del self.singles[at]
        if not self.size:
            del self.table[self.at]

    def homes(self) -> Iterator[Home]:
        """Every conjunction that hangs here."""
        yield from self.keys or ()
        for _, row in self.singles:
            yield row[-2]
        for leaf in (self.groups or {}).values():
            for rows in leaf.values():
                for row in rows:
                    yield row[-2]

    def _regroup(self) -> None:
        counts: dict[Shape, int] = {}
        for shape, _ in self.singles:
            counts[shape] = counts.get(shape, 0) + 1
        crowded = {shape for shape, count in counts.items() if count >= GROUP}
        if crowded:
            self.groups = self.groups or {}
            for shape in crowded:
                self.groups[shape] = {}
            for shape, row in self.singles:
                if shape in crowded:
                    _insert(self.groups[shape], shape, row)
            self.singles = [single for single in self.singles if single[0] not in crowded]
        self.limit = max(CROWD, 2 * len(self.singles))


def _insert(leaf: Leaf, shape: Shape, row: Row) -> None:
    insort(leaf.setdefault(shape.leaf_key(row), []), row)


def _delete(leaf: Leaf, shape: Shape, row: Row) -> None:
    key = shape.leaf_key(row)
    rows = leaf[key]
    del rows[bisect_left(rows, row)]
    if not rows:
        del leaf[key]
