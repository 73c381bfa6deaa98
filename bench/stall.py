"""How long a broker's loop stands still while it looks for the past in its archive, and four clients publish.

The loop stands still from the moment at which it has heard of something until it listens again. It is measured in CPU
time of its thread, so that what else runs on the machine counts little. `--full` does it with a million publications.
"""

from __future__ import annotations

import asyncio
import gc
import selectors
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import tidings
from tidings.history import HistoryOptions
from tidings.model import ROOT_ROUTE, Filter, Identity
from tidings.net import ArchiveOptions, Options, serve
from tidings.store import Store
from tidings.store.archive import Promoted, roll
from tidings.wire import Envelope, Quality

from . import Report
from ._quotes import quotes

COUNT, FULL_COUNT = 100_000, 1_000_000
BODIES = 50_000
START = 1_760_000_000_000_000
EVERY = 10_000
"""Microseconds between two publications."""
PROMOTED = ("type", "symbol", "price:float")
PUBLISHERS = 4
PAUSE = 0.005
"""Seconds between two publications of one client."""
PATIENCE = 120.0
STILL = 40.0
"""The most milliseconds that the loop may stand still while it searches, on a machine that others use, too."""
ASKED = {
    "nothing": None,
    "all that fits, by time": "type = 'quote'",
    "a rare one, found by a promoted attribute": "symbol = 'S00007' AND price < 1",
    "none, by an attribute that is not promoted: all are looked at": "exchange = 'nowhere'",
}


def run(report: Report) -> None:
    """Measure with an archive in a temporary directory."""
    count = FULL_COUNT if report.full else COUNT
    with tempfile.TemporaryDirectory() as directory:
        archive = Path(directory, "archive")
        fill(Path(directory, "old"), archive, count)
        for what, filter in ASKED.items():
            measure(report, archive, what, filter)


def fill(data: Path, archive: Path, count: int) -> None:
    """An archive of so many publications of a broker `b1`."""
    bodies = [envelope.body for envelope in quotes(BODIES)]
    with Store.open(data, post=lambda call: call(), owner="b1", clock=lambda: START) as store:
        for seq in range(1, count + 1):
            identity = Identity("b1", store.epoch, seq, f"client-{seq % 50}", seq // 50, START + EVERY * seq)
            while store.full:
                time.sleep(0.001)
            store.append(Envelope(identity, (ROOT_ROUTE,), bodies[seq % BODIES], Quality.STORED), lambda: None)
    roll(data, archive, [Promoted.parse(text) for text in PROMOTED])


class Watched(selectors.DefaultSelector):
    """Notes for how long nobody listens."""

    def __init__(self) -> None:
        super().__init__()
        self.stood: list[float] = []
        self._heard = time.thread_time()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Listen."""
        self.stood.append(time.thread_time() - self._heard)
        try:
            return super().select(timeout)
        finally:
            self._heard = time.thread_time()


def measure(report: Report, archive: Path, what: str, filter: str | None) -> None:
    """One subscription into the past."""
    selector = Watched()
    gc.collect()
    Filter.parse("a = 1")  # the parser is made when it is needed first
    gc.freeze()  # what this process has beside the broker is not the broker's
    with (
        tempfile.TemporaryDirectory() as data,
        asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner,
    ):
        told = runner.run(_serve(selector, Path(data), archive, filter))
    print(f"    {what}: {told}", flush=True)
    stood = sorted(selector.stood)
    longest = f"past: {what}; the loop stood still, longest"
    if told.startswith("10000"):
        report.figure(f"{longest}, handing over included", stood[-1] * 1e3, "ms")
    else:
        report.limit(longest, stood[-1] * 1e3, "ms", at_most=STILL)
    report.figure("  99.9 of 100 times at most", stood[len(stood) * 999 // 1_000] * 1e3, "ms")


async def _serve(selector: Watched, data: Path, archive: Path, filter: str | None) -> str:
    options = Options(
        "b1",
        port=0,
        data=data,
        archive=ArchiveOptions(archive, roll_after=3_600.0, promote=PROMOTED),
        history=HistoryOptions(timer=PATIENCE),
    )
    async with serve(options) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.stall", str(server.port), filter or "", stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        await process.stdout.readline()  # everybody is there
        selector.stood.clear()
        told = await process.stdout.readline()
        stood = list(selector.stood)
        await process.wait()
    selector.stood[:] = stood
    return told.decode().strip()


async def _clients(port: int, filter: str) -> None:
    url = f"tidings://127.0.0.1:{port}"
    waited: list[float] = []

    async def publish(name: str) -> None:
        async with tidings.connect(url, name=name) as client:
            while True:
                start = time.perf_counter()
                await (await client.publish(type="tick", of=name))
                waited.append(time.perf_counter() - start)
                await asyncio.sleep(PAUSE)

    publishing = [asyncio.create_task(publish(f"p{at}")) for at in range(PUBLISHERS)]
    async with tidings.connect(url, name="s") as client:
        await asyncio.sleep(1)
        print("ready", flush=True)
        waited.clear()
        start = time.perf_counter()
        found = "nothing was asked"
        if not filter:
            await asyncio.sleep(3)
        else:
            past = tidings.since(datetime.fromtimestamp(START / 1e6, UTC))
            subscription = client.subscribe(filter, past=past, timeout=PATIENCE)
            while (told := subscription.history_report) is None:
                await asyncio.sleep(0.01)
            found = f"{told.count} came ({told.ending.name.lower()})"
        took = time.perf_counter() - start
        print(
            f"{found} after {took:.2f} s; {len(waited)} publications, answered after "
            f"{statistics.median(waited) * 1e3:.1f} ms (median), {max(waited) * 1e3:.1f} ms (longest)",
            flush=True,
        )
    for task in publishing:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(_clients(int(sys.argv[1]), sys.argv[2]))
