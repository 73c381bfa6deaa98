"""What deploying costs those who do not: how long notifications and values take, and how much a broker computes, while
definitions are deployed at 1, 10, 100 and 1,000 a second.

Two brokers are processes of their own, and so is whoever deploys. Publisher, subscriber, and whoever watches a count
and changes it are here, so that one clock tells all delays. Each of five seeds has new brokers, and its own order of
rates; what is told is the mean over the seeds of ratios to the same seed without deployments. Statements are questions
under a name; signed Python is tested by a broker for up to two seconds, so it is told how many a broker took.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import tidings
from tidings.aggregation import AggregationOptions
from tidings.aggregation.deploying import QUESTION, Manifest, Signed, Signer, Tier, digest_of, keygen, signed
from tidings.client import AggregateWatch, Deployment
from tidings.net import Options, serve

from . import Report

SEEDS = 5
RATES = (0, 1, 10, 100, 1_000)
SECONDS, FULL_SECONDS = 4.0, 20.0
PAUSE = 0.01
"""Seconds between two publications."""
CHANGE = 0.04
"""Seconds between two changes of what is counted."""
VERSIONS = 500
"""How many a tenant deploys."""
TICKS = os.sysconf("SC_CLK_TCK")
PYTHON = """
from tidings.aggregation.definitions import Aggregate, Tumbling

class Load(Aggregate):
    name, version = "NAME", "1"
    window = Tumbling("1s")
    where = "type = 'load'"
    def key(self, record): return ""
    def zero(self): return 0
    def lift(self, record): return 1 if record.attrs.get("type") == "load" else None
    def combine(self, a, b): return a + b
"""


class Phase(NamedTuple):
    """What was measured while something was deployed at one rate."""

    delays: list[float]
    """Of notifications, in seconds."""
    updates: list[float]
    """Of a count that changes."""
    used: float
    """Processor time of the two brokers, as a share of one processor."""
    deployed: int


def run(report: Report) -> None:
    """Measure."""
    seconds = FULL_SECONDS if report.full else SECONDS
    found: dict[int, list[Phase]] = {rate: [] for rate in RATES}
    for seed in range(SEEDS):
        for rate, phase in asyncio.run(_seed(seed, seconds)).items():
            found[rate].append(phase)
    for rate in RATES:
        at = f"{rate:,} deployments a second"
        report.figure(f"{at}: taken", statistics.mean(one.deployed for one in found[rate]) / seconds, "/s")
        for what, field in (("notification", "delays"), ("update", "updates")):
            median, mean, late = (_ratio(found, rate, field, of) for of in (statistics.median, statistics.mean, _p95))
            told = statistics.mean(_p95(getattr(one, field)) * 1_000 for one in found[rate])
            report.figure(f"{at}: 95 % of the {what} delays, below", told, "ms")
            if not rate:
                continue
            report.figure(f"{at}: 95 % of the {what} delays / none", late, "x")
            of_median = what == "notification"
            name = f"{at}: {'median' if of_median else 'mean'} {what} delay / none"
            if rate <= 100:
                report.limit(name, median if of_median else mean, "x", at_most=1.1)
            else:
                report.figure(name, median if of_median else mean, "x")
        used = 100 * statistics.mean(one.used for one in found[rate])
        report.figure(f"{at}: processor time of two brokers", used, "%")
        if rate == 1:
            idle = 100 * statistics.mean(one.used for one in found[0])
            report.limit(f"{at}: processor time beside none", used - idle, "points", at_most=1)
    report.figure("signed Python that a broker tests and takes", asyncio.run(_python()), "/s")


def _ratio(found: dict[int, list[Phase]], rate: int, field: str, of: Callable[[list[float]], float]) -> float:
    return statistics.mean(
        of(getattr(one, field)) / of(getattr(none, field)) for one, none in zip(found[rate], found[0], strict=True)
    )


def _p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


async def _seed(seed: int, seconds: float) -> dict[int, Phase]:
    """All rates, in an order that the seed draws, on two brokers."""
    order = random.Random(seed).sample(RATES, len(RATES))
    found = {}
    async with _brokers() as (one, other, pids), tidings.connect(one) as near, tidings.connect(other) as far:
        sent: dict[int, float] = {}
        delays: list[float] = []

        def heard(notification: tidings.Notification) -> None:
            if (began := sent.pop(int(str(notification["n"])), None)) is not None:
                delays.append(time.perf_counter() - began)

        await far.subscribe("type = 'tick'", callback=heard)
        async with near.aggregates.watch("subscriber_count", filter="type = 'counted'") as watch:
            first = 0
            for rate in order:
                await _quiet(near, watch)
                delays.clear()
                before, began = _used(pids), time.perf_counter()
                deploying = asyncio.create_task(_deploying(other, rate, seconds, first))
                publishing = asyncio.create_task(_publishing(near, sent, seconds))
                updates = await _changing(far, watch, seconds)
                await publishing
                deployed = await deploying
                used = (_used(pids) - before) / (time.perf_counter() - began)
                await asyncio.sleep(0.2)
                found[rate] = Phase(list(delays), updates, used, deployed)
                first += round(rate * seconds) + 1
    return found


async def _quiet(client: tidings.Client, watch: AggregateWatch) -> None:
    """Wait until everything that was under way has come."""
    await client.aggregates.list()
    while watch.last is None or not watch.last.complete or watch.last.value:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)


async def _publishing(client: tidings.Client, sent: dict[int, float], seconds: float) -> None:
    end, number = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        number += 1
        sent[number] = time.perf_counter()
        await client.publish(type="tick", n=number, quality="fire")
        await asyncio.sleep(PAUSE)


async def _changing(client: tidings.Client, watch: AggregateWatch, seconds: float) -> list[float]:
    """Subscribe and unsubscribe, and note how long it takes until the count says so."""
    found, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        for value in (1, 0):
            began = time.perf_counter()
            if value:
                subscription = await client.subscribe("type = 'counted'", callback=lambda each: None)
            else:
                subscription.unsubscribe()
            while watch.last is None or watch.last.value != value:
                await anext(watch)
            found.append(time.perf_counter() - began)
            await asyncio.sleep(CHANGE)
    return found


def _used(pids: list[int]) -> float:
    """Seconds of processor time of some processes."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


# --- processes of their own ---------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _brokers() -> AsyncIterator[tuple[str, str, list[int]]]:
    """Two brokers with a link: their addresses and processes."""
    async with contextlib.AsyncExitStack() as stack:
        first = await _child(stack, "broker", "a")
        url = (await _line(first)).strip()
        second = await _child(stack, "broker", "b", url)
        yield url, (await _line(second)).strip(), [first.pid, second.pid]


async def _child(stack: contextlib.AsyncExitStack, *words: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.deploying", *words, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.PIPE
    )

    async def end() -> None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    stack.push_async_callback(end)
    return process


async def _line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode()


async def _deploying(url: str, rate: int, seconds: float, first: int) -> int:
    """Let a process deploy, and return how many statements were taken."""
    if not rate:
        await asyncio.sleep(seconds)
        return 0
    async with contextlib.AsyncExitStack() as stack:
        process = await _child(stack, "deploy", url, str(rate), str(seconds), str(first))
        return int(await _line(process))


async def _serve(name: str, neighbour: str = "") -> None:
    options = AggregationOptions(deployments_per_second=1e6, max_deployed=10**6, network="bench")
    neighbours = (neighbour,) if neighbour else ()
    async with serve(Options(name, port=0, neighbours=neighbours, aggregation=options)) as server:
        while neighbour and not server.host.broker.adjacency.open_links:
            await asyncio.sleep(0.01)
        print(f"tidings://127.0.0.1:{server.port}", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until whoever started it has gone


async def _deploy(url: str, rate: int, seconds: float, first: int) -> None:
    """Deploy at a steady rate, whether or not there have been answers, and print how many have been taken."""
    async with tidings.connect(url) as client:
        statements = [_statement(first + number) for number in range(round(rate * seconds))]
        began, answers = time.perf_counter(), []
        for number, statement in enumerate(statements):
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            answers.append(asyncio.create_task(client.aggregates.state(statement)))
        done = await asyncio.gather(*answers, return_exceptions=True)
        print(sum(isinstance(one, Deployment) and len(one.installed) == 2 for one in done), flush=True)


def _statement(number: int) -> Signed:
    source = f"count() WINDOW 1m WHERE n = {number}"
    manifest = Manifest(
        network="bench",
        name=f"t{number // VERSIONS}.n{number}",
        version="1",
        digest=digest_of(source, QUESTION),
        entry=QUESTION,
        tier=Tier.EXPRESSION,
        valid_until=int(time.time()) + 3_600,
        issued_at=number + 1,
    )
    return Signed(manifest, "bench", b"", source)


async def _python(count: int = 4) -> float:
    """Signed Python, one after the other, at one broker: how many a second it tests and takes."""
    keys = keygen()
    options = AggregationOptions(
        deployments_per_second=1e6, network="bench", signer=(Signer("bench", (keys.public,)),), batch_seconds=30.0
    )
    async with (
        serve(Options("a", port=0, aggregation=options)) as server,
        tidings.connect(f"tidings://127.0.0.1:{server.port}") as client,
    ):
        began = time.perf_counter()
        for number in range(count):
            source = PYTHON.replace("NAME", f"bench.n{number}")
            manifest = await client.aggregates.manifest(
                name=f"bench.n{number}",
                version="1",
                digest=digest_of(source, "Load"),
                entry="Load",
                window=(1_000, 1_000),
                where="type = 'load'",
                network="bench",
            )
            await client.aggregates.state(signed(manifest, keys.private, "bench", source))
        return count / (time.perf_counter() - began)


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "broker":
        asyncio.run(_serve(*words))
    else:
        asyncio.run(_deploy(words[0], int(words[1]), float(words[2]), int(words[3])))
