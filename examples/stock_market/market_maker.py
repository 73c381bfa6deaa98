"""A market maker: it reads the order book of a share, and quotes a price of its own. It knows no scopes.

python market_maker.py --name maker --symbol SAP
"""

from __future__ import annotations

import argparse
import asyncio

from engine import Say, say

import tidings


async def run(broker: str, name: str, symbol: str, say: Say = say) -> None:
    """Quote the middle of every order book that can be seen."""
    async with tidings.connect(broker, name=name) as client:
        books = await client.subscribe((tidings.attr.type == "OrderBook") & (tidings.attr.symbol == symbol))
        async for book in books:
            say(name, book)
            middle = (float(book["bid"]) + float(book["ask"])) / 2
            await client.publish(type="Quote", symbol=symbol, price=middle, engine=name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", default="tidings://localhost:7311")
    parser.add_argument("--name", default="maker")
    parser.add_argument("--symbol", default="SAP")
    words = parser.parse_args()
    asyncio.run(run(words.broker, words.name, words.symbol))
