"""A node: the conjunctions that hang under one value of one pivot, and what is left of them to be tested.

Most nodes hold a handful of conjunctions: *singles*, checked one by one. When they become a crowd, they
move into segments of the node's own, which test them all at once. Conjunctions of which nothing is left
once the pivot has been found are mere *keys*.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidings.model import Value

from ._code import Row
from ._home import Constraints, Home
from ._segment import Segments

CROWD = 20
"""So many singles move into a segment, which costs a notification about as much as so many checks."""
FEW = 4
"""So few come back."""


class Node:
    """The conjunctions under one value of one pivot."""

    __slots__ = ("at", "epoch", "keys", "review_at", "segments", "singles", "size", "table")

    def __init__(self, table: dict[Any, Node], at: object) -> None:
        self.table = table
        self.at = at
        table[at] = self
        self.keys: dict[Home, Any] | None = None
        self.singles: list[Row] = []
        self.segments: Segments | None = None
        self.size = 0
        self.review_at = 2 * CROWD
        """At this size, somebody should look whether its members have better places by now."""
        self.epoch = 0
        """When that was done last, in epochs of the estimates."""

    def add(self, home: Home, left: Constraints) -> None:
        """Hang a conjunction here; `left` is what the pivot does not imply."""
        self.size += 1
        if home.shape is None:
            if self.keys is None:
                self.keys = {}
            self.keys[home] = home.key
        elif self.segments is not None:
            self.segments.add(home, left)
        else:
            self.singles.append(home.row)
            if len(self.singles) >= CROWD:
                self.segments = Segments()
                for row in self.singles:
                    single: Home = row[-2]
                    self.segments.add(single, single.left(single.constraints()))
                self.singles = []

    def remove(self, home: Home, left: Constraints) -> None:
        """Take a conjunction away; an empty node leaves its table."""
        self.size -= 1
        if not self.size:
            del self.table[self.at]
        if home.shape is None:
            keys = self.keys or {}
            del keys[home]
            self.keys = keys or None
        elif self.segments is None:
            row = home.row
            del self.singles[next(at for at, single in enumerate(self.singles) if single is row)]
        else:
            self.segments.remove(home, left)
            if len(self.segments) <= FEW:
                self.singles = [few.row for few in self.segments.homes()]
                self.segments = None

    def candidates(self, attributes: dict[str, Value]) -> Iterator[Home]:
        """The conjunctions that may pass, some in vain. Values may be lists."""
        yield from self.keys or ()
        for row in self.singles:
            yield row[-2]
        if self.segments is not None:
            yield from self.segments.candidates(attributes)

    def homes(self) -> Iterator[Home]:
        """Every conjunction that hangs here."""
        yield from self.keys or ()
        for row in self.singles:
            yield row[-2]
        if self.segments is not None:
            yield from self.segments.homes()
