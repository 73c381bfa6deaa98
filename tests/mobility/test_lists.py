"""Two brokers between which a client moves tell each other where it has copies: those that both want stay."""

from __future__ import annotations

from typing import Any

import pytest
from mobility.roamers import Said, handing, keeping, network, numbers, overheard, roaming, states, to, walker

from tidings.mobility import Outcome
from tidings.mobility._claims import Claims, Ruling, read
from tidings.mobility._placing import REPLY_TIME
from tidings.sim import Network, SimClient, check
from tidings.sim._invariants import waste
from tidings.wire import Routed

PATH = [("a", "b"), ("a", "c"), ("b", "o")]


def move(world: Network, phone: SimClient, broker: str, *, stay: float = 3) -> None:
    phone.vanish(noticed=0.3, kept=60)
    world.run(2)
    phone.attach(broker)
    world.run(stay)


def exchanged(world: Network) -> list[Claims | Ruling]:
    """What the two brokers say to each other of who hosts the client."""
    heard: list[Claims | Ruling] = []

    def tap(name: str, link: Any, frame: Any) -> None:
        message = frame.message
        if isinstance(message, Routed) and message.feature == "hosts" and name == message.source:
            heard.append(read(message.body))

    world.tap = tap
    return heard


@pytest.mark.req("MOB-035")
def test_both_brokers_of_a_move_hear_of_each_other_where_copies_are_and_should_be() -> None:
    world = network()
    phone, _ = walker(world)
    heard = exchanged(world)
    move(world, phone, "b")
    [claims, ruling] = heard
    assert isinstance(claims, Claims)
    assert isinstance(ruling, Ruling)
    assert claims.claims[0].neighbours == ("a", "c")
    assert ruling.copies["phone"].brokers == ("c",)
    copy = keeping(world, "c").copies["phone"]
    assert ruling.copies["phone"].version == copy.version


@pytest.mark.req("MOB-036", "MOB-051")
def test_copies_that_both_brokers_want_are_used_again_and_only_the_one_that_was_left_is_new() -> None:
    world = network()
    phone, feed = walker(world)
    kept = keeping(world, "c").copies["phone"]
    said = overheard(world)
    for old, new in ("ab", "ba", "ab"):
        said.clear()
        move(world, phone, new)
        assert said == [
            *to(new, "c", what="Activate", source=old),
            *to("c", what="Deactivate", source=old),
            *to(old, what="Propagate", source=new),
        ]
        assert states(world) == {old: "passive", "c": "passive"}
    assert keeping(world, "c").copies["phone"] is kept
    phone.vanish(noticed=0.3, kept=60)
    world.run(2)
    assert (kept.controller, kept.inner is not None) == ("b", True)  # it obeys the broker that has never sent it
    feed.publish(n=1)
    world.run(2)
    phone.attach("c")
    world.run(8)
    assert numbers(phone) == [1]
    assert handing(world, "c").outcomes[Outcome.HIT] == 1
    assert not check(world.trace)


@pytest.mark.req("MOB-036", "MOB-051")
def test_copies_that_only_one_of_them_wants_are_deleted_or_made() -> None:
    world = network(edges=PATH)
    phone, _ = walker(world)
    assert states(world) == {"b": "passive", "c": "passive"}
    said = overheard(world)
    move(world, phone, "b")
    assert sorted(said[2:]) == sorted([*to("c", what="Delete"), *to("a", "o", what="Propagate", source="b")])
    assert states(world) == {"a": "passive", "o": "passive"}


def test_a_copy_of_something_else_than_the_client_wants_now_is_propagated_anew() -> None:
    world = network()
    phone, feed = walker(world)
    said = overheard(world)
    phone.vanish(noticed=0.3, kept=60)
    phone.subscribe("m >= 0")
    world.run(2)
    phone.attach("b")
    world.run(3)
    assert set(to("a", "c", what="Propagate", source="b")) <= set(said)
    assert keeping(world, "c").copies["phone"].subscriptions == 2
    phone.vanish(noticed=0.3, kept=60)
    world.run(2)
    feed.publish(m=1)
    world.run(2)
    phone.attach("c")
    world.run(8)
    assert [one["m"] for one in phone.received] == [1]
    assert not check(world.trace)


@pytest.mark.parametrize("noticed", [0.001, 0.02, 0.06, 0.3])
def test_a_client_that_goes_on_before_its_old_broker_has_answered_is_listened_for(noticed: float) -> None:
    world = network()
    phone, feed = walker(world)
    phone.vanish(noticed=0.3, kept=60)
    world.run(2)
    phone.attach("b")
    world.run(0.004)
    phone.vanish(noticed=noticed, kept=60)
    world.run(3)
    feed.publish(n=1)
    world.run(3)
    assert states(world)["c"] == "active"
    phone.attach("c")
    world.run(8)
    assert numbers(phone) == [1]
    assert states(world) == {"a": "passive", "b": "passive"}
    assert not check(world.trace)


def test_an_answer_that_is_lost_costs_a_propagation_and_leaves_nothing_behind() -> None:
    world = network()
    phone, feed = walker(world)
    for broker in world.brokers.values():
        hosts = broker.features["hosts"]
        hosts._reply = lambda *_: None  # type: ignore[attr-defined]
    said: Said = overheard(world)
    phone.vanish(noticed=0.3, kept=60)
    world.run(2)
    phone.attach("b")
    world.run(0.2)
    assert states(world)["c"] == "passive"  # its old broker has left it
    assert to("c", what="Propagate", source="b")[0] not in said
    phone.detach()
    world.run(REPLY_TIME / 1_000_000 + 2)
    assert states(world) == {}
    feed.detach()
    world.run()
    assert not waste(world)
    assert not roaming(world, "b").controlling._clients
