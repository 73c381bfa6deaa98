"""Queries: publications by content, time and count, streamed out of the log in short steps.

Theory of operation
-------------------
The log is walked from one end to the other, in the order of (epoch, number), or backwards. Segments and batches whose
summary tells that they hold nothing of interest are passed over; the others are opened and every publication in them is
looked at. So a query is exact whatever the summaries say; they only make it quick.

A step opens one batch, or looks at a page of summaries, and gives what was found: perhaps nothing. Whoever shares a
thread with a broker's loop takes steps and lets the loop go on in between. No transaction stays open between steps.

A query sees the log as it was when its first step was taken. What retention forgets meanwhile may be missing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from tidings.model import EVERYTHING, Filter
from tidings.wire import Envelope, body_test

from ._errors import StoreError
from ._reader import FIRST, Reader
from ._summary import Screen, decoded

BEGINNING, FOR_EVER = -(2**63), 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Query:
    """What is asked: `filter` passes, `since <= published_at < until`, at most `limit` of them."""

    filter: Filter = EVERYTHING
    since: int = BEGINNING
    until: int = FOR_EVER
    limit: int | None = None
    newest_first: bool = False
    """Backwards; with a limit, the last ones."""

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 0:
            raise StoreError(f"a query for {self.limit} publications; the limit must be 0 or more")
        if self.filter.has_marker:
            raise StoreError(f"{self.filter} uses myloc, but the past has no place; name the place")

    @property
    def has_times(self) -> bool:
        """Whether a range of time is asked for."""
        return self.since != BEGINNING or self.until != FOR_EVER

    @cached_property
    def _test(self) -> Callable[[bytes], bool]:
        return body_test(self.filter)

    def passes(self, envelopes: list[Envelope]) -> list[Envelope]:
        """Those that are asked for, in the order that is asked for."""
        since, until, passes = self.since, self.until, self._test
        found = [
            envelope
            for envelope in envelopes
            if since <= envelope.identity.published_at < until and passes(envelope.body)
        ]
        if self.newest_first:
            found.reverse()
        return found

    def chosen(self, envelopes: list[Envelope]) -> list[Envelope]:
        """As `passes`, for envelopes whose body has been decoded."""
        since, until, matches = self.since, self.until, self.filter.matches
        found = [
            envelope
            for envelope in envelopes
            if since <= envelope.identity.published_at < until and matches(envelope.notification)
        ]
        if self.newest_first:
            found.reverse()
        return found


class Queryable(ABC):
    """What can be asked for publications: a store, a reader of one, an archive."""

    @abstractmethod
    def steps(self, query: Query) -> Iterator[list[Envelope]]:
        """What is asked for, step by step, whatever the limit says."""

    def query(
        self,
        filter: Filter = EVERYTHING,
        *,
        since: int | None = None,
        until: int | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> Iterator[Envelope]:
        """The publications that pass `filter` with `since <= published_at < until`, in the order of (epoch, number).

        Times are in microseconds. At most `limit` are given; with `newest_first` the order is the opposite, so that a
        limit gives the last ones.
        """
        steps = self.query_in_steps(filter, since=since, until=until, limit=limit, newest_first=newest_first)
        return (envelope for step in steps for envelope in step)

    def query_in_steps(
        self,
        filter: Filter = EVERYTHING,
        *,
        since: int | None = None,
        until: int | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> Iterator[list[Envelope]]:
        """As `query`; each step is short and gives what it found, often nothing: let a loop run in between."""
        query = Query(
            filter=filter,
            since=BEGINNING if since is None else since,
            until=FOR_EVER if until is None else until,
            limit=limit,
            newest_first=newest_first,
        )
        return _limited(self.steps(query), limit)


def _limited(steps: Iterator[list[Envelope]], limit: int | None) -> Iterator[list[Envelope]]:
    if limit is None:
        yield from steps
        return
    while limit > 0 and (found := next(steps, None)) is not None:
        yield found[:limit]
        limit -= len(found)


class Walk:
    """One query on its way through the log."""

    def __init__(self, reader: Reader, query: Query) -> None:
        self._reader = reader
        self._query = query
        self._screen = Screen(query.filter, query.since, query.until)

    def steps(self, ceiling: int) -> Iterator[list[Envelope]]:
        """What is asked for among the batches up to this one, step by step."""
        backwards = self._query.newest_first
        at = ceiling if backwards else FIRST
        while segments := self._reader.segments(at, backwards=backwards):
            yield []
            for segment in segments:
                if not backwards:
                    yield from self._batches(at, min(segment.first - 1, ceiling))
                    at = segment.last + 1
                else:
                    yield from self._batches(segment.last + 1, at)
                    at = segment.first - 1
                if self._screen.may_pass(decoded(segment.summary)):
                    yield from self._batches(segment.first, min(segment.last, ceiling))
        yield from self._batches(*((FIRST, at) if backwards else (at, ceiling)))

    def _batches(self, first: int, last: int) -> Iterator[list[Envelope]]:
        backwards = self._query.newest_first
        while first <= last and (batches := self._reader.batches(first, last, backwards=backwards)):
            for batch in batches:
                if self._screen.may_pass(decoded(batch.summary)):
                    yield self._query.passes(self._reader.envelopes(batch))
            yield []
            if backwards:
                last = batches[-1].id - 1
            else:
                first = batches[-1].id + 1
