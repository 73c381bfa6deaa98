"""The database of a market: it writes down orders and quotes. It knows no scopes.

python database.py --name db1
"""

from __future__ import annotations

import argparse
import asyncio

from engine import Say, say

import tidings


async def run(broker: str, name: str, say: Say = say) -> None:
    """Write down what can be seen."""
    async with tidings.connect(broker, name=name) as client:
        async for notification in client.subscribe("type IN ('Order', 'Quote')"):
            say(name, notification)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", default="tidings://localhost:7311")
    parser.add_argument("--name", default="db1")
    words = parser.parse_args()
    asyncio.run(run(words.broker, words.name))
