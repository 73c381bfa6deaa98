"""Copies listen from what a client has consumed: as it has kept it, or else as it has reached its process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mobility.roamers import OPTIONS

import tidings
from tidings.mobility import Edge, Following, Hosts, Neighbourhood, Roaming
from tidings.sim import World


def features(name: str) -> list[Any]:
    hosts = Hosts()
    following = Following(hosts.epoch_of)
    neighbourhood = Neighbourhood(hosts, OPTIONS.graph, [Edge("a", "b", 1.0, 0, 0, pinned=True)])
    roaming = Roaming(OPTIONS, hosts, neighbourhood)
    roaming.controlling.in_use = following.in_use
    return [hosts, following, neighbourhood, roaming]


@pytest.mark.req("MOB-020")
@pytest.mark.parametrize("another", [False, True])
def test_a_process_that_died_finds_what_it_had_not_handled_at_a_copy(another: bool) -> None:
    asked: list[str] = []

    async def main() -> None:
        async with World(brokers=("a", "b", "c"), features=features, limit=1_000) as world:
            await asyncio.sleep(1)
            got: list[object] = []

            async def reader() -> None:
                async with tidings.connect(world.url("a"), name="reader") as client:
                    stream = client.subscribe("n >= 0", durable="all")
                    if another:  # of which more has reached the process than it has kept of the other one
                        await client.subscribe("n >= 0", callback=lambda n: None)
                    async for one in stream:
                        got.append(one["n"])
                        if one["n"] == 1:
                            await stream.acknowledge()
                        elif one["n"] == 2:
                            await asyncio.sleep(900)  # it is at work on it when it dies

            world.start("app", reader)
            await asyncio.sleep(5)
            async with tidings.connect(world.url("c"), name="feed") as feed:
                await feed.publish(n=0)
                await feed.publish(n=1)
                await asyncio.sleep(5)
                await feed.publish(n=2)  # it reaches the process, which does not say that it has handled it
                await asyncio.sleep(5)
                assert got == [0, 1, 2]
                world.crash("app")
                await asyncio.sleep(5)
                await feed.publish(n=3)
                await asyncio.sleep(5)
            roaming = world.network.brokers["b"].features["roaming"]
            assert isinstance(roaming, Roaming)
            copy = roaming.keeping.copies["reader"]
            held = [one.notification["n"] for one in roaming.keeping.buffer.of(copy, "s1")]
            assert held == [2, 3]  # and not what was kept as handled
            world.network.tap = lambda name, link, frame: asked.append(
                getattr(frame.message, "kind", type(frame.message).__name__)
            )
            async with tidings.connect(world.url("b"), name="reader") as client:
                stream = client.subscribe("n >= 0", durable="all")
                assert [(await anext(stream))["n"] for _ in range(2)] == [2, 3]
                assert "following.find" in asked  # its record was looked for, and no origin was asked
                assert not {"Fetch", "resume"} & set(asked)
                await stream.acknowledge()
            await world.check()

    asyncio.run(main())
