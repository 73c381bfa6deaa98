"""The engine that brokers use. (For now: equalities by hash, the rest by asking.)"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic

from tidings.model import Conjunction, Filter, Matches, Notification
from tidings.model.operators import Equal

from ._matcher import K, conjunctions_of


class Index(Generic[K]):
    """Conjunctions under their first equality."""

    def __init__(self) -> None:
        self._filters: dict[K, Filter | Matches] = {}
        self._open: dict[K, Matches] = {}
        self._equal: dict[str, dict[object, dict[tuple[K, int], Conjunction]]] = {}
        self._rest: dict[tuple[K, int], Conjunction] = {}

    def add(self, filter: Filter | Matches, key: K, /) -> None:
        """Hold a filter under a new key."""
        if key in self._filters:
            raise KeyError(key)
        self._filters[key] = filter
        conjunctions = conjunctions_of(filter)
        if conjunctions is None:
            self._open[key] = filter
        for at, conjunction in enumerate(conjunctions or ()):
            pivot = next((c for c in conjunction if type(c) is Equal), None)
            table = self._rest
            if pivot is not None:
                table = self._equal.setdefault(pivot.name, {}).setdefault(pivot.value, {})
            table[key, at] = conjunction

    def remove(self, key: K, /) -> None:
        """Forget a key."""
        conjunctions = conjunctions_of(self._filters.pop(key))
        if conjunctions is None:
            del self._open[key]
        for at, conjunction in enumerate(conjunctions or ()):
            pivot = next((c for c in conjunction if type(c) is Equal), None)
            if pivot is None:
                del self._rest[key, at]
                continue
            tables = self._equal[pivot.name]
            del tables[pivot.value][key, at]
            if not tables[pivot.value]:
                del tables[pivot.value]
            if not tables:
                del self._equal[pivot.name]

    def match(self, notification: Notification, /) -> list[K]:
        """The keys whose filters match."""
        attributes = notification.attributes
        found: dict[K, None] = {}
        candidates = [self._rest]
        for name, value in attributes.items():
            if (tables := self._equal.get(name)) is not None:
                items = value if type(value) is tuple else (value,)
                candidates += [tables[item] for item in items if item in tables]
        for candidate in candidates:
            for (key, _), conjunction in candidate.items():
                if conjunction.passes(attributes):
                    found[key] = None
        for key, filter in self._open.items():
            if filter.matches(notification):
                found[key] = None
        return list(found)

    def match_many(self, batch: Iterable[Notification], /) -> list[list[K]]:
        """As `match`, for each notification."""
        return [self.match(notification) for notification in batch]

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, key: object, /) -> bool:
        return key in self._filters

    def statistics(self) -> dict[str, int]:
        """The size of the table."""
        conjunctions = sum(
            len(f.conjunctions) if isinstance(f, Filter) else 1 for f in self._filters.values()
        )
        return {"filters": len(self._filters), "conjunctions": conjunctions}
