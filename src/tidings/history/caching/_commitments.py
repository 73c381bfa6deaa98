"""Commitments: what a broker remembers for the requests of neighbours, where no subscription makes it do so.

Routing above simple does not tell every broker of a subscription, nor of its end. So the filter of a request is
remembered until a `Release` comes on the same way that the request came, and goes on where the request went. A new tree
ends all commitments: every broker notices it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidings.broker import Entry, Link
from tidings.model import Filter

from ._cache import CacheEntry
from ._requests import Request, RequestId

if TYPE_CHECKING:
    from ._strategy import CachingStrategy

MAX_COMMITMENTS = 100_000
"""The most requests that something is kept for; more are answered with nothing."""


class _Commitment:
    __slots__ = ("asked", "entry", "source")

    def __init__(self, source: Link, entry: CacheEntry | None) -> None:
        self.source = source
        self.entry = entry
        self.asked: list[Link] = []


class Commitments:
    """The commitments of one broker."""

    def __init__(self, strategy: CachingStrategy) -> None:
        self._strategy = strategy
        self._commitments: dict[RequestId, _Commitment] = {}

    def __len__(self) -> int:
        return len(self._commitments)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another."""
        return len(self._commitments) >= MAX_COMMITMENTS

    def commit(self, source: Link, request: Request, entry: Entry | None) -> None:
        """Remember the filter of a request, unless the subscription that it came with does that already."""
        if self._strategy.keeps_for_requests:
            assert isinstance(request.filter, Filter)
            known = entry is not None and entry.filter == request.filter
            kept = None if known else self._strategy.cache.retain(request.filter)
            self._commitments[request.id] = _Commitment(source, kept)

    def asked(self, id: RequestId, links: list[Link]) -> None:
        """The request has gone on to these."""
        if id in self._commitments:
            self._commitments[id].asked = list(links)

    def release(self, source: Link, id: RequestId) -> bool:
        """Whoever asked does not need it any more; whether there was something."""
        one = self._commitments.get(id)
        if one is None or one.source is not source:
            return False
        del self._commitments[id]
        self._strategy.cache.release(one.entry)
        self._strategy.release(id, one.asked)
        return True

    def interrupted(self, link: Link | None) -> None:
        """A neighbour has forgotten everything; None: all have."""
        if link is None:
            for one in self._commitments.values():
                self._strategy.cache.release(one.entry)
            self._commitments.clear()
            return
        for one in self._commitments.values():
            if link in one.asked:
                one.asked.remove(link)
        for id in [id for id, one in self._commitments.items() if one.source is link]:
            self.release(link, id)
