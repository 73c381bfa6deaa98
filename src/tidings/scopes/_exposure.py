"""Exposure: what published in one node of a graph is seen in another, over all ways between the two.

Theory of operation
-------------------
Ways without mappings differ in their filters alone, so their union is one filter. A mapping changes what is seen, so it
is part of the form: a *strand* stands for all ways that cross the same mappings under the same conditions, and an
exposure is a set of strands. Strands that differ in one filter are joined, so that graphs of the same meaning have the
same exposures wherever the algebra of filters can tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidings.model import EVERYTHING, Filter, Notification

from ._effective import wanted
from ._interface import both
from .mappings._mapping import Mapping


class Crossing(NamedTuple):
    """A mapping on a way, and the filter of all that it gets."""

    filter: Filter
    mapping: Mapping


class Strand(NamedTuple):
    """The ways that cross the same mappings: what must pass before each of them, and what after the last one."""

    crossings: tuple[Crossing, ...]
    last: Filter

    @property
    def mappings(self) -> tuple[Mapping, ...]:
        """What changes a notification on the way, in this order."""
        return tuple(crossing.mapping for crossing in self.crossings)

    @property
    def filters(self) -> tuple[Filter, ...]:
        """What must be passed: before each mapping, and after the last one."""
        return (*(crossing.filter for crossing in self.crossings), self.last)

    def shown(self, notification: Notification) -> Notification | None:
        """What is seen of a publication; None if nothing is."""
        for filter, mapping in self.crossings:
            mapped = mapping.apply(notification) if filter.matches(notification) else None
            if mapped is None:
                return None
            notification = mapped
        return notification if self.last.matches(notification) else None

    @property
    def is_known(self) -> bool:
        """Whether every function that its mappings name is registered in this process."""
        return not any(mapping.unknown for mapping in self.mappings)

    def asked(self) -> Filter:
        """What a publication must pass to be seen; where a mapping cannot tell, it passes more, never less."""
        filter = self.last
        for crossing in reversed(self.crossings):
            filter = both(crossing.filter, wanted(crossing.mapping, filter))[0]
        return filter.canonical()

    def covers(self, other: Strand) -> bool:
        """Whether it shows all that the other one shows, in the same form. False if undecided."""
        return self.mappings == other.mappings and all(
            mine.covers(theirs) for mine, theirs in zip(self.filters, other.filters, strict=True)
        )

    def __str__(self) -> str:
        words: list[str] = []
        for filter, mapping in self.crossings:
            words += [] if filter == EVERYTHING else [str(filter)]
            words.append(f"mapped by {', '.join(map(repr, mapping.steps))}")
        return ", ".join(words if words and self.last == EVERYTHING else (*words, str(self.last)))


class Exposure(NamedTuple):
    """What published in one node is seen in another."""

    strands: tuple[Strand, ...] = ()
    """In a fixed order; none: nothing is seen."""
    whole: bool = True
    """Otherwise a filter would have become too large, and there may be more to see."""

    def shown(self, notification: Notification) -> list[Notification]:
        """Every form in which a publication is seen."""
        forms = (strand.shown(notification) for strand in self.strands)
        return [form for form in forms if form is not None]

    def covers(self, strand: Strand) -> bool:
        """Whether it shows all that a strand shows, in the same form. False if undecided."""
        return any(one.covers(strand) for one in self.strands)

    def __str__(self) -> str:
        return " or ".join(map(str, self.strands)) or str(Filter(()))


NO_EXPOSURE = Exposure()
"""Nothing is seen."""


def size(exposure: Exposure) -> int:
    """How many constraints an exposure has: what it costs to compare it."""
    return sum(constraints(filter) for strand in exposure.strands for filter in strand.filters)


def constraints(filter: Filter) -> int:
    return sum(map(len, filter.conjunctions))


def united(strands: Iterable[Strand], whole: bool = True) -> Exposure:
    """The exposure of these strands. Those that differ in one filter are one, and what nothing passes is left out."""
    kept: list[Strand] = []
    for strand in strands:
        if not strand.is_known or strand.asked().conjunctions:
            kept = _joined(kept, strand)
    return Exposure(tuple(sorted(kept, key=str) if len(kept) > 1 else kept), whole)


def _joined(strands: list[Strand], new: Strand) -> list[Strand]:
    """The strands and another one, which is joined with one of them as long as that is exact."""
    for one in strands:
        if (joint := _either(one, new)) is not None:
            return _joined([other for other in strands if other is not one], joint)
    return [*strands, new]


def _either(one: Strand, two: Strand) -> Strand | None:
    if one.mappings != two.mappings:
        return None
    pairs = list(zip(one.filters, two.filters, strict=True))
    different = [at for at, (mine, theirs) in enumerate(pairs) if mine != theirs]
    if len(different) > 1:
        return one if one.covers(two) else two if two.covers(one) else None
    filters = list(one.filters)
    for at in different:
        joint = Filter.union(*pairs[at])
        if joint is None:
            return None
        filters[at] = joint
    return Strand(tuple(map(Crossing, filters, one.mappings)), filters[-1])
