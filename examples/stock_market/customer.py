"""The screen of a customer: it shows the quotes of a share, and which orders were accepted. It knows no scopes.

python customer.py --name pc1 --symbol IBM
"""

from __future__ import annotations

import argparse
import asyncio

from engine import Say, say

import tidings


async def run(broker: str, name: str, symbol: str, say: Say = say) -> None:
    """Show what can be seen of one share."""
    async with tidings.connect(broker, name=name) as client:
        wanted = tidings.attr.type.isin(["Quote", "Accept", "Order", "OrderBook"]) & (tidings.attr.symbol == symbol)
        async for notification in client.subscribe(wanted):
            say(name, notification)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", default="tidings://localhost:7311")
    parser.add_argument("--name", default="pc1")
    parser.add_argument("--symbol", default="SAP")
    words = parser.parse_args()
    asyncio.run(run(words.broker, words.name, words.symbol))
