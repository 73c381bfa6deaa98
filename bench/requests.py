"""Requests and replies on one broker, compared with publishing and receiving, one after the other.

A request is two notifications and a session: at best, half as many as publications that are received. All of it runs in
one process, and its CPU time is measured. Both take turns, a few hundred at a time, and what counts is the median of
the ratios of neighbours: others on the machine slow both down alike.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

import tidings
from tidings.net import Options, serve

from . import Report

COUNT = 400
"""How many are measured at a time."""
ROUNDS = 25
LEAST = 0.4
"""The least share of what is published and received that may be asked and answered."""


async def _measure() -> list[tuple[float, float]]:
    """How many are received, and answered, in a second of CPU time; several rounds of each, by turns."""
    async with serve(Options(port=0)) as server:
        address = f"tidings://127.0.0.1:{server.port}"
        async with tidings.connect(address) as asker, tidings.connect(address) as answerer:
            heard = await answerer.subscribe("type = 'plain'")
            questions = await answerer.subscribe("type = 'question'")

            async def answer() -> None:
                async for question in questions:
                    await question.reply(n=question["n"])

            task = asyncio.create_task(answer())
            rounds = []
            for _ in range(ROUNDS):
                received = await _rate(lambda n: _received(asker, heard, n))
                rounds.append((received, await _rate(lambda n: _answered(asker, n))))
            task.cancel()
            return rounds


async def _rate(one: Callable[[int], Awaitable[object]]) -> float:
    begin = time.process_time()
    for n in range(COUNT):
        await one(n)
    return COUNT / (time.process_time() - begin)


async def _received(publisher: tidings.Client, heard: tidings.Subscription, n: int) -> None:
    await publisher.publish(type="plain", n=n)
    await anext(heard)


async def _answered(asker: tidings.Client, n: int) -> None:
    await asker.request(type="question", n=n)


def run(report: Report) -> None:
    """Measure, and compare."""
    rounds = asyncio.run(_measure())
    report.figure("published and received", statistics.median(received for received, _ in rounds), "1/s")
    report.figure("asked and answered", statistics.median(answered for _, answered in rounds), "1/s")
    share = statistics.median(answered / received for received, answered in rounds)
    report.ratio("asked and answered, of published and received", share, at_least=LEAST)
