"""Ten subscribers that share a stream, beside one that gets all of it: plain and with acknowledgements; and NATS."""

from __future__ import annotations

import functools

from bench import number

from ._bench import BATCH, Bench, median
from ._dialect import Dialect, Interest, connected, quote
from ._load import Sample, throughput
from ._nats import Nats
from ._shared import JetStream, NatsQueue, TidingsGroup, TidingsWork
from ._tidings import Tidings

INTEREST = Interest("quote", "type = 'quote' AND price > 100", {"type": "quote"})
MEMBERS = 10
WINDOW = 512
"""Publications that are written and not received yet, at most: members hold that many jobs together."""
WAYS: list[tuple[Dialect, int]] = [
    (Tidings(), 1),
    (Tidings(pure=True), 1),
    (TidingsGroup(), MEMBERS),
    (TidingsWork(), MEMBERS),
    (Nats(), 1),
    (NatsQueue(), MEMBERS),
    (JetStream(), MEMBERS),
]
"""What is measured, ours first, each with its subscribers."""
TARGET = 0.3
"""How a group does beside one plain subscriber in pure Python, by the CPU of the server; 0.7 is wanted."""


def run(bench: Bench) -> None:
    """Measure."""

    def once(dialect: Dialect, subscribers: int) -> Sample:
        batches = [dialect.batch([quote()] * BATCH)]
        with dialect.start() as server, connected(dialect, server.port, [INTEREST] * subscribers) as (publisher, there):
            return throughput(
                publisher, there, batches, lambda: (server.cpu(),), copies=1, window=WINDOW, seconds=bench.seconds
            )

    runs = bench.repeat({way.name: functools.partial(once, way, count) for way, count in WAYS})
    medians = {name: median(found.results) for name, found in runs.items() if found.results}
    scenario = f"j  shared by {MEMBERS}"
    for (way, count), found in zip(WAYS, runs.values(), strict=True):
        if way.name not in medians:
            bench.report.missing(scenario, way.name, found.why, target="no loss" if "tidings" in way.name else "")
            continue
        sample = medians[way.name]
        plain = " (one plain subscriber)" if count == 1 else ""
        measured = f"{sample.rate:>9,.0f}/s {sample.total_cpu:6.2f} µs{found.remark}"
        bench.report.figure(scenario, way.name + plain, measured)
    ours, pure, group, work = (medians.get(way.name) for way, _ in WAYS[:4])
    if ours is not None and pure is not None and group is not None:
        ratio = pure.total_cpu / group.total_cpu
        more = (
            f" of one plain subscriber in pure Python; {number(ours.total_cpu / group.total_cpu)} x of a compiled one"
        )
        bench.report.floor(scenario, "tidings, a group", ratio, "x", at_least=TARGET, more=more)
    if group is not None and work is not None:
        ratio = group.total_cpu / work.total_cpu
        bench.report.figure(scenario, "tidings, acknowledged / plain group", f"{number(ratio)} x")
