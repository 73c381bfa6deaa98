"""A trading day: the same programs without scopes, in one market, in two, and with two engines in the first. Shows who
got what.

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
import market_maker
import printer

import tidings
from tidings.net import Options, serve

Seen = dict[str, dict[str, float]]
"""For each program, what it got, "Quote me1", "Order agent2", "Accept me1 agent2", and after how many seconds."""

ENGINES = ("me1", "me2")
CLIENTS = ("db1", "db2", "pc1", "pc2", "pc3", "pc4", "agent2", "agent3")
QUIET = 0.5
"""Seconds in which nothing happened any more: the day is over."""


ONE_MARKET = ("market.scopes",)
TWO_MARKETS = ("market.scopes", "second_market.scopes")
TWO_ENGINES = (*TWO_MARKETS, "engines.scopes")
TWO_SESSIONS = (*TWO_MARKETS, "sessions.scopes")
EVERYTHING = (*TWO_ENGINES, "sessions.scopes", "newcomers.scopes")
NEWCOMERS = ("maker", "press", "archive")


async def day(
    files: tuple[str, ...] = (),
    *,
    engines: tuple[str, ...] = ENGINES,
    newcomers: tuple[str, ...] = (),
    quiet: float = QUIET,
) -> Seen:
    """Start a broker and all programs, quote SAP in both markets, and see who gets what with these files applied."""
    seen: Seen = defaultdict(dict)
    loop = asyncio.get_running_loop()
    begun = last = loop.time()

    def say(name: str, notification: tidings.Notification) -> None:
        nonlocal last
        last = loop.time()
        who = [str(notification[word]) for word in ("engine", "customer") if word in notification]
        if "document" in notification:
            who.append("as XML" if isinstance(notification["document"], str) else "as bytes")
        seen[name].setdefault(" ".join([str(notification["type"]), *who]), last - begun)

    async with serve(Options(name="exchange", port=0)) as server:
        broker = f"tidings://127.0.0.1:{server.port}"
        async with tidings.connect(broker, name="administrator") as administrator:
            for file in files:
                text = Path(__file__).with_name(file).read_text(encoding="utf-8")
                await administrator.admin.execute(text, name=file)
            floors = {name: asyncio.Queue() for name in engines}
            programs = [engine.run(broker, name, quotes, say) for name, quotes in floors.items()]
            programs += [database.run(broker, name, say) for name in ("db1", "db2")]
            shares = {"pc1": "IBM", "pc2": "SAP", "pc3": "SAP", "pc4": "SAP"}
            programs += [customer.run(broker, name, share, say) for name, share in shares.items()]
            programs += [limit_watcher.run(broker, name, "SAP", 180.0, say) for name in ("agent2", "agent3")]
            for name in newcomers:
                made = market_maker.run(broker, name, "SAP", say) if name == "maker" else printer.run(broker, name, say)
                programs.append(made)
            tasks = [asyncio.create_task(program) for program in programs]
            await _all_subscribed(administrator, tasks, {*engines, *CLIENTS, *newcomers})
            for name in ENGINES:
                floors[name].put_nowait(("SAP", 179.5))
            begun = last = loop.time()
            while loop.time() < last + quiet:
                await asyncio.sleep(quiet / 5)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return seen


async def _all_subscribed(administrator: tidings.Client, tasks: list[asyncio.Task[None]], clients: set[str]) -> None:
    while True:
        for task in tasks:
            if task.done():
                task.result()  # it failed: say so
        status = await administrator.status()
        if sum(peer.subscriptions for peer in status.peers if peer.name in clients) >= len(clients):
            return
        await asyncio.sleep(0.02)


async def _main() -> None:
    engines = (*ENGINES, "me3")
    for title, running in (
        ("Without scopes everybody sees everything", day()),
        ("One market", day(ONE_MARKET)),
        ("Two markets", day(TWO_MARKETS)),
        ("Two engines in the first market, and quotes that come later", day(TWO_ENGINES, engines=engines, quiet=2.0)),
        ("Two markets that are sessions: a reaction stays in the market of its cause", day(TWO_SESSIONS)),
        (
            "All of this, with a market maker, a newspaper and an archive",
            day(EVERYTHING, engines=engines, newcomers=NEWCOMERS, quiet=2.0),
        ),
    ):
        print(f"\n{title}")
        for name, what in sorted((await running).items()):
            print(f"  {name:8}", ", ".join(sorted(what)))


if __name__ == "__main__":
    asyncio.run(_main())
