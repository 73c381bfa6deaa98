"""Covering together: whether some filters let everything pass that another one does, though perhaps none does alone.

Theory of operation
-------------------
Whatever passes the one filter and none of the others fails, of each conjunction of the others, at least one condition.
So the one filter is split, conjunction by conjunction, into regions in which a condition fails. If each region is empty
in the end, nothing is left, and they cover it together. The number of regions is bounded.

A condition fails where its attribute is missing and where the opposite holds. It also fails for a value that does not
compare, of which the opposite does not hold either. Of a list with this one element the opposite of a comparison does
hold, so a region that lacks the value has the list, and is not taken for empty. It is different if the condition is an
opposite itself: that holds of the list. There a proof needs a region that asks for a value of the same kind.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidings.model import Conjunction, Constraint, Filter, Negated

from ._excess import failing

MAX_REGIONS = 300
"""The most regions into which a filter is split."""


class _TooMany(Exception):
    """There is no proof within the bound."""


def cover_together(filters: Iterable[Filter], filter: Filter) -> bool:
    """Whether whatever passes a filter passes one of these. False if undecided."""
    others = list(filters)
    if not others:
        return not filter.canonical().conjunctions
    union: Filter | None = others[0]
    for one in others[1:]:
        union = None if union is None else union.union(one)
    if union is not None and union.covers(filter):
        return True
    parts = [part for one in others for part in one.conjunctions]
    budget = [MAX_REGIONS]
    try:
        return all(_is_emptied(region, parts, budget) for region in filter.canonical().conjunctions)
    except _TooMany:
        return False


def _is_emptied(region: Conjunction, parts: list[Conjunction], budget: list[int]) -> bool:
    """Whether nothing in a region fails all of these."""
    if not Filter((region,)).canonical().conjunctions:
        return True
    budget[0] -= 1
    if budget[0] < 0:
        raise _TooMany
    for at, part in enumerate(parts):
        if not Filter((region & part,)).canonical().conjunctions:
            continue  # nothing in the region passes it
        if not all(_compares(region, condition) for condition in part):
            return False
        rest = parts[at + 1 :]
        return all(
            _is_emptied(region & Conjunction((opposite,)), rest, budget)
            for condition in part
            for opposite in failing(condition)
        )
    return False


def _compares(region: Conjunction, condition: Constraint) -> bool:
    """Whether a value for which a condition fails, and which is there, is certain to be one that it excludes."""
    if not isinstance(condition, Negated):
        return True
    known = region.by_name.get(condition.name, ())
    kind = condition.inner.kind
    return kind is not None and any(one.kind is kind and not isinstance(one, Negated) for one in known)
