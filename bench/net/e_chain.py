"""Chains of 1, 2 and 3 brokers: what each further one adds in time and CPU, at half of the load that 3 can take."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager

from bench import number

from ._bench import BATCH, WINDOW, Bench
from ._dialect import quote
from ._load import CpuClock, Publisher, Sample, Stalled, Steady, Subscriber, steady, throughput
from ._processes import CannotRun, Running
from ._tidings import Tidings
from .a_fanout import INTEREST

LENGTHS = (1, 2, 3)
SMALL = 4
"""Publications that are written at once under a steady load."""
ATTEMPTS = 30
"""How often something is published to see whether the chain is connected."""
ADDED = 1_000.0
"""Microseconds that a further broker may add to the median."""


def run(bench: Bench) -> None:
    """Measure."""
    full: dict[int, list[Sample]] = {length: [] for length in LENGTHS}
    half: dict[int, list[Steady]] = {length: [] for length in LENGTHS}
    try:
        for _ in range(bench.repeats):
            for length in LENGTHS:
                full[length].append(_full(length, bench.seconds))
        rate = statistics.median(sample.rate for sample in full[LENGTHS[-1]]) / 2  # one rate for all, or they differ
        for _ in range(bench.repeats):
            for length in LENGTHS:
                half[length].append(_half(length, rate, bench.seconds))
    except (CannotRun, Stalled, OSError) as error:
        bench.report.missing("e  chain", "tidings, fire", str(error), target="no loss")
        return
    _report(bench, full, half)


def _full(length: int, seconds: float) -> Sample:
    with _chain(length) as (publisher, subscriber, cpu):
        batch = Tidings().batch([quote()] * BATCH)
        return throughput(publisher, [subscriber], [batch], cpu, copies=1, window=WINDOW, seconds=seconds)


def _half(length: int, rate: float, seconds: float) -> Steady:
    with _chain(length) as (publisher, subscriber, cpu):
        return steady(publisher, subscriber, [Tidings().batch([quote()] * SMALL)], cpu, rate=rate, seconds=seconds)


@contextmanager
def _chain(length: int) -> Iterator[tuple[Publisher, Subscriber, CpuClock]]:
    tidings = Tidings()
    with tidings.chain(length) as brokers:
        publisher, subscriber = _ends(tidings, brokers)
        yield publisher, subscriber, lambda: tuple(broker.cpu() for broker in brokers)
        tidings.close(publisher)
        tidings.close(subscriber)


def _ends(tidings: Tidings, brokers: list[Running]) -> tuple[Publisher, Subscriber]:
    """A publisher at the first broker and a subscriber at the last, once what is published arrives."""
    publisher, subscriber = tidings.publisher(brokers[0].port), tidings.subscriber(brokers[-1].port, 0, INTEREST)
    batch = tidings.batch([quote()])
    subscriber.socket.settimeout(0.3)
    for attempt in range(1, ATTEMPTS):
        batch.number(attempt)
        publisher.socket.sendall(batch.data)
        publisher.sent = attempt
        if _arrives(subscriber):
            while _arrives(subscriber):  # until nothing is under way any more
                pass
            return publisher, subscriber
    raise CannotRun(f"nothing arrives through {len(brokers)} brokers")


def _arrives(subscriber: Subscriber) -> bool:
    try:
        while not subscriber.read():
            pass
    except TimeoutError:
        return False
    return True


def _report(bench: Bench, full: dict[int, list[Sample]], half: dict[int, list[Steady]]) -> None:
    before = 0.0
    for length in LENGTHS:
        rate = statistics.median(sample.rate for sample in full[length])
        cpus = [statistics.median(cpu) for cpu in zip(*(sample.cpu for sample in full[length]), strict=True)]
        median = statistics.median(sample.median for sample in half[length]) * 1e6
        load = statistics.median(sample.rate for sample in half[length])
        each = " + ".join(f"{cpu:.2f}" for cpu in cpus)
        scenario = f"e  {length} broker{'s' * (length > 1)}"
        bench.report.figure(scenario, "tidings, fire", f"{rate:>9,.0f}/s {each} µs")
        measured = f", median {number(median)} µs at {load:,.0f}/s"
        if length == 1:
            bench.report.figure(scenario, "tidings, fire", measured.removeprefix(", "))
        else:
            bench.report.limit(scenario, "tidings, fire, added", median - before, "µs", at_most=ADDED, more=measured)
            bench.report.limit(
                scenario, "tidings, fire, CPU of a further broker", max(cpus[1:]) / cpus[0], "x the first", at_most=1.0
            )
        before = median
