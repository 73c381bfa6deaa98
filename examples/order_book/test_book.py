"""The order book in a simulated world: whatever goes wrong, every order is filled, and filled once."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from book import careful_book, depot, trade

from tidings.sim import Weather, World

ORDERS = 40


@pytest.mark.tidings_world(seeds=200, brokers=["frankfurt"], faults=0, weather=Weather(latency=(1_000, 30_000)))
async def test_every_order_is_filled_once(world: World) -> None:
    """Both the broker and the book are killed now and then."""
    held: Counter[int] = Counter()
    url = world.url("frankfurt")
    world.start("book", lambda: careful_book(url))
    adding = asyncio.create_task(depot(url, held))
    await asyncio.sleep(1)
    world.random_faults(seconds=20)
    await trade(url, ORDERS)
    await world.check()
    adding.cancel()
    assert held == Counter(dict.fromkeys(range(1, ORDERS + 1), 100))
