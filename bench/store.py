"""The store: appending with group commit and sync, the time to `synced` under load, reading on from a mark.

The peer is the disk itself: its own time for one sync stands beside every figure that depends on it.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from tidings.store import QUEUE_COUNT, Store
from tidings.wire import Envelope

from . import Report
from ._quotes import disk_sync_milliseconds, disk_syncs, quotes

COUNT = 200_000
ROUNDS = 3
LOAD = 40_000
"""Publications a second while the time to `synced` is measured: half of the rate that must be reached."""
LOAD_SECONDS = 4
TICK = 0.001


def run(report: Report) -> None:
    """Measure a store in a temporary directory."""
    with tempfile.TemporaryDirectory() as directory:
        report.figure("disk: fsync of 16 KiB, median", disk_sync_milliseconds(Path(directory)), "ms")
        walls, cpus, calls = [], [], []
        for number in range(ROUNDS):
            wall, cpu, call = asyncio.run(_append(Path(directory) / str(number)))
            walls.append(wall)
            cpus.append(cpu)
            calls.append(call)
        rate = COUNT / statistics.median(walls)
        report.figure("append, group commit, synced", rate, "/s")
        report.limit("append: time each (80,000/s)", statistics.median(walls) / COUNT * 1e6, "µs", at_most=12.5)
        report.limit("append: CPU each, both threads", statistics.median(cpus) / COUNT * 1e6, "µs", at_most=12.5)
        report.figure("append: in the caller's thread", statistics.median(calls) / COUNT * 1e6, "µs")
        _fetch(report, Path(directory) / "0")
        times, slowest = asyncio.run(_load(Path(directory) / "load"))
        report.figure(f"append to synced at {LOAD:,}/s, median", statistics.median(times) * 1e3, "ms")
        p99 = statistics.quantiles(times, n=100)[98]
        report.limit(f"append to synced at {LOAD:,}/s, p99", p99 * 1e3, "ms", at_most=20)
        report.figure(f"append to synced at {LOAD:,}/s, slowest", max(times) * 1e3, "ms")
        report.figure("slowest commit", slowest / 1e3, "ms")
        syncs = disk_syncs(Path(directory))
        report.figure("disk: fsync right after, median", statistics.median(syncs) * 1e3, "ms")
        report.figure("disk: fsync right after, p99", statistics.quantiles(syncs, n=100)[98] * 1e3, "ms")


async def _append(directory: Path) -> tuple[float, float, float]:
    """Append as fast as the store takes it: seconds until all is synced, of them CPU, of them in `append`."""
    loop = asyncio.get_running_loop()
    with Store.open(directory, post=loop.call_soon_threadsafe) as store:
        events = quotes(COUNT, store.epoch)
        done = asyncio.Event()
        left = COUNT

        def synced() -> None:
            nonlocal left
            left -= 1
            if not left:
                done.set()

        called = 0.0
        cpu, start = time.process_time(), time.perf_counter()
        for at in range(0, COUNT, 100):
            while store.statistics().queued > QUEUE_COUNT - 100:
                await asyncio.sleep(TICK)
            before = time.perf_counter()
            for envelope in events[at : at + 100]:
                store.append(envelope, synced)
            called += time.perf_counter() - before
            await asyncio.sleep(0)
        await done.wait()
        return time.perf_counter() - start, time.process_time() - cpu, called


async def _load(directory: Path) -> tuple[list[float], int]:
    """Append at a steady rate: the time of each until it is synced, and the slowest commit in microseconds."""
    loop = asyncio.get_running_loop()
    times: list[float] = []

    def answer(begun: float) -> Callable[[], None]:
        return lambda: times.append(time.perf_counter() - begun)

    with Store.open(directory, post=loop.call_soon_threadsafe) as store:
        events: list[Envelope] = quotes(LOAD * LOAD_SECONDS, store.epoch)
        start = time.perf_counter()
        sent = 0
        while sent < len(events):
            due = min(len(events), int((time.perf_counter() - start) * LOAD))
            for envelope in events[sent:due]:
                store.append(envelope, answer(time.perf_counter()))
            sent = due
            await asyncio.sleep(TICK)
        while len(times) < len(events):
            await asyncio.sleep(TICK)
        return times, store.statistics().slowest_sync


def _fetch(report: Report, directory: Path) -> None:
    """Read on from a mark in a store of the size that `_append` left."""
    with Store.open(directory, post=lambda call: call()) as store:
        epoch = store.epochs()[0]
        start = time.perf_counter()
        found = store.read(epoch, COUNT // 2)
        next(found)
        report.figure("fetch since a mark: first", (time.perf_counter() - start) * 1e3, "ms")
        count = 1 + sum(1 for _ in found)
        report.figure("fetch since a mark", count / (time.perf_counter() - start), "/s")
        start = time.perf_counter()
        store.publishers()
        report.figure("resend window of 100,000", (time.perf_counter() - start) * 1e3, "ms")
        tracemalloc.start()
        for _ in store.read(epoch, 0):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        report.limit(f"memory to read {COUNT:,}", peak / 1e6, "MB", at_most=10)
        report.figure("bytes each on disk", store.path.stat().st_size / COUNT, "bytes")
