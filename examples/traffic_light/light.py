"""A car arrives at a traffic light: the state was published before it came, and it knows it at once."""

from __future__ import annotations

import asyncio

import tidings
from tidings.net import Options, serve

ORDERS = {"red": "stop", "amber": "slow down", "green": "go"}


async def drive(client: tidings.Client, junction: str, changes: asyncio.Event) -> list[str]:
    """Obey a light: its last state, then every new one; what was done until it was green."""
    done = []
    wanted = f"type = 'light' AND junction = '{junction}'"
    async for light in client.subscribe(wanted, past=tidings.last(1)):
        done.append(ORDERS[str(light["state"])])
        changes.set()
        if light["state"] == "green":
            break
    return done


async def main() -> list[str]:
    """Let a light change, a car come, and the light change again."""
    async with serve(Options(name="junction", port=0)) as broker:
        address = f"tidings://127.0.0.1:{broker.port}"
        async with tidings.connect(address, name="light") as light, tidings.connect(address, name="car") as car:
            for state in ("green", "amber", "red"):
                await (await light.publish(type="light", junction="main street", state=state))
            print("the light turned green, amber, red; then a car arrives")
            obeyed = asyncio.Event()
            driving = asyncio.create_task(drive(car, "main street", obeyed))
            await obeyed.wait()
            await light.publish(type="light", junction="main street", state="green")
            done = await driving
    print(f"car: {done[0]} (known after the first notification)")
    print("\n".join(f"car: {what}" for what in done[1:]))
    return done


if __name__ == "__main__":
    asyncio.run(main())
