"""A car drives from junction to junction: at the next one somebody has listened for it before it arrives."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import tidings
from tidings.mobility import MobilityOptions, Scheme
from tidings.model import Location
from tidings.net import Options, Server, serve

ORDERS = {"red": "stop", "amber": "slow down", "green": "go"}
JUNCTIONS = ("/town/station", "/town/market", "/town/bridge")


def junction(place: str, *neighbours: str) -> Options:
    """A broker at a junction; where cars go from here it learns from the cars that go there."""
    return Options(
        name=place,
        port=0,
        neighbours=neighbours,
        mobility=MobilityOptions(Scheme.PROACTIVE, place=place, roamers=("car-*",), new_edge_interval=0),
    )


def url(broker: Server) -> str:
    """Where a broker is."""
    return f"tidings://127.0.0.1:{broker.port}"


async def until(true: object) -> None:
    """Wait until something is so."""
    while not true():  # type: ignore[operator]
        await asyncio.sleep(0.01)


async def shows(light: tidings.Client, place: str, state: str) -> None:
    """Let the light at a junction change, and wait until its broker has that."""
    await (await light.publish(type="light", state=state, location=Location(place)))


async def main() -> list[str]:
    """Drive twice: the first car shows brokers where cars go, the second one is expected."""
    station, market, bridge = JUNCTIONS
    done = []
    async with AsyncExitStack() as stack:
        brokers: dict[str, Server] = {}
        for place in JUNCTIONS:
            known = [url(brokers[one]) for one in JUNCTIONS if one in brokers][-1:]
            brokers[place] = await stack.enter_async_context(serve(junction(place, *known)))
        await until(lambda: all(len(one.host.broker.adjacency.tree.hops) == 2 for one in brokers.values()))
        light = await stack.enter_async_context(tidings.connect(url(brokers[bridge]), name="lights"))
        async with tidings.connect(url(brokers[station]), name="car-1") as first:
            await first.subscribe("type = 'light' AND location WITHIN myloc")
            await first.move(url(brokers[market]))
            await until(lambda: brokers[station].host.neighbourhood.graph.neighbours(station))
        print("car-1 drove from the station to the market, and brokers have learned the way")

        async with tidings.connect(url(brokers[station]), name="car-2") as car:
            ahead = await car.subscribe("type = 'light' AND location WITHIN myloc")
            virtual = brokers[market].host.roaming.keeping.virtual  # type: ignore[union-attr]
            await until(lambda: virtual.clients and virtual.clients["car-2"].settled)
            await shows(light, market, "red")
            await until(lambda: virtual.buffer.bytes)
            print("the light at the market turned red before car-2 is there")
            await car.move(url(brokers[market]))
            state = str((await anext(ahead))["state"])
            when = "before" if virtual.used else "after"
            done.append(f"at the market: {ORDERS[state]} (it was red {when} the car came)")
            await shows(light, market, "green")
            done.append(f"at the market: {ORDERS[str((await anext(ahead))['state'])]}")

            # Nobody has driven to the bridge yet, so nobody listens there: what its light shows comes from history.
            ahead.unsubscribe()
            await shows(light, bridge, "amber")
            ahead = await car.subscribe("type = 'light' AND location WITHIN myloc", past=tidings.last(1))
            assert ORDERS[str((await anext(ahead))["state"])] == "go"
            await car.move(url(brokers[bridge]))
            done.append(f"at the bridge: {ORDERS[str((await anext(ahead))['state'])]}")
    print("\n".join(f"car-2, {what}" for what in done))
    return done


if __name__ == "__main__":
    asyncio.run(main())
