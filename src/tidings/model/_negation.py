"""The opposite of a filter, in the three-valued logic of SQL.

A constraint on a missing attribute is neither true nor false, so its opposite is not true either: both
`a = 1` and `a <> 1` fail without `a`. Only `EXISTS` and `IS NULL` are opposites of each other. The
opposite of `a > 5` is `a <= 5`, on lists, too, where both can be true; every other operator has its
exact opposite in `Negated`.

The opposite of a disjunction is a conjunction of disjunctions, multiplied out again. Conjunctions that
another one makes superfluous are dropped on the way, and what still grows beyond the limits is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ._conjunction import Conjunction
from ._constraint import Constraint, Negated
from ._limits import checked
from .operators import Exists, IsNull, Range


def negation(conjunctions: tuple[Conjunction, ...]) -> tuple[Conjunction, ...]:
    """What passes none of these conjunctions, and has what it takes to tell."""
    product: tuple[Conjunction, ...] = (Conjunction(),)
    for conjunction in conjunctions:
        opposites = [opposite for constraint in conjunction for opposite in opposites_of(constraint)]
        product = checked(_multiplied(product, opposites))
    return product


def opposites_of(constraint: Constraint) -> tuple[Constraint, ...]:
    """The constraints of which one passes where this one, on the same attribute, fails."""
    match constraint:
        case Negated(inner=inner):
            return (inner,)
        case Exists(name=name):
            return (IsNull(name),)
        case IsNull(name=name):
            return (Exists(name),)
        case Range():
            return tuple(_beyond(constraint))
        case _:
            return (Negated(constraint),)


def _beyond(range: Range) -> Iterator[Range]:
    """What lies below a range, and what lies above it."""
    if range.low is not None:
        yield Range(range.name, None, range.low, high_open=not range.low_open)
    if range.high is not None:
        yield Range(range.name, range.high, low_open=not range.high_open)


def _multiplied(parts: Iterable[Conjunction], opposites: Sequence[Constraint]) -> Iterator[Conjunction]:
    """Each part AND each opposite; a part that has one of them already absorbs its products."""
    for part in parts:
        if any(opposite in part.constraints for opposite in opposites):
            yield part
        else:
            for opposite in opposites:
                yield part & Conjunction((opposite,))
