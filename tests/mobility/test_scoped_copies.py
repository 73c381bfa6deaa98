"""Copies of clients that are members of scopes: who may have them, and what they prepare."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from mobility.roamers import OPTIONS, keeping, numbers, states

from tidings.mobility import Edge, Hosts, Neighbourhood, Roaming
from tidings.mobility._copies import read_record
from tidings.scopes import OPEN, CreateScope, Join, Leave, Scopes, SetAdministration
from tidings.sim import Network, Weather, check
from tidings.sim._invariants import overgrown, waste

EDGES = ["ab", "ac", "bc"]


def network(brokers: str = "abco", links: Iterable[str] = ("ab", "bc", "co"), authority: str = "o") -> Network:
    def features(name: str) -> list[Any]:
        hosts = Hosts()
        known = [Edge(one, two, 1.0, 0, 0, pinned=True) for one, two in EDGES]
        neighbourhood = Neighbourhood(hosts, OPTIONS.graph, known)
        return [Scopes(authority), hosts, neighbourhood, Roaming(OPTIONS, hosts, neighbourhood)]

    made = Network(1, features=features, weather=Weather(latency=(5_000, 5_000)))
    made.add_brokers(brokers, links=links)
    made.run()
    return made


def change(world: Network, *changes: Any) -> None:
    answers = world.change(sorted(world.brokers)[0], changes)
    world.run(5)
    assert [answer.error for answer in answers] == [""]


def anchors(world: Network, scope: str) -> set[str]:
    feature = world.brokers["a"].features["scopes"]
    assert isinstance(feature, Scopes)
    return set(feature.graph.anchors.get(scope, ()))


def test_a_broker_that_a_scope_does_not_trust_gets_no_copy_of_its_members() -> None:
    world = network()
    change(world, CreateScope("vault", OPEN, trusted=("a", "b")), CreateScope("safe", OPEN), Join("safe", "vault"))
    phone = world.add_client("phone", "a")
    phone.subscribe("secret = 7")
    world.run(3)
    assert states(world) == {"b": "passive", "c": "passive"}  # it is no member
    change(world, Join("@phone", "safe"))
    assert states(world) == {"b": "passive"}
    phone.vanish(noticed=0.3, kept=60)
    world.run(3)
    assert states(world) == {"b": "active"}
    phone.attach("a")
    world.run(3)
    change(world, Leave("@phone", "safe"))
    assert states(world) == {"b": "passive", "c": "passive"}
    change(world, Join("@phone", "vault"))
    assert states(world) == {"b": "passive"}
    change(world, SetAdministration("vault", trusted=("a", "b", "c")))
    assert states(world) == {"b": "passive", "c": "passive"}
    assert not check(world.trace)


def test_a_copy_that_a_broker_must_not_have_is_not_taken() -> None:
    """Its controller may not know yet that the scope has changed."""
    world = network()
    phone = world.add_client("phone", "a")
    phone.subscribe("secret = 7")
    world.run(3)
    copy = keeping(world, "c").copies["phone"]
    assert b"secret" in copy.record
    change(world, CreateScope("vault", OPEN, trusted=("a", "b")), Join("@phone", "vault"))
    assert states(world) == {"b": "passive"}
    refused = keeping(world, "c").refused
    keeping(world, "c").hear("a", read_record(copy.record))
    assert states(world) == {"b": "passive"}
    assert keeping(world, "c").refused == refused + 1


def test_a_broker_with_a_copy_carries_the_scopes_of_its_client_before_it_comes() -> None:
    world = network()
    change(world, CreateScope("room", OPEN), Join("@phone", "room"), Join("@feed", "room"))
    phone, feed = world.add_client("phone", "a"), world.add_client("feed", "a")
    phone.subscribe("n >= 0")
    world.run(5)
    assert anchors(world, "room") == {"a", "b", "c"}
    assert not overgrown(world)
    world.crash("o")  # the authority: nobody is admitted to anything any more
    world.run(5)
    phone.vanish(noticed=0.3, kept=60)
    world.run(1)
    feed.publish(n=1)
    world.run(1)
    phone.attach("b")
    world.run(0.1)
    assert numbers(phone) == [1]
    feed.publish(n=2)
    world.run(0.1)
    assert numbers(phone) == [1, 2]
    world.restart("o")
    world.run(10)
    phone.detach()
    feed.detach()
    world.run()
    assert anchors(world, "room") == set()
    assert not waste(world)
    assert not check(world.trace)


def test_members_that_come_and_go_while_there_are_copies_are_followed() -> None:
    world = network()
    change(world, CreateScope("room", OPEN))
    phone = world.add_client("phone", "a")
    phone.subscribe("n >= 0")
    world.run(3)
    assert anchors(world, "room") == set()
    change(world, Join("@phone", "room"))
    assert anchors(world, "room") == {"a", "b", "c"}
    change(world, Leave("@phone", "room"))
    world.run(40)
    assert anchors(world, "room") == set()
    assert not overgrown(world)


@pytest.mark.parametrize("away", [False, True])
def test_a_copy_gives_way_where_it_would_make_a_scope_stand_still(away: bool) -> None:
    """The tree joins a and b directly, and over m, which the scope does not trust, if that link is cut."""
    world = network("abm", ("ab", "am", "bm"), "a")
    members = [Join(f"@{one}", "vault") for one in ("phone", "x", "y")]
    change(world, CreateScope("vault", OPEN, trusted=("a", "b")), *members)
    phone, x, y = (world.add_client(one, "a") for one in ("phone", "x", "y"))
    phone.subscribe("n >= 0")
    y.subscribe("n >= 0")
    world.run(5)
    assert anchors(world, "vault") == {"a", "b"}
    if away:
        phone.vanish(noticed=0.3, kept=60)
        world.run(2)
    world.cut("a", "b")
    world.run(5)
    x.publish(n=1)
    world.run(2)
    assert numbers(y) == [1]
    assert anchors(world, "vault") == {"a"}
    world.heal("a", "b")
    world.run(5)
    assert anchors(world, "vault") == {"a", "b"}
    assert not check(world.trace)
