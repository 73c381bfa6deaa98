"""Requests and replies on one broker, compared with publishing and receiving, one after the other.

A request is two notifications and a session: at best, half as many as publications that are received. All of it runs in
one process, and its CPU time is measured, so others on the machine do not count.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import tidings
from tidings.net import Options, serve

from . import Report

COUNT = 2_000
"""How many are measured at a time."""
ROUNDS = 5
LEAST = 0.4
"""The least share of what is published and received that may be asked and answered."""


async def _measure() -> tuple[float, float]:
    """How many are received, and answered, in a second of CPU time; the best of several rounds each, by turns."""
    async with serve(Options(port=0)) as server:
        address = f"tidings://127.0.0.1:{server.port}"
        async with tidings.connect(address) as asker, tidings.connect(address) as answerer:
            heard = await answerer.subscribe("type = 'plain'")
            questions = await answerer.subscribe("type = 'question'")

            async def answer() -> None:
                async for question in questions:
                    await question.reply(n=question["n"])

            task = asyncio.create_task(answer())
            received, answered = 0.0, 0.0
            for _ in range(ROUNDS):
                received = max(received, await _rate(lambda n: _received(asker, heard, n)))
                answered = max(answered, await _rate(lambda n: _answered(asker, n)))
            task.cancel()
            return received, answered


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
    received, answered = asyncio.run(_measure())
    report.figure("published and received", received, "1/s")
    report.figure("asked and answered", answered, "1/s")
    report.ratio("asked and answered, of published and received", answered / received, at_least=LEAST)
