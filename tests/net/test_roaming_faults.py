"""Thirty clients that roam among six brokers in processes of their own, while these are killed and links are cut."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from pathlib import Path

import pytest
from net.faults import SETTINGS, Cluster, TracedClient, cluster, judged
from net.world import until
from soaking import SOAK_SECONDS

import tidings
from tidings.mobility.workload import BUILDING
from tidings.sim import Op
from tidings.wire import Quality

LINKS = sorted({"".join(sorted((one[1], other[1]))) for one, others in BUILDING.items() for other in others})
"""Brokers are called by their numbers."""
NAMES = sorted({name for link in LINKS for name in link})
CLIENTS = 30
TOPICS = 10
SECONDS = max(20.0, SOAK_SECONDS * 0.3)
"""For which things are broken."""


def settings(scheme: str) -> str:
    return f'{SETTINGS}\n[mobility]\nscheme = "{scheme}"\nroamers = ["all"]\nnew_edge_interval = 0\n'


async def walk(client: TracedClient, rng: random.Random, world: Cluster) -> None:
    """Go somewhere else again and again, sometimes with a connection that is reset first."""
    while True:
        await asyncio.sleep(rng.uniform(0.5, 4))
        name = rng.choice(NAMES)
        if rng.random() < 0.1:
            world.blink(name)
        with contextlib.suppress(tidings.TidingsError):  # that broker is dead just now
            await client.move(world.ways[name].url)


async def chatter(client: TracedClient, rng: random.Random) -> None:
    """Publish until cancelled."""
    number = 0
    while True:
        number += 1
        quality = rng.choice((Quality.STORED, Quality.DEFAULT, Quality.ACCEPTED))
        await client.record_publication(quality, topic=rng.randrange(TOPICS), n=number)
        await asyncio.sleep(rng.uniform(0, 0.3))


def all_settled(world: Cluster) -> bool:
    reached = [r for r in world.trace.records if r.op is Op.SETTLED and r.detail[1] == frozenset(NAMES)]
    return len({record.component for record in reached}) == CLIENTS


async def run(directory: Path, seed: int, scheme: str) -> None:
    rng = random.Random(seed)
    async with contextlib.AsyncExitStack() as stack:
        links = [link for link in LINKS if link[0] < link[1]]
        world = await stack.enter_async_context(cluster(directory, NAMES, links, settings(scheme)))
        urls = [way.url for way in world.ways.values()]
        clients: list[TracedClient] = []
        for at in range(CLIENTS):
            own = urls[at % len(urls) :] + urls[: at % len(urls)]
            clients.append(await stack.enter_async_context(TracedClient(world.trace, own, f"client{at}")))
        for at, client in enumerate(clients):
            await client.record_subscription(f"topic = {at % TOPICS}")
        await until(lambda: all_settled(world))
        tasks = [asyncio.create_task(walk(client, rng, world)) for client in clients]
        tasks += [asyncio.create_task(chatter(client, rng)) for client in clients[:6]]
        await world.torment(rng, SECONDS, (0.5, 3))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(client.flush() for client in clients))
        await judged(world, 120)
        counted = {op: sum(record.op is op for record in world.trace.records) for op in (Op.PUB, Op.NOTIFY, Op.ATTACH)}
        faults = [record.detail[0] for record in world.trace.records if record.op is Op.FAULT]
        print(f"{scheme}: {counted}, {faults.count('crash')} kills, {faults.count('cut')} cuts")
        assert counted[Op.NOTIFY] > 300
        assert counted[Op.ATTACH] > 3 * CLIENTS
        assert "crash" in faults
        for process in world.processes.values():
            assert "Traceback" not in process.log, process.log


@pytest.mark.soak
@pytest.mark.parametrize("scheme", ["proactive", "reactive"])
def test_thirty_clients_roam_while_brokers_are_killed(scheme: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("SEED", "1"))
    asyncio.run(run(tmp_path, seed, scheme))
