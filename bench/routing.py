"""What a change of subscriptions costs, and that features which are not there cost nothing."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from bench import Report
from bench._runtime import Idle
from tidings.broker import ALGORITHMS, Advice, Broker, Feature, Joinpoint, Link, LinkKind, RoutingOptions
from tidings.model import Conjunction, Filter, Notification
from tidings.model.operators import Equal, Range
from tidings.wire import Envelope, Frame, Publish, Quality, Subscribe, encode_body

FILTERS = 10_000
CHANGES = 1_000
COVERED = 1_000


def run(report: Report) -> None:
    """Measure routing."""
    for algorithm in ("covering", "merging", "imperfect-merging"):
        _changes(report, algorithm)
        _wide_cover(report, algorithm)
    _features(report)


def _quote_filter(rng: random.Random) -> Filter:
    """A subscription to one of 1,000 symbols, often with a bound on price or volume."""
    constraints: list[Equal | Range] = [Equal("symbol", f"S{rng.randrange(1_000)}")]
    if rng.random() < 0.7:
        constraints.append(Range("price", low=rng.randrange(100)))
    if rng.random() < 0.4:
        constraints.append(Range("volume", high=rng.randrange(1_000)))
    return Filter([Conjunction(constraints)])


def _changes(report: Report, algorithm: str) -> None:
    """One subscription comes or goes at a broker that knows 10,000 others."""
    rng = random.Random(1)
    reduction = ALGORITHMS[algorithm](RoutingOptions(algorithm))
    for key in range(FILTERS):
        reduction.add(key, str(key), _quote_filter(rng))
    gc.collect()
    gc.freeze()
    times: list[float] = []
    for key in range(FILTERS, FILTERS + CHANGES):
        filter = _quote_filter(rng)
        times.append(_timed(partial(reduction.add, key, str(key), filter)))
    times += [_timed(partial(reduction.remove, key)) for key in range(FILTERS, FILTERS + CHANGES)]
    gc.unfreeze()
    what = f"{algorithm}, change at {FILTERS:,} filters"
    report.limit(f"{what}, median", statistics.median(times), "µs", at_most=1_000)
    report.figure(f"{what}, p99", statistics.quantiles(times, n=100)[98], "µs")
    report.figure(f"{algorithm}, announced for {FILTERS:,}", len(reduction.announced), "filters")


def _wide_cover(report: Report, algorithm: str) -> None:
    """A filter that covered 1,000 others is withdrawn."""
    reduction = ALGORITHMS[algorithm](RoutingOptions(algorithm))
    for key in range(COVERED):
        narrow = Filter([Conjunction([Equal("symbol", f"S{key}"), Range("price", low=key % 50 + 1)])])
        reduction.add(key, str(key), narrow)
    reduction.add("wide", "wide", Filter([Conjunction([Range("price", low=0)])]))
    cost = _timed(lambda: reduction.remove("wide"))
    report.figure(f"{algorithm}, withdrawal of a cover of {COVERED:,}", cost / 1_000, "ms")


class _PlainBroker(Broker):
    """The same broker with its steps called by name, as if there were no joinpoints: what weaving is held against."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        vars(self.delivery)["route"] = self._route

    def _route(self, envelope: Envelope, source: Link) -> None:
        for route in envelope.routes:
            targets = self.delivery.pub_match(route, envelope, source)
            if targets:
                self.delivery.pub_send(route, envelope, source, targets)
                self.doors.attached.clear()


class _Observer(Feature):
    name = "observer"

    def advice(self) -> Mapping[Joinpoint, Advice]:
        return {Joinpoint.PUB_MATCH: lambda proceed, *arguments: proceed()}


def _features(report: Report) -> None:
    """Publications through a broker without features, with joinpoints as plain methods, and with one observer."""

    def publications(kind: type[Broker], features: list[Feature]) -> Callable[[], float]:
        broker = kind("b", Idle(), features=features)
        publisher, subscriber = Link("p", LinkKind.CLIENT), Link("s", LinkKind.CLIENT)
        broker.attach(publisher)
        broker.attach(subscriber)
        broker.receive(subscriber, Frame(Subscribe("s1", Filter.parse("type = 'quote' AND price > 100"))))
        body = encode_body(Notification(type="quote", symbol="SAP", price=182.4, volume=100))
        state = [0]

        def once() -> float:
            frames = [Frame(Publish(state[0] + n, body, Quality.FIRE)) for n in range(1, 2_001)]
            state[0] += 2_000
            start = time.perf_counter()
            for frame in frames:
                broker.receive(publisher, frame)
            return (time.perf_counter() - start) / 2_000 * 1e6

        return once

    runs = {
        "woven": publications(Broker, []),
        "plain": publications(_PlainBroker, []),
        "observed": publications(Broker, [_Observer()]),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(15):
        for name, once in runs.items():
            times[name].append(once())
    medians = {name: statistics.median(values) for name, values in times.items()}
    report.limit("no features / plain methods, per publication", medians["woven"] / medians["plain"], "x", at_most=1.1)
    report.figure("publication through the core, no features", medians["woven"], "µs")
    report.figure("publication through the core, one observer", medians["observed"], "µs")


def _timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1e6
