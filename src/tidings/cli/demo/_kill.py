"""The last scene: a broker is killed in the middle of the traffic, and nothing is lost. It is counted."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Sequence

import tidings

from ._brokers import PATIENCE, Network
from ._stage import BAD, GOOD, GREY, NAME, Stage

FIRST, BURST, LATER = 20, 10, 30
"""Orders that are published while all is well; while the broker dies; while it is dead."""
ALL = FIRST + BURST + LATER
BAR = 40
"""The length of a bar for all of them."""


async def kill(stage: Stage, net: Network, where: str) -> bool:
    """Count at one end what is published at the other, while the broker between them dies and comes back."""
    stage.headline("A broker is killed, and nothing is lost", where)
    stage.say("At ", ("berlin", NAME), f", {ALL} orders are published; at ", ("rome", NAME), " they are counted.")
    stage.say(("paris", NAME), " is the only way from one to the other:")
    stage.gap()
    numbers: list[int] = []
    gaps: list[tidings.Gap] = []
    async with (
        tidings.connect(net.berlin.url, name="shop") as shop,
        tidings.connect(net.rome.url, name="counter") as counter,
    ):
        await counter.subscribe(
            "type = 'order'", callback=lambda order: numbers.append(int(str(order["number"]))), on_gap=gaps.append
        )
        await _publish(shop, 1, FIRST)
        await _until(numbers, FIRST)
        _bar(stage, "paris is up", FIRST)
        await stage.pause(1.5)
        process = net.paris.pid
        under_way = await _publish(shop, FIRST + 1, BURST)
        await net.paris.kill()
        stage.line((f"kill -9 {process:<8}", BAD), ("paris is dead, in the middle of a burst", BAD))
        await stage.pause(1.5)
        receipts = under_way + await _publish(shop, FIRST + BURST + 1, LATER)
        await shop.flush()
        stored = sum(receipt.quality is tidings.Quality.STORED for receipt in receipts)
        stage.line(f"{'paris is down':16}", (f"{stored} more are published, and stored at berlin", GREY))
        await stage.pause(1.5)
        await net.paris.start()
        await _until(numbers, ALL)
        _bar(stage, "paris is back", len(numbers))
        await stage.pause(1.0)
    lost, twice = ALL - len(set(numbers)), len(numbers) - len(set(numbers))
    turned = sum(later < earlier for earlier, later in itertools.pairwise(numbers))
    stage.gap()
    counted = {"published": ALL, "heard": len(numbers), "lost": lost, "twice": twice, "out of order": turned}
    style = GOOD if numbers == list(range(1, ALL + 1)) and not gaps else BAD
    stage.line(("    ".join(f"{count} {what}" for what, count in counted.items()), style))
    return style is GOOD


async def _publish(shop: tidings.Client, first: int, count: int) -> list[tidings.Receipt]:
    """Publish one after the other; none waits for the answer to the one before."""
    return [await shop.publish(type="order", number=number) for number in range(first, first + count)]


async def _until(numbers: Sequence[int], count: int) -> None:
    """Wait for so many; what does not come in time is lost, and counted as that."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while len(numbers) < count:
                await asyncio.sleep(0.01)


def _bar(stage: Stage, when: str, count: int) -> None:
    stage.line(f"{when:16}", (stage.signs.block * (BAR * count // ALL), GOOD), f"  {count} heard")
