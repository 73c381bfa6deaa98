"""How filters are rewritten when they cross a mapping.

Theory of operation
-------------------
A step looks at the constraints of a filter one by one and answers for each, by name:

- another constraint, which says at least as little;
- True: it is certain to pass, or nothing can be said about it; it is left out;
- False: it cannot pass; its whole alternative is left out.

Each answer may pass more than the original, never less, so the rewritten filter does, too. Where it would grow
beyond the limits of a filter, everything about the attributes that the step touches is left out instead:
that is never larger than what came in, and passes still more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from tidings.model import (
    EVERYTHING,
    Conjunction,
    Constraint,
    Filter,
    FilterTooLarge,
    Location,
    Negated,
    Scalar,
    Value,
    kind_of,
)
from tidings.model.operators import Contains, Exists, Like, Member, Prefix, Range, Suffix, Within
from tidings.model.operators.equal import among

Answer: TypeAlias = Constraint | bool

_PATTERNS = (Like, Prefix, Suffix, Contains)


def rewritten(
    filter: Filter,
    touched: Callable[[str], bool],
    answer: Callable[[Constraint], Answer],
    also: Iterable[Constraint] = (),
) -> Filter:
    """The filter with an answer in place of every constraint on a touched name, and `also` in every alternative."""
    extra = tuple(also)
    parts = []
    for conjunction in filter.conjunctions:
        answers = [answer(one) if touched(one.name) else one for one in conjunction]
        if not any(one is False for one in answers):
            parts.append(Conjunction((*(one for one in answers if isinstance(one, Constraint)), *extra)))
    return within_limits(parts, lambda: without(filter, touched))


def without(filter: Filter, touched: Callable[[str], bool]) -> Filter:
    """The filter without what it says about touched names."""
    return Filter(
        Conjunction(one for one in conjunction if not touched(one.name)) for conjunction in filter.conjunctions
    )


def within_limits(parts: Iterable[Conjunction], otherwise: Callable[[], Filter]) -> Filter:
    """The filter of these alternatives if it is small enough, else another one."""
    try:
        return EVERYTHING & Filter(parts)
    except FilterTooLarge:
        return otherwise()


def absent(constraint: Constraint) -> bool:
    """Whether the constraint passes where its attribute is missing."""
    return constraint.passes(None)


def decided(constraint: Constraint, value: Value) -> bool:
    """Whether the constraint passes this value; True while its `myloc` is still to be resolved."""
    return is_marked(constraint) or constraint.passes(value)


def is_marked(constraint: Constraint) -> bool:
    """Whether the constraint speaks of a `myloc` that the broker has yet to fill in."""
    inner = constraint.inner if isinstance(constraint, Negated) else constraint
    return isinstance(inner, Within) and not isinstance(inner.place, Location)


def described(name: str, value: Value) -> Constraint:
    """What can be said of an attribute with this value, of each of its elements, too."""
    items = value if type(value) is tuple else (value,)
    one_kind = len({kind_of(item) for item in items}) == 1  # type: ignore[arg-type]
    return among(name, items) if one_kind else Exists(name)  # type: ignore[arg-type]


def listed(name: str, values: Iterable[Scalar]) -> Answer:
    """One of these values; False if there are none."""
    unique = tuple(dict.fromkeys(values))
    return among(name, unique) if unique else False


def renamed(constraint: Constraint, name: str) -> Constraint:
    """The same constraint on another attribute.

    An operator of a user's own is renamed if it is a dataclass. Otherwise all that is known is that the
    attribute must be there: no operator but IS NULL passes without it.
    """
    kind = type(constraint)  # exactly: a class derived from an operator may mean something else
    if kind is Negated:
        inner: Constraint = constraint.inner  # type: ignore[attr-defined]
        other = renamed(inner, name)
        return other if type(other) is Exists and type(inner) is not Exists else Negated(other)
    if kind is Range:
        bounds: Any = constraint
        return Range(name, bounds.low, bounds.high, low_open=bounds.low_open, high_open=bounds.high_open)
    if kind is Member:
        return Member(name, constraint.values or ())
    if isinstance(constraint, Like) and kind in _PATTERNS:
        return Like(name, constraint.tokens).simplest()
    if dataclasses.is_dataclass(constraint) and not isinstance(constraint, type):
        return dataclasses.replace(constraint, name=name)
    return Exists(name)
