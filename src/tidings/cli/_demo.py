"""`tidings demo`: a broker, a few publishers and one filtered subscription, to watch and to play with."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from datetime import datetime
from typing import Annotated

import typer
from rich.console import Console

import tidings
from tidings.net import DEFAULT_PORT, Options, StartError, serve

from ._logs import set_up_logs
from ._shown import Lines

WANTED = "type = 'quote' AND price > 100"
SYMBOLS = {"SAP": 182.0, "XYZ": 99.0, "ABC": 12.5}
CI_SECONDS = 3.0
"""How long it runs where nobody watches."""


def demo(
    seconds: Annotated[float | None, typer.Option(min=0, help="End by itself after this time.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port of the broker.")] = DEFAULT_PORT,
) -> None:
    """See it work: a broker, three simulated publishers, and a live subscription with a filter.

    Nothing is kept on disk. Ctrl-C ends it.
    """
    if seconds is None and os.environ.get("CI"):
        seconds = CI_SECONDS
    set_up_logs("demo", "error", as_json=False)
    asyncio.run(_run(port, seconds))


async def _run(port: int, seconds: float | None) -> None:
    console = Console(highlight=False, soft_wrap=True)
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end.set)
    async with contextlib.AsyncExitStack() as stack:
        try:
            server = await stack.enter_async_context(serve(Options(name="demo", port=port)))
        except StartError:  # somebody is there already; any other port does as well
            server = await stack.enter_async_context(serve(Options(name="demo", port=0)))
        address = f"tidings://127.0.0.1:{server.port}"
        _explain(console, address, server.port)
        watcher = await stack.enter_async_context(tidings.connect(address, name="watcher"))
        lines = Lines()
        subscription = watcher.subscribe(
            WANTED, callback=lambda quote: console.print(lines.line(quote, datetime.now()))
        )
        await subscription
        tasks = [asyncio.create_task(_publish(address, symbol, price)) for symbol, price in SYMBOLS.items()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await end.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        published = server.host.broker.publications.last
    console.print(f"\n{published} notifications were published; the filter let those above through. Next: README.md")


def _explain(console: Console, address: str, port: int) -> None:
    where = "" if port == DEFAULT_PORT else f" --broker {address}"
    console.print(f"[bold]A broker listens on[/] [bold cyan]{address}[/].")
    console.print(f"Three publishers send quotes of {', '.join(SYMBOLS)}. One subscriber wants only")
    console.print(f"    {WANTED}", style="bold green", markup=False)
    console.print("Now you. In another terminal, in this directory (. .venv/bin/activate first):")
    for command in (
        f"tidings pub type=quote symbol=ME price=101{where}",
        f"tidings sub \"symbol = 'ABC'\"{where}",
        f"tidings top{where}",
    ):
        console.print(f"    {command}", style="cyan", markup=False)
    console.print("Ctrl-C ends it. What the subscriber hears:\n")


async def _publish(address: str, symbol: str, price: float) -> None:
    async with tidings.connect(address, name=f"feed-{symbol}") as client:
        while True:
            price = max(1.0, round(price * random.uniform(0.985, 1.016), 2))  # noqa: S311 - prices, not secrets
            await client.publish(type="quote", symbol=symbol, price=price)
            await asyncio.sleep(random.uniform(0.3, 1.2))  # noqa: S311
