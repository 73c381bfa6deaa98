"""Our Python client from end to end: CPU for each notification, publishing and receiving, against nats-py."""

from __future__ import annotations

import functools
import subprocess
import sys

import msgspec

from bench import number

from ._bench import Bench, median
from ._dialect import Dialect
from ._load import Sample
from ._mosquitto import Mosquitto
from ._nats import Nats
from ._processes import CannotRun
from ._report import Row
from ._tidings import Tidings

SERVERS: dict[str, type[Dialect]] = {"tidings": Tidings, "nats-py": Nats, "paho-mqtt": Mosquitto}
OURS = "tidings, fire, callback"
PEER = "nats-py callback"
CLIENTS = (
    OURS,
    "tidings, fire, async for",
    "tidings, accepted, callback",
    PEER,
    "nats-py async for",
    "nats-py callback, json",
    "paho-mqtt callback",
)
ITERATION = 0.5
"""How much of the rate of a callback `async for` has to reach."""


def run(bench: Bench) -> None:
    """Measure."""
    runs = bench.repeat({name: functools.partial(_once, name, bench.seconds) for name in CLIENTS})
    medians = {name: median(r.results) for name, r in runs.items() if r.usable(name.startswith("tidings"))}
    cpu = {name: sample.total_cpu for name, sample in medians.items()}
    rate = {name: sample.rate for name, sample in medians.items()}
    for name, found in runs.items():
        target = "> 1 x" if name == PEER else ""
        if name not in medians:
            bench.report.missing(
                "d  client", name, found.why, target=target or ("no loss" * name.startswith("tidings"))
            )
            continue
        row = Row("d  client", name, f"{rate[name]:>9,.0f}/s {cpu[name]:6.2f} µs{found.remark}", target=target)
        if not name.startswith("tidings") and OURS in cpu:
            ratio = cpu[name] / cpu[OURS]
            row.cpu_ratio = f"{number(ratio)} x"
            row.rate_ratio = f"{number(rate[OURS] / rate[name])} x"
            row.verdict = "" if not target else "ok" if ratio > 1 else "MISSED"
        elif target:
            row.verdict = "MISSED"
        bench.report.add(row)
    if OURS in rate and "tidings, fire, async for" in rate:
        share = rate["tidings, fire, async for"] / rate[OURS]
        bench.report.floor("d  client", "async for / callback", share, "x", at_least=ITERATION, more=" of the rate")


def _once(name: str, seconds: float) -> Sample:
    with SERVERS[name.split(maxsplit=1)[0].rstrip(",")]().start() as server:
        command = [sys.executable, "-m", "bench.net._clients", name, str(server.port), str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise CannotRun(done.stderr.strip().splitlines()[-1] if done.stderr else "no result")
        result = msgspec.json.decode(done.stdout, type=dict[str, float])
        return Sample(result["rate"], (result["cpu"],))
