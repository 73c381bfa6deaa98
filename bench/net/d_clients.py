"""Our Python client from end to end: CPU for each notification, publishing and receiving, against nats-py and zenoh."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from bench import number

from ._bench import Bench, median
from ._dialect import Dialect
from ._load import Sample
from ._mosquitto import Mosquitto
from ._nats import Nats
from ._processes import CannotRun, free_port
from ._report import Row
from ._tidings import Tidings


class _Nobody:
    """No server: the peers of an application speak with each other at a port of their own."""

    port: int

    @contextmanager
    def start(self) -> Iterator[_Nobody]:
        self.port = free_port()
        yield self


SERVERS: dict[str, type[Dialect] | type[_Nobody]] = {
    "tidings": Tidings,
    "nats-py": Nats,
    "paho-mqtt": Mosquitto,
    "zenoh": _Nobody,
}
OURS = "tidings, fire, callback"
ITERATED = "tidings, fire, async for"
PEER = "nats-py callback"
PACKED = "zenoh callback, msgpack"
CLIENTS = (
    OURS,
    ITERATED,
    "tidings, accepted, callback",
    PEER,
    "nats-py async for",
    "nats-py callback, json",
    "paho-mqtt callback",
    PACKED,
)
ITERATION = 1.15
"""How many times the CPU of a callback `async for` may take."""


def run(bench: Bench) -> None:
    """Measure."""
    runs = bench.repeat({name: functools.partial(_once, name, bench.seconds) for name in CLIENTS})
    medians = {name: median(r.results) for name, r in runs.items() if r.usable(name.startswith("tidings"))}
    cpu = {name: sample.total_cpu for name, sample in medians.items()}
    rate = {name: sample.rate for name, sample in medians.items()}
    for name, found in runs.items():
        target = "> 1 x" if name == PEER else ">= 1 x" if name == PACKED else ""
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
            row.verdict = "" if not target else "ok" if ratio > 1 or (ratio == 1 and name == PACKED) else "MISSED"
        elif target:
            row.verdict = "MISSED"
        bench.report.add(row)
    if OURS in cpu and ITERATED in cpu:
        share = cpu[ITERATED] / cpu[OURS]
        bench.report.limit("d  client", "async for / callback", share, "x", at_most=ITERATION, more=" of the CPU")


def _once(name: str, seconds: float) -> Sample:
    with SERVERS[name.split(maxsplit=1)[0].rstrip(",")]().start() as server:
        command = [sys.executable, "-m", "bench.net._clients", name, str(server.port), str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise CannotRun(done.stderr.strip().splitlines()[-1] if done.stderr else "no result")
        result = msgspec.json.decode(done.stdout, type=dict[str, float])
        return Sample(result["rate"], (result["cpu"],))
