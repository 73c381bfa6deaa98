"""A home: one conjunction of one key, taken apart, and where in the index it lives."""

from __future__ import annotations

from typing import Any, TypeAlias

from tidings.model import Conjunction, Constraint, Value

from ._atom import Atom, atom_of
from ._code import Row
from ._pivot import Pivot
from ._shape import RowShape

Constraints: TypeAlias = list[tuple[Constraint, Atom]]


class Home:
    """Where one conjunction of one key lives: under the nodes of its pivot, or in a segment of its own kind."""

    __slots__ = ("conjunction", "key", "pivot", "place", "row", "shape", "waiting")

    def __init__(self, conjunction: Conjunction, key: Any) -> None:
        self.conjunction = conjunction
        self.key = key
        self.place: Any = None
        """The nodes, the segments or the table of those without a constraint; None once it was removed."""
        self.pivot: Pivot | None = None
        self.shape: RowShape | None = None
        """What is left to be tested; None if the pivot says it all."""
        self.row: Row = ()
        """The operands of that."""
        self.waiting = False
        """Whether somebody is to look for a better place."""

    def passes(self, attributes: dict[str, Value], lists: set[str]) -> bool:
        """Whether a notification passes that the pivot led here; `lists` are the attributes that hold lists."""
        if self.shape is None:
            return True
        if self.shape.names.isdisjoint(lists):
            return self.shape.check(self.row, attributes)
        return self.conjunction.passes(attributes)

    def constraints(self) -> Constraints:
        """All constraints, taken apart. That is most of the work of a change, so they are handed around."""
        return [(constraint, atom_of(constraint)) for constraint in self.conjunction.constraints]

    def left(self, constraints: Constraints) -> Constraints:
        """Of its constraints, those that the pivot does not imply."""
        exact = self.pivot.exact if self.pivot is not None else None
        return [pair for pair in constraints if pair[0] is not exact] if exact is not None else constraints
