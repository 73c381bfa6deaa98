"""`<`, `<=`, `>`, `>=`, `BETWEEN`: the attribute lies on one side of a value, or between two.

On a list, each bound asks for some element, as if the two bounds were written one by one with AND:
`x BETWEEN 3 AND 5` is `x >= 3 AND x <= 5`, as SQL defines it.

For the relations, a range lies between two *cuts* of the axis: a cut `(0, v, False)` is just below v and
`(0, v, True)` just above it, so cuts compare like tuples, and whether a bound is open needs no cases.
Where the axis ends, so do the cuts: no text is below `''`, no number above the largest float. The cut
`(1,)` is above everything.

Why the union of two ranges that overlap or touch is one range, for lists too: let `b` be the lower of
the two upper cuts and `c` the higher of the two lower cuts. A list that passes the joint range and
neither of the two would need all its elements between `b` and `c`. If `b >= c` nothing lies there.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, TypeAlias

from tidings.model._automaton import Automaton, Bounds
from tidings.model._constraint import Constraint
from tidings.model._errors import FilterError
from tidings.model._names import quoted
from tidings.model._plain import plain
from tidings.model._values import INT_RANGE, ORDERED, Kind, Scalar, Value, kind_of, literal

Cut: TypeAlias = tuple[Any, ...]

_TOP: Cut = (1,)
_FIRST: dict[Kind, Any] = {
    Kind.NUMBER: -sys.float_info.max,
    Kind.TEXT: "",
    Kind.BYTES: b"",
    Kind.TIME: datetime.min.replace(tzinfo=UTC),
}
_LAST: dict[Kind, Any] = {Kind.NUMBER: sys.float_info.max, Kind.TIME: datetime.max.replace(tzinfo=UTC)}
_STEP = timedelta(microseconds=1)


class Range(Constraint):
    """`low < name <= high` and its variants; a bound of None is open to infinity."""

    __slots__ = ("bottom", "high", "high_open", "kind", "low", "low_open", "name", "top")

    kind: Kind
    """The one kind of the bounds."""

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
            raise FilterError(
                f"'{name}': {literal(low)} and {literal(high)} cannot be compared; use values of one kind"
            )
        # Any: the bounds are of one ordered kind, which no static type can say.
        self.name = name
        self.low: Any = low
        self.high: Any = high
        self.low_open = low_open and low is not None
        self.high_open = high_open and high is not None
        self.kind = kind = kind_of(low if low is not None else high)  # type: ignore[arg-type]
        # The cuts that the range lies between, kept because routing compares ranges all the time.
        self.bottom: Cut = (0, _FIRST[kind] if low is None else low, self.low_open)
        highest = _LAST.get(kind) if high is None else high
        self.top: Cut = _TOP if highest is None else (0, highest, not self.high_open)

    def holds(self, scalar: Scalar) -> bool:
        return kind_of(scalar) is self.kind and self._above(scalar) and self._below(scalar)

    def passes(self, value: Value | None) -> bool:
        """As `holds`; on a list, each bound asks for some element."""
        if type(value) is not tuple:
            return value is not None and self.holds(value)  # type: ignore[arg-type]
        items = [item for item in value if kind_of(item) is self.kind]
        return any(map(self._above, items)) and any(map(self._below, items))

    def _above(self, scalar: Any) -> bool:
        return self.low is None or (scalar > self.low if self.low_open else scalar >= self.low)

    def _below(self, scalar: Any) -> bool:
        return self.high is None or (scalar < self.high if self.high_open else scalar <= self.high)

    @property
    def wants(self) -> tuple[Constraint, ...]:
        """The two bounds, one by one."""
        if self.low is None or self.high is None:
            return (self,)
        return (
            Range(self.name, self.low, low_open=self.low_open),
            Range(self.name, None, self.high, high_open=self.high_open),
        )

    def automaton(self) -> Automaton | None:
        """The texts between the bounds."""
        if self.kind is not Kind.TEXT:
            return None
        return Bounds(self.low, self.high, self.low_open, self.high_open)

    def examples(self) -> Iterator[Scalar]:
        """The bounds that belong to the range, and values near those that do not."""
        return filter(self.holds, itertools.chain(_near(self.low, up=True), _near(self.high, up=False)))

    def simplest(self) -> Range:
        """`x > 3.0` is `x > 3`."""
        low = None if self.low is None else plain(self.low)
        high = None if self.high is None else plain(self.high)
        if low is self.low and high is self.high:
            return self
        return Range(self.name, low, high, low_open=self.low_open, high_open=self.high_open)

    def includes(self, other: Constraint) -> bool:
        """Whether the other lies between the same cuts, or closer ones."""
        if type(other) is not Range:
            return super().includes(other)
        if self.kind is other.kind and self.bottom <= other.bottom and other.top <= self.top:
            return True
        return other.bottom >= other.top

    def inside(self, others: Sequence[Constraint]) -> bool:
        """Whether the others, laid side by side, leave no gap in this range."""
        if not others:
            return self.bottom >= self.top
        return self._is_filled(others) or super().inside(others)

    def _is_filled(self, others: Sequence[Constraint]) -> bool:
        pieces = [piece for other in others if other.kind is self.kind for piece in _pieces(other)]
        reached = self.bottom
        while reached < self.top:
            further = max((top for bottom, top in pieces if bottom <= reached), default=reached)
            if further == reached and not reached[2] and any(other.holds(reached[1]) for other in others):
                further = (0, reached[1], True)  # a single value, of an operator that is no range
            if further <= reached:
                return False
            reached = further
        return True

    def meets(self, other: Constraint) -> bool:
        """Whether the higher of the two lower cuts is below the lower of the two upper cuts."""
        if type(other) is not Range:
            return super().meets(other)
        return self.kind is other.kind and max(self.bottom, other.bottom) < min(self.top, other.top)

    def intersection(self, other: Range) -> Range:
        """What lies in both, if they are of one kind."""
        low, high = max(self, other, key=_bottom), min(self, other, key=_top)
        return Range(self.name, low.low, high.high, low_open=low.low_open, high_open=high.high_open)

    def union(self, other: Constraint) -> Constraint | None:
        """One range, if the two overlap or touch, or the other fills an open end."""
        if other.kind is not self.kind:
            return super().union(other)
        if type(other) is not Range:
            return super().union(other) or self._with_ends(other.values or ())
        lower, upper = (self, other) if self.bottom <= other.bottom else (other, self)
        if upper.top <= lower.top:
            return lower
        return lower._up_to(upper) if upper.bottom <= lower.top else None

    def hull(self, other: Constraint) -> Constraint | None:
        """From the lower bottom to the higher top."""
        if other.kind is not self.kind:
            return None
        if type(other) is Range:
            lower, upper = (self, other) if self.bottom <= other.bottom else (other, self)
            return lower if upper.top <= lower.top else lower._up_to(upper)
        if other.values is None:
            return self.union(other)
        hull: Constraint | None = self
        for value in other.values:
            hull = None if hull is None else hull.hull(Range(self.name, value, value))
        return hull

    def _up_to(self, upper: Range) -> Range | None:
        """The range from this one's low bound to the other's high bound; None if it has neither."""
        if self.low is None and upper.high is None:
            return None
        return Range(self.name, self.low, upper.high, low_open=self.low_open, high_open=upper.high_open)

    def _with_ends(self, values: Sequence[Scalar]) -> Range | None:
        """This range with its open ends closed, if these are among the values, and the others inside."""
        wider = Range(
            self.name,
            self.low,
            self.high,
            low_open=self.low_open and self.low not in values,
            high_open=self.high_open and self.high not in values,
        )
        return wider if values and all(map(wider.holds, values)) else None

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


_bottom, _top = attrgetter("bottom"), attrgetter("top")


def _pieces(constraint: Constraint) -> Iterator[tuple[Cut, Cut]]:
    """The parts of the axis that a range or a finite set takes up."""
    if isinstance(constraint, Range):
        yield constraint.bottom, constraint.top
    for value in constraint.values or ():
        yield (0, value, False), (0, value, True)


def _near(bound: Any, *, up: bool) -> Iterator[Scalar]:
    """The bound, and values close to it on one side."""
    if bound is None:
        return
    yield bound
    match bound:
        case int() | float():
            step = bound + 1 if up else bound - 1
            if isinstance(step, float) or step in INT_RANGE:
                yield step
            if math.isfinite(step := math.nextafter(bound, math.inf if up else -math.inf)):
                yield step
        case str():
            yield bound + "\0" if up else ""
        case bytes():
            yield bound + b"\0" if up else b""
        case datetime() if bound != (_LAST if up else _FIRST)[Kind.TIME]:
            yield bound + _STEP if up else bound - _STEP
