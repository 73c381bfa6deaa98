"""A filter: a predicate on notifications, kept as a disjunction of conjunctions of constraints."""

from __future__ import annotations

import functools
import hashlib
from abc import ABCMeta
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from . import _algebra
from ._conjunction import Conjunction
from ._constraint import Constraint, Negated
from ._effort import KEPT_STEPS, Effort
from ._errors import FilterError, FilterTooLarge
from ._limits import checked, printable
from ._location import Location
from ._notification import Notification
from .operators import Equal, Member, Range, Within


class _Quick(ABCMeta if TYPE_CHECKING else type(Protocol)):  # type: ignore[misc]
    """Tells a filter by its class alone: `typing`, before Python 3.12, works a protocol out for each question."""

    def __instancecheck__(cls, instance: object) -> bool:
        return (cls is Matches and type(instance) is Filter) or super().__instancecheck__(instance)


@runtime_checkable
class Matches(Protocol, metaclass=_Quick):
    """The least that a filter class must offer; with no more, it works with flooding and simple routing only."""

    def matches(self, notification: Notification) -> bool:
        """Whether the notification passes."""
        ...


class Filter:
    """A content filter. Immutable, hashable, equal by content.

    >>> f = Filter.parse("type = 'quote' AND price > 100")
    >>> f.matches({"type": "quote", "symbol": "SAP", "price": 182.4})
    True
    >>> f.covers(Filter.parse("type = 'quote' AND price BETWEEN 150 AND 200"))
    True
    """

    __slots__ = ("__dict__", "_hash", "conjunctions")

    def __init__(self, conjunctions: Iterable[Conjunction]) -> None:
        self.conjunctions = tuple(dict.fromkeys(conjunctions))
        self._hash = hash(self.conjunctions)

    @classmethod
    def parse(cls, text: str, *, most: int | None = None) -> Filter:
        """Parse a text in the filter language (see docs/filters.md), or raise `FilterError`.

        A text that would surely cost more than `most` raises `FilterTooLarge` before it is parsed.
        """
        from ._language import parse  # noqa: PLC0415 - the language builds filters: above, it would be a cycle

        return parse(text, most=most)

    def matches(self, notification: Notification | Mapping[str, object]) -> bool:
        """Return whether the notification passes; a plain mapping is checked and flattened first."""
        if not isinstance(notification, Notification):
            notification = Notification(notification)
        attributes = notification.attributes
        return any(conjunction.passes(attributes) for conjunction in self.conjunctions)

    def __call__(self, notification: Notification | None) -> Notification | None:
        """The filter as a map: the notification if it passes, else None, which stays None."""
        return notification if notification is not None and self.matches(notification) else None

    def covers(self, other: Filter) -> bool:
        """Return whether every notification that passes `other` passes this filter; False if undecided."""
        return _algebra.covers(self.conjunctions, other.conjunctions)

    def overlaps(self, other: Filter) -> bool:
        """Return whether some notification may pass both; True if undecided."""
        return _algebra.overlaps(self.conjunctions, other.conjunctions)

    def merge(self, other: Filter, *, precision: float = 1.0) -> Filter | None:
        """Return one filter for both, if there is one simpler than `self | other`; else None.

        With `precision` 1 the merger accepts exactly what the two accept. Below 1 it may accept more, as
        long as the estimated share of wanted notifications does not fall below `precision`.
        """
        merged = _algebra.merge(self.conjunctions, other.conjunctions, precision)
        return Filter(merged) if merged is not None and printable(merged) else None

    def union(self, other: Filter) -> Filter | None:
        """Return the filter that accepts what either accepts, in canonical form; None if it would be too large."""
        if self == other:
            return self
        try:
            merged = self.merge(other)
            return (merged if merged is not None else self | other).canonical()
        except FilterTooLarge:
            return None

    def canonical(self) -> Filter:
        """Return the same filter in canonical form: equal forms mean equal filters, but not always the reverse."""
        return self if "_is_canonical" in self.__dict__ else self._canonical

    @functools.cached_property
    def _canonical(self) -> Filter:
        with Effort(KEPT_STEPS, apart=True):  # it is kept, so nobody's haste may show in it
            form = Filter(_algebra.canonical(self.conjunctions))
        form.__dict__["_is_canonical"] = True  # the form of the form is itself, and finding that out is as much work
        return form

    def meet(self, other: Filter) -> Filter:
        """Return the filter that accepts what both accept, in canonical form, or raise `FilterTooLarge`."""
        mine, theirs = self.canonical().conjunctions, other.canonical().conjunctions
        if len(mine) == 1 and len(theirs) == 1 and (both := _algebra.met(mine[0], theirs[0])) is not None:
            form = Filter(checked((both,)))
            form.__dict__["_is_canonical"] = True
            return form
        return (self & other).canonical()

    def witness(self) -> Notification | None:
        """Return a notification that passes, which every filter that covers this one accepts; None if none is found."""
        return self._witness

    @functools.cached_property
    def _witness(self) -> Notification | None:
        with Effort(KEPT_STEPS, apart=True):
            for conjunction in self.conjunctions:
                if (attributes := _algebra.witness(conjunction)) is not None:
                    return Notification.trusted(attributes)
        return None

    @functools.cached_property
    def id(self) -> str:
        """A short name of this filter, the same everywhere: equal canonical forms have equal ids."""
        return hashlib.blake2b(str(self.canonical()).encode(), digest_size=12).hexdigest()

    @functools.cached_property
    def cost(self) -> int:
        """The cost of registering this filter: its comparisons, its wildcards, and every fourth value of an `IN`.

        >>> Filter.parse("price > 20 AND name LIKE 'a%b%' OR price < 2").cost
        5
        """
        return sum([constraint.cost for conjunction in self.conjunctions for constraint in conjunction.constraints])

    def resolve(self, here: Location) -> Filter:
        """Return this filter with every `myloc` replaced by places around `here`."""
        if not self.has_marker:
            return self
        return Filter(
            Conjunction(_resolved(constraint, here) for constraint in conjunction) for conjunction in self.conjunctions
        )

    @property
    def has_marker(self) -> bool:
        """Whether it contains a `myloc` that is not resolved yet."""
        for conjunction in self.conjunctions:
            for constraint in conjunction.constraints:
                if type(constraint) not in _PLACELESS and _is_marked(constraint):
                    return True
        return False

    def __and__(self, other: Filter) -> Filter:
        return Filter(checked(a & b for a in self.conjunctions for b in other.conjunctions))

    def __or__(self, other: Filter) -> Filter:
        return Filter(checked((*self.conjunctions, *other.conjunctions)))

    def __invert__(self) -> Filter:
        return Filter(_algebra.negation(self.conjunctions))

    def __bool__(self) -> bool:
        raise FilterError(
            "a filter is neither true nor false; join filters with &, | and ~ instead of and, or, not, "
            "and write 1 < x < 5 as (1 < x) & (x < 5)"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self.conjunctions == other.conjunctions

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Filter.parse({str(self)!r})"

    def __str__(self) -> str:
        if not self.conjunctions:
            return "FALSE"
        if len(self.conjunctions) == 1:
            return str(self.conjunctions[0])
        return " OR ".join(f"({c})" if len(c) > 1 else str(c) for c in self.conjunctions)


_PLACELESS = frozenset((Equal, Member, Range))
"""What most constraints are: known by their class, because an ABC answers `isinstance` slowly."""


def _is_marked(constraint: Constraint) -> bool:
    if isinstance(constraint, Negated):
        return _is_marked(constraint.inner)
    return isinstance(constraint, Within) and not isinstance(constraint.place, Location)


def _resolved(constraint: Constraint, here: Location) -> Constraint:
    if isinstance(constraint, Negated):
        return Negated(_resolved(constraint.inner, here))
    return constraint.resolve(here) if isinstance(constraint, Within) else constraint


EVERYTHING = Filter([Conjunction()])
"""The filter that every notification passes."""
NOTHING = Filter([])
"""The filter that no notification passes."""
