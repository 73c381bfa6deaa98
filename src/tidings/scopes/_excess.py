"""Excess: what one exposure shows and another one does not.

Theory of operation
-------------------
There are three answers:

    a witness   a notification that is seen in a form in which the other exposure does not show it: tried, so certain
    None        the other exposure covers it: certain, because covering is
    UNDECIDED   neither was found

The search for a witness takes a notification that a strand lets through. While the other exposure shows it in the same
form, it is made to fail one condition there: all of them are tried, one after the other. Where that ends, a mapping may
have hidden the difference, so the notifications found are tried again with more attributes. The search is bounded.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from tidings.model import Conjunction, Constraint, Filter, Negated, Notification, Value
from tidings.model.operators import Exists, IsNull

from ._exposure import Exposure, Strand
from .mappings._compute import Compute
from .mappings._expression import parsed
from .mappings._mapping import AnyStep

MAX_WITNESSES = 64
"""The most notifications that are made from conditions in one search."""
MAX_VARIANTS = 256
"""The most notifications that are made from these by other attributes."""

OTHER = "other"
"""An attribute that hardly any filter speaks of: `Keep` takes it away."""
_VALUES: tuple[Value, ...] = (1, "x", True, -2.5, ())
"""What attributes may have of which no filter says more."""


class Undecided(enum.Enum):
    """Neither was a witness found, nor does the other exposure cover this one."""

    UNDECIDED = "undecided"


UNDECIDED: Final = Undecided.UNDECIDED
Excess: TypeAlias = Notification | Literal[Undecided.UNDECIDED] | None


def excess(one: Exposure, other: Exposure) -> Excess:
    """A notification that one exposure shows in a form in which the other one does not; None if there is none."""
    if not one.whole or not other.whole:
        return UNDECIDED
    rest = [strand for strand in one.strands if not other.covers(strand)]
    if not rest:
        return None
    if not all(strand.is_known for strand in (*rest, *other.strands)):
        return UNDECIDED
    found = (_witness(strand, other) for strand in rest)
    return next((witness for witness in found if witness is not None), UNDECIDED)


def _witness(strand: Strand, other: Exposure) -> Notification | None:
    """What a strand shows and another exposure does not, if such a notification is found."""
    tried: dict[Notification, None] = {}
    asked = [(one, one.asked()) for one in other.strands]
    open = [*reversed(strand.asked().conjunctions)]
    while open and len(tried) < MAX_WITNESSES:
        conjunction = open.pop()
        made = Filter((conjunction,)).witness()
        if made is None or made in tried:
            continue
        if _is_witness(made, strand, other):
            return made
        tried[made] = None
        passed = next((part for _, filter in asked for part in filter.conjunctions if part.passes(made.attributes)), ())
        open += [conjunction & Conjunction((one,)) for condition in passed for one in failing(condition)]
    names = names_of(strand, other)
    variants = itertools.islice(_variants(tried, names), MAX_VARIANTS)
    return next((one for one in variants if _is_witness(one, strand, other)), None)


def _is_witness(notification: Notification, strand: Strand, other: Exposure) -> bool:
    form = strand.shown(notification)
    return form is not None and form not in other.shown(notification)


def failing(constraint: Constraint) -> tuple[Constraint, ...]:
    """Constraints on the same attribute under which this one fails, or may fail; the likeliest last, to be tried first.

    Without the attribute everything fails but IS NULL.
    """
    match constraint:
        case IsNull(name=name):
            return (Exists(name),)
        case Exists(name=name):
            return (IsNull(name),)
        case Negated(inner=inner):
            return IsNull(constraint.name), inner
    return IsNull(constraint.name), Negated(constraint)


def _variants(found: dict[Notification, None], names: list[str]) -> Iterator[Notification]:
    """Notifications with one more attribute, or another value, then with two of them."""
    for notification, name, value in itertools.product(found, names, _VALUES):
        yield Notification.trusted({**notification.attributes, name: value})
    for notification, value in itertools.product(found, _VALUES):
        yield Notification.trusted({**dict.fromkeys(names, value), **notification.attributes})


def names_of(strand: Strand, other: Exposure) -> list[str]:
    """The attributes that decide between them."""
    found: dict[str, None] = {OTHER: None}
    for one in (strand, *other.strands):
        for mapping in one.mappings:
            found.update(dict.fromkeys(name for step in mapping.steps for name in _touched(step)))
        for filter in one.filters:
            found.update(dict.fromkeys(part.name for conjunction in filter.conjunctions for part in conjunction))
    return list(found)


def _touched(step: AnyStep) -> Iterator[str]:
    """The attributes of which a step speaks; texts that are something else only make more variants."""
    if isinstance(step, Compute):
        yield from parsed(step.expression).names
    for value in msgspec.structs.astuple(step):
        texts = value if isinstance(value, tuple) else (value,)
        yield from (text for text in texts if isinstance(text, str) and text.isidentifier())
