"""What a broker notices of its clients, and what it makes of each: one message to each neighbour, or none."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from mobility.roamers import Said, network, numbers, overheard, states, to

from tidings.mobility import MobilityOptions, Scheme
from tidings.sim import Network, SimClient, check


def session_goes_on(world: Network, phone: SimClient) -> None:
    link = world.brokers["a"].client("phone")
    assert link is not None
    world.brokers["a"].away(link)
    world.run(1)
    world.brokers["a"].back(link)


def away(world: Network, phone: SimClient) -> None:
    phone.vanish(noticed=0.3, kept=600)


def again(world: Network, phone: SimClient) -> None:
    away(world, phone)
    world.run(2)
    phone.attach("a")


def elsewhere(world: Network, phone: SimClient) -> None:
    away(world, phone)
    world.run(2)
    phone.attach("b")


def unsubscribes(world: Network, phone: SimClient) -> None:
    phone.unsubscribe(next(iter(phone.subscriptions)))


def stays_away(world: Network, phone: SimClient) -> None:
    away(world, phone)
    world.run(130)


LISTEN, REST = to("b", "c", what="Activate"), to("b", "c", what="Deactivate")


@pytest.mark.req("MOB-017")
@pytest.mark.parametrize(
    ("happens", "expected"),
    [
        (away, LISTEN),
        (session_goes_on, LISTEN + REST),
        (again, LISTEN + REST + to("b", "c", what="Propagate")),
        (elsewhere, [*LISTEN, *to("c", what="Deactivate"), *to("a", what="Propagate", source="b")]),
        (unsubscribes, to("b", "c", what="Propagate")),
        (stays_away, [*LISTEN, *to("b", "c", what="Delete")]),
        (lambda world, phone: phone.detach(), to("b", "c", what="Delete")),
    ],
    ids=["disconnect", "session goes on", "reconnect", "hand-off", "unsubscribe", "timeout", "goodbye"],
)
def test_whatever_happens_to_a_client_its_broker_tells_those_who_have_copies(
    happens: Callable[[Network, SimClient], None], expected: Said
) -> None:
    world = network()
    said = overheard(world)
    phone = world.add_client("phone", "a")
    phone.subscribe("n >= 0")
    phone.subscribe("m >= 0")
    world.run(3)
    assert said == to("b", "c", what="Propagate")  # it has connected
    said.clear()
    happens(world, phone)
    world.run(5)
    assert said == expected
    assert not check(world.trace)


@pytest.mark.req("MOB-018")
def test_a_client_has_moved_if_it_names_another_broker_than_this_one_as_its_last() -> None:
    world = network(MobilityOptions(Scheme.PROACTIVE, new_edge_interval=0))
    phone = world.add_client("phone", "a")
    phone.subscribe("n >= 0")
    world.run(5)
    assert states(world) == {}  # it names none: it has connected
    for broker, copies in (("a", {}), ("b", {"a": "passive", "c": "passive"})):
        phone.vanish(noticed=0.3, kept=60)
        world.run(1)
        phone.attach(broker)
        world.run(5)
        assert states(world) == copies


@pytest.mark.req("MOB-054")
@pytest.mark.parametrize("scheme", [Scheme.PROACTIVE, Scheme.REACTIVE, Scheme.ORIGINS], ids=lambda one: one.value)
@pytest.mark.parametrize("seed", range(6))
def test_what_each_publishes_comes_in_its_order_wherever_the_client_goes(scheme: Scheme, seed: int) -> None:
    rng = random.Random(seed)
    world = network(MobilityOptions(scheme, roamers=("all",), new_edge_interval=0), seed=seed)
    phone = world.add_client("phone", "a")
    phone.subscribe("n >= 0")
    feeds = [world.add_client(f"feed-{name}", name) for name in "abo"]
    world.run(3)
    published = dict.fromkeys(feeds, 0)

    def some() -> None:
        for _ in range(rng.randint(0, 8)):
            feed = rng.choice(feeds)
            published[feed] += 1
            feed.publish(n=published[feed], of=feed.name)
            world.run(rng.choice((0, 0.002, 0.01)))

    for _ in range(8):
        some()
        phone.vanish(noticed=rng.choice((0.01, 0.3)), kept=60)
        some()
        world.run(rng.choice((0, 0.02, 1)))
        some()
        phone.attach(rng.choice("abc"))
        some()
        world.run(rng.choice((0.003, 0.02, 1)))
    world.run()
    for feed, count in published.items():
        assert [one["n"] for one in phone.received if one["of"] == feed.name] == list(range(1, count + 1))
    assert len(numbers(phone)) == sum(published.values())
    assert not check(world.trace)
