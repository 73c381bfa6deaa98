"""`tidings top`: a broker at work, as it happens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

import tidings
from tidings.model import TidingsError
from tidings.wire import Status

from ._aggregate import status_json, watched_table
from ._connection import AsJson, entering
from ._option_values import seconds
from ._status import peers_table, summary
from ._terminal import terminal

SHOWN_PEERS = 20
"""Links that fit on a screen."""


@entering
def top(
    client: tidings.Client,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", parser=seconds("--interval", 0.1), help="The time between two updates.")
    ] = 1.0,
    aggregates: Annotated[bool, typer.Option("--aggregates", help="Show what is counted instead.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Print once, after one interval, and exit.")] = False,
    as_json: AsJson = False,
) -> None:
    """Watch a broker live: rates, links, tables, queues. Ctrl-C ends it. Requires the right to administer."""
    with contextlib.suppress(KeyboardInterrupt):
        if aggregates:
            asyncio.run(_show_aggregates(client, interval, once=once, as_json=as_json))
        else:
            asyncio.run(_print_json(client, interval, once) if as_json else _show(client, interval, once))


async def _show_aggregates(client: tidings.Client, interval: float, *, once: bool, as_json: bool) -> None:
    console = terminal(soft_wrap=False)
    async with client:
        if as_json or once:
            while True:
                found = await client.aggregates.status()
                console.print(watched_table(found)) if not as_json else print(status_json(found), flush=True)
                if once:
                    return
                await asyncio.sleep(interval)
        with Live(Text(), console=console, screen=console.is_terminal, auto_refresh=False) as live:
            while True:
                try:
                    live.update(watched_table(await client.aggregates.status()), refresh=True)
                except TidingsError as error:
                    live.update(Text(f"{error}. Trying again.", style="red"), refresh=True)
                await asyncio.sleep(interval)


async def _print_json(client: tidings.Client, interval: float, once: bool) -> None:
    async with client:
        before = await client.status()
        while True:
            await asyncio.sleep(interval)
            now = await client.status()
            words = {"rates": rates(before, now), "status": msgspec.to_builtins(now)}
            print(json.dumps(words), flush=True)
            if once:
                return
            before = now


async def _show(client: tidings.Client, interval: float, once: bool) -> None:
    console = terminal(soft_wrap=False)
    async with client:
        before = await client.status()
        await asyncio.sleep(interval)
        now = await client.status()
        if once:
            console.print(view(before, now))
            return
        with Live(view(before, now), console=console, screen=console.is_terminal, auto_refresh=False) as live:
            while True:
                await asyncio.sleep(interval)
                shown = view(before, now)
                try:
                    async for silent in silence(asked := asyncio.ensure_future(client.status()), interval):
                        words = f"The broker has not answered for {silent:.0f} s; it said this before:"
                        live.update(Group(Text(words, style="red"), Text(), shown), refresh=True)
                    before, now = now, await asked
                except TidingsError as error:
                    live.update(Text(f"{error}. Trying again.", style="red"), refresh=True)
                    continue
                live.update(view(before, now), refresh=True)


async def silence(asked: asyncio.Future[Status], interval: float) -> AsyncIterator[float]:
    """For how many seconds there has been no answer, told every second or interval until there is one."""
    since = time.monotonic()
    while not (await asyncio.wait([asked], timeout=max(interval, 1.0)))[0]:
        yield time.monotonic() - since


def rates(before: Status, now: Status) -> dict[str, float]:
    """Messages per second between two looks at the same incarnation of a broker."""
    if before.epoch != now.epoch:
        counters = msgspec.structs.replace(now.counters, messages_in={}, messages_out={})
        before = msgspec.structs.replace(now, uptime=0.0, counters=counters, mobility={})
    seconds = max(now.uptime - before.uptime, 0.001)

    def rate(direction: str, *kinds: str) -> float:
        late: dict[str, int] = getattr(now.counters, direction)
        early: dict[str, int] = getattr(before.counters, direction)
        names = kinds or tuple(late)
        return round(sum(late.get(name, 0) - early.get(name, 0) for name in names) / seconds, 1)

    return {
        "published": rate("messages_in", "Publish"),
        "delivered": rate("messages_out", "Deliver"),
        "from_neighbours": rate("messages_in", "Notify"),
        "to_neighbours": rate("messages_out", "Notify"),
        "messages_in": rate("messages_in"),
        "messages_out": rate("messages_out"),
        "hand_offs": round((_moved(now, "hand_offs") - _moved(before, "hand_offs")) / seconds, 1),
    }


def hit_rate(status: Status) -> float | None:
    """The share of clients that found a copy that was ready when they came; None: nothing was kept ready for any."""
    found = [_moved(status, outcome) for outcome in ("hits", "early", "misses")]
    return found[0] / sum(found) if sum(found) else None


def _moved(status: Status, name: str) -> int:
    return status.mobility.get(name, 0)


def view(before: Status, now: Status) -> Group:
    """One screen."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    found = rates(before, now)
    moved, hits = found.pop("hand_offs"), hit_rate(now)
    for name in found:
        table.add_column(name.replace("_", " "), justify="right")
    table.add_row(*(f"{value:,.0f}/s" for value in found.values()))
    lines = [Text(f"hand-offs {moved:,.1f}/s, hits {'-' if hits is None else f'{hits:.0%}'}")] if now.mobility else []
    return Group(summary(now), Text(), table, *lines, Text(), peers_table(now, SHOWN_PEERS))
