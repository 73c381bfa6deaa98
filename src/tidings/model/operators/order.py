"""`<`, `<=`, `>`, `>=`, `BETWEEN`: the attribute lies on one side of a value, or between two.

On a list, each bound asks for some element, as if the two bounds were written one by one with AND:
`x BETWEEN 3 AND 5` is `x >= 3 AND x <= 5`, as SQL defines it.
"""

from __future__ import annotations

from typing import Any

from .._constraint import Constraint
from .._errors import FilterError
from .._names import quoted
from .._values import ORDERED, Kind, Scalar, Value, kind_of, literal


class Range(Constraint):
    """`low < name <= high` and its variants; a bound of None is open to infinity."""

    __slots__ = ("high", "high_open", "low", "low_open", "name")

    def __init__(
        self,
        name: str,
        low: Scalar | None = None,
        high: Scalar | None = None,
        *,
        low_open: bool = False,
        high_open: bool = False,
    ) -> None:
        if low is None and high is None:
            raise FilterError(f"a range on '{name}' needs a bound; use EXISTS for any value")
        for bound in (low, high):
            if bound is not None and kind_of(bound) not in ORDERED:
                raise FilterError(f"'{name}': {literal(bound)} has no order; use = or <>")
        if low is not None and high is not None and kind_of(low) is not kind_of(high):
            raise FilterError(f"'{name}': {literal(low)} and {literal(high)} do not compare; use one kind")
        # Any: the bounds are of one ordered kind, which no static type can say.
        self.name = name
        self.low: Any = low
        self.high: Any = high
        self.low_open = low_open and low is not None
        self.high_open = high_open and high is not None

    @property
    def kind(self) -> Kind:
        """The one kind of the bounds."""
        return kind_of(self.low if self.low is not None else self.high)

    def holds(self, scalar: Scalar) -> bool:
        """Whether the scalar lies between the bounds."""
        return kind_of(scalar) is self.kind and self._above(scalar) and self._below(scalar)

    def passes(self, value: Value | None) -> bool:
        """As `holds`; on a list, each bound asks for some element."""
        if type(value) is not tuple:
            return value is not None and self.holds(value)
        items = [item for item in value if kind_of(item) is self.kind]
        return any(map(self._above, items)) and any(map(self._below, items))

    def _above(self, scalar: Any) -> bool:
        return self.low is None or (scalar > self.low if self.low_open else scalar >= self.low)

    def _below(self, scalar: Any) -> bool:
        return self.high is None or (scalar < self.high if self.high_open else scalar <= self.high)

    def _key(self) -> tuple[object, ...]:
        return (self.name, self.kind, self.low, self.high, self.low_open, self.high_open)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Range) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Range({str(self)!r})"

    def __str__(self) -> str:
        name = quoted(self.name)
        if self.low is not None and self.high is not None and not (self.low_open or self.high_open):
            return f"{name} BETWEEN {literal(self.low)} AND {literal(self.high)}"
        sides = []
        if self.low is not None:
            sides.append(f"{name} {'>' if self.low_open else '>='} {literal(self.low)}")
        if self.high is not None:
            sides.append(f"{name} {'<' if self.high_open else '<='} {literal(self.high)}")
        return " AND ".join(sides)
