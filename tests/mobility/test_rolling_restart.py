"""All brokers of a network are evacuated and restarted, one after the other, under load: nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from mobility.test_evacuation import evacuated

import tidings
from tidings.mobility.workload import BUILDING
from tidings.sim import Weather, World

BUILDING_LINKS = sorted({tuple(sorted((one, other))) for one, others in BUILDING.items() for other in others})
ALL = sorted(BUILDING)
ONE_WAY = 0.005
"""Seconds from a client to its broker."""
ROUND_TRIP = 2 * ONE_WAY
RADIO = Weather(latency=(5_000, 5_000))
BACKBONE = Weather(latency=(200, 200))
SUBJECTS = 20
"""Each subscriber wants what is published on one of them."""


@dataclass
class Restarted:
    """What was seen."""

    published: list[tuple[float, int]] = field(default_factory=list)
    """When, on which subject; its number is its place."""
    got: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """For each subscriber, when which number came."""
    windows: list[tuple[float, float]] = field(default_factory=list)
    """From when to when each broker was evacuated."""
    moves: int = 0

    def delays(self, *, evacuating: bool) -> list[float]:
        """How long notifications took that were published during evacuations, or while nothing happened before."""
        first = self.windows[0][0]

        def counts(at: float) -> bool:
            if not evacuating:
                return at < first - 1
            return any(begin - 0.5 <= at <= end + 0.5 for begin, end in self.windows)

        return [at - self.published[n][0] for got in self.got.values() for at, n in got if counts(self.published[n][0])]

    @property
    def pause(self) -> float:
        """By how many round trips of a client a notification came later than it does otherwise, at most."""
        return (max(self.delays(evacuating=True)) - max(self.delays(evacuating=False))) / ROUND_TRIP


def noting(loop: asyncio.AbstractEventLoop, got: list[tuple[float, int]]) -> Callable[[tidings.Notification], None]:
    """Note what comes, and when."""
    return lambda notification: got.append((loop.time(), int(str(notification["n"]))))


async def rolling(seed: int, *, clients: int, publishers: int, every: float, brokers: list[str] = ALL) -> Restarted:
    """Restart brokers in turn while clients publish, each once in so many seconds."""
    rng, seen = random.Random(seed), Restarted()
    async with contextlib.AsyncExitStack() as stack:
        links = [(one, two) for one, two in BUILDING_LINKS if one in brokers and two in brokers]
        world = World(seed, brokers=brokers, links=links, weather=BACKBONE, client_weather=RADIO)
        await stack.enter_async_context(world)
        await world.rest()
        loop, everybody = asyncio.get_running_loop(), []
        for number in range(clients):
            own, name = rng.sample(brokers, 3), f"client-{number}"
            client = tidings.connect([world.url(one) for one in own], name=name)
            everybody.append(await stack.enter_async_context(client))
            got = seen.got.setdefault(name, [])
            await client.subscribe(f"subject = {number % SUBJECTS}", callback=noting(loop, got))
        await world.rest()
        going_on = True

        async def publish(client: tidings.Client) -> None:
            while going_on:
                await asyncio.sleep(every * rng.uniform(0.8, 1.2))
                subject = rng.randrange(SUBJECTS)
                seen.published.append((loop.time(), subject))
                await client.publish(n=len(seen.published) - 1, subject=subject)

        publishing = [asyncio.create_task(publish(client)) for client in everybody[:publishers]]
        await asyncio.sleep(5)
        for broker in brokers:
            there, begun = len(world.guests(broker)), loop.time()
            status = await evacuated(world, broker)
            seen.windows.append((begun, loop.time()))
            assert (sum(status.gone.values()), status.staying, status.ended) == (there, (), 0)
            seen.moves += there
            await asyncio.sleep(1)
            assert not world.guests(broker), "nobody has come back"
            world.crash(broker)
            await asyncio.sleep(2)
            world.restart(broker)
            await asyncio.sleep(5)
        going_on = False
        await asyncio.gather(*publishing)
        await world.check()
    return seen


def judge(seen: Restarted) -> None:
    """Every subscriber has got everything, once, and without a pause of more than two round trips."""
    for number, (name, got) in enumerate(seen.got.items()):
        subject = number % SUBJECTS
        wanted = [n for n, (_, each) in enumerate(seen.published) if each == subject]
        assert sorted(n for _, n in got) == wanted, f"{name} lacks something, or has got it twice"
    assert seen.pause < 2


def test_three_brokers_are_restarted_and_nothing_is_lost() -> None:
    seen = asyncio.run(rolling(1, clients=4, publishers=2, every=0.5, brokers=["B1", "B2", "B6"]))
    judge(seen)
    assert seen.moves >= 4


@pytest.mark.soak
def test_six_brokers_with_a_hundred_clients_are_restarted_under_load() -> None:
    begun = time.monotonic()
    seen = asyncio.run(rolling(1, clients=100, publishers=10, every=1.0))
    judge(seen)
    print(
        f"{seen.moves:,} moves, {len(seen.published):,} publications, {sum(map(len, seen.got.values())):,}"
        f" deliveries, pause at most {seen.pause:.2f} round trips, {time.monotonic() - begun:.0f} s"
    )
