"""An origin is killed and comes back, and its client with it, full of what it could not publish: real processes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from net.faults import ADVERTISED, cluster
from net.world import until

import tidings
from tidings.wire import Gap

BURST = 50


def test_what_is_published_around_the_return_of_its_origin_arrives_with_advertisements(tmp_path: Path) -> None:
    asyncio.run(_three_returns(tmp_path))


async def _three_returns(directory: Path) -> None:
    settings = ADVERTISED
    async with cluster(directory, "amb", ["am", "mb"], settings) as world:
        got: list[int] = []
        gaps: list[Gap] = []
        async with tidings.connect(world.ways["a"].url) as reader, tidings.connect(world.ways["b"].url) as writer:
            await reader.subscribe("EXISTS(n)", callback=lambda one: got.append(one["n"]), on_gap=gaps.append)
            await writer.advertise("EXISTS(n)")
            while not got:  # until the three have found one another
                await writer.publish(n=0, quality="stored")
                await asyncio.sleep(0.1)
            await writer.flush()
            await asyncio.sleep(0.5)
            got.clear()
            for round in range(3):
                await world.crash("b")
                burst = asyncio.create_task(_publish(writer, round * BURST))  # waits for the broker to be back
                await world.restart("b")
                await burst
                await until(lambda: len(got) >= (round + 1) * BURST)  # noqa: B023 - it is over before the next
            assert got == list(range(1, 3 * BURST + 1))
            assert gaps == [], "nothing was lost, so nothing is reported"


async def _publish(writer: tidings.Client, after: int) -> None:
    receipts = [await writer.publish(n=after + n, quality="stored") for n in range(1, BURST + 1)]
    await asyncio.gather(*receipts)
