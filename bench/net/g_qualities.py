"""What remembering costs: `stored` beside `accepted`, with our client, at a broker with a store; and JetStream."""

from __future__ import annotations

import functools
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import msgspec

from bench import number

from ._bench import Bench, median
from ._load import Sample
from ._nats import Nats
from ._processes import CannotRun, Running, free_port, on_path, running
from ._report import Row

QUALITIES = ("accepted", "stored")
PEER = "jetstream"
WAYS = {**{one: f"tidings, {one}" for one in QUALITIES}, PEER: "nats-server, file stream, not synced"}
"""What is measured, and its name in the table."""
CPU = 1.6
"""How much more of the broker's CPU a `stored` publication may take than an `accepted` one."""
RATE = 1_000.0
"""Publications in a second at which receipts are timed."""
PATIENCE = 2.0
"""How many times as long as a sync the 99th percentile of a receipt may take, against that of the sync itself."""
SYNC_BYTES = 4_096
"""What a sync of the probe writes: about what a small commit does."""


class Said(msgspec.Struct):
    """What a process of publishers says."""

    what: str
    published: int = 0
    at: float = 0.0
    taken: list[float] = []


def run(bench: Bench) -> None:
    """Measure."""
    ways = [way for way in WAYS if way != PEER or (on_path("nats-server") and find_spec("nats"))]
    for copies in (1, 10):
        runs = bench.repeat({way: functools.partial(_pipelined, way, copies, bench.seconds) for way in ways})
        scenario, medians = f"g  pipelined 1:{copies}", {}
        for way, found in runs.items():
            if not found.usable(way != PEER):
                bench.report.missing(scenario, WAYS[way], found.why, target="" if way == PEER else "no loss")
                continue
            sample = medians[way] = median(found.results)
            bench.report.figure(scenario, WAYS[way], f"{sample.rate:>9,.0f}/s {sample.total_cpu:6.2f} µs{found.remark}")
        if set(QUALITIES) <= set(medians):
            ratio = medians["stored"].total_cpu / medians["accepted"].total_cpu
            share = medians["stored"].rate / medians["accepted"].rate
            more = f" the CPU of accepted, {number(share)} x the rate"
            bench.report.limit(scenario, "tidings, stored / accepted", ratio, "x", at_most=CPU, more=more)
    _receipts(bench, ways)


@contextmanager
def _server(way: str, directory: Path) -> Iterator[Running]:
    if way == PEER:
        with Nats().remembering(directory / "streams") as server:
            yield server
        return
    port = free_port()
    command = [sys.executable, "-m", "bench.net._broker", "--data", str(directory / "data"), "b1", str(port)]
    with running(command, port) as server:
        yield server


def _application(server: Running, quality: str, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "bench.net._publishers", str(server.port), "--quality", quality, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _heard(application: subprocess.Popen[bytes]) -> Iterator[Said]:
    assert application.stdout is not None
    for line in application.stdout:
        yield msgspec.json.decode(line, type=Said)
    _, complaint = application.communicate(timeout=60)
    if application.returncode:
        raise CannotRun(complaint.decode().strip().splitlines()[-1] if complaint else "no result")


def _pipelined(quality: str, copies: int, seconds: float) -> Sample:
    """CPU of the broker for each *publication*, whatever the number of copies."""
    with tempfile.TemporaryDirectory(prefix="bench-net-") as directory, _server(quality, Path(directory)) as server:
        application = _application(server, quality, "--copies", str(copies), "--seconds", str(seconds))
        (begin, before), (end, after) = [(said, server.cpu()) for said in _heard(application)]
    count = end.published - begin.published
    return Sample(count / (end.at - begin.at), ((after - before) * 1e6 / count,))


def _receipts(bench: Bench, ways: list[str]) -> None:
    """The 99th percentile of a receipt, beside that of a sync of the same disk in the same seconds."""

    def once(quality: str) -> tuple[list[float], list[float]]:
        with tempfile.TemporaryDirectory(prefix="bench-net-") as directory, _server(quality, Path(directory)) as server:
            application = _application(server, quality, "--rate", str(RATE), "--seconds", str(bench.seconds))
            syncs = _syncs(Path(directory) / "probe", application) if quality == "stored" else []
            (said,) = _heard(application)
        return said.taken, syncs

    scenario = f"g  receipts at {RATE:,.0f}/s"
    for way, found in bench.repeat({way: functools.partial(once, way) for way in ways}).items():
        if not found.usable(way != PEER):
            bench.report.missing(scenario, WAYS[way], found.why, target="" if way == PEER else "no loss")
            continue
        taken = [seconds for result in found.results for seconds in result[0]]
        syncs = [seconds for result in found.results for seconds in result[1]]
        shown = f"median {number(statistics.median(taken) * 1e3)} ms, p99 {number(_p99(taken) * 1e3)} ms"
        row = Row(scenario, WAYS[way], shown)
        if syncs:
            ratio = _p99(taken) / _p99(syncs)
            row.measured += f"; a sync: median {number(statistics.median(syncs) * 1e3)} ms, "
            row.measured += f"p99 {number(_p99(syncs) * 1e3)} ms"
            row.rate_ratio, row.target = f"{number(ratio)} x as long", f"<= {number(PATIENCE)} x"
            row.verdict = "ok" if ratio <= PATIENCE else "MISSED"
        bench.report.add(row)


def _syncs(path: Path, application: subprocess.Popen[bytes]) -> list[float]:
    """Write and sync now and then while the application runs; the seconds of each sync."""
    taken, block = [], b"x" * SYNC_BYTES
    deadline = time.monotonic() + 60
    with path.open("wb", buffering=0) as file:
        while not _has_said(application) and time.monotonic() < deadline:
            file.write(block)
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - begun)
            time.sleep(0.01)
    return taken


def _has_said(application: subprocess.Popen[bytes]) -> bool:
    assert application.stdout is not None
    return bool(select.select([application.stdout], [], [], 0)[0])


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]
