"""What hostile code of one tenant costs the notifications of all others: their delay, beside that with harmless code.

A broker is a process of its own. One tenant's code does something bad when it hears a word; beside it another one's
measures all the time. Phases with harmless and with hostile code take turns, so whatever else the machine does falls on
both. Hostile code must end in quarantine, and the other tenant must be told each of its windows. On a machine that is
so busy that its process does not run for a second, it is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from typing import NamedTuple

import tidings
from tidings.aggregation import AggregationOptions
from tidings.aggregation.deploying import Signer, digest_of, keygen, signed
from tidings.client import AggregateWatch
from tidings.net import Options, serve

from . import Report

PHASE, FULL_PHASE = 4.0, 20.0
"""Seconds that the delays of one phase are measured for."""
PAUSE = 0.004
"""Seconds between two publications."""
PATIENCE = 60.0
"""Seconds within which hostile code must be in quarantine."""
NETWORK = "bench"
HOSTILE = {
    "harmless": "pass",
    "loop": "while True: pass",
    "memory": "self.held = [bytearray(10_000_000) for _ in range(1_000)]",
    "raising": "raise KeyError('no')",
    "wrong": "return 'not a list'",
    "forking": "__import__('os').fork()",
    "network": "__import__('socket').create_connection(('127.0.0.1', 80))",
    "files": "open('/etc/passwd').read()",
    "ending": "__import__('os')._exit(0)",
}
SOURCE = """
from tidings.aggregation.definitions import Aggregate, Tumbling

class Loads(Aggregate):
    name, version = "TENANT.loads", "1"
    window = Tumbling("1s")
    where = "type = 'load'"
    def key(self, record): return ""
    def zero(self): return 0
    def lift(self, record):
        if str(record.attrs.get("word"))[::-1] == "DROW":
            HOSTILE
        return 1 if record.attrs.get("type") == "load" else None
    def combine(self, a, b): return a + b
"""


class Phase(NamedTuple):
    """What happened while the code of one tenant was asked."""

    delays: list[float]
    phase: str
    """Of the code, at its end."""


def run(report: Report) -> None:
    """Measure."""
    found, missing = asyncio.run(_measure(FULL_PHASE if report.full else PHASE))
    harmless = [delay for phase in found["harmless"] for delay in phase.delays]
    hostile: list[float] = []
    for tenant, phases in found.items():
        delays = [delay for phase in phases for delay in phase.delays]
        report.figure(f"99 % of the delays of notifications beside code that is {tenant}, below", _p99(delays), "ms")
        if tenant != "harmless":
            hostile += delays
            report.limit(f"{tenant}: not in quarantine", phases[0].phase != "quarantined", "", at_most=0)
    report.limit("99 % of the delays, hostile / harmless", _p99(hostile) / _p99(harmless), "x", at_most=1.5)
    report.limit("windows that the other tenant was not told", missing, "", at_most=0)


def _p99(delays: list[float]) -> float:
    return sorted(delays)[int(len(delays) * 0.99)] * 1_000


async def _measure(seconds: float) -> tuple[dict[str, list[Phase]], int]:
    keys = {tenant: keygen() for tenant in ("good", *HOSTILE)}
    words = [f"{tenant}={pair.public}" for tenant, pair in keys.items()]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.hostile", *words, stdin=pipe, stdout=pipe
    )
    found: dict[str, list[Phase]] = {tenant: [] for tenant in HOSTILE}
    told: set[float] = set()
    assert process.stdout is not None
    try:
        url = (await process.stdout.readline()).decode().strip()
        async with (
            tidings.connect(url) as publisher,
            tidings.connect(url) as client,
            contextlib.AsyncExitStack() as stack,
        ):
            for tenant, pair in keys.items():
                await _deploy(client, tenant, pair.private)
                watch = await stack.enter_async_context(client.aggregates.watch(f"{tenant}.loads"))
                if tenant == "good":
                    good = watch
            noting = asyncio.create_task(_note(good, told))
            sent: dict[int, float] = {}
            delays: list[float] = []

            def heard(notification: tidings.Notification) -> None:
                if (began := sent.pop(int(str(notification["n"])), None)) is not None:
                    delays.append(time.perf_counter() - began)

            await client.subscribe("type = 'load'", callback=heard)
            await _publish(publisher, sent, "", 3.0)  # everything has started
            for tenant in HOSTILE:
                for one in ("harmless", tenant) if tenant != "harmless" else ():
                    delays.clear()
                    await _publish(publisher, sent, one, seconds)
                    phase, end = await _phase(client, one), time.perf_counter() + PATIENCE
                    while one != "harmless" and phase != "quarantined" and time.perf_counter() < end:
                        await _publish(publisher, sent, one, 0.5)
                        phase = await _phase(client, one)
                    found[one].append(Phase(list(delays), phase))
            await _publish(publisher, sent, "", 3.0)
            noting.cancel()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return found, round(max(told) - min(told)) + 1 - len(told)


async def _deploy(client: tidings.Client, tenant: str, key: str) -> None:
    source = SOURCE.replace("TENANT", tenant).replace("HOSTILE", HOSTILE.get(tenant, "pass"))
    source = source.replace("DROW", tenant[::-1])
    manifest = await client.aggregates.manifest(
        name=f"{tenant}.loads",
        version="1",
        digest=digest_of(source, "Loads"),
        entry="Loads",
        window=(1_000, 1_000),
        where="type = 'load'",
        network=NETWORK,
    )
    await client.aggregates.state(signed(manifest, key, tenant, source))


async def _note(watch: AggregateWatch, told: set[float]) -> None:
    """The starts of all windows that a client was told complete, in seconds."""
    async for value in watch:
        if value.complete and value.window is not None:
            told.add(value.window[0].timestamp())


async def _publish(client: tidings.Client, sent: dict[int, float], word: str, seconds: float) -> None:
    """Publish for some time; every eighth publication has a word in it."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        number = len(sent) + time.perf_counter_ns()
        sent[number] = time.perf_counter()
        await client.publish(type="load", n=number, word=word if number % 8 == 0 else "", quality="fire")
        await asyncio.sleep(PAUSE)


async def _phase(client: tidings.Client, tenant: str) -> str:
    return next(one.phase for one in (await client.aggregates.deployed()).known if one.name == f"{tenant}.loads")


async def _serve(*words: str) -> None:
    signers = tuple(Signer(name, (key,)) for name, _, key in (word.partition("=") for word in words))
    options = AggregationOptions(network=NETWORK, signer=signers, deployments_per_second=1_000.0, batch_seconds=1.0)
    async with serve(Options("a", port=0, aggregation=options)) as server:
        print(f"tidings://127.0.0.1:{server.port}", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until whoever started it has gone


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
