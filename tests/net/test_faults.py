"""Real processes, kill -9 and TCP cuts under traffic, judged by the simulator's checker against docs/promises.md."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from pathlib import Path

import pytest
from net.faults import ADVERTISED, SETTINGS, Cluster, TracedClient, cluster, judged
from net.world import until

from tidings.sim import Op
from tidings.wire import Quality

NAMES = "abcde"
LINKS = ["ab", "bc", "cd", "de", "ae", "bd"]


async def chatter(client: TracedClient, rng: random.Random, pause: float) -> None:
    """Publish until cancelled, in every quality."""
    number = 0
    while True:
        number += 1
        quality = rng.choice((Quality.STORED, Quality.DEFAULT, Quality.ACCEPTED, Quality.FIRE))
        await client.record_publication(quality, topic=rng.randrange(4), n=number, filling="x" * rng.randrange(200))
        await asyncio.sleep(rng.uniform(0, 2 * pause))


async def change_of_mind(client: TracedClient, rng: random.Random) -> None:
    """A subscription whose filter changes all the time; topic 0 always passes."""
    subscription = client.record_subscription("topic = 0")
    await subscription
    while True:
        await asyncio.sleep(rng.uniform(0.2, 1.0))
        client.record_change(subscription, f"topic <= {rng.randrange(4)}")


async def run(
    directory: Path, seed: int, rounds: int, seconds: float, every: tuple[float, float], *, advertised: bool
) -> None:
    rng = random.Random(seed)
    async with contextlib.AsyncExitStack() as stack:
        settings = ADVERTISED if advertised else SETTINGS
        world: Cluster = await stack.enter_async_context(cluster(directory, NAMES, LINKS, settings))
        urls = [way.url for way in world.ways.values()]
        clients = []
        for at in range(7):
            turned = urls[at % 5 :] + urls[: at % 5]
            client = TracedClient(world.trace, turned, f"client{at}")
            clients.append(await stack.enter_async_context(client))
        readers, writers = clients[:5], clients[3:]
        for at, client in enumerate(readers):
            await client.record_subscription(("EXISTS(n)", "topic < 2", "topic = 3")[at % 3])
        for client in writers if advertised else ():
            await client.record_advertisement("EXISTS(topic)")
        await until(lambda: all_reach(world))
        for _ in range(rounds):
            tasks = [asyncio.create_task(chatter(client, rng, 0.02 * rounds)) for client in writers]
            tasks += [asyncio.create_task(change_of_mind(clients[0], rng))]
            await world.torment(rng, seconds, every)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(client.flush() for client in clients))
            await judged(world, 60 * rounds, advertisements=advertised)
            await asyncio.sleep(10 if rounds > 1 else 0)  # so that the next round is not the same long trouble
        crashes = [record for record in world.trace.records if record.op is Op.FAULT and record.detail[0] == "crash"]
        delivered = sum(record.op is Op.NOTIFY for record in world.trace.records)
        assert delivered > 100
        assert crashes
        for process in world.processes.values():
            assert "Traceback" not in process.log, process.log


def all_reach(world: Cluster) -> bool:
    """Whether every subscription has settled towards every broker."""
    subscribed = {(r.component, r.subscription) for r in world.trace.records if r.op is Op.SUB}
    settled = {
        (record.component, record.subscription)
        for record in world.trace.records
        if record.op is Op.SETTLED and record.detail[1] == frozenset(NAMES)
    }
    return subscribed <= settled


@pytest.mark.req("ARC-001")
@pytest.mark.parametrize("advertised", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["plain", "advertised"])
def test_a_short_storm_keeps_every_promise(tmp_path: Path, advertised: bool) -> None:
    storm = run(tmp_path, 1, rounds=1, seconds=8, every=(0.3, 1.0), advertised=advertised)
    asyncio.run(asyncio.wait_for(storm, 140))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(int(os.environ.get("SOAK_STORMS", "3"))))
def test_minutes_of_storms_keep_every_promise(tmp_path: Path, seed: int) -> None:
    storm = run(tmp_path, 100 + seed, rounds=2, seconds=35, every=(0.5, 3.0), advertised=seed % 2 == 1)
    asyncio.run(asyncio.wait_for(storm, 500))
