"""How long an unrelated pair waits while one client registers the most expensive filters that it may, in a loop.

The pair and the one who registers are processes of their own, and the broker has a neighbour, so that filters are
compared. The pair's times are those of the clock: on a machine that others use, look at the ratio, and at how long the
loop stood still, which is measured in CPU time of its thread.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import sys
import time
from functools import partial

import tidings
from tidings.broker import MAX_COST
from tidings.broker.interest._covering import COMPARED_COST
from tidings.cli._quiet import Quiet
from tidings.model import Filter
from tidings.net import Options, serve
from tidings.wire import (
    VERSION,
    Frame,
    Hello,
    Parser,
    Part,
    PeerRole,
    Subscribe,
    Unsubscribe,
    ack,
    encode,
    encode_words,
    part,
)

from . import Report
from .net._processes import free_port
from .stall import Watched

SECONDS = 15.0
"""For how long the pair is watched."""
WARM_UP = 15.0
"""Seconds that the one who registers has beforehand, until it has as many registrations as it keeps."""
PAUSE = 0.01
"""Seconds between two publications of the pair."""
WAIT = 50.0
"""The most milliseconds that the pair may wait, 99 of 100 times, on an idle machine."""
RATIO = 10.0
"""How many times longer it may wait than without the filters."""
KEPT = 60
"""How many registrations the client has at a time."""


def disjunction(rng: random.Random, alternatives: int = MAX_COST) -> str:
    """As many alternatives as a broker takes, of which few cover another one."""
    return " OR ".join(f"a{rng.randrange(1_000)} > {rng.randrange(10**6)}" for _ in range(alternatives))


def larger(rng: random.Random) -> str:
    """250 alternatives: parsed and refused."""
    return disjunction(rng, 250)


def pattern(rng: random.Random, wildcards: int = COMPARED_COST - 1) -> str:
    """A text with as many wildcards as a filter that is compared with others may have."""
    return "s LIKE '%" + "%".join(rng.choice("abcdefghij") for _ in range(wildcards - 1)) + "%'"


def listed(rng: random.Random) -> str:
    """1,800 values: refused before it is parsed."""
    return "a IN (" + ", ".join(str(rng.randrange(10**6)) for _ in range(1_800)) + ")"


ATTACKS = {
    "none": None,
    f"{MAX_COST} disjuncts": disjunction,
    f"{COMPARED_COST - 1} wildcards": pattern,
    "250 disjuncts, refused": larger,
    "1,800 values, refused": listed,
}


def run(report: Report) -> None:
    """Measure without, and with each kind of filter."""
    quiet = 0.0
    for what in ATTACKS:
        selector = Watched()
        Filter.parse("a = 1")  # the parser is made when it is needed first
        gc.collect()
        with asyncio.Runner(loop_factory=partial(asyncio.SelectorEventLoop, selector)) as runner:
            median, p99, registered = runner.run(_serve(selector, what))
        stood = sorted(selector.stood)
        print(f"    {what}: {registered} registered; the pair waited {median:.2f} ms (median)", flush=True)
        report.figure(f"{what}: the loop stood still, longest", stood[-1] * 1e3, "ms")
        report.figure(f"{what}: the loop stood still, 99 of 100 times", stood[len(stood) * 99 // 100] * 1e3, "ms")
        if what == "none":
            quiet = p99
            report.figure("none: the pair waited, 99 of 100 times at most", p99, "ms")
        else:
            report.limit(f"{what}: the pair waited, 99 of 100 times at most", p99, "ms", at_most=WAIT)
            report.limit(f"{what}: times as long as without", p99 / quiet, "x", at_most=RATIO)


async def _serve(selector: Watched, what: str) -> tuple[float, float, int]:
    async with serve(Options("b1", port=0), [Quiet()]) as server:  # as `tidings serve` does
        here = f"tidings://127.0.0.1:{server.port}"
        neighbour = await _start("bench.net._broker", "b0", str(free_port()), here)
        while not server.host.broker.adjacency.open_links:
            await asyncio.sleep(0.05)
        attack = await _start("bench.fair", "attack", str(server.port), what)
        await asyncio.sleep(WARM_UP)
        pair = await _start("bench.fair", "pair", str(server.port))
        assert pair.stdout is not None
        await pair.stdout.readline()
        selector.stood.clear()
        told = (await pair.stdout.readline()).split()
        stood = list(selector.stood)
        for process in (attack, neighbour):
            process.terminate()
        registered = server.host.broker.statistics.received[Subscribe]
        await asyncio.gather(attack.wait(), pair.wait(), neighbour.wait())
    selector.stood[:] = stood
    return float(told[0]), float(told[1]), registered


async def _start(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-m", *arguments, stdout=asyncio.subprocess.PIPE)


async def _pair(port: int) -> None:
    url = f"tidings://127.0.0.1:{port}"
    waited: list[float] = []
    async with tidings.connect(url, name="reader") as reader, tidings.connect(url, name="writer") as writer:
        await reader.subscribe(
            "EXISTS(pair)", callback=lambda got: waited.append(time.perf_counter() - float(str(got["pair"])))
        )
        print("ready", flush=True)
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            await writer.publish(pair=time.perf_counter())
            await asyncio.sleep(PAUSE)
        await writer.flush()
        await asyncio.sleep(0.5)
    waited.sort()
    print(waited[len(waited) // 2] * 1e3, waited[len(waited) * 99 // 100] * 1e3, flush=True)


async def _attack(port: int, what: str) -> None:
    write = ATTACKS[what]
    if write is None:
        await asyncio.sleep(3_600)
        return
    rng = random.Random(1)
    texts = [Filter.parse(write(rng)) for _ in range(KEPT * 2)]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(part(Part.HELLO, encode_words(Hello((VERSION,), PeerRole.CLIENT, "attacker"))))
    answers = asyncio.create_task(_take(reader, writer))
    for number in itertools.count():
        if answers.done():
            raise ConnectionError("the broker closed the connection")
        writer.write(part(Part.DATA, encode(Frame(Subscribe(f"s{number}", texts[number % len(texts)])))))
        if number >= KEPT:
            writer.write(part(Part.DATA, encode(Frame(Unsubscribe(f"s{number - KEPT}")))))
        await writer.drain()
        await asyncio.sleep(0)  # let answers be taken, or the broker gives this client up


async def _take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    parser, received = Parser(), 0
    while data := await reader.read(65_536):
        for kind, _ in parser.feed(data):
            received += kind == Part.DATA
        writer.write(ack(received))


if __name__ == "__main__":
    asyncio.run(_pair(int(sys.argv[2])) if sys.argv[1] == "pair" else _attack(int(sys.argv[2]), sys.argv[3]))
