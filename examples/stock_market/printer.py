"""A printer of quotes, which takes documents: XML, or bytes. It knows no scopes.

python printer.py --name press
"""

from __future__ import annotations

import argparse
import asyncio

from engine import Say, say

import tidings


async def run(broker: str, name: str, say: Say = say) -> None:
    """Print every document that comes."""
    async with tidings.connect(broker, name=name) as client:
        async for notification in client.subscribe("type = 'Quote'"):
            say(name, notification)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", default="tidings://localhost:7311")
    parser.add_argument("--name", default="press")
    words = parser.parse_args()
    asyncio.run(run(words.broker, words.name))
