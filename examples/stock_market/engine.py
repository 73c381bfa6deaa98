"""The matching engine of a market: it publishes quotes and its order book, and accepts orders. It knows no scopes.

python engine.py --name me1 < quotes.txt        # lines like: SAP 182.4
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable

import tidings

Say = Callable[[str, tidings.Notification], None]


def say(name: str, notification: tidings.Notification) -> None:
    """Tell what came."""
    print(name, "got", dict(notification), flush=True)


async def run(broker: str, name: str, quotes: asyncio.Queue[tuple[str, float]], say: Say = say) -> None:
    """Quote what is in the queue; accept every order."""
    async with tidings.connect(broker, name=name) as client, asyncio.TaskGroup() as tasks:
        orders = await client.subscribe("type = 'Order'")
        tasks.create_task(_quote(client, name, quotes))
        async for order in orders:
            say(name, order)
            await client.publish(
                type="Accept", order=order["order"], customer=order["customer"], symbol=order["symbol"], engine=name
            )


async def _quote(client: tidings.Client, name: str, quotes: asyncio.Queue[tuple[str, float]]) -> None:
    while True:
        symbol, price = await quotes.get()
        await client.publish(type="OrderBook", symbol=symbol, bid=price - 0.1, ask=price + 0.1, engine=name)
        await client.publish(type="Quote", symbol=symbol, price=price, engine=name)


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", default="tidings://localhost:7311")
    parser.add_argument("--name", default="me1")
    words = parser.parse_args()
    quotes: asyncio.Queue[tuple[str, float]] = asyncio.Queue()
    running = asyncio.create_task(run(words.broker, words.name, quotes))
    while line := await asyncio.to_thread(sys.stdin.readline):
        try:
            symbol, price = line.split()
            quotes.put_nowait((symbol, float(price)))
        except ValueError:
            print("a quote looks like this: SAP 182.4", file=sys.stderr)
    await running


if __name__ == "__main__":
    asyncio.run(_main())
