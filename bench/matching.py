"""How fast the index is, against a loop over compiled predicates.

Times are CPU times: another process's turn is not ours. The loop reads far more memory than the index, so a
busy machine slows it more, and flatters the index. So there are two ratios, the median of ratios of two
measurements right after one another, and the ratio of the best times, which are the least disturbed; the
smaller one counts. The index is measured as it is after some thousand notifications, when its estimates have
settled; the first notifications after a start are slower.
"""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidings import _native
from tidings.matching import Calm, CompiledIndex, Index
from tidings.model import Filter, Notification
from tidings.wire import encode_body

from . import Report
from ._predicates import predicate
from ._weights import per_filter
from ._workloads import Workload, mixed, ranges, sought, stock, stubborn

WARM = 12_000
"""Notifications before the first measurement."""
EVENTS = 2_000
REPEATS = 25
ROUNDS = 5


@dataclass
class Result:
    """What one comparison found."""

    index: float
    """Seconds per notification, at best."""
    loop: float
    ratio: float
    """The smaller of the median ratio and the ratio of the best times."""
    median_ratio: float
    matches: float
    """Per notification."""


Engine: TypeAlias = Index[int] | CompiledIndex[int]


def settled(workload: Workload, filters: list[Filter], index: Engine) -> Engine:
    """An index that has seen some traffic."""
    for key, filter in enumerate(filters):
        index.add(filter, key)
    for _ in range(4):
        for _ in range(WARM // 4):
            index.match(workload.notification())
        while index.review(1_000):
            pass
    gc.collect()
    gc.freeze()
    return index


def compare(workload: Workload, many: int) -> Result:
    """The index against the loop, over the same filters and notifications."""
    filters = [workload.filter() for _ in range(many)]
    index = settled(workload, filters, Index())
    predicates = [(predicate(filter), key) for key, filter in enumerate(filters)]

    def loop(notification: Notification) -> list[int]:
        attributes = notification.attributes
        return [key for test, key in predicates if test(attributes)]

    events = [workload.notification() for _ in range(EVENTS)]
    some = events[: max(5, 200_000 // many)]
    for event in some[:20]:
        if sorted(index.match(event)) != sorted(loop(event)):
            raise AssertionError(f"the index and the loop disagree on {event}")
    pairs = [(_per_event(index.match, events), _per_event(loop, some)) for _ in range(REPEATS)]
    gc.unfreeze()
    index_time, loop_time = min(fast for fast, _ in pairs), min(slow for _, slow in pairs)
    median_ratio = statistics.median(slow / fast for fast, slow in pairs)
    return Result(
        index=index_time,
        loop=loop_time,
        ratio=min(median_ratio, loop_time / index_time),
        median_ratio=median_ratio,
        matches=statistics.fmean(len(index.match(event)) for event in events),
    )


def _per_event(match: Callable[[Any], object], events: list[Any]) -> float:
    start = time.process_time()
    for event in events:
        match(event)
    return (time.process_time() - start) / len(events)


def curve(report: Report, workload: Workload, many: int) -> None:
    """The index alone, and what a match costs that is delivered."""
    index = settled(workload, [workload.filter() for _ in range(many)], Index())
    events = [workload.notification() for _ in range(2_000)]
    seconds = statistics.median(_per_event(index.match, events) for _ in range(5))
    matches = statistics.fmean(len(index.match(event)) for event in events)
    gc.unfreeze()
    where = f"{workload.name}, {many:,} filters"
    report.figure(f"{where}: match", seconds * 1e6, "µs")
    report.figure(f"{where}: per delivered match", seconds / matches * 1e6, "µs")


def engines(report: Report, workload: Workload, many: int) -> None:
    """The compiled engine, which reads bodies, against the index, which gets what was decoded."""
    filters = [workload.filter() for _ in range(many)]
    index, compiled = settled(workload, filters, Index()), settled(workload, filters, CompiledIndex())
    assert compiled.match_body is not None
    events = [workload.notification() for _ in range(EVENTS)]
    bodies = [encode_body(event) for event in events]
    for event, body in zip(events, bodies, strict=True):
        if sorted(index.match(event)) != sorted(compiled.match_body(body) or ()):
            raise AssertionError(f"the engines disagree on {event}")
    runs = [
        (_per_event(index.match, events), _per_event(compiled.match_body, bodies), _per_event(compiled.match, events))
        for _ in range(REPEATS)
    ]
    gc.unfreeze()
    python, from_bodies, from_attributes = map(min, zip(*runs, strict=True))
    median = statistics.median(slow / fast for slow, fast, _ in runs)
    where = f"{workload.name}, {many:,} filters: compiled"
    report.ratio(f"{where}, against the index", min(median, python / from_bodies), at_least=4)
    report.figure(f"{where}, from the body", from_bodies * 1e6, "µs")
    report.figure(f"{where}, from what was decoded", from_attributes * 1e6, "µs")
    report.figure(f"{workload.name}, {many:,} filters: the index beside it", python * 1e6, "µs")


def helpless(report: Report, many: int) -> None:
    """Filters that no index helps, against as many that name a word, from the same bodies."""
    measured = []
    for workload in (sought(), stubborn()):
        filters = [workload.filter() for _ in range(many)]
        compiled = settled(workload, filters, CompiledIndex())
        assert compiled.match_body is not None
        events = [workload.notification() for _ in range(EVENTS // 4)]
        bodies = [encode_body(event) for event in events]
        for event, body in list(zip(events, bodies, strict=True))[:20]:
            expected = [key for key, filter in enumerate(filters) if filter.matches(event)]
            if sorted(compiled.match_body(body) or ()) != expected:
                raise AssertionError(f"the engine and the loop disagree on {event}")
        best = min(_per_event(compiled.match_body, bodies) for _ in range(REPEATS))
        gc.unfreeze()
        report.figure(f"{workload.name}, {many:,} filters: compiled, from the body", best * 1e6, "µs")
        measured.append(best)
    report.limit(f"{many:,} filters that no index helps, against words", measured[1] / measured[0], "x", at_most=20)


def weights(report: Report, workload: str, many: int) -> None:
    """What a filter takes in each engine, beside the filter itself."""
    index, compiled = (per_filter(engine, workload, many) for engine in ("Index", "CompiledIndex"))
    report.figure(f"{workload}, {many:,} filters: memory per filter in the index", index, "bytes")
    report.limit(f"{workload}, {many:,} filters: the same, compiled", compiled, "bytes", at_most=index)


def changes(
    report: Report, workload: Workload, many: int, make: Callable[[], Engine] = Index, *, targets: bool = True
) -> dict[str, float]:
    """How long a change takes in a large index, with the server's policy for garbage.

    Percentiles are medians over rounds, each of other filters; the longest is the longest of all.
    """
    filters = [workload.filter() for _ in range(many)]
    index = settled(workload, filters, make())
    calm = Calm()
    calm.start()
    rounds: dict[str, list[list[float]]] = {"add": [], "remove": []}
    now = time.thread_time
    for first in range(ROUNDS):
        added, removed = [], []
        for key in range(first, many, max(1, many // 10_000)):
            start = now()
            index.remove(key)
            calm.changed()
            middle = now()
            index.add(filters[key], key)
            calm.changed()
            removed.append((middle - start) * 1e6)
            added.append((now() - middle) * 1e6)
        rounds["add"].append(sorted(added))
        rounds["remove"].append(sorted(removed))
    gc.unfreeze()
    name = "" if make is Index else "compiled, "
    for what, spent in rounds.items():
        where = f"{workload.name}, {many:,} filters: {name}{what}"
        median = statistics.median(times[len(times) // 2] for times in spent)
        tail = statistics.median(times[len(times) * 99 // 100] for times in spent)
        if targets:
            report.limit(f"{where}, median", median, "µs", at_most=50)
            report.limit(f"{where}, 99th percentile", tail, "µs", at_most=150)
        else:
            report.figure(f"{where}, median", median, "µs")
            report.figure(f"{where}, 99th percentile", tail, "µs")
        report.limit(f"{where}, longest", max(times[-1] for times in spent) / 1000, "ms", at_most=5)
    return {what: statistics.median(times[len(times) // 2] for times in spent) for what, spent in rounds.items()}


def both_change(report: Report, workload: Workload, many: int, *, targets: bool = True) -> None:
    """Changes in both engines."""
    index = changes(report, workload, many, targets=targets)
    if _native.engine is None:
        return
    compiled = changes(report, workload, many, CompiledIndex, targets=targets)
    for what, median in compiled.items():
        where = f"{workload.name}, {many:,} filters: {what}"
        report.limit(f"{where}, compiled against the index", median / index[what], "x", at_most=1)


def pauses(report: Report, workload: Workload, many: int) -> None:
    """The longest match while the index gets to know the traffic, from the first notification on."""
    index: Index[int] = Index()
    calm = Calm()
    calm.start()
    for key in range(many):
        index.add(workload.filter(), key)
        calm.changed()
    times = []
    for _ in range(9_000):
        event = workload.notification()
        start = time.thread_time()
        index.match(event)
        times.append((time.thread_time() - start) * 1000)
    gc.unfreeze()
    where = f"{workload.name}, {many:,} filters: match"
    report.figure(f"{where}, median from the start", statistics.median(times), "ms")
    report.limit(f"{where}, longest", max(times), "ms", at_most=5 + statistics.median(times))


def memory(report: Report, many: int) -> None:
    """What a filter and its place in the index weigh, by `tracemalloc`."""
    workload = stock(10_000)
    gc.collect()
    tracemalloc.start()
    filters = [workload.filter() for _ in range(many)]
    alone, _ = tracemalloc.get_traced_memory()
    index: Index[int] = Index()
    for key, filter in enumerate(filters):
        index.add(filter, key)
    both, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    report.limit(
        f"stock, {many:,} filters: memory per filter, with the filter", both / len(index), "bytes", at_most=2048
    )
    report.figure(f"stock, {many:,} filters: of that, the index", (both - alone) / len(index), "bytes")


def run(report: Report) -> None:
    """Everything about matching."""
    targets: list[tuple[Workload, int, float]] = [
        (stock(10_000), 10_000, 150),
        (stock(500), 10_000, 80),
        (mixed(), 10_000, 25),
        (ranges(), 10_000, 20),
        (stock(10_000), 100_000, 400),
    ]
    for workload, many, target in targets:
        result = compare(workload, many)
        where = f"{workload.name}, {many:,} filters"
        report.ratio(f"{where}, {result.matches / many:.2%} match", result.ratio, at_least=target)
        report.figure(f"{where}: median ratio", result.median_ratio, "x")
        report.figure(f"{where}: match, at best", result.index * 1e6, "µs")
        report.figure(f"{where}: loop, at best", result.loop * 1e6, "µs")
    if _native.engine is None:
        print(f"  the compiled engine is not measured: {_native.WHY_PURE}")
    else:
        for workload, many, _ in targets:
            engines(report, workload, many)
        helpless(report, 3_000)
        weights(report, "stock", 100_000)
        weights(report, "ranges", 100_000)
    for many in (1_000, 10_000, 100_000, *([1_000_000] if report.full else [])):
        curve(report, stock(10_000), many)
    curve(report, stock(10_000, types=["event", "quote"]), 10_000)
    both_change(report, stock(10_000), 100_000)
    both_change(report, ranges(), 100_000, targets=False)
    pauses(report, ranges(), 100_000)
    memory(report, 20_000)
