"""A small filter table: one publisher, 1, 10 and 100 subscribers that all want everything; latency at a low rate."""

from __future__ import annotations

import functools
import statistics

from bench import number

from ._bench import BATCH, WINDOW, Bench
from ._dialect import Dialect, Interest, connected, quote
from ._load import latency
from ._mosquitto import Mosquitto
from ._nats import Nats
from ._redis import Redis
from ._report import Row
from ._tidings import Tidings

INTEREST = Interest("quote", "type = 'quote' AND price > 100", {"type": "quote"})
TARGETS = {
    1: {"mosquitto": 2.0, "nats-server": 1.0},
    10: {"mosquitto": 5.0, "nats-server": 1.0, "redis": 1.0},
    100: {"mosquitto": 5.0, "nats-server": 1.0, "redis": 1.0},
}
"""By subscribers: how many times less CPU than whom."""
LATENCY_TARGET = 1.5
RATE = 1_000.0
"""Publications in a second at which latency is measured."""


def dialects() -> list[Dialect]:
    """Ours first."""
    return [Tidings(), Tidings(pure=True), Mosquitto(), Nats(), Redis()]


def run(bench: Bench) -> None:
    """Measure."""
    for copies, targets in TARGETS.items():
        bench.compare(
            f"a  1:{copies}",
            dialects(),
            [INTEREST] * copies,
            [quote()] * BATCH,
            copies=copies,
            targets=targets,
            window=WINDOW if copies < 100 else WINDOW // 4,
        )
    _latency(bench)


def _latency(bench: Bench) -> None:
    def once(dialect: Dialect) -> float:
        with dialect.start() as server, connected(dialect, server.port, [INTEREST]) as (publisher, subscribers):
            batch = dialect.batch([quote()])
            return statistics.median(latency(publisher, subscribers[0], [batch], rate=RATE, seconds=bench.seconds))

    measured = [one for one in dialects() if "pure" not in one.name]
    ours = measured[0].name
    runs = bench.repeat({dialect.name: functools.partial(once, dialect) for dialect in measured})
    medians = {name: statistics.median(r.results) for name, r in runs.items() if r.usable(name == ours)}
    for name, found in runs.items():
        target = f"<= {LATENCY_TARGET} x" if name == "mosquitto" else ""
        if name not in medians:
            bench.report.missing("a  latency", name, found.why, target=target or ("no loss" * (name == ours)))
            continue
        shown = f"{number(medians[name] * 1e6)} µs at {RATE:,.0f}/s{found.remark}"
        row = Row("a  latency", name, shown, target=target)
        if name != ours and ours in medians:
            ratio = medians[ours] / medians[name]
            row.rate_ratio = f"{number(ratio)} x as long"
            row.verdict = "" if not target else "ok" if ratio <= LATENCY_TARGET else "MISSED"
        elif target:
            row.verdict = "MISSED"
        bench.report.add(row)
