"""The clients of a broker in production: `python -m bench.net._production PORT CA [--neighbour PORT] ...`.

Without a neighbour, one publisher and one subscriber: what a store and TLS cost alone. With one, everything that
`production.toml` is about. It says when a steady run begins and ends, with the broker's counters.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import ssl
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack

import tidings
from tidings.wire import VERSION as WIRE_VERSION
from tidings.wire import Frame, Hello, Part, PeerRole, Subscribe, encode, encode_words, part

from ._dialect import quote
from ._publishers import UNRECEIVED, WARM_UP, say

ATTRIBUTES = dict(quote().attributes)
LOTS = 100
"""Publications differ in one attribute, so that a filter on it concerns one in a hundred."""


def token(identity: str) -> str:
    """As `production.toml` has it."""
    return f"production-{identity}-of-the-benchmark"


def never_reads(port: int, trust: ssl.SSLContext) -> ssl.SSLSocket:
    """A subscriber that takes nothing after its hello."""
    connection = trust.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="localhost")
    hello = Hello((WIRE_VERSION,), PeerRole.CLIENT, "shop/slow", token=token("shop"))
    wants = Frame(Subscribe("s", tidings.Filter.parse("lot = 8")))
    connection.sendall(part(Part.HELLO, encode_words(hello)) + part(Part.DATA, encode(wants)))
    return connection


class Production:
    """Everybody at the broker, and how far they have come."""

    def __init__(self, port: int, trust: ssl.SSLContext) -> None:
        self._port = port
        self._trust = trust
        self._stack = AsyncExitStack()
        self._received = 0
        self._heard = Counter[str]()
        """What has come to everybody else."""

    async def connect(self, identity: str, name: str, port: int = 0, serialiser: str = "msgpack") -> tidings.Client:
        """One more client."""
        url = f"tidings+tls://localhost:{port or self._port}"
        client = tidings.connect(
            url, name=f"{identity}/{name}", token=token(identity), tls=self._trust, serialiser=serialiser
        )
        return await self._stack.enter_async_context(client)

    def _one(self, _: object) -> None:
        self._received += 1

    async def _hears(self, client: tidings.Client, filter: str) -> None:
        def heard(_: object) -> None:
            self._heard[filter] += 1

        self._heard[filter] = 0
        await client.subscribe(filter, callback=heard)

    async def surround(self, neighbour: int) -> tidings.Client:
        """Everything that is special; the member of a scope that publishes there."""
        operator = await self.connect("operator", "boss")
        await operator.admin.create_scope("shop", input="FALSE", output="lot = 1000")
        inside, seller = await self.connect("shop", "reader"), await self.connect("shop", "seller")
        for member in ("@shop/reader", "@shop/seller"):
            await operator.admin.join(member, "shop")
        await self._hears(inside, "type = 'offer'")
        in_json = await self.connect("shop", "json", serialiser="json")
        await self._hears(in_json, "lot = 7")
        far = await self.connect("shop", "far", neighbour)
        await self._hears(far, "lot = 5")
        self._stack.callback(never_reads(self._port, self._trust).close)
        for question in ("subscriber_count", "rate() WINDOW 1s WHERE lot = 9"):
            self._stack.callback(asyncio.create_task(self._watch(operator, question)).cancel)
        await asyncio.sleep(2.0)
        return seller

    async def _watch(self, client: tidings.Client, aggregate: str) -> None:
        async for value in client.aggregates.watch(aggregate):
            self._heard[aggregate] += bool(value.complete)

    async def run(self, neighbour: int, seconds: float) -> None:
        """Publish one after the other, wait for no receipt, and measure."""
        async with self._stack:
            seller = await self.surround(neighbour) if neighbour else None
            reader, feed = await self.connect("operator", "reader"), await self.connect("feed", "quotes")
            await reader.subscribe("type = 'quote' AND price > 100", callback=self._one)
            looks = await self.connect("operator", "looks")
            count, marks = 0, iter((("begin", WARM_UP), ("end", WARM_UP + seconds)))
            begun = time.perf_counter()
            what, after = next(marks)
            while True:
                for lot in range(LOTS):
                    await feed.publish(ATTRIBUTES, lot=lot)
                    count += 1
                if seller is not None:
                    await seller.publish(type="offer", lot=count)
                while count - self._received > UNRECEIVED:
                    await asyncio.sleep(0.001)
                if (now := time.perf_counter()) - begun >= after:
                    status = await looks.status()
                    tables = status.scopes.tables if status.scopes is not None else ()
                    looked = {name: sum(getattr(one, name) for one in tables) for name in ("lookups", "fed")}
                    reasons = ", ".join(one.unfed for one in tables if one.unfed)
                    say(what, published=count, at=now, why=reasons, heard=dict(self._heard), **looked)
                    if what == "end":
                        break
                    what, after = next(marks)
            await feed.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("ca")
    parser.add_argument("--neighbour", type=int, default=0, help="the port of another broker; with it, everything")
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args(sys.argv[1:])
    trusted = ssl.create_default_context(cafile=given.ca)
    asyncio.run(Production(given.port, trusted).run(given.neighbour, given.seconds))
