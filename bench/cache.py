"""What it costs to remember a notification, with few and with many filters that it does not match.

The peer is a ring for each filter, filled by asking every filter. Both get quotes whose body has been decoded, as a
broker has when it routes them.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

from tidings.broker import Link, LinkKind
from tidings.history import CacheLimits
from tidings.history.caching import EventCache, ParallelRings, Question
from tidings.model import Filter
from tidings.wire import Envelope, decode_body

from . import Report, median_seconds
from ._quotes import quotes

BATCH = 200
"""Appends that are timed together."""
BATCHES = 200
FEW, MANY = 100, 10_000
PEER_FILTERS = 1_000
LIMIT_MICROSECONDS = 3.0
EAST = Link("east", LinkKind.BROKER)


def run(report: Report) -> None:
    """Measure appending and asking."""
    passing = quotes(20_000)
    symbols = list(dict.fromkeys(str(one.notification["symbol"]) for one in passing))[:50]
    wanted = [Filter.parse(f"type = 'quote' AND symbol = '{symbol}'") for symbol in symbols]
    kept = [one for one in passing if one.notification["symbol"] in symbols]
    costs = {}
    for others in (0, FEW, MANY):
        cache = _cache([*wanted, *_unmatched(others)])
        costs[others] = _append_microseconds(cache.append, kept)
        report.limit(
            f"append to 1 of {others + len(wanted):,} entries", costs[others], "µs", at_most=LIMIT_MICROSECONDS
        )
    report.limit("append beside 10,000 others against none", costs[MANY] / costs[0], "x", at_most=1.3)
    unwanted = [one for one in passing if one.notification["symbol"] not in symbols]
    report.figure("append of what nobody wants", _append_microseconds(_cache(wanted).append, unwanted), "µs")
    rings = ParallelRings(PEER_FILTERS + len(wanted), 100)
    for filter in [*wanted, *_unmatched(PEER_FILTERS)]:
        rings.retain(filter)
    cache = _cache([*wanted, *_unmatched(PEER_FILTERS)])
    naive = _append_microseconds(rings.append, kept, batches=5, batch=20)
    report.ratio(
        f"append among {PEER_FILTERS:,} filters against parallel rings",
        naive / _append_microseconds(cache.append, kept),
        at_least=100,
    )
    asked = Question(filter=wanted[0], limit=10)
    assert len(cache.query(asked)) == 10
    report.figure("query of the last 10", median_seconds(lambda: cache.query(asked), repeats=1_000) * 1e6, "µs")
    narrower = Filter.parse(f"type = 'quote' AND symbol = '{symbols[0]}' AND price > 10")
    seconds = median_seconds(lambda: cache.release(cache.retain(narrower)), repeats=200)
    report.figure("retain and release of a filter that one of 1,050 covers", seconds * 1e6, "µs")


def _unmatched(count: int) -> list[Filter]:
    return [Filter.parse(f"type = 'quote' AND symbol = 'X{at}' AND price > {at % 7}") for at in range(count)]


def _cache(filters: list[Filter]) -> EventCache:
    cache = EventCache(CacheLimits(max_global=2_000_001, max_filters=20_000, max_per_filter=100))
    for filter in filters:
        cache.retain(filter)
    return cache


def _append_microseconds(
    append: Callable[[Envelope, Link], object], passing: list[Envelope], *, batches: int = BATCHES, batch: int = BATCH
) -> float:
    """The median of batches, of one append."""
    if batches == BATCHES:
        for one in passing:  # a cache that has been in use for a while: entries are full, estimates known
            append(_decoded(one), EAST)
    times = []
    gc.disable()
    try:
        for number in range(batches):
            some = [_decoded(passing[(number * batch + at) % len(passing)]) for at in range(batch)]
            start = time.thread_time()  # others may share the processor
            for one in some:
                append(one, EAST)
            times.append((time.thread_time() - start) / batch)
    finally:
        gc.enable()
    return statistics.median(times) * 1e6


def _decoded(envelope: Envelope) -> Envelope:
    """Another envelope, decoded as it is when a broker has routed it."""
    notification = decode_body(envelope.body)
    return Envelope.of(envelope.identity, envelope.routes, envelope.body, envelope.quality, notification)
