"""Asking every filter, one by one: the meaning of matching, and the oracle of every other engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic

from tidings.matching._matcher import K
from tidings.model import Filter, Matches, Notification


class NaiveIndex(Generic[K]):
    """A loop over all filters."""

    match_body = None  # bodies are decoded first
    plane = None  # and so are publications

    def __init__(self) -> None:
        self._filters: dict[K, Filter | Matches] = {}

    def add(self, filter: Filter | Matches, key: K, /) -> None:
        """Hold a filter under a new key."""
        if key in self._filters:
            raise KeyError(key)
        self._filters[key] = filter

    def remove(self, key: K, /) -> None:
        del self._filters[key]

    def match(self, notification: Notification, /) -> list[K]:
        """The keys whose filters match."""
        return [key for key, filter in self._filters.items() if filter.matches(notification)]

    def match_many(self, batch: Iterable[Notification], /) -> list[list[K]]:
        return [self.match(notification) for notification in batch]

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, key: object, /) -> bool:
        return key in self._filters

    def statistics(self) -> dict[str, int]:
        """The size of the table."""
        conjunctions = sum(len(f.conjunctions) if isinstance(f, Filter) else 1 for f in self._filters.values())
        return {"filters": len(self._filters), "conjunctions": conjunctions}
