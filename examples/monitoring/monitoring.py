"""A data centre that asks for its health instead of listening to its noise, and then looks where it hurts.

python monitoring.py
"""

from __future__ import annotations

import asyncio
import contextlib

import tidings
from tidings.net import Options, serve

SERVERS = {f"r{rack}-s{number}": f"r{rack}" for rack in (1, 2, 3) for number in (1, 2, 3)}
"""Each server, and its rack."""
SICK = "r2-s3"


async def main() -> dict[str, object]:
    """Run it, and return what was found out."""
    found: dict[str, object] = {}
    async with contextlib.AsyncExitStack() as stack:
        broker = await stack.enter_async_context(serve(Options(name="centre", port=0)))
        url = f"tidings://127.0.0.1:{broker.port}"
        servers = {name: await stack.enter_async_context(tidings.connect(url, name=name)) for name in SERVERS}

        await servers["r1-s1"].subscribe("type = 'backup'")

        # Before it publishes an alarm, a server asks whether anybody would hear it.
        alarm = {"type": "alarm", "rack": "r2", "server": SICK}
        found["channel"] = "pager" if await servers[SICK].aggregates.potential_receivers(alarm) == 0 else "tidings"

        # The monitor gets one line for each rack, and none of the readings.
        monitor = await stack.enter_async_context(tidings.connect(url, name="monitor"))
        readings = asyncio.ensure_future(_measure(servers))
        stack.callback(readings.cancel)
        racks = await monitor.aggregates.get("count(), p95(load) BY rack WINDOW 500ms WHERE type = 'load'")
        found["racks"] = {rack: round(p95) for (rack,), (_, p95) in racks.value.items()}
        worst = max(found["racks"], key=lambda rack: found["racks"][rack])  # type: ignore[index, call-overload]

        # One rack is not well: look at its servers, then listen to one of them.
        inside = await monitor.aggregates.get(
            f"max(load) BY server WINDOW 500ms WHERE type = 'load' AND rack = '{worst}'"
        )
        (sick,) = max(inside.value, key=lambda group: inside.value[group])
        heard = await monitor.subscribe(f"type = 'load' AND server = '{sick}'")
        reading = await anext(heard)
        found["sick"], found["load"] = sick, reading["load"]
        await monitor.subscribe("type = 'alarm'")
        found["now"] = "pager" if await servers[SICK].aggregates.potential_receivers(alarm) == 0 else "tidings"
    return found


async def _measure(servers: dict[str, tidings.Client]) -> None:
    while True:
        for number, (name, client) in enumerate(servers.items()):
            load = 97 if name == SICK else 20 + number
            await client.publish(type="load", rack=SERVERS[name], server=name, load=load)
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    for what, value in asyncio.run(main()).items():
        print(f"{what}: {value}")
