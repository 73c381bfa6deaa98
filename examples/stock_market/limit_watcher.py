"""A limit watcher: it buys for its customer as soon as a share is cheap enough. It knows no scopes.

python limit_watcher.py --name agent1 --symbol SAP --limit 180
"""

from __future__ import annotations

import argparse
import asyncio

from engine import Say, say

import tidings


async def run(broker: str, name: str, symbol: str, limit: float, say: Say = say) -> None:
    """Order once, at the first quote below the limit."""
    async with tidings.connect(broker, name=name) as client:
        cheap = (tidings.attr.type == "Quote") & (tidings.attr.symbol == symbol) & (tidings.attr.price < limit)
        quotes = await client.subscribe(cheap)
        say(name, await anext(quotes))
        await client.publish(type="Order", order=f"{name}/1", customer=name, symbol=symbol, limit=limit, size=10)
        quotes.unsubscribe()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", default="tidings://localhost:7311")
    parser.add_argument("--name", default="agent1")
    parser.add_argument("--symbol", default="SAP")
    parser.add_argument("--limit", type=float, default=180.0)
    words = parser.parse_args()
    asyncio.run(run(words.broker, words.name, words.symbol, words.limit))
