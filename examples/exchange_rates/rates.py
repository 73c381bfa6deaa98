"""Banks publish exchange rates; a chart starts with the last twenty at once, and goes on live."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import tidings
from tidings.net import Options, serve

PAIR = "EUR/USD"
BARS = "▁▂▃▄▅▆▇█"


async def bank(address: str, rates: list[float]) -> None:
    """Publish a rate now and then."""
    async with tidings.connect(address) as client:
        for rate in rates:
            await client.publish(type="rate", pair=PAIR, rate=rate)
            await asyncio.sleep(0.001)


async def display(client: tidings.Client) -> float:
    """The rate of now: the last one that anybody has published."""
    async for rate in client.subscribe(f"type = 'rate' AND pair = '{PAIR}'", past=tidings.last(1)):
        return float(rate["rate"])  # type: ignore[arg-type]
    raise AssertionError("a subscription does not end by itself")


async def chart(client: tidings.Client, points: int) -> AsyncIterator[tidings.Notification]:
    """The last rates, then every new one."""
    wanted = f"type = 'rate' AND pair = '{PAIR}'"
    async for rate in client.subscribe(wanted, past=tidings.last(points), with_origin=True):
        yield rate


def drawn(rates: list[float]) -> str:
    """A chart of one line."""
    low, high = min(rates), max(rates)
    return "".join(BARS[round((rate - low) / ((high - low) or 1) * (len(BARS) - 1))] for rate in rates)


@contextlib.asynccontextmanager
async def brokers() -> AsyncIterator[list[str]]:
    """Three brokers in a row."""
    async with contextlib.AsyncExitStack() as stack:
        addresses: list[str] = []
        for name in ("frankfurt", "london", "zurich"):
            options = Options(name=name, port=0, neighbours=tuple(addresses[-1:]))
            server = await stack.enter_async_context(serve(options))
            addresses.append(f"tidings://127.0.0.1:{server.port}")
        while len(server.host.broker.adjacency.tree.hops) < len(addresses) - 1:
            await asyncio.sleep(0.01)
        yield addresses


async def main() -> list[tidings.Notification]:
    """Publish, open the chart somewhere else, publish on; what the chart has shown."""
    async with brokers() as (frankfurt, london, zurich):
        rates = [1.05 + 0.002 * step + 0.003 * (step % 3) for step in range(20)]
        await asyncio.gather(bank(frankfurt, rates[::2]), bank(london, rates[1::2]))
        shown: list[tidings.Notification] = []
        async with tidings.connect(zurich) as salesman:
            print(f"{PAIR} now     {await display(salesman):.4f}")
            async for rate in chart(salesman, 20):
                shown.append(rate)
                if len(shown) == 20:
                    values = [float(one["rate"]) for one in shown]  # type: ignore[arg-type]
                    old = sum(bool(one.from_past) for one in shown)
                    print(f"{PAIR} chart   {drawn(values)}  {old} of 20 from the past, of 3 brokers")
                    await bank(frankfurt, [1.093])
                elif len(shown) > 20:
                    print(f"{PAIR} live    {rate['rate']:.4f}")
                    break
        return shown


if __name__ == "__main__":
    asyncio.run(main())
