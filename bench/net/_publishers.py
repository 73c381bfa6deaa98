"""A publishing application and its subscribers, as a process of its own: `python -m bench.net._publishers ...`.

It says when a steady run begins and ends, so that whoever started it can look at the clocks of the server in between.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeAlias

import msgspec

import tidings

from ._dialect import quote

ATTRIBUTES, BODY = dict(quote().attributes), quote().body
WARM_UP = 0.5
"""Seconds before measuring."""
UNRECEIVED = 4_096
"""Publications that are under way, at most: more would fill queues, and measure them."""


class Received:
    """How many notifications have come, to all subscribers together."""

    def __init__(self, copies: int) -> None:
        self.count = 0
        self._copies = copies

    def one(self, _: object) -> None:
        """One more."""
        self.count += 1

    async def keep_up(self, published: int) -> None:
        """Wait until the subscribers are not far behind."""
        while published - self.count / self._copies > UNRECEIVED:
            await asyncio.sleep(0.001)


def say(what: str, **more: float | str | list[float] | dict[str, int]) -> None:
    """Tell whoever started this process."""
    print(msgspec.json.encode({"what": what, **more}).decode(), flush=True)


async def pipelined(publish: Callable[[], Awaitable[object]], received: Received, seconds: float) -> None:
    """The ordinary loop: publish one after the other, wait for no receipt."""
    count, marks = 0, iter((("begin", WARM_UP), ("end", WARM_UP + seconds)))
    begun = time.perf_counter()
    what, after = next(marks)
    while True:
        for _ in range(64):
            await publish()
        count += 64
        await received.keep_up(count)
        if (now := time.perf_counter()) - begun >= after:
            say(what, published=count, at=now)
            if what == "end":
                return
            what, after = next(marks)


async def receipts(publish: Callable[[], Awaitable[Awaitable[object]]], rate: float, seconds: float) -> list[float]:
    """Publish at a steady rate; for each publication, the seconds until its receipt."""
    taken: list[float] = []

    async def heard(receipt: Awaitable[object], sent: float) -> None:
        await receipt
        taken.append(time.perf_counter() - sent)

    begun = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for turn in range(int(rate * (WARM_UP + seconds))):
            if (pause := begun + turn / rate - time.perf_counter()) > 0:
                await asyncio.sleep(pause)
            sent = time.perf_counter()
            tasks.create_task(heard(await publish(), sent))
    return taken[int(rate * WARM_UP) :]


Publish: TypeAlias = Callable[[], Awaitable[Awaitable[object]]]
"""Publish something; what can be awaited for its receipt."""


@asynccontextmanager
async def tidings_clients(port: int, quality: str, received: Received, copies: int) -> AsyncIterator[Publish]:
    """Our clients."""
    url = f"tidings://127.0.0.1:{port}"
    async with AsyncExitStack() as stack:
        for _ in range(copies):
            subscriber = await stack.enter_async_context(tidings.connect(url))
            await subscriber.subscribe("type = 'quote' AND price > 100", callback=received.one)
        publisher = await stack.enter_async_context(tidings.connect(url))
        yield lambda: publisher.publish(ATTRIBUTES, quality=quality)
        await publisher.flush()


@asynccontextmanager
async def jetstream_clients(port: int, received: Received, copies: int) -> AsyncIterator[Publish]:
    """nats-py: a stream in a file, and subscribers to what is new; they get bytes."""
    import nats  # noqa: PLC0415

    async def heard(message: object) -> None:
        received.one(message)

    async with AsyncExitStack() as stack:
        connections = []
        for _ in range(copies + 1):
            connections.append(await nats.connect(f"nats://127.0.0.1:{port}"))
            stack.push_async_callback(connections[-1].close)
        publisher, *subscribers = connections
        stream = publisher.jetstream(publish_async_max_pending=8_192)
        await stream.add_stream(name="quotes", subjects=["quote"], storage="file")
        for subscriber in subscribers:
            await subscriber.subscribe("quote", cb=heard)
            await subscriber.flush()
        yield lambda: stream.publish_async("quote", BODY)
        await stream.publish_async_completed()


async def main(port: int, quality: str, copies: int, rate: float, seconds: float) -> None:
    """Connect everybody, and measure."""
    received = Received(copies)
    ours = quality != "jetstream"
    clients = tidings_clients(port, quality, received, copies) if ours else jetstream_clients(port, received, copies)
    async with clients as publish:
        if rate:
            say("receipts", taken=await receipts(publish, rate, seconds))
        else:
            await pipelined(publish, received, seconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--quality", required=True, help="of ours; or jetstream: at a nats-server")
    parser.add_argument("--copies", type=int, default=1, help="subscribers that get everything")
    parser.add_argument("--rate", type=float, default=0.0, help="publications in a second; 0: as many as possible")
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args(sys.argv[1:])
    asyncio.run(main(given.port, given.quality, given.copies, given.rate, given.seconds))
