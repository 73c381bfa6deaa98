"""Virtual clients: at the places where a client may go, somebody listens for it before it arrives."""

from __future__ import annotations

import random
from typing import Any

import pytest
from mobility.roamers import roaming

from tidings.broker import Feature
from tidings.history import HistoryOptions, Strict
from tidings.mobility import Edge, Hosts, MobilityOptions, Neighbourhood, Roaming, Scheme
from tidings.mobility._virtual import SUFFIX, VirtualClients
from tidings.model import Location, last, since
from tidings.sim import Network, SimClient, Weather, check
from tidings.sim._invariants import waste
from tidings.wire import Quality

HERE = "place WITHIN myloc"
OPTIONS = MobilityOptions(Scheme.PROACTIVE, roamers=("all",), new_edge_interval=0, t_timeout=20, dummy_self_expiry=40)
ROADS = [("x", "y"), ("x", "z"), ("y", "z")]


def road(
    options: MobilityOptions = OPTIONS, edges: Any = ROADS, locate: Any = None, *, history: bool = True
) -> Network:
    """Three places in a line, o is none."""

    def features(name: str) -> list[Feature]:
        hosts = Hosts()
        known = [Edge(one, two, 1.0, 0, 0, pinned=True) for one, two in edges]
        neighbourhood = Neighbourhood(hosts, options.graph, known)
        past = [Strict(HistoryOptions(timer=5))] if history else []
        return [hosts, neighbourhood, Roaming(options, hosts, neighbourhood, locate=locate), *past]

    made = Network(1, features=features, weather=Weather(latency=(5_000, 5_000)))
    for name in "xyz":
        made.add_broker(name, place=Location(f"/road/{name}"))
    made.add_broker("o")
    for one, two in ("xy", "yz", "zo"):
        made.connect(one, two)
    made.run()
    return made


def virtual(world: Network, broker: str) -> VirtualClients:
    return roaming(world, broker).keeping.virtual


def listening(world: Network, client: str = "car") -> list[str]:
    return [name for name in "xyzo" if client in virtual(world, name).clients]


def drive(world: Network, filter: str = HERE, **more: Any) -> tuple[SimClient, SimClient]:
    car, light = world.add_client("car", "x"), world.add_client("light", "o")
    car.subscribe(filter, **more)
    world.run(3)
    return car, light


def turns(light: SimClient, state: str, place: str = "y") -> None:
    light.publish(light=state, place=Location(f"/road/{place}"))


def seen(car: SimClient) -> list[object]:
    return [one["light"] for one in car.received]


@pytest.mark.req("HIS-112")
@pytest.mark.req("HIS-113")
@pytest.mark.req("HIS-138")
def test_red_is_known_on_arrival_because_somebody_has_listened_there() -> None:
    world = road(history=False)
    car, light = drive(world)
    assert listening(world) == ["y", "z"]
    turns(light, "red", "y")
    turns(light, "green", "z")
    world.run(3)
    assert seen(car) == []
    asked: list[str] = []
    world.tap = lambda name, link, frame: asked.append(type(frame.message).__name__) if link.is_broker else None
    car.vanish(noticed=0.5, kept=60)
    car.attach("y")
    world.run(0.02)
    assert seen(car) == ["red"]  # before anything else, and nobody was asked
    assert not {"Fetch", "Wave", "Subscribe"} & set(asked)
    turns(light, "green", "y")
    world.run(8)
    assert seen(car) == ["red", "green"]
    assert listening(world) == ["x", "z"]
    assert not check(world.trace)


@pytest.mark.req("HIS-138")
def test_red_that_was_published_before_anybody_listened_comes_from_history() -> None:
    world = road()
    light = world.add_client("light", "o")
    turns(light, "red")
    world.run(3)
    car = world.add_client("car", "x")
    car.subscribe(HERE, past=last(1))
    world.run(3)
    assert not virtual(world, "y").buffer.bytes
    car.vanish(noticed=0.5, kept=60)
    car.attach("y")
    world.run(5)
    assert seen(car) == ["red"]
    assert virtual(world, "y").used == 1
    assert not check(world.trace)


@pytest.mark.parametrize(("bound", "expected"), [(last(2), ["2", "3"]), (since(2), ["2", "3"])])
def test_where_somebody_has_listened_for_long_enough_history_is_not_asked(bound: Any, expected: list[str]) -> None:
    world = road()
    car, light = drive(world, past=bound)
    world.run(5)
    turns(light, "1")
    world.run(3)
    turns(light, "2")
    turns(light, "3")
    world.run(1)
    before = world.brokers["y"].features["history"].statistics.waves  # type: ignore[attr-defined]
    car.vanish(noticed=0.5, kept=60)
    car.attach("y")
    world.run(0.02)
    assert seen(car) == expected
    assert world.brokers["y"].features["history"].statistics.waves == before  # type: ignore[attr-defined]
    world.run(5)
    assert not check(world.trace)


@pytest.mark.req("HIS-117")
@pytest.mark.parametrize("lost", [False, True])
def test_the_older_part_comes_from_history_and_the_newer_from_who_has_listened(lost: bool) -> None:
    """Each of them once; also if the origin had only accepted the newer part, and has lost it."""
    world = road()
    light = world.add_client("light", "o")
    for state in "12":
        light.publish(light=state, place=Location("/road/y"), quality=Quality.STORED)
    world.run(5)
    car = world.add_client("car", "x")
    car.subscribe(HERE, past=last(4))
    world.run(5)
    for state in "34":
        light.publish(light=state, place=Location("/road/y"), quality=Quality.ACCEPTED)
    world.run(0.05)
    if lost:
        world.crash("o")
        world.run(3)
        world.restart("o")
    world.run(5)
    assert virtual(world, "y").buffer.bytes
    car.vanish(noticed=0.5, kept=60)
    car.attach("y")
    world.run(8)
    assert seen(car) == ["1", "2", "3", "4"]
    assert not check(world.trace)


@pytest.mark.req("HIS-115")
def test_subscriptions_that_come_and_go_reach_all_who_listen() -> None:
    world = road()
    car, light = drive(world)
    id = car.subscribe("place WITHIN myloc(1)")
    world.run(3)
    assert [len(virtual(world, name).clients["car"].wanted) for name in "yz"] == [2, 2]
    car.unsubscribe(id)
    world.run(3)
    assert [len(virtual(world, name).clients["car"].wanted) for name in "yz"] == [1, 1]
    turns(light, "red", "z")
    world.run(1)
    assert not virtual(world, "y").buffer.bytes
    for id in list(car._local.subscriptions):
        car.unsubscribe(id)
    world.run(3)
    assert listening(world) == []
    assert not virtual(world, "z").buffer.bytes


@pytest.mark.req("HIS-118")
@pytest.mark.parametrize(("own", "in_all"), [(500, 1_000_000), (1_000_000, 500)])
def test_a_client_is_listened_for_at_so_many_places_and_with_so_many_bytes(own: int, in_all: int) -> None:
    """Each of the two limits holds by itself."""
    limited = MobilityOptions(
        Scheme.PROACTIVE, roamers=("all",), max_virtual_clients=1, virtual_bytes=own, virtual_buffer_bytes=in_all
    )
    world = road(limited, edges=[("x", "y"), ("x", "z")])
    car, light = drive(world)
    (where,) = listening(world)
    other = world.add_client("bus", "x")
    other.subscribe(HERE)
    world.run(3)
    for n in range(20):
        turns(light, str(n), where)
    world.run(3)
    clients = virtual(world, where)
    assert all(0 < one.bytes <= own for one in clients.clients.values())
    assert clients.buffer.bytes <= in_all
    assert clients.buffer.overwritten > 10
    car.vanish(noticed=0.5, kept=60)
    car.attach(where)
    world.run(5)
    got = [int(str(one)) for one in seen(car)]
    assert got == list(range(got[0], 20))  # the newest, without a hole
    assert got[0] > 0
    assert not check(world.trace)


@pytest.mark.req("HIS-119")
def test_how_long_somebody_had_listened_is_measured() -> None:
    world = road()
    car, _ = drive(world)
    began = virtual(world, "y").clients["car"].since
    world.run(7)
    car.vanish(noticed=0.5, kept=60)
    car.attach("y")
    world.run(0.02)
    assert virtual(world, "y").used == 1
    assert 7_000_000 <= virtual(world, "y").lead <= world.scheduler.now - began


@pytest.mark.req("HIS-120")
@pytest.mark.parametrize("where", ["x", "y"])
def test_who_was_away_gets_what_was_published_meanwhile_at_whatever_place_it_comes_back(where: str) -> None:
    world = road()
    car, light = drive(world)
    car.vanish(noticed=0.5, kept=60)
    world.run(3)
    for place in "xyz":
        turns(light, place, place)
    world.run(5)
    car.attach(where)
    world.run(8)
    assert seen(car) == [where]
    assert not check(world.trace)


@pytest.mark.req("HIS-112")
def test_a_client_that_stays_away_is_listened_for_no_longer() -> None:
    world = road()
    car, light = drive(world)
    car.vanish(noticed=0.5, kept=1)
    turns(light, "red")
    world.run(30)
    assert listening(world) == []
    light.detach()
    world.run(60)
    assert not waste(world)


@pytest.mark.req("HIS-110")
def test_a_location_service_says_where_to_listen_and_says_it_again() -> None:
    where = {"car": ["z"]}
    world = road(edges=[], locate=where.get)
    drive(world)
    bus = world.add_client("bus", "x")
    bus.subscribe(HERE)
    world.run(3)
    assert listening(world) == ["z"]
    assert listening(world, "bus") == []  # the service does not know it, and the graph is empty
    where["car"] = ["y", "x", "nowhere"]
    roaming(world, "x").placing.relocated("car")
    world.run(3)
    assert listening(world) == ["y"]


@pytest.mark.req("HIS-110")
def test_a_movement_graph_is_learned_from_those_who_move() -> None:
    world = road(edges=[])
    car, _ = drive(world)
    assert listening(world) == []
    car.vanish(noticed=0.5, kept=60)
    car.attach("y")
    world.run(5)
    assert listening(world) == ["x"]


def test_nobody_listens_where_there_is_no_place_and_plain_subscriptions_need_nobody() -> None:
    world = road(edges=[("x", "o"), ("x", "y")])
    phone = world.add_client("phone", "x")
    phone.subscribe("n >= 0")
    drive(world)
    assert listening(world) == ["y"]
    assert listening(world, "phone") == []
    assert "car" + SUFFIX not in {link.name for link in world.brokers["o"].clients}


@pytest.mark.req("HIS-114")
@pytest.mark.parametrize("seed", range(12))
def test_who_arrives_gets_what_it_would_have_got_had_it_been_there(seed: int) -> None:
    """A client that stands at y all the time, from the moment when the car is listened for there, is the oracle."""
    rng = random.Random(seed)
    world = road(history=False)
    car = world.add_client("car", "x")
    lights = [world.add_client(f"light-{name}", name) for name in "oxy"]
    wide = rng.choice((HERE, "place WITHIN myloc(1)"))
    witness = world.add_client("witness", "y")
    world.run(3)
    car.subscribe(wide)
    witness.subscribe(wide)
    world.run(rng.choice((1, 3)))
    numbers = iter(range(1_000))

    def some() -> None:
        for _ in range(rng.randint(0, 6)):
            rng.choice(lights).publish(light=next(numbers), place=Location(f"/road/{rng.choice('xyz')}"))
            world.run(rng.choice((0, 0.003, 0.02, 0.5)))

    some()
    some()
    if rng.random() < 0.3:
        world.cut("z", "o")
        some()
        world.heal("z", "o")
        world.run(5)
    had = len(car.received)
    car.vanish(noticed=rng.choice((0.01, 0.5, 2)), kept=60)
    some()
    car.attach("y")
    some()
    world.run(20)
    assert virtual(world, "y").used == 1
    before = {one["light"] for one in car.received[:had]}  # once over all places
    expected = [n for n in seen(witness) if n not in before]
    assert sorted(map(str, seen(car)[had:])) == sorted(map(str, expected))
    assert not check(world.trace)
