"""The counting algorithm: every distinct constraint is asked once per notification, then hits are counted.

Theory of operation
-------------------
Filters that share constraints (the interfaces of scopes, say, which stand in front of every member's
filter) share the work: a constraint is kept once, with the conjunctions that need it. A notification
asks each distinct constraint once; each that passes adds one to the count of its conjunctions, and a
conjunction whose count reaches its length has matched. A conjunction of length 0 always matches.

The cost grows with the number of distinct constraints, not with their selectivity, which makes this
engine slower than `Index` on most tables. It is the reference for tables whose constraints are costly
and much shared, and the second, independent implementation in the tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic

from tidings.matching._matcher import K, conjunctions_of
from tidings.model import Constraint, Filter, Matches, Notification


class _Counted(Generic[K]):
    """One conjunction: how many constraints it needs, and whose it is."""

    __slots__ = ("key", "needed")

    def __init__(self, needed: int, key: K) -> None:
        self.needed = needed
        self.key = key


class CountingIndex(Generic[K]):
    """A table of distinct constraints, each with the conjunctions that need it."""

    match_body = None  # bodies are decoded first
    plane = None  # and so are publications

    def __init__(self) -> None:
        self._filters: dict[K, Filter | Matches] = {}
        self._open: dict[K, Matches] = {}
        self._counted: dict[K, list[_Counted[K]]] = {}
        self._needing: dict[Constraint, dict[_Counted[K], None]] = {}
        self._unconditional: dict[_Counted[K], None] = {}

    def add(self, filter: Filter | Matches, key: K, /) -> None:
        """Hold a filter under a new key."""
        if key in self._filters:
            raise KeyError(key)
        self._filters[key] = filter
        conjunctions = conjunctions_of(filter)
        if conjunctions is None:
            self._open[key] = filter
            return
        self._counted[key] = counted = []
        for conjunction in conjunctions:
            distinct = dict.fromkeys(conjunction)
            one = _Counted(len(distinct), key)
            counted.append(one)
            if not distinct:
                self._unconditional[one] = None
            for constraint in distinct:
                self._needing.setdefault(constraint, {})[one] = None

    def remove(self, key: K, /) -> None:
        conjunctions = conjunctions_of(self._filters.pop(key))
        if conjunctions is None:
            del self._open[key]
            return
        for conjunction, one in zip(conjunctions, self._counted.pop(key), strict=True):
            self._unconditional.pop(one, None)
            for constraint in dict.fromkeys(conjunction):
                needing = self._needing[constraint]
                del needing[one]
                if not needing:
                    del self._needing[constraint]

    def match(self, notification: Notification, /) -> list[K]:
        """The keys whose filters match."""
        get = notification.attributes.get
        counts: dict[_Counted[K], int] = {}
        matched = {one.key: None for one in self._unconditional}
        for constraint, needing in self._needing.items():
            if constraint.passes(get(constraint.name)):
                for one in needing:
                    counts[one] = count = counts.get(one, 0) + 1
                    if count == one.needed:
                        matched[one.key] = None
        for key, filter in self._open.items():
            if filter.matches(notification):
                matched[key] = None
        return list(matched)

    def match_many(self, batch: Iterable[Notification], /) -> list[list[K]]:
        return [self.match(notification) for notification in batch]

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, key: object, /) -> bool:
        return key in self._filters

    def statistics(self) -> dict[str, int]:
        """The size of the table, and how many distinct constraints one notification asks."""
        return {
            "filters": len(self._filters),
            "conjunctions": sum(map(len, self._counted.values())) + len(self._open),
            "constraints": len(self._needing),
        }
