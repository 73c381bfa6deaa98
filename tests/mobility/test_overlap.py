"""Two at once: a client that overlaps takes what its old broker sends until the new one serves it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from mobility.test_evacuation import evacuated
from soaking import SOAK_SECONDS, soak_seeds

import tidings
from tidings.mobility import Hosts
from tidings.sim import Weather, World

RADIO = Weather(latency=(5_000, 5_000))
INTERVAL = 0.05
"""Seconds between two publications."""


@dataclass
class Walk:
    """A phone between two brokers, and a feed that publishes at a third one all the time."""

    world: World
    phone: tidings.Client
    got: list[tuple[float, int]] = field(default_factory=list)
    published: int = 0

    def longest_silence(self, since: float) -> float:
        """In publishing intervals."""
        times = [at for at, _ in self.got if at > since - 5 * INTERVAL]
        return max(two - one for one, two in itertools.pairwise(times)) / INTERVAL

    def hosts(self, broker: str) -> Hosts:
        """Who is attached to a broker."""
        feature = self.world.network.brokers[broker].features["hosts"]
        assert isinstance(feature, Hosts)
        return feature


@contextlib.asynccontextmanager
async def walk(latency: int, *, overlap: bool = True) -> AsyncIterator[Walk]:
    """Whatever happens, everything has come once and in order at the end, and every promise was kept."""
    links = [("a", "b"), ("b", "o"), ("b", "d")]
    weather = Weather(latency=(latency, latency))
    async with World(3, brokers=["a", "b", "o", "d"], links=links, weather=weather, client_weather=RADIO) as world:
        await world.rest()
        loop, addresses = asyncio.get_running_loop(), [world.url("a"), world.url("b")]
        async with (
            tidings.connect(addresses, name="phone", overlap=overlap) as phone,
            tidings.connect(world.url("o"), name="feed") as feed,
        ):
            seen = Walk(world, phone)
            await phone.subscribe("n >= 0", callback=lambda one: seen.got.append((loop.time(), int(str(one["n"])))))
            await world.rest()
            going_on, under_way = True, []

            async def publish() -> None:
                due = loop.time()
                while going_on:
                    under_way.append(asyncio.create_task(feed.publish(n=seen.published)))
                    seen.published += 1
                    due += INTERVAL
                    await asyncio.sleep(due - loop.time())

            publishing = asyncio.create_task(publish())
            await asyncio.sleep(1)
            yield seen
            going_on = False
            await asyncio.gather(publishing, *under_way)
            await asyncio.sleep(2)
            assert [n for _, n in seen.got] == list(range(seen.published))
        await world.check()


@pytest.mark.parametrize("latency", [200, 25_000])
@pytest.mark.parametrize("way", ["move", "evacuation"])
def test_a_client_that_overlaps_hears_no_silence_while_it_moves(way: str, latency: int) -> None:
    async def run() -> None:
        async with walk(latency) as seen:
            since = asyncio.get_running_loop().time()
            if way == "move":
                await seen.phone.move(seen.world.url("b"))
            else:
                await evacuated(seen.world, "a")
            await asyncio.sleep(2)
            assert seen.phone._link.broker == "b"
            assert seen.longest_silence(since) <= 1.1

    asyncio.run(run())


def test_a_client_that_does_not_overlap_hears_one() -> None:
    async def run() -> None:
        async with walk(25_000, overlap=False) as seen:
            since = asyncio.get_running_loop().time()
            await seen.phone.move(seen.world.url("b"))
            await asyncio.sleep(2)
            assert seen.longest_silence(since) > 1.5

    asyncio.run(run())


@pytest.mark.req("MOB-011")
@pytest.mark.req("AGG-005")
def test_the_old_broker_has_given_the_client_away_while_it_still_delivers() -> None:
    async def run() -> None:
        async with walk(25_000) as seen:
            old = seen.hosts("a").attached("phone")
            assert old is not None
            await seen.phone.move(seen.world.url("b"))
            await asyncio.sleep(0.1)
            assert seen.hosts("a").has_left(old.link)  # nobody counts it there any more
            assert seen.world.network.brokers["a"].client("phone") is old.link
            new = seen.hosts("b").attached("phone")
            assert new is not None
            assert new.epoch > old.epoch
            await asyncio.sleep(1)
            assert seen.world.network.brokers["a"].client("phone") is None
            assert not seen.hosts("a").epoch_of("phone")

    asyncio.run(run())


@pytest.mark.parametrize("after", [0.02, 0.2])
def test_a_client_may_close_or_lose_its_new_broker_meanwhile(after: float) -> None:
    async def run() -> None:
        async with walk(25_000) as seen:
            await seen.phone.move(seen.world.url("b"))
            await asyncio.sleep(after)
            seen.world.crash("b")
            await asyncio.sleep(1)
            seen.world.restart("b")
            await asyncio.sleep(8)

    asyncio.run(run())


def test_a_client_goes_back_while_its_old_broker_still_delivers() -> None:
    async def run() -> None:
        async with walk(25_000) as seen:
            since = asyncio.get_running_loop().time()
            for broker in "baba":
                await seen.phone.move(seen.world.url(broker))
                await asyncio.sleep(0.1)
            await asyncio.sleep(3)
            assert seen.phone._link.broker == "a"
            assert seen.longest_silence(since) < 15

    asyncio.run(run())


def test_a_broker_that_does_not_let_the_client_in_changes_nothing() -> None:
    async def run() -> None:
        async with walk(200) as seen:
            seen.world.crash("d")
            await asyncio.sleep(1)
            since = asyncio.get_running_loop().time()
            with pytest.raises(
                tidings.ConnectionFailed, match=r"did not let .* 'phone' in; it is still connected to broker 'a'"
            ):
                await seen.phone.move(seen.world.url("d"))
            await asyncio.sleep(1)
            assert seen.longest_silence(since) <= 1.1
            assert seen.phone._link.broker == "a"
            seen.world.restart("d")
            await asyncio.sleep(5)

    asyncio.run(run())


async def roamed(seed: int) -> None:
    """Clients that overlap go to and fro while brokers crash and links are cut; every promise is kept."""
    rng = random.Random(seed)
    latency, links = rng.choice((200, 5_000, 25_000, 60_000)), [("a", "b"), ("b", "c"), ("c", "d"), ("a", "c")]
    weather = Weather(latency=(latency, latency * rng.choice((1, 2))))
    async with World(seed, brokers=list("abcd"), links=links, weather=weather, client_weather=RADIO) as world:
        await world.rest()
        going_on = True

        async def publish(client: tidings.Client, name: str) -> None:
            for n in itertools.count():
                await asyncio.sleep(rng.choice((0.005, 0.03, 0.1)))
                if not going_on:
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(30):
                        await client.publish(n=n, feed=name)

        async def roam(client: tidings.Client) -> None:
            while going_on:
                await asyncio.sleep(rng.choice((0.05, 0.3, 1, 3)))
                with contextlib.suppress(TimeoutError, tidings.ConnectionFailed):
                    async with asyncio.timeout(30):
                        await client.move(world.url(rng.choice("abcd")))

        async with contextlib.AsyncExitStack() as stack:
            tasks = []
            for number in range(3):
                addresses = [world.url(one) for one in rng.sample("abcd", 3)]
                phone = await stack.enter_async_context(tidings.connect(addresses, name=f"phone{number}", overlap=True))
                await phone.subscribe(rng.choice(("n >= 0", "n < 60", "feed = 'a'")), callback=lambda one: None)
                tasks.append(asyncio.create_task(roam(phone)))
            for name in "ad":
                feed = await stack.enter_async_context(tidings.connect(world.url(name), name=f"feed-{name}"))
                tasks.append(asyncio.create_task(publish(feed, name)))
            for _ in range(rng.randrange(5)):
                await asyncio.sleep(rng.uniform(0.5, 3))
                if rng.random() < 0.5:
                    broker = rng.choice("abcd")
                    world.crash(broker)
                    await asyncio.sleep(rng.uniform(0.2, 3))
                    world.restart(broker)
                else:
                    link = rng.choice(links)
                    world.cut(*link)
                    await asyncio.sleep(rng.uniform(0.2, 3))
                    world.heal(*link)
            await asyncio.sleep(3)
            going_on = False
            await asyncio.gather(*tasks)
            await asyncio.sleep(5)
            await world.rest()
        await world.check()


@pytest.mark.parametrize("seed", [5])
def test_clients_that_overlap_roam_while_things_break(seed: int) -> None:
    asyncio.run(roamed(seed))


@pytest.mark.soak
def test_clients_that_overlap_roam_while_things_break_for_long() -> None:
    for seed in soak_seeds(SOAK_SECONDS * 0.1):
        asyncio.run(roamed(seed))
