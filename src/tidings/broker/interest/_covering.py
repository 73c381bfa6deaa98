"""Covering: a neighbour is told only the maximal filters; each of the others hides under one that covers it.

Theory of operation
-------------------
`CoverSet` keeps filters in a forest of depth one: *maximal* filters, and under each the filters it hides. A new
filter looks for a maximal one that covers it and hides there; failing that it becomes maximal, and the maximal
filters that it covers move under it, together with what they hid. When a maximal filter goes, what it hid is
placed anew: under other maximal filters, or among them. So withdrawing a cover re-announces what only it covered.

Both questions are answered without looking at every filter:
- Who covers F? Whoever does accepts a *witness* of F, a notification that passes F: ask the matching index of the
  maximal filters for that one notification, then test the few answers.
- Whom does F cover? Whoever is covered has its witness inside F: `Points` finds the witnesses that F may accept.

A filter that costs more than `COMPARED_COST` is not compared with others: to index its alternatives for each neighbour
takes milliseconds, and it is rarely covered. It is announced as it is, once for all subscriptions that share it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidings.matching import Index, Points
from tidings.model import Filter, Matches, Notification

from ._reduction import ALGORITHMS, Delta, Key, algebraic

COMPARED_COST = 32
"""The most that a filter may cost (see `Filter.cost`) to be compared with others."""


class CoverSet:
    """Filters by id, and which of them are maximal under `covers`."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}
        self._filters: dict[str, Filter] = {}
        self._hidden: dict[str, dict[str, None]] = {}
        self._index: Index[str] = Index()
        self._points: Points[str] = Points()

    @property
    def maximal(self) -> Mapping[str, Filter]:
        return {id: self._filters[id] for id in self._hidden}

    def __contains__(self, id: str) -> bool:
        return id in self._filters

    def cover_of(self, id: str) -> str:
        """The maximal filter that this one hides under; itself if it is maximal."""
        return self._parents.get(id, id)

    def add(self, id: str, filter: Filter) -> Delta:
        """Put in a filter that is not there yet."""
        self._filters[id] = filter
        return self._place(id, filter)

    def remove(self, id: str) -> Delta:
        """Take out a filter."""
        del self._filters[id]
        if (parent := self._parents.pop(id, None)) is not None:
            del self._hidden[parent][id]
            return Delta()
        orphans = self._demote(id)
        delta = Delta(withdraw={id: None})
        for orphan in orphans:
            delta.then(self._place(orphan, self._filters[orphan]))
        return delta

    def _place(self, id: str, filter: Filter) -> Delta:
        if filter.cost > COMPARED_COST:
            self._hidden[id] = {}
            return Delta(announce={id: filter})
        witness = filter.witness()
        if (cover := self._find_cover(filter, witness)) is not None:
            self._parents[id] = cover
            self._hidden[cover][id] = None
            return Delta()
        covered = [other for other in self._points.candidates(filter) if filter.covers(self._filters[other])]
        hidden: dict[str, None] = {}
        for other in covered:
            hidden[other] = None
            hidden.update(self._demote(other))
        for other in hidden:
            self._parents[other] = id
        self._hidden[id] = hidden
        self._index.add(filter, id)
        self._points.add(id, witness)
        return Delta(announce={id: filter}, withdraw=dict.fromkeys(covered))

    def _demote(self, id: str) -> dict[str, None]:
        """Take a filter from the maximal ones; what it hid is left without a parent."""
        if id in self._index:
            self._index.remove(id)
            self._points.remove(id)
        hidden = self._hidden.pop(id)
        for other in hidden:
            del self._parents[other]
        return hidden

    def _find_cover(self, filter: Filter, witness: Notification | None) -> str | None:
        candidates = self._hidden if witness is None else self._index.match(witness)
        for candidate in sorted(one for one in candidates if one in self._index):
            if self._filters[candidate].covers(filter):
                return candidate
        return None


class Covering:
    """Tells the maximal filters only."""

    def __init__(self) -> None:
        self._ids: dict[Key, str] = {}
        self._holders: dict[str, int] = {}
        self._covers = CoverSet()

    @property
    def announced(self) -> Mapping[str, Matches]:
        """The maximal filters."""
        return self._covers.maximal

    def add(self, key: Key, id: str, filter: Matches) -> Delta:
        """Announce the filter if nothing covers it; withdraw what it covers."""
        canonical = algebraic(filter).canonical()
        self._ids[key] = canonical.id
        self._holders[canonical.id] = holders = self._holders.get(canonical.id, 0) + 1
        return Delta() if holders > 1 else self._covers.add(canonical.id, canonical)

    def remove(self, key: Key) -> Delta:
        """Withdraw the filter if it was announced; announce what only it covered."""
        id = self._ids.pop(key)
        self._holders[id] -= 1
        if self._holders[id]:
            return Delta()
        del self._holders[id]
        return self._covers.remove(id)

    def representative(self, key: Key) -> str:
        """The maximal filter that covers this one."""
        return self._covers.cover_of(self._ids[key])


ALGORITHMS["covering"] = lambda options: Covering()
