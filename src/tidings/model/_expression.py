"""A filter as it was written: tests joined by AND, OR and NOT; and how it becomes a `Filter`.

Theory of operation
-------------------
NOT is pushed inwards as de Morgan says, down to the single test, whose opposite the algebra knows.
This is right in three-valued logic too, where a test on a missing attribute is neither true nor false.
Then AND is multiplied out over OR. The size of every product is known before it is computed, so an
expression that would explode is refused at once; and because nesting is limited, nothing recurses far.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from . import _algebra
from ._conjunction import Conjunction
from ._constraint import Constraint
from ._errors import FilterTooLarge
from ._filter import Filter
from ._limits import checked, checked_size
from ._values import Kind
from .operators import Range

MAX_DEPTH = 64
"""How deep parentheses and NOT may be nested."""


@dataclass(frozen=True, slots=True)
class Test:
    """One constraint, or its opposite."""

    constraint: Constraint
    positive: bool = True
    depth = 0


@dataclass(frozen=True, slots=True)
class Nested:
    """An expression in parentheses, or its opposite."""

    part: Expression
    positive: bool = True
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        if self.part.depth >= MAX_DEPTH:
            raise FilterTooLarge(f"parentheses and NOT are nested deeper than {MAX_DEPTH} levels; remove some of them")
        object.__setattr__(self, "depth", self.part.depth + 1)


@dataclass(frozen=True, slots=True)
class Joined:
    """Expressions joined by AND (`every`) or by OR. None at all: TRUE and FALSE."""

    every: bool
    parts: tuple[Expression, ...] = ()
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", max((part.depth for part in self.parts), default=0))


Expression: TypeAlias = Test | Nested | Joined
_Terms: TypeAlias = tuple[tuple[Constraint, ...], ...]


def filter_of(expression: Expression) -> Filter:
    """The filter that an expression means, or `FilterTooLarge`."""
    return Filter(checked(Conjunction(_with_ranges(term)) for term in _terms(expression, True)))


def filter_of_term(term: tuple[Constraint, ...]) -> Filter:
    """The filter that constraints joined by AND mean, or `FilterTooLarge`."""
    return Filter(checked((Conjunction(_with_ranges(term)),)))


def _terms(expression: Expression, positive: bool) -> _Terms:
    """The alternatives of an expression, or of its opposite; each a sequence of constraints."""
    match expression:
        case Test(constraint, unchanged):
            if positive is unchanged:
                return ((constraint,),)
            return tuple(term.constraints for term in _algebra.negation((Conjunction((constraint,)),)))
        case Nested(part, unchanged):
            return _terms(part, positive is unchanged)
    parts = [_terms(part, positive) for part in expression.parts]
    return _product(parts) if expression.every is positive else _sum(parts)


def _with_ranges(term: tuple[Constraint, ...]) -> Iterable[Constraint]:
    """The constraints with `a > 1 AND a < 5` as the one range that prints so; it means the same."""
    if sum([type(constraint) is Range for constraint in term]) < 2:
        return term
    bounds: dict[tuple[str, Kind], list[Range]] = {}
    for constraint in dict.fromkeys(term):
        if type(constraint) is Range:
            bounds.setdefault((constraint.name, constraint.kind), []).append(constraint)
    joined: dict[Constraint, Range] = {
        bound: range for pair in bounds.values() if (range := _range(pair)) for bound in pair
    }
    return [joined.get(constraint, constraint) for constraint in term] if joined else term


def _range(bounds: list[Range]) -> Range | None:
    """The one range between a lower and an upper bound, if that is what these are."""
    lows = [bound for bound in bounds if bound.high is None]
    highs = [bound for bound in bounds if bound.low is None]
    if len(bounds) != 2 or len(lows) != 1 or len(highs) != 1:
        return None
    (low,), (high,) = lows, highs
    return Range(low.name, low.low, high.high, low_open=low.low_open, high_open=high.high_open)


def _sum(parts: Iterable[_Terms]) -> _Terms:
    terms = tuple(dict.fromkeys(itertools.chain.from_iterable(parts)))
    checked_size(len(terms), sum(map(len, terms)))
    return terms


def _product(parts: list[_Terms]) -> _Terms:
    count = math.prod(map(len, parts))
    if count:
        constraints = sum(count // len(terms) * sum(map(len, terms)) for terms in parts)
        checked_size(count, constraints)
    return tuple(tuple(itertools.chain.from_iterable(combination)) for combination in itertools.product(*parts))
