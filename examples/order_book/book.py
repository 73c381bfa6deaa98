"""An order book: it fills every order, once, and somebody else adds up what was filled.

Orders come in with a durable subscription, so none is lost if the book is restarted. For each, a fill goes out.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import tidings


async def hasty_book(url: str) -> None:
    """Fill orders as they come. There is a bug in it."""
    async with tidings.connect(url, name="book", wait=60) as client:
        async for order in await client.subscribe("type = 'order'", durable="orders"):
            await (await client.publish(type="fill", order=order["number"], shares=order["shares"]))


async def careful_book(url: str) -> None:
    """Fill orders as they come, each under its own number: a fill that is repeated is published once."""
    async with tidings.connect(url, name="book", wait=60, own_numbers=True) as client:
        async for order in await client.subscribe("type = 'order'", durable="orders"):
            fill = {"type": "fill", "order": order["number"], "shares": order["shares"]}
            await (await client.publish(fill, publisher_seq=order["number"]))


async def depot(url: str, held: Counter[int]) -> None:
    """Add up what was filled, by order."""
    async with tidings.connect(url, name="depot", wait=60) as client:
        async for fill in await client.subscribe("type = 'fill'"):
            held[fill["order"]] += fill["shares"]


async def trade(url: str, orders: int) -> None:
    """Place orders, some seconds apart."""
    async with tidings.connect(url, name="trader", wait=60) as client:
        for number in range(1, orders + 1):
            await (await client.publish(type="order", number=number, shares=100))
            await asyncio.sleep(0.5)
