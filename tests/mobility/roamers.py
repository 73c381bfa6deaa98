"""A line of brokers that have copies of each other's clients, a phone that roams, and somebody who publishes."""

from __future__ import annotations

from typing import Any

from tidings.mobility import Edge, Hosts, MobilityOptions, Neighbourhood, Roaming, Scheme
from tidings.mobility._copies import read_saying
from tidings.mobility._handing_over import HandingOver
from tidings.mobility._homes import Homes
from tidings.mobility._keeping import Keeping
from tidings.sim import Network, SimClient, Weather
from tidings.wire import Routed

BROKERS = ("a", "b", "c", "o")
"""A line; the last one publishes."""
Said = list[tuple[str, str, str]]
"""From where to where, and what."""
ALL = [("a", "b"), ("a", "c"), ("b", "c")]
OPTIONS = MobilityOptions(Scheme.PROACTIVE, roamers=("all",), new_edge_interval=0)


def network(
    options: MobilityOptions = OPTIONS, edges: list[tuple[str, str]] | None = None, seed: int = 1, **more: Any
) -> Network:
    def features(name: str) -> list[Any]:
        hosts = Hosts()
        known = [Edge(one, two, 1.0, 0, 0, pinned=True) for one, two in (ALL if edges is None else edges)]
        neighbourhood = Neighbourhood(hosts, options.graph, known)
        roaming = [Roaming(options, hosts, neighbourhood)] if options.scheme is not Scheme.ORIGINS else []
        return [hosts, neighbourhood, *roaming]

    made = Network(seed, features=features, weather=Weather(latency=(5_000, 5_000)), **more)
    made.add_brokers(BROKERS, links=["ab", "bc", "co"])
    made.run()
    return made


def roaming(world: Network, broker: str) -> Roaming:
    feature = world.brokers[broker].features["roaming"]
    assert isinstance(feature, Roaming)
    return feature


def keeping(world: Network, broker: str) -> Keeping:
    return roaming(world, broker).keeping


def handing(world: Network, broker: str) -> HandingOver:
    return roaming(world, broker).handing


def homes(world: Network, broker: str) -> Homes:
    return roaming(world, broker).homes


def states(world: Network, client: str = "phone") -> dict[str, str]:
    """What each broker holds of a client for others."""
    return {
        name: feature.keeping.copies[client].state.value
        for name in sorted(world.brokers)
        if client in (feature := roaming(world, name)).keeping.copies
    }


def walker(world: Network, broker: str = "a") -> tuple[SimClient, SimClient]:
    """A phone that subscribes, and somebody far away who publishes."""
    phone, feed = world.add_client("phone", broker), world.add_client("feed", "o")
    phone.subscribe("n >= 0")
    world.run(3)
    return phone, feed


def held(world: Network, broker: str) -> list[object]:
    """What the copy of the phone at a broker holds."""
    keeps = keeping(world, broker)
    return [one.notification["n"] for one, _ in keeps.buffer.all_of(keeps.copies["phone"])]


def numbers(client: SimClient) -> list[object]:
    return [one["n"] for one in client.received]


def overheard(world: Network) -> Said:
    """What controllers say about copies from now on."""
    said: Said = []

    def tap(name: str, link: Any, frame: Any) -> None:
        message = frame.message
        if isinstance(message, Routed) and message.feature == "roaming" and name == message.source:
            said.append((name, message.target, type(read_saying(message.body).said).__name__))

    world.tap = tap
    return said


def to(*brokers: str, what: str, source: str = "a") -> Said:
    return [(source, broker, what) for broker in brokers]
