"""Mobility is a layer: applications do not see it, brokers do without it, and it knows only what a broker offers."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mobility.roamers import handing, keeping, network, numbers, roaming, states, walker

import tidings
from tidings.mobility import Edge, Hosts, MobilityOptions, Neighbourhood, Outcome, Roaming, Scheme
from tidings.mobility._protocol import Copied
from tidings.mobility._transfers import Part, Request
from tidings.model import Location
from tidings.sim import Network, Weather, World, check
from tidings.wire import Routed

SRC = Path(tidings.__file__).parent


# --- applications and brokers -------------------------------------------------------------------------


@pytest.mark.req("MOB-013")
def test_an_application_that_only_subscribes_is_carried_from_broker_to_broker() -> None:
    """Its brokers die one after the other; it says nowhere that it moves, and misses nothing."""
    heard: list[object] = []

    async def application(world: World) -> None:
        addresses = [world.url(name) for name in "abc"]
        async with tidings.connect(addresses, name="phone") as client:
            client.subscribe("n >= 0", callback=lambda one: heard.append(one["n"]))
            await asyncio.Future()

    async def run() -> None:
        async with World(
            seed=3, brokers=list("abco"), links=[(one, two) for one, two in ("ao", "bo", "co", "ab", "bc")]
        ) as world:
            task = asyncio.create_task(application(world))
            async with tidings.connect(world.url("o"), name="feed") as feed:
                await asyncio.sleep(5)
                for n, broker in enumerate("abx"):
                    await feed.publish(n=3 * n)
                    await asyncio.sleep(5)
                    if broker == "x":
                        break
                    world.crash(broker)
                    await feed.publish(n=3 * n + 1)
                    await asyncio.sleep(30)
                    world.restart(broker)
                    await feed.publish(n=3 * n + 2)
                    await asyncio.sleep(30)
                hosts = {name for name in "abc" if any(one.link.name == "phone" for one in world.guests(name))}
                assert len(hosts) == 1
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert heard == list(range(7))


@pytest.mark.req("MOB-023")
@pytest.mark.parametrize("features", [False, True])
def test_the_same_brokers_serve_the_same_clients_with_and_without_the_layer(features: bool) -> None:
    """Without it they are asked for what a client missed; nothing of the brokers or of the clients is another one."""
    if features:
        world = network()
    else:
        world = Network(1, weather=Weather(latency=(5_000, 5_000)))
        world.add_brokers("abco", links=["ab", "bc", "co"])
        world.run()
        assert not any(broker.features for broker in world.brokers.values())
    phone, feed = walker(world)
    for n, broker in enumerate("bcab"):
        phone.vanish(noticed=0.3, kept=60)
        world.run(2)
        feed.publish(n=n)
        world.run(2)
        phone.attach(broker)
        world.run(2)
    world.run()
    assert numbers(phone) == list(range(4))
    assert not check(world.trace)


@pytest.mark.req("MOB-024")
def test_the_layer_knows_brokers_by_what_their_package_offers() -> None:
    """It imports names of packages, no modules inside them, and neither the network nor the simulator."""
    offered = {"broker", "wire", "model"}
    for path in sorted((SRC / "mobility").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            else:
                continue
            for name in names:
                parts = name.split(".")
                if parts[0] == "tidings":
                    assert parts[1] in offered or parts[1] == "mobility", f"{path}: {name}"
                    assert len(parts) == 2 or parts[1] == "mobility", f"{path}: {name}"
        text = path.read_text()
        assert "context._" not in text, f"{path} reaches into a broker"


@pytest.mark.req("HIS-111")
def test_a_broker_on_the_way_needs_to_know_nothing_of_copies() -> None:
    """`m` lies between the others, and has no feature at all: it routes for those who listen as for any client."""
    options = MobilityOptions(Scheme.PROACTIVE, roamers=("all",), new_edge_interval=0)

    def features(name: str) -> list[Any]:
        if name == "m":
            return []
        hosts = Hosts()
        neighbourhood = Neighbourhood(hosts, options.graph, [Edge("x", "y", 1.0, 0, 0, pinned=True)])
        return [hosts, neighbourhood, Roaming(options, hosts, neighbourhood)]

    world = Network(1, features=features, weather=Weather(latency=(5_000, 5_000)))
    for name in "xy":
        world.add_broker(name, place=Location(f"/road/{name}"))
    world.add_broker("m")
    for name in "xy":
        world.connect(name, "m")
    world.run()
    car, light = world.add_client("car", "x"), world.add_client("light", "m")
    car.subscribe("place WITHIN myloc")
    car.subscribe("n >= 0")
    world.run(3)
    light.publish(light="red", place=Location("/road/y"))
    world.run(3)
    assert list(roaming(world, "y").keeping.virtual.clients) == ["car"]
    assert not world.brokers["m"].features
    refused = world.brokers["m"].statistics.refused
    car.vanish(noticed=0.5, kept=60)
    world.run(3)
    assert keeping(world, "y").copies["car"].state is Copied.ACTIVE
    light.publish(n=1)
    world.run(3)
    car.attach("y")
    world.run(8)
    assert sorted(str(one.get("light")) for one in car.received) == ["None", "red"]
    assert handing(world, "y").outcomes[Outcome.HIT] == 1
    assert world.brokers["m"].statistics.refused == refused
    assert not check(world.trace)


# --- brokers that fail --------------------------------------------------------------------------------


@pytest.mark.req("MOB-088", "MOB-089")
def test_a_neighbour_that_has_failed_is_told_nothing_until_it_is_back() -> None:
    world = network()
    phone, feed = walker(world)
    assert states(world) == {"b": "passive", "c": "passive"}
    world.crash("c")
    phone.subscribe("m >= 0")  # `c` does not get it: nobody has noticed yet that it is down
    world.run(3)
    controlling = roaming(world, "a").controlling
    assert controlling._clients["phone"].told == {"b"}
    told: list[str] = []

    def tap(name: str, link: Any, frame: Any) -> None:
        if isinstance(frame.message, Routed) and frame.message.source == name:
            told.append(frame.message.target)

    world.tap = tap
    phone.vanish(noticed=0.3, kept=60)
    world.run(3)
    phone.attach("a")
    world.run(3)
    assert set(told) == {"b"}
    world.restart("c")
    world.run(8)
    assert states(world) == {"b": "passive", "c": "passive"}
    assert keeping(world, "c").copies["phone"].subscriptions == 2
    feed.publish(m=1)
    world.run()
    assert not check(world.trace)


# --- transfers ----------------------------------------------------------------------------------------


@pytest.mark.req("MOB-056")
def test_the_layer_hears_where_a_client_comes_from_before_its_broker_serves_it() -> None:
    """So what it subscribes to is held from the very turn in which it comes, and nothing live overtakes."""
    world = network(MobilityOptions(Scheme.REACTIVE))
    phone, feed = walker(world)
    other = world.add_client("other", "c")
    other.subscribe("n >= 0")  # at this broker the filter settles at once
    world.run(2)
    phone.vanish(noticed=0.3, kept=60)
    world.run(1)
    feed.publish(n=1)
    world.run(1)
    broker, heard = world.brokers["c"], []
    arrived = roaming(world, "c").arrived
    hosts = broker.features["hosts"]
    assert isinstance(hosts, Hosts)

    class Noting:
        def arrived(self, link: Any, admitted: Any) -> tuple[str, ...]:
            heard.append((link.name, admitted.last, len(broker.registrations.subscriptions(link))))
            return arrived(link, admitted)

        claimed = roaming(world, "c").claimed
        inherited = roaming(world, "c").inherited

    hosts.watcher = Noting()
    phone.attach("c")
    assert heard == [("phone", "a", 0)]
    for _ in range(100):
        link = broker.client("phone")
        if link is not None and (there := broker.registrations.subscriptions(link)):
            break
        world.run(0.001)
    assert len(there) == len(broker.holds.all) == 1
    near = world.add_client("near", "c")
    near.publish(n=2)
    world.run(2)
    assert numbers(phone) == [1, 2]
    assert not check(world.trace)


@pytest.mark.req("MOB-041")
def test_what_is_sent_for_a_subscription_that_is_not_there_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that was asked sends more than it was asked for."""
    world = network(MobilityOptions(Scheme.REACTIVE))
    phone, feed = walker(world)
    phone.vanish(noticed=0.3, kept=60)
    world.run(1)
    feed.publish(n=1)
    world.run(1)
    old = roaming(world, "a")
    assert old.transfers is not None
    say = old.transfers._say

    def too_much(broker: str, said: Request | Part) -> bool:
        if isinstance(said, Part):
            held = tuple((envelope, (*ids, "of another")) for envelope, ids in said.held)
            later = [msgspec.structs.replace(one.identity, seq=one.identity.seq + 1) for one, _ in said.held]
            foreign = tuple(
                (msgspec.structs.replace(one, identity=identity), ("of another",))
                for (one, _), identity in zip(said.held, later, strict=True)
            )
            said = Part(said.number, held + foreign, said.last, said.whole, said.broken, (*said.ids, "of another"))
        return bool(say(broker, said))

    monkeypatch.setattr(old.transfers, "_say", too_much)
    delivered: list[tuple[str, ...]] = []

    def tap(name: str, link: Any, frame: Any) -> None:
        if link.name == "phone" and type(frame.message).__name__ == "Deliver":
            delivered.append(frame.message.subscriptions)

    world.tap = tap
    phone.attach("c")
    world.run(3)
    assert numbers(phone) == [1]
    assert delivered == [tuple(phone.subscriptions)]
    assert not check(world.trace)


@pytest.mark.req("MOB-041")
def test_the_record_of_a_copy_is_on_disk_as_soon_as_it_is_there() -> None:
    world = network()
    walker(world)
    assert states(world) == {"b": "passive", "c": "passive"}
    for crashed in "ab":
        world.crash(crashed)
    world.restart("b", clients_within=600)
    world.run(0.001)
    copy = keeping(world, "b").copies["phone"]
    assert (copy.whose.name, copy.subscriptions, copy.controller) == ("phone", 1, "a")


@pytest.mark.req("MOB-076")
def test_a_transfer_adds_its_edge_at_both_brokers_and_the_next_one_refreshes_it() -> None:
    world = network(MobilityOptions(Scheme.REACTIVE, new_edge_interval=0), edges=[])
    phone, feed = walker(world)
    used: list[list[int]] = []
    for n, broker in enumerate("cac"):
        phone.vanish(noticed=0.3, kept=60)
        world.run(1)
        feed.publish(n=n)
        world.run(1)
        phone.attach(broker)
        world.run(3)
        ends = [world.brokers[name].features["neighbours"] for name in "ac"]
        edges = [one.graph.edge("a", "c") for one in ends if isinstance(one, Neighbourhood)]
        used.append([edge.last_used for edge in edges if edge is not None])
    assert numbers(phone) == [0, 1, 2]
    assert sum(one.fetched for name in "ac" if (one := roaming(world, name).transfers) is not None) == 3
    assert [len(one) for one in used] == [2, 2, 2]
    assert used[0] < used[1] < used[2]
