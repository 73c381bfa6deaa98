"""Nothing is missed by `quench`: worlds in which clients publish, subscribe and move, and in which links fail.

What a publication owes is known here, not from the trace, in which nothing appears that was left out: everything that
was published after a subscription had settled, and before it was ended, and that it wants.
"""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

import tidings
from tidings.broker import RoutingOptions
from tidings.client import Client
from tidings.sim import Weather, World

BROKERS = ("a", "b", "c", "d")
FILTERS = ("mark = {}", "mark = {} AND n > 20", "kind IN ('x', 'y') AND mark = {}")
"""Each subscription wants another mark than all before, so that nothing that lingers hides what is missing."""


class Owed:
    """What one subscription is owed, and has got."""

    def __init__(self) -> None:
        self.filter = tidings.Filter.parse("FALSE")
        self.settled = False
        self.owed: set[int] = set()
        self.got: list[int] = []


class Run:
    """One world."""

    def __init__(self, seed: int, *, moves: bool = False, cuts: bool = False) -> None:
        self.rng = random.Random(f"quenching {seed}")
        self.moves, self.cuts = moves, cuts
        algorithm = self.rng.choice(("simple", "identity", "covering", "merging"))
        tree = [(self.rng.choice(BROKERS[:at]), name) for at, name in enumerate(BROKERS) if at]
        weather = Weather(latency=(500, 30_000))
        self.world = World(
            seed,
            brokers=BROKERS,
            links=tree,
            weather=weather,
            client_weather=Weather(latency=(500, 400_000)),
            routing=RoutingOptions(algorithm=algorithm),
        )
        self.numbers = 0
        self.open: list[Owed] = []
        self.all: list[Owed] = []
        self.published = self.quenched = 0

    async def publish(self, client: Client, until: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            self.numbers += 1
            number = self.numbers
            mark = len(self.all) - self.rng.randrange(12)
            content = {"number": number, "mark": mark, "n": self.rng.randrange(100), "kind": self.rng.choice("xyzw")}
            wanted = [one for one in self.open if one.settled and one.filter.matches(content)]
            if client.connected:
                receipt = await client.publish(content, quality="fire", quench=True)
                for one in wanted:
                    one.owed.add(number)
                self.published += 1
                self.quenched += receipt.quenched
            await asyncio.sleep(self.rng.uniform(0.001, 0.05))

    async def subscribe(self, client: Client, until: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            one = Owed()
            self.all.append(one)
            text = self.rng.choice(FILTERS).format(len(self.all))
            one.filter = tidings.Filter.parse(text)
            subscription = await client.subscribe(text, callback=lambda each, one=one: one.got.append(each["number"]))
            one.settled = True
            self.open.append(one)
            await asyncio.sleep(self.rng.uniform(0.01, 3))
            if self.moves and self.rng.random() < 0.5:
                await client.move(self.world.url(self.rng.choice(BROKERS)))
            self.open.remove(one)
            await asyncio.sleep(1)  # until what was published before is here
            if self.moves or self.cuts:
                await asyncio.sleep(15)
            subscription.unsubscribe()
            await asyncio.sleep(self.rng.uniform(0, 2))

    async def cut(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            await asyncio.sleep(self.rng.uniform(1, 6))
            one, two = self.rng.choice(self.world.network.links)
            self.world.cut(one, two)
            await asyncio.sleep(self.rng.uniform(0.1, 8))
            self.world.heal(one, two)

    async def main(self, seconds: float) -> None:
        async with self.world as world, asyncio.TaskGroup() as group, contextlib.AsyncExitStack() as stack:
            until = asyncio.get_running_loop().time() + seconds
            clients = [
                await stack.enter_async_context(
                    tidings.connect(world.url(self.rng.choice(BROKERS)), name=f"{what}{number}", wait=60)
                )
                for what in ("publisher", "subscriber")
                for number in range(2)
            ]
            doing = [self.publish, self.publish, self.subscribe, self.subscribe]
            tasks = [group.create_task(do(client, until)) for do, client in zip(doing, clients, strict=True)]
            if self.cuts:
                tasks.append(group.create_task(self.cut(until)))
            await asyncio.gather(*tasks)
            await asyncio.sleep(20)

    @property
    def missed(self) -> list[set[int]]:
        return [missing for one in self.all if (missing := one.owed - set(one.got))]


def run(seed: int, seconds: float = 30, **what: bool) -> Run:
    it = Run(seed, **what)
    asyncio.run(it.main(seconds))
    return it


@pytest.mark.parametrize("seed", [1, 58])
def test_nothing_is_missed_after_a_subscription_has_settled(seed: int) -> None:
    it = run(seed, 8)
    assert it.missed == []
    assert it.quenched > it.published / 4
    assert sum(len(one.owed) for one in it.all) > 8


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 130))
@pytest.mark.parametrize("moves", [False, True])
def test_nothing_is_missed_in_many_worlds(seed: int, moves: bool) -> None:
    assert run(seed, moves=moves).missed == []


async def quiet(client: Client, seconds: float, **attributes: object) -> bool:
    """Publish this for so long; whether it was left out in the end."""
    loop = asyncio.get_running_loop()
    until, left_out = loop.time() + seconds, False
    while loop.time() < until:
        left_out = (await client.publish(attributes, quality="fire", quench=True)).quenched
        await asyncio.sleep(0.1)
    return left_out


def test_a_durable_subscription_is_owed_what_is_published_while_its_client_is_away() -> None:
    async def main() -> None:
        async with World(1, brokers=["a", "b"]) as world:
            async with tidings.connect(world.url("b"), name="reader") as reader:
                await reader.subscribe("n = 1", durable="mine")
                await asyncio.sleep(1)
            await asyncio.sleep(100)
            async with tidings.connect(world.url("a"), name="publisher") as publisher:
                assert await quiet(publisher, 70, n=2)
                assert not await quiet(publisher, 70, n=1)
                last = publisher.statistics().published
                async with tidings.connect(world.url("b"), name="reader") as reader:
                    got: list[int] = []
                    await reader.subscribe("n = 1", durable="mine", callback=lambda each: got.append(each["n"]))
                    await asyncio.sleep(5)
                    assert len(got) > 600
                assert publisher.statistics().published == last

    asyncio.run(main())


def test_what_is_no_longer_wanted_lingers() -> None:
    async def main() -> None:
        async with World(1) as world:
            async with tidings.connect(world.url("berlin")) as one, tidings.connect(world.url("berlin")) as two:
                assert await quiet(one, 1, n=1)
                subscription = await two.subscribe("n = 1")
                subscription.unsubscribe()
                assert not await quiet(one, 58, n=1)
                assert await quiet(one, 4, n=1)

    asyncio.run(main())


def test_a_client_that_is_silent_holds_up_settling_for_its_lease() -> None:
    async def main() -> None:
        async with World(1) as world:
            async with (
                tidings.connect(world.url("berlin"), name="publisher") as one,
                tidings.connect(world.url("berlin")) as two,
            ):
                loop = asyncio.get_running_loop()
                assert await quiet(one, 3, n=1)
                world.vanish("publisher")
                begun = loop.time()
                await two.subscribe("n = 1")
                assert 2 < loop.time() - begun < 6
                begun = loop.time()
                await two.subscribe("n = 2")
                assert loop.time() - begun < 1
                world.heal("publisher")
                await asyncio.sleep(1)
                assert not await quiet(one, 40, n=3)  # it could hold up the next one
                assert await quiet(one, 40, n=3)

    asyncio.run(main())


def test_after_a_pause_it_is_asked_anew() -> None:
    async def main() -> None:
        async with World(1) as world:
            async with tidings.connect(world.url("berlin")) as one, tidings.connect(world.url("berlin")) as two:
                assert await quiet(one, 1, n=1)
                await asyncio.sleep(10)
                subscription = await two.subscribe("n = 1")
                assert not (await one.publish(n=1, quality="fire", quench=True)).quenched
                assert not await quiet(one, 2, n=1)
                assert await quiet(one, 2, n=2)
                subscription.unsubscribe()
                await asyncio.sleep(20)
                assert not await quiet(one, 2, n=1)

    asyncio.run(main())


def test_where_what_is_wanted_cannot_be_known_everything_is_published() -> None:
    async def main() -> None:
        async with World(1, routing=RoutingOptions(algorithm="flooding")) as world:
            async with tidings.connect(world.url("berlin")) as client:
                assert not await quiet(client, 2, n=1)
        async with World(1) as world:
            async with tidings.connect(world.url("berlin")) as client:
                assert await quiet(client, 2, n=1)
                await client.admin.create_scope("building")
                await asyncio.sleep(1)
                assert not await quiet(client, 2, n=1)

    asyncio.run(main())


def test_brokers_keep_nothing_of_a_client_that_has_gone() -> None:
    async def main() -> None:
        async with World(1, brokers=["a", "b"]) as world:
            async with tidings.connect(world.url("a")) as client:
                assert await quiet(client, 2, n=1)
                assert world.network.brokers["a"].scoping.root.taps
            await asyncio.sleep(1)
            broker = world.network.brokers["a"]
            assert not broker.scoping.root.taps
            assert broker.features["quench"].kept() == []  # type: ignore[attr-defined]

    asyncio.run(main())
