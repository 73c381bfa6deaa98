"""The recipes of docs/mobility.md, with brokers and clients in processes of their own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from net.proxy import Proxy, proxy
from net.roamer import roamer
from net.world import running, until

import tidings

SETTINGS = "[limits]\nclient_resume = 3.0\n"
"""Brokers that wait for a lost client for so short a time that a test can call it hours."""


class Served:
    """A broker in a process of its own."""

    def __init__(self, name: str, directory: Path, *neighbours: str) -> None:
        self._log = directory / f"{name}.log"
        config = directory / f"{name}.toml"
        config.write_text(SETTINGS)
        links = [part for one in neighbours for part in ("--neighbour", one)]
        command = [sys.executable, "-m", "tidings", "serve", "--json", "--config", str(config), "--log-level", "info"]
        command += ["--name", name, "--port", "0", "--data", str(directory / name), *links]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        assert self.process.stdout is not None
        self.port: int = json.loads(self.process.stdout.readline())["port"]

    @property
    def log(self) -> str:
        return self._log.read_text()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Served]]:
    """Two brokers that reach each other, for all tests of this module: each uses names of its own."""
    directory = tmp_path_factory.mktemp("recipes")
    east = Served("east", directory)
    west = Served("west", directory, url(east))
    asyncio.run(_linked(east, west))
    yield east, west
    east.end()
    west.end()


def url(one: Served | Proxy) -> str:
    return f"tidings://127.0.0.1:{one.port}"


async def _linked(*brokers: Served) -> None:
    """Wait until all these brokers reach one another."""
    for broker in brokers:
        async with tidings.connect(url(broker)) as client:
            async with asyncio.timeout(20):
                while len((await client.status()).tree.hops) < len(brokers) - 1:
                    await asyncio.sleep(0.05)


@running
async def test_a_phone_that_was_asleep_for_hours_goes_on_from_the_stores(served: tuple[Served, Served]) -> None:
    broker, _ = served
    async with tidings.connect(url(broker)) as news:
        async with roamer(url(broker), name="phone", durable="news", silence=1) as phone:
            await news.publish(n=1)
            assert await phone.numbers(1) == [1]
            phone.sleep()
            await until(lambda: "client phone disconnected: it did not come back" in broker.log)
            await news.publish_many([{"n": n} for n in (2, 3, 4)])
            phone.wake()
            woken = time.time()
            assert await phone.numbers(3) == [2, 3, 4]
            phone.kill()  # and its system has ended it
        await news.publish(n=5)
        async with roamer(url(broker), name="phone", durable="news") as phone:
            while (n := (await phone.line("n"))["n"]) != 5:
                assert n in (2, 3, 4)  # what it had handled last may come again
        assert time.time() - woken < 20


@running
async def test_a_laptop_whose_lid_was_closed_notices_within_two_seconds(served: tuple[Served, Served]) -> None:
    broker, _ = served
    async with proxy(broker.port) as way, tidings.connect(url(broker)) as news:
        async with roamer(url(way), name="laptop") as laptop:
            laptop.sleep()
            way.strand()  # what stood between them has forgotten the connection meanwhile
            await news.publish(n=1)
            await asyncio.sleep(2.5)
            laptop.wake()
            woken = time.time()
            pause = (await laptop.line("n"))["at"] - woken
            assert 1 <= pause < 8  # 2 and a machine that is busy; without, 30


@running
async def test_a_changed_address_goes_on_with_the_session_where_it_was(served: tuple[Served, Served]) -> None:
    broker, _ = served
    async with proxy(broker.port) as way, tidings.connect(url(broker)) as news:
        async with roamer(url(way), name="traveller", silence=1) as phone:
            await news.publish(n=1)
            assert await phone.numbers(1) == [1]
            way.strand()
            way.source = "127.0.0.2"
            lost = time.time()
            await news.publish_many([{"n": n} for n in (2, 3)])
            line = await phone.line("n")
            assert line["n"] == 2
            assert 1 <= line["at"] - lost < 8
            assert await phone.numbers(1) == [3]
        assert broker.log.count("client traveller connected") == 1  # one session, over two connections


@pytest.mark.parametrize("dead", ["process", "node"])
@running
async def test_a_pod_that_is_started_elsewhere_without_its_disk_goes_on(
    served: tuple[Served, Served], dead: str
) -> None:
    a, b = served
    name = f"billing-{dead}"
    async with proxy(a.port) as way:
        async with tidings.connect(url(b)) as shop, roamer(url(way), name=name, durable="orders") as pod:
            await shop.publish_many([{"n": n} for n in (1, 2)])
            assert await pod.numbers(2) == [1, 2]
            if dead == "node":
                way.strand()  # nobody closes the connection: the broker has to find out that nobody is there
            pod.kill()
            await shop.publish_many([{"n": n} for n in (3, 4)])
            begun = time.time()
            async with roamer(url(b), name=name, durable="orders", wait=10) as again:
                numbers = await again.numbers(2)
                while numbers[-1] != 4:
                    numbers += await again.numbers(1)
                repeated = len(numbers) - 2  # what was handled, and not acknowledged before the pod died
                assert numbers == [1, 2, 3, 4][2 - repeated :]
                assert time.time() - begun < 20


@running
async def test_clients_of_a_region_that_fails_go_on_in_the_other(served: tuple[Served, Served]) -> None:
    east, west = served
    async with proxy(east.port) as way, tidings.connect(url(west)) as news:
        async with roamer(url(way), url(west), name="desk", silence=1) as desk:
            await news.publish(n=1)
            assert await desk.numbers(1) == [1]
            way.closed = True
            way.strand()  # the region is gone, and nobody says so
            await news.publish_many([{"n": n} for n in (2, 3)])
            assert await desk.numbers(2) == [2, 3]
            move = await desk.line("pause")
            assert (move["old"], move["new"], move["missed"]) == ("east", "west", 2)
            assert 1 <= move["pause"] < 10
            await news.publish(n=4)
            assert await desk.numbers(1) == [4]
