"""A trading day: the same programs without scopes, in one market, and in two. Shows who got what.

python day.py
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import customer
import database
import engine
import limit_watcher

import tidings
from tidings.net import Options, serve

Seen = dict[str, set[str]]
"""For each program, what it got: "Quote me1", "Order agent2", "Accept me1 agent2"."""

CLIENTS = ("me1", "me2", "db1", "db2", "pc1", "pc2", "pc3", "pc4", "agent2", "agent3")
QUIET = 0.5
"""Seconds in which nothing happened any more: the day is over."""


ONE_MARKET = ("market.scopes",)
TWO_MARKETS = ("market.scopes", "second_market.scopes")


async def day(files: tuple[str, ...] = ()) -> Seen:
    """Start a broker and all programs, quote SAP in both markets, and see who gets what with these files applied."""
    seen: Seen = defaultdict(set)
    loop = asyncio.get_running_loop()
    last = loop.time()

    def say(name: str, notification: tidings.Notification) -> None:
        nonlocal last
        last = loop.time()
        who = [str(notification[word]) for word in ("engine", "customer") if word in notification]
        seen[name].add(" ".join([str(notification["type"]), *who]))

    async with serve(Options(name="exchange", port=0)) as server:
        broker = f"tidings://127.0.0.1:{server.port}"
        async with tidings.connect(broker, name="administrator") as administrator:
            for file in files:
                text = Path(__file__).with_name(file).read_text(encoding="utf-8")
                await administrator.admin.execute(text, name=file)
            floors = {name: asyncio.Queue() for name in ("me1", "me2")}
            programs = [engine.run(broker, name, quotes, say) for name, quotes in floors.items()]
            programs += [database.run(broker, name, say) for name in ("db1", "db2")]
            shares = {"pc1": "IBM", "pc2": "SAP", "pc3": "SAP", "pc4": "SAP"}
            programs += [customer.run(broker, name, share, say) for name, share in shares.items()]
            programs += [limit_watcher.run(broker, name, "SAP", 180.0, say) for name in ("agent2", "agent3")]
            tasks = [asyncio.create_task(program) for program in programs]
            await _all_subscribed(administrator, tasks)
            for quotes in floors.values():
                quotes.put_nowait(("SAP", 179.5))
            last = loop.time()
            while loop.time() < last + QUIET:
                await asyncio.sleep(QUIET / 5)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return seen


async def _all_subscribed(administrator: tidings.Client, tasks: list[asyncio.Task[None]]) -> None:
    while True:
        for task in tasks:
            if task.done():
                task.result()  # it failed: say so
        status = await administrator.status()
        if sum(peer.subscriptions for peer in status.peers if peer.name in CLIENTS) >= len(CLIENTS):
            return
        await asyncio.sleep(0.02)


async def _main() -> None:
    for title, files in (
        ("Without scopes everybody sees everything", ()),
        ("One market", ONE_MARKET),
        ("Two markets", TWO_MARKETS),
    ):
        print(f"\n{title}")
        for name, what in sorted((await day(files)).items()):
            print(f"  {name:8}", ", ".join(sorted(what)))


if __name__ == "__main__":
    asyncio.run(_main())
