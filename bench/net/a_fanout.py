"""A small filter table: one publisher, 1, 10 and 100 subscribers that all want everything; latency at a low rate."""

from __future__ import annotations

import statistics

from bench import number

from ._bench import BATCH, WINDOW, Bench
from ._dialect import Dialect, Interest, connected, quote
from ._load import latency
from ._mosquitto import Mosquitto
from ._nats import Nats
from ._processes import CannotRun
from ._redis import Redis
from ._report import Row
from ._tidings import Tidings

INTEREST = Interest("quote", "type = 'quote' AND price > 100", {"type": "quote"})
TARGETS = {1: 2.0, 10: 5.0, 100: 5.0}
LATENCY_TARGET = 1.5
RATE = 1_000.0
"""Publications in a second at which latency is measured."""


def dialects() -> list[Dialect]:
    """Ours first."""
    return [Tidings(), Mosquitto(), Nats(), Redis()]


def run(bench: Bench) -> None:
    """Measure."""
    for copies, target in TARGETS.items():
        bench.compare(
            f"a  1:{copies}",
            dialects(),
            [INTEREST] * copies,
            [quote()] * BATCH,
            copies=copies,
            targets={"mosquitto": target},
            window=WINDOW if copies < 100 else WINDOW // 4,
        )
    _latency(bench)


def _latency(bench: Bench) -> None:
    taken: dict[str, list[float]] = {dialect.name: [] for dialect in dialects()}
    problems: dict[str, str] = {}
    for _ in range(bench.repeats):
        for dialect in dialects():
            try:
                with dialect.start() as server, connected(dialect, server.port, [INTEREST]) as (publisher, subscribers):
                    batch = dialect.batch([quote()])
                    found = latency(publisher, subscribers[0], [batch], rate=RATE, seconds=bench.seconds)
                    taken[dialect.name].append(statistics.median(found) * 1e6)
            except (CannotRun, OSError) as error:
                problems[dialect.name] = str(error)
    ours = statistics.median(taken["tidings"])
    for name, found in taken.items():
        if name in problems:
            bench.report.missing("a  latency", name, problems[name], target="<= 1.5 x" if name == "mosquitto" else "")
            continue
        row = Row("a  latency", name, f"{number(statistics.median(found))} µs at {RATE:,.0f}/s")
        if name != "tidings":
            ratio = ours / statistics.median(found)
            row.rate_ratio = f"{number(ratio)} x as long"
        if name == "mosquitto":
            row.target = f"<= {LATENCY_TARGET} x"
            row.verdict = "ok" if ratio <= LATENCY_TARGET else "MISSED"
        bench.report.add(row)
