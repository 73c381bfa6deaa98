"""One attribute in a segment: which of its conjunctions fail for a value, as bits.

Theory of operation
-------------------
Equalities and inequalities are dicts from the operand to the bits of the conjunctions. Ranges cut the
line of values at points that are bounds of some of them, into *cells*:

    gap 0 | cut 0 | gap 1 | cut 1 | gap 2        cells 0, 1, 2, 3, 4

Each cell knows who fails for its values, and each gap also who is in *doubt* because a bound lies somewhere
inside. A gap with too many doubts is cut at the median of its bounds; other cells stay as they are. A
bound on a cut is exact, open or closed.

Each kind of value has a column of its own, but nearly always there is only one; the first holds the others,
and what is true of the attribute whatever its kind.

A change costs one operation on bits per cell that it touches. A *narrow* range passes in few cells and
fails in most, so it is noted where it passes: in a cell, all narrow ranges fail but those noted there.
"""

from __future__ import annotations

import enum
from array import array
from bisect import bisect_left
from typing import Any

from tidings.model import Constraint, Kind
from tidings.model.operators import Range

from ._atom import TYPES


class Use(enum.Enum):
    """What a segment can do with a constraint."""

    UNSURE = enum.auto()
    """Nothing: always check."""
    NULL = enum.auto()
    """Fail those that have the attribute."""
    EXISTS = enum.auto()
    """Fail those that miss the attribute. The following do that too."""
    KIND = enum.auto()
    """Fail other kinds, check the rest."""
    EQUAL = enum.auto()
    UNEQUAL = enum.auto()
    RANGE = enum.auto()


class Column:
    """Equalities, inequalities and ranges of many conjunctions on one attribute."""

    __slots__ = (
        "_edges",
        "cuts",
        "doubt",
        "equal",
        "equals",
        "fail",
        "kinded",
        "mentions",
        "narrow",
        "needed",
        "others",
        "passes",
        "types",
        "unequal",
        "unwanted",
    )

    def __init__(self) -> None:
        self.types: tuple[type, ...] = ()
        """The types of this column's values."""
        self.others: list[Column] = []
        """Columns for other kinds of the same attribute."""
        self.needed = 0
        """Who fails if the attribute is missing."""
        self.unwanted = 0
        """Who fails if it is there."""
        self.kinded = 0
        """Who needs it to be of some kind."""
        self.mentions = 0
        """Who needs it to be of this kind."""
        self.equals = 0
        """Who is somewhere in `equal`."""
        self.equal: dict[Any, int] = {}
        self.unequal: dict[Any, int] | None = None
        self.cuts: Any = None
        """Sorted: an array of machine numbers if that is exact, for its compactness, else a list."""
        self.narrow = 0
        """Whose range is narrow."""
        self.fail: list[int] = []
        """By cell, who fails, of the others."""
        self.passes: list[int] = []
        """By cell, who passes or is in doubt, of the narrow ones."""
        self.doubt: list[int] = []
        """By cell; cuts are never in doubt."""
        self._edges: list[dict[int, Range]] = []
        """By gap, who is in doubt there: the bit, and the range."""

    def of_kind(self, kind: Kind) -> Column:
        """The column for a kind, made if need be."""
        column = self.of_type(TYPES[kind][0])
        if column is None:
            column = self
            if self.types:
                column = Column()
                self.others.append(column)
            column.types = TYPES[kind]
        return column

    def of_type(self, type_: type) -> Column | None:
        """The column for values of a type."""
        return next((column for column in (self, *self.others) if type_ in column.types), None)

    def add(self, use: Use, constraint: Constraint, bit: int, limit: int) -> None:
        """Note a constraint of the conjunction with this bit. A gap with more doubts than `limit` is cut."""
        self.mentions |= bit
        if use is Use.EQUAL:
            self.equals |= bit
            for value in constraint.values or ():
                self.equal[value] = self.equal.get(value, 0) | bit
        elif use is Use.UNEQUAL:
            if self.unequal is None:
                self.unequal = {}
            for value in _unwanted(constraint):
                self.unequal[value] = self.unequal.get(value, 0) | bit
        elif use is Use.RANGE:
            self._add_range(constraint, bit, limit)  # type: ignore[arg-type]

    def remove(self, use: Use, constraint: Constraint, bit: int) -> None:
        """Take `add` back."""
        self.mentions &= ~bit
        if use is Use.EQUAL:
            self.equals &= ~bit
            for value in constraint.values or ():
                _clear(self.equal, value, bit)
        elif use is Use.UNEQUAL:
            for value in _unwanted(constraint):
                _clear(self.unequal or {}, value, bit)
        elif use is Use.RANGE:
            self._remove_range(constraint, bit)  # type: ignore[arg-type]

    def _add_range(self, bounds: Range, bit: int, limit: int) -> None:
        if self.cuts is None:
            self.cuts, self.fail, self.doubt, self._edges = [], [0], [0], [{}]
        first, last, gaps = self._reach(bounds)
        if limit and last - first < len(self.fail) // 2:
            self.narrow |= bit
            self.passes = self.passes or [0] * len(self.fail)
        self._toggle(first, last, bit)
        for gap in gaps:
            self.doubt[2 * gap] |= bit
            self._edges[gap][bit] = bounds
            if len(self._edges[gap]) > limit:
                self._cut(gap)

    def _remove_range(self, bounds: Range, bit: int) -> None:
        first, last, gaps = self._reach(bounds)
        self._toggle(first, last, bit)
        self.narrow &= ~bit
        for gap in gaps:
            self.doubt[2 * gap] ^= bit
            del self._edges[gap][bit]

    def _toggle(self, first: int, last: int, bit: int) -> None:
        """Note, or take back, that a range reaches from the first to the last cell."""
        if self.narrow & bit:
            passes = self.passes
            for at in range(first, last + 1):
                passes[at] ^= bit
        else:
            fail = self.fail
            for at in range(first):
                fail[at] ^= bit
            for at in range(max(first, last + 1), len(fail)):
                fail[at] ^= bit

    def _reach(self, bounds: Range) -> tuple[int, int, list[int]]:
        """The first and the last cell that the range touches, and the gaps where it ends, the later one first."""
        cuts = self.cuts
        first, last, gaps = 0, 2 * len(cuts), []
        if bounds.high is not None:
            at = bisect_left(cuts, bounds.high)
            if at < len(cuts) and cuts[at] == bounds.high:
                last = 2 * at if bounds.high_open else 2 * at + 1
            else:
                last = 2 * at
                gaps.append(at)
        if bounds.low is not None:
            at = bisect_left(cuts, bounds.low)
            if at < len(cuts) and cuts[at] == bounds.low:
                first = 2 * at + 2 if bounds.low_open else 2 * at + 1
            else:
                first = 2 * at
                if gaps != [at]:
                    gaps.append(at)
        return first, last, gaps

    def _cut(self, gap: int) -> None:
        cuts = self.cuts
        start = cuts[gap - 1] if gap else None
        end = cuts[gap] if gap < len(cuts) else None
        edges = self._edges[gap]
        inside = sorted(
            bound
            for bounds in edges.values()
            for bound in (bounds.low, bounds.high)
            if bound is not None and (start is None or bound > start) and (end is None or bound < end)
        )
        self.cuts = _with_cut(cuts, gap, inside[len(inside) // 2])
        at = 2 * gap
        self.fail[at : at + 1] = [self.fail[at]] * 3
        if self.passes:
            self.passes[at : at + 1] = [self.passes[at]] * 3
        self.doubt[at : at + 1] = [0, 0, 0]
        self._edges[gap : gap + 1] = [{}, {}]
        for bit, bounds in edges.items():
            first, last, gaps = self._reach(bounds)
            narrow = self.narrow & bit
            for cell in (at, at + 1, at + 2):
                if not first <= cell <= last:
                    if narrow:
                        self.passes[cell] ^= bit
                    else:
                        self.fail[cell] ^= bit
            for now in gaps:
                if now in (gap, gap + 1):
                    self.doubt[2 * now] |= bit
                    self._edges[now][bit] = bounds


def _with_cut(cuts: Any, at: int, cut: Any) -> Any:
    """The cuts with one more, in an array if all are floats or all are integers: the values' own limits fit."""
    code = {float: "d", int: "q"}.get(type(cut), "")
    if not cuts and code:
        return array(code, [cut])
    if type(cuts) is array and cuts.typecode != code:
        cuts = cuts.tolist()
    cuts.insert(at, cut)
    return cuts


def _unwanted(constraint: Any) -> tuple[Any, ...]:
    """The values of a negated equality or membership."""
    values: tuple[Any, ...] = constraint.inner.values
    return values


def _clear(table: dict[Any, int], value: Any, bit: int) -> None:
    rest = table.get(value, 0) & ~bit
    if rest:
        table[value] = rest
    else:
        table.pop(value, None)
