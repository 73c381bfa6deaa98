"""Sensors of two buildings: one file says who sees what, and no program knows of it. Shows who got what.

python sensors.py
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from pathlib import Path

import tidings
from tidings.client import ADMIN_TIMEOUT, work_out
from tidings.net import Options, serve
from tidings.scopes.language import Source

Seen = dict[str, list[dict[str, object]]]
"""For each program, what it got."""

NODES: dict[str, dict[str, object]] = {
    "n1": {"place": tidings.Location("/campus/north/1"), "temp-sensor": True},
    "n2": {"place": tidings.Location("/campus/north/2"), "presence-sensor": True},
    "s1": {"place": tidings.Location("/campus/south/1"), "temp-sensor": True},
    "s2": {"place": tidings.Location("/campus/south/2"), "presence-sensor": True},
    "thermostat-north": {},
    "thermostat-south": {},
    "control": {},
}
"""What each program says of itself when it connects."""
QUIET = 0.5
"""Seconds in which nothing happened any more."""


async def run(file: str | None = "sensors.scopes") -> Seen:
    """Start a broker and all programs, apply the file, let everything be measured once, and see who gets what."""
    seen: Seen = defaultdict(list)
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve(Options(name="campus", port=0)))
        broker = f"tidings://127.0.0.1:{server.port}"
        nodes = {
            name: await stack.enter_async_context(tidings.connect(broker, name=name, attributes=attributes))
            for name, attributes in NODES.items()
        }
        tasks = []
        for name, client in nodes.items():
            subscription = await client.subscribe("TRUE")
            tasks.append(asyncio.create_task(_read(subscription, seen[name])))
        if file is not None:
            administrator = await stack.enter_async_context(tidings.connect(broker, name="administrator"))
            source = Source(Path(__file__).with_name(file).read_text(encoding="utf-8"), file)
            found = await work_out(administrator.admin, [source], timeout=ADMIN_TIMEOUT)
            await administrator.admin.change(*found.changes, expected=found.before.version)
        await nodes["n1"].publish(type="Temperature", celsius=21.0)
        await nodes["s1"].publish(type="Temperature", fahrenheit=70.0)
        await nodes["n2"].publish(type="Presence", room=7)
        await nodes["s2"].publish(type="Presence", room=7)
        await nodes["s1"].publish(type="Alarm", fahrenheit=212.0)
        await asyncio.sleep(QUIET)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return seen


async def _read(subscription: tidings.Subscription, seen: list[dict[str, object]]) -> None:
    async for notification in subscription:
        seen += [dict(notification)]


async def _main() -> None:
    for title, file in (("Without scopes everybody sees everything", None), ("With sensors.scopes", "sensors.scopes")):
        print(f"\n{title}")
        for name, got in sorted((await run(file)).items()):
            print(f"  {name:18}", "; ".join(" ".join(f"{k}={v}" for k, v in one.items()) for one in got) or "nothing")


if __name__ == "__main__":
    asyncio.run(_main())
