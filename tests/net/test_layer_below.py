"""The layer below: `serve()` and `connect()` as they are, on a simulated loop of somebody else.

The worlds of `tidings.sim` have doors of their own; here sessions, heartbeats, diallers and flow control of the real
server run on the loop of `simloom`, over its network, with resets, cuts and crashes. Only the listener is replaced: it
accepts from sockets of the system, and there are none.

simloom needs Python 3.12 and is not part of the locked environment. Where it is missing, these tests say so.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import sys
from typing import Any

import pytest
from soaking import SOAK_SECONDS, soak_seeds

import tidings
from tidings.net import Limits, Options, Server

MISSING = (
    "THE LAYER BELOW IS NOT TESTED: simloom is not installed here"
    if importlib.util.find_spec("simloom") is None
    else ""
)
if sys.version_info < (3, 12):
    MISSING = "THE LAYER BELOW IS NOT TESTED: simloom needs Python 3.12 or newer"

COUNT = 15


class Listening:
    """Accepts connections from a simulated network, in the place of `Listener`."""

    def __init__(self, visitor: Any, limit: int, **more: Any) -> None:
        self._visitor = visitor
        self.port = 0
        self.count = self.dismissed = self.failures = 0
        self._server: Any = None

    def start(self, sockets: list[tuple[str, int]]) -> None:
        ((host, self.port),) = sockets
        self._opening = asyncio.ensure_future(self._open(host))

    async def _open(self, host: str) -> None:
        self._server = await asyncio.get_running_loop().create_server(self._visitor, host, self.port)

    async def stop(self) -> None:
        await self._opening
        self._server.close()


async def bound(host: str, port: int, purpose: str = "") -> list[tuple[str, int]]:
    return [(host, port)]


def options(name: str, *neighbours: str) -> Options:
    limits = Limits(heartbeat=2.0, broker_resume=3.0, client_resume=5.0)
    urls = tuple(f"tidings://{one}:7311" for one in neighbours)
    return Options(name=name, host=name, port=7311, neighbours=urls, limits=limits, insecure=True)


async def served(over: asyncio.Event, *names: str) -> None:
    server = Server(options(*names))
    await server.start()
    await over.wait()
    await server.stop()


async def program(world: Any) -> None:
    """A line of three brokers, a publisher at one end, a subscriber at the other, and everything breaks."""
    over = asyncio.Event()
    for names in (("a",), ("b", "a"), ("c", "b")):
        world.host(names[0]).spawn(lambda names=names: served(over, *names))
    got: list[int] = []
    gaps: list[Any] = []
    async with contextlib.AsyncExitStack() as stack:
        reader = await stack.enter_async_context(tidings.connect("tidings://c:7311", name="reader", wait=60))
        await reader.subscribe("n >= 0", callback=lambda n: got.append(n["n"]), on_gap=gaps.append)
        writer = await stack.enter_async_context(tidings.connect("tidings://a:7311", name="writer", wait=60))
        await asyncio.sleep(20)
        breaking = asyncio.ensure_future(trouble(world))
        for n in range(COUNT):
            await writer.publish(n=n, quality="accepted")
            await asyncio.sleep(0.4)
        await breaking
        await writer.flush()
        await asyncio.sleep(120)
        assert got == sorted(set(got)), got
        assert len(got) == COUNT or gaps, (got, gaps)
    over.set()
    await asyncio.sleep(20)


async def trouble(world: Any) -> None:
    """Resets, a cut and a crash, at times and places that the seed draws."""
    import simloom

    for _ in range(3):
        await asyncio.sleep(simloom.draw(0, 30) / 10)
        one, two = [("a", "b"), ("b", "c")][simloom.draw(0, 1)]
        match simloom.draw(0, 2):
            case 0:
                world.net.reset_connections(world.host(one), world.host(two))
            case 1:
                world.net.partition([world.host(one)], [world.host(two)])
                await asyncio.sleep(simloom.draw(1, 80) / 10)
                world.net.heal()
            case _:
                host = world.host("abc"[simloom.draw(0, 2)])
                host.crash()
                await asyncio.sleep(simloom.draw(1, 50) / 10)
                host.restart()


@pytest.mark.soak
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_server_and_client_keep_their_promises_on_a_simulated_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    import simloom

    monkeypatch.setattr("tidings.net._server.Listener", Listening)
    monkeypatch.setattr("tidings.net._server._bound", bound)
    logging.disable(logging.CRITICAL)
    try:
        for seed in soak_seeds(SOAK_SECONDS * 0.05, 1):
            simloom.run(program, seed=seed, virtual_time=True, seed_randomness=True)
    finally:
        logging.disable(logging.NOTSET)
