"""`Client.check`: is the connection good, now?"""

from __future__ import annotations

import asyncio

import pytest
from client.transports import brokers, on_both, on_sockets, take, until, url, way_to

import tidings
import tidings.sync
from tidings.client import _uplink


@on_both
async def test_a_connection_that_works_is_kept() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"]), silence=3) as client:
        assert await client.check()
        assert await asyncio.gather(client.check(), client.check()) == [True, True]
        assert client.statistics().reconnects == 0


@on_both
async def test_without_a_connection_the_brokers_are_tried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_uplink, "FIRST_RETRY", 30.0)
    async with brokers("b") as servers, way_to(servers["b"]) as way, tidings.connect(way.url) as client:
        news = await client.subscribe("EXISTS(n)")
        way.closed = True
        way.cut()
        await until(lambda: not client.connected)
        await asyncio.sleep(0.3)  # the first attempt is over
        way.closed = False
        begun = asyncio.get_running_loop().time()
        assert not await client.check()
        assert asyncio.get_running_loop().time() - begun < 10
        await client.publish(n=1)
        assert [one["n"] for one in await take(news, 1)] == [1]


@on_both
async def test_a_client_that_is_not_open_cannot_check() -> None:
    async with brokers("b") as servers:
        client = tidings.connect(url(servers["b"]))
        with pytest.raises(tidings.ClientNotOpen):
            await client.check()


@on_both
async def test_whoever_checks_hears_that_the_client_was_closed() -> None:
    async with brokers("b") as servers, way_to(servers["b"]) as way:
        client = await tidings.connect(way.url)
        way.closed = True
        way.cut()
        await until(lambda: not client.connected)
        checking = asyncio.create_task(client.check())
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(tidings.ConnectionFailed):
            await checking


@on_sockets
async def test_the_blocking_client_checks_too() -> None:
    async with brokers("b") as servers:

        def work() -> bool:
            with tidings.sync.connect(url(servers["b"]), silence=3) as client:
                return client.check()

        assert await asyncio.to_thread(work)
