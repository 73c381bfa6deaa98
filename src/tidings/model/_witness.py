"""A witness: one notification that passes a conjunction.

Whatever covers the conjunction accepts its witness. So to find the filters that may cover a new one,
routing asks the matching index for its witness, instead of comparing it with every filter there is.

Each attribute is filled on its own: with a scalar if one can be found among the examples of its
operators, else with a list, one element for each want. Nothing is returned that has not been tested.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from ._automaton import find
from ._conjunction import Conjunction
from ._constraint import Constraint
from ._effort import MAX_TOGETHER, Effort, is_spent
from ._location import Location
from ._negation import opposites_of
from ._terms import Terms
from ._values import ORDERED, Kind, Scalar, Value, kind_of
from .operators import Range

SMALL = 8
"""The most constraints that are looked at without a look at the effort."""
_PLAIN: dict[Kind, tuple[Scalar, ...]] = {
    Kind.BOOLEAN: (True, False),
    Kind.NUMBER: (0, 1, -1, 0.5),
    Kind.TEXT: ("", "x", "y"),
    Kind.BYTES: (b"", b"x", b"y"),
    Kind.TIME: (datetime(2000, 1, 1, tzinfo=UTC), datetime(2001, 1, 1, tzinfo=UTC)),
    Kind.PLACE: (Location("/"), Location("/x"), Location("/y")),
}
"""Scalars to try where only something else is excluded."""


def witness(conjunction: Conjunction) -> dict[str, Value] | None:
    """Attributes that pass the conjunction; None if there are none, or none were found."""
    if len(conjunction.constraints) <= SMALL:
        return _attributes(conjunction)
    with Effort():
        return _attributes(conjunction)


def _attributes(conjunction: Conjunction) -> dict[str, Value] | None:
    attributes: dict[str, Value] = {}
    for name, terms in conjunction.terms.items():
        if terms.null:
            if terms.others:
                return None
            continue
        value = _value(terms)
        if value is None:
            return None
        attributes[name] = value
    return attributes


def _value(terms: Terms) -> Value | None:
    wants, bans = terms.wants, terms.bans
    if len(wants) == 1 and not bans:  # most often
        return next(filter(wants[0].holds, wants[0].examples()), None)
    for want in wants:
        for example in want.examples():
            if _passes(example, wants, bans):
                return example
    if not wants:
        return _of_no_kind(terms)
    if (text := _text(wants, bans)) is not None:
        return text
    for example in _beside(bans):
        if _passes(example, wants, bans):
            return example
    items = tuple(_element(want, bans) for want in wants)
    return None if None in items else items  # type: ignore[return-value]


def _passes(scalar: Scalar, wants: Sequence[Constraint], bans: Sequence[Constraint]) -> bool:
    if not all(want.holds(scalar) for want in wants):
        return False
    return not any(ban.holds(scalar) or ban.kind not in (None, kind_of(scalar)) for ban in bans)


def _of_no_kind(terms: Terms) -> Value:
    """Something that is not excluded. The empty list never is."""
    kinds = dict.fromkeys(kind for kind in terms.kinds if kind is not None)
    if len(kinds) > 1:
        return ()
    for kind in kinds or (Kind.BOOLEAN,):
        for scalar in _PLAIN[kind]:
            if _passes(scalar, (), terms.bans):
                return scalar
    return ()


def _text(wants: Sequence[Constraint], bans: Sequence[Constraint]) -> str | None:
    """A text that passes all of them, if they are about texts, and not too many."""
    if len(wants) + len(bans) > MAX_TOGETHER or is_spent():
        return None
    inside = [want.automaton() for want in wants]
    outside = [ban.automaton() for ban in bans]
    if None in inside or None in outside:
        return None
    found = find(inside, outside)  # type: ignore[arg-type]
    return found if isinstance(found, str) else None


def _element(want: Constraint, bans: Sequence[Constraint]) -> Scalar | None:
    """A scalar that this one wants and nobody bans; as an element, it may be of any kind."""
    for example in itertools.chain(want.examples(), _beside(bans)):
        if want.holds(example) and not any(ban.holds(example) for ban in bans):
            return example
    text = _text((want,), [ban for ban in bans if ban.kind is Kind.TEXT])
    return None if text is None or any(ban.holds(text) for ban in bans) else text


def _beside(bans: Sequence[Constraint]) -> Iterator[Scalar]:
    """Scalars right beside those that are banned, where there is an order."""
    for ban in bans:
        if ban.kind not in ORDERED:
            continue
        ranges = [ban] if isinstance(ban, Range) else [Range(ban.name, value, value) for value in ban.values or ()]
        for side in itertools.chain.from_iterable(map(opposites_of, ranges)):
            yield from side.examples()
