"""One attribute, one kind, in a segment: which of its conjunctions fail for a value, as bits.

Theory of operation
-------------------
Equalities and inequalities are dicts from the operand to the bits of the conjunctions. Ranges cut the
values into *cells*. Each cell knows two sets: who fails for all of its values, and who is in *doubt*
because a bound lies inside. A cell with too many doubts is split at the median of its bounds; the rest is
never touched again, so a change costs one operation on bits per cell.

A cell reaches from its cut (included) to the next (excluded). The first reaches from minus infinity.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from tidings.model import Constraint
from tidings.model.operators import Range

MAX_DOUBTS = 32
"""More bounds in one cell make it split."""


class Use(enum.Enum):
    """What a segment can do with a constraint."""

    UNSURE = enum.auto()
    """Nothing: always check."""
    EXISTS = enum.auto()
    """Fail those that miss the attribute. The following do that too."""
    KIND = enum.auto()
    """Fail other kinds, check the rest."""
    EQUAL = enum.auto()
    UNEQUAL = enum.auto()
    RANGE = enum.auto()


class Column:
    """Equalities, inequalities and ranges of many conjunctions on one attribute."""

    __slots__ = ("cuts", "doubt", "edges", "equal", "equals", "fail", "mentions", "ranges", "unequal")

    def __init__(self) -> None:
        self.mentions = 0
        """Who needs the attribute to be of this kind."""
        self.equal: dict[Any, int] = {}
        self.equals = 0
        """Who is somewhere in `equal`."""
        self.unequal: dict[Any, int] = {}
        self.ranges = 0
        """How many ranges there are."""
        self.cuts: list[Any] = []
        self.fail = [0]
        self.doubt = [0]
        self.edges: list[dict[int, Range]] = [{}]
        """For each cell, who is in doubt there: the bit, and the range."""

    def add(self, use: Use, constraint: Constraint, bit: int) -> None:
        """Note a constraint of the conjunction with this bit."""
        self.mentions |= bit
        if use is Use.EQUAL:
            self.equals |= bit
            for value in constraint.values or ():
                self.equal[value] = self.equal.get(value, 0) | bit
        elif use is Use.UNEQUAL:
            value = _unwanted(constraint)
            self.unequal[value] = self.unequal.get(value, 0) | bit
        elif use is Use.RANGE:
            self._add_range(constraint, bit)  # type: ignore[arg-type]

    def remove(self, use: Use, constraint: Constraint, bit: int) -> None:
        """Take `add` back."""
        self.mentions &= ~bit
        if use is Use.EQUAL:
            self.equals &= ~bit
            for value in constraint.values or ():
                _clear(self.equal, value, bit)
        elif use is Use.UNEQUAL:
            _clear(self.unequal, _unwanted(constraint), bit)
        elif use is Use.RANGE:
            self._remove_range(constraint, bit)  # type: ignore[arg-type]

    def _add_range(self, bounds: Range, bit: int) -> None:
        self.ranges += 1
        fail, doubt = self.fail, self.doubt
        first, last = self._cells(bounds)
        for at in range(first):
            fail[at] |= bit
        for at in range(last + 1, len(fail)):
            fail[at] |= bit
        for at in self._ends(bounds, first, last):
            doubt[at] |= bit
            self.edges[at][bit] = bounds
            if len(self.edges[at]) > MAX_DOUBTS:
                self._split(at)

    def _remove_range(self, bounds: Range, bit: int) -> None:
        self.ranges -= 1
        fail, doubt = self.fail, self.doubt
        first, last = self._cells(bounds)
        for at in range(first):
            fail[at] ^= bit
        for at in range(last + 1, len(fail)):
            fail[at] ^= bit
        for at in self._ends(bounds, first, last):
            doubt[at] ^= bit
            del self.edges[at][bit]

    def _cells(self, bounds: Range) -> tuple[int, int]:
        """The first and the last cell that the range touches."""
        first = 0 if bounds.low is None else bisect_right(self.cuts, bounds.low)
        last = len(self.cuts) if bounds.high is None else bisect_right(self.cuts, bounds.high)
        return first, last

    def _ends(self, bounds: Range, first: int, last: int) -> Iterator[int]:
        """The cells that hold a bound inside, the later one first, so that a split does not move the other."""
        if bounds.high is not None:
            yield last
        if bounds.low is not None and not (first == last and bounds.high is not None):
            on_edge = first and not bounds.low_open and self.cuts[first - 1] == bounds.low
            if not on_edge:
                yield first

    def _split(self, at: int) -> None:
        start = self.cuts[at - 1] if at else None
        end = self.cuts[at] if at < len(self.cuts) else None
        inside = sorted(
            bound
            for bounds in self.edges[at].values()
            for bound in (bounds.low, bounds.high)
            if bound is not None and (start is None or bound > start) and (end is None or bound < end)
        )
        if not inside:
            return  # all of them on the edge of the cell: no cut tells them apart
        self.cuts.insert(at, inside[len(inside) // 2])
        self.fail.insert(at, self.fail[at])
        edges = self.edges[at]
        self.doubt[at : at + 1] = [0, 0]
        self.edges[at : at + 1] = [{}, {}]
        for bit, bounds in edges.items():
            first, last = self._cells(bounds)
            for cell in (at, at + 1):
                if not first <= cell <= last:
                    self.fail[cell] |= bit
            for cell in self._ends(bounds, first, last):
                if cell in (at, at + 1):
                    self.doubt[cell] |= bit
                    self.edges[cell][bit] = bounds


def _unwanted(constraint: Any) -> Any:
    """The value of a negated equality."""
    return constraint.inner.value


def _clear(table: dict[Any, int], value: Any, bit: int) -> None:
    rest = table.get(value, 0) & ~bit
    if rest:
        table[value] = rest
    else:
        table.pop(value, None)
