"""A phone walks through a building with six brokers, loses its radio, dies once on the way, and misses nothing.

The building is simulated (`tidings.sim.World`): virtual time, real brokers, the client library that applications use.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path

import tidings
from tidings.sim import World

ROOMS = ("hall", "stairs", "library", "office", "lab", "roof")
DOORS = [
    ("hall", "stairs"),
    ("hall", "library"),
    ("stairs", "office"),
    ("library", "office"),
    ("office", "lab"),
    ("lab", "roof"),
]
STEPS = 12
DEATH = 6
"""The step at which the phone's battery is empty, without a warning."""
STAY = 5.0
"""Seconds in each room."""


class Phone:
    """What the owner of the phone sees: it survives the process, as paper would."""

    def __init__(self, world: World, state: Path) -> None:
        self._world = world
        self._state = state
        self.room = "hall"
        self.news: tidings.Subscription | None = None
        self.seen: list[int] = []

    async def run(self) -> None:
        """One life of the application: it goes on where the last one was, at whichever broker is nearest."""
        url = self._world.url(self.room)
        async with tidings.connect(url, name="phone", state=self._state, wait=30) as client:
            carried = asyncio.create_task(self._follow(client))
            try:
                news = self.news = client.subscribe("type = 'news'", durable="news")
                async for one in news:
                    number = one["number"]
                    if number not in self.seen[-1:]:  # written down, and not acknowledged when the battery was empty
                        self.seen.append(number)
                    await news.acknowledge()
            finally:
                carried.cancel()

    async def _follow(self, client: tidings.Client) -> None:
        """Be at the nearest broker: where the owner carries the phone."""
        here = self.room
        while True:
            await asyncio.sleep(0.1)
            if self.room != here:
                here = self.room
                await client.move(self._world.url(here))


async def publish(world: World, stopped: asyncio.Event) -> int:
    """Somebody has news, ten times a second, now here, now there."""
    number = 0
    clients = [await tidings.connect(world.url(room), name=f"newsroom-{room}") for room in ROOMS]
    while not stopped.is_set():
        await random.choice(clients).publish(type="news", number=number)  # noqa: S311 - no secret
        number += 1
        await asyncio.sleep(0.1)
    for client in clients:
        await client.close()
    return number


def picture(room: str, alive: bool) -> str:
    """Where the phone is."""
    return "  ".join(f"[{one}]" if one == room and alive else f"({one})" if one == room else one for one in ROOMS)


async def walk(world: World, state: Path) -> tuple[int, int]:
    """Walk, and return how much was lost and how much came twice."""
    phone, stopped = Phone(world, state), asyncio.Event()
    publishing = asyncio.create_task(publish(world, stopped))
    world.start("phone-app", phone.run)
    await asyncio.sleep(STAY)
    first = phone.seen[0]
    for step in range(STEPS):
        around = [one if two == phone.room else two for one, two in DOORS if phone.room in (one, two)]
        if step == DEATH:
            world.crash("phone-app")
        phone.room = random.choice(around)  # noqa: S311 - no secret
        await asyncio.sleep(STAY)
        print(f"{picture(phone.room, step != DEATH)}   {len(phone.seen)} news")
        if step == DEATH:
            world.restart("phone-app")
    stopped.set()
    published = await publishing
    await asyncio.sleep(30)
    await world.check()
    assert phone.news is not None
    phone.news.unsubscribe()  # the walk is over
    expected = set(range(first, published))
    return len(expected - set(phone.seen)), len(phone.seen) - len(set(phone.seen))


async def main() -> None:
    """Walk once, and say what was missed."""
    with tempfile.TemporaryDirectory() as directory:
        async with World(seed=7, brokers=ROOMS, links=DOORS) as world:
            lost, twice = await walk(world, Path(directory) / "phone.tidings")
    print(f"lost {lost}, twice {twice}")


if __name__ == "__main__":
    asyncio.run(main())
