"""Ties: what a broker remembers for the requests of neighbours, where no subscription makes it do so.

Routing above simple does not tell every broker of a subscription, nor of its end. So the filter of a request is
remembered until a `Release` comes on the same way that the request came, and goes on where the request went. A new tree
ends all ties: every broker notices it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidings.broker import Entry, Link
from tidings.model import Filter

from ._cache import CacheEntry
from ._requests import Request, RequestId

if TYPE_CHECKING:
    from ._strategy import CachingStrategy

MAX_TIES = 100_000
"""The most requests that something is kept for; more are answered with nothing."""


class _Tie:
    __slots__ = ("asked", "entry", "source")

    def __init__(self, source: Link, entry: CacheEntry | None) -> None:
        self.source = source
        self.entry = entry
        self.asked: list[Link] = []


class Ties:
    """The ties of one broker."""

    def __init__(self, strategy: CachingStrategy) -> None:
        self._strategy = strategy
        self._ties: dict[RequestId, _Tie] = {}

    def __len__(self) -> int:
        return len(self._ties)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another."""
        return len(self._ties) >= MAX_TIES

    def tie(self, source: Link, request: Request, entry: Entry | None) -> None:
        """Remember the filter of a request, unless the subscription that it came with does that already."""
        if self._strategy.keeps_for_requests:
            assert isinstance(request.filter, Filter)
            known = entry is not None and entry.filter == request.filter
            kept = None if known else self._strategy.cache.retain(request.filter)
            self._ties[request.id] = _Tie(source, kept)

    def asked(self, id: RequestId, links: list[Link]) -> None:
        """The request has gone on to these."""
        if id in self._ties:
            self._ties[id].asked = list(links)

    def release(self, source: Link, id: RequestId) -> bool:
        """Whoever asked does not need it any more; whether there was something."""
        tie = self._ties.get(id)
        if tie is None or tie.source is not source:
            return False
        del self._ties[id]
        self._strategy.cache.release(tie.entry)
        self._strategy.release(id, tie.asked)
        return True

    def interrupted(self, link: Link | None) -> None:
        """A neighbour has forgotten everything; None: all have."""
        if link is None:
            for tie in self._ties.values():
                self._strategy.cache.release(tie.entry)
            self._ties.clear()
            return
        for tie in self._ties.values():
            if link in tie.asked:
                tie.asked.remove(link)
        for id in [id for id, tie in self._ties.items() if tie.source is link]:
            self.release(link, id)
