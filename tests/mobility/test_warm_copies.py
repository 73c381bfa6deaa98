"""Warm copies listen before their clients go: a client that arrives before it was missed finds everything ready."""

from __future__ import annotations

import dataclasses

import pytest
from mobility.roamers import OPTIONS, handing, keeping, network, numbers, overheard, roaming, states, to, walker

from tidings.mobility import Outcome, OwnRoom
from tidings.sim import Network, SimClient, check
from tidings.sim._invariants import waste
from tidings.wire import Frame, Gap

WARM = dataclasses.replace(OPTIONS, warm_copies=8)


def hold(world: Network, broker: str) -> list[object]:
    """What the warm copy of the phone at a broker holds."""
    keeps = keeping(world, broker)
    return [one.notification["n"] for one, _ in keeps.warm.buffer.all_of(keeps.copies["phone"])]


def go(world: Network, phone: SimClient, broker: str, *, after: float = 0.05) -> None:
    """Go to another broker long before it is noticed."""
    phone.vanish(noticed=30, kept=60)
    world.run(after)
    phone.attach(broker)


def test_a_client_that_arrives_before_it_was_missed_gets_everything_from_a_copy_that_listened() -> None:
    world = network(WARM)
    phone, feed = walker(world)
    assert states(world) == {"b": "warm", "c": "warm"}
    feed.publish(n=1)
    world.run(1)
    phone.vanish(noticed=30, kept=60)
    for n in range(2, 6):
        feed.publish(n=n)
    world.run(1)
    said: list[str] = []
    world.tap = lambda broker, link, frame: said.append(type(frame.message).__name__) if broker == "b" else None
    phone.attach("b")
    world.run(0.01)
    assert numbers(phone) == [1, 2, 3, 4, 5]
    assert not {"Wave", "Fetch"} & set(said)
    world.run(8)
    assert handing(world, "b").outcomes == {Outcome.HIT: 1, Outcome.EARLY: 0, Outcome.MISS: 0}
    assert states(world) == {"a": "warm", "c": "warm"}
    assert not check(world.trace)


def test_nobody_is_listened_for_while_it_is_connected_unless_that_was_asked_for() -> None:
    world = network()
    walker(world)
    assert states(world) == {"b": "passive", "c": "passive"}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"warm_copies": 1}, {"b": "warm", "c": "passive"}),
        ({"warm_clients": ("car-*", "ph*")}, {"b": "warm", "c": "warm"}),
        ({"warm_clients": ("car-*",)}, {"b": "passive", "c": "passive"}),
        ({"max_warm_copies": 0}, {"b": "passive", "c": "passive"}),
    ],
)
def test_what_may_be_warm_has_bounds(more: dict[str, object], expected: dict[str, str]) -> None:
    world = network(dataclasses.replace(WARM, **more))  # type: ignore[arg-type]
    walker(world)
    assert states(world) == expected


def test_a_copy_for_which_there_is_no_room_rests_until_its_client_is_away() -> None:
    world = network(dataclasses.replace(WARM, max_warm_copies=1))
    phone, feed = walker(world)
    other = world.add_client("other", "a")
    other.subscribe("n >= 0")
    world.run(3)
    assert states(world, "other") == {"b": "passive", "c": "passive"}
    assert keeping(world, "b").warm.refused
    other.vanish(noticed=0.3, kept=60)
    world.run(1)
    assert states(world, "other") == {"b": "active", "c": "active"}
    feed.publish(n=1)
    world.run(1)
    other.attach("b")
    world.run(3)
    assert numbers(other) == numbers(phone) == [1]
    assert not check(world.trace)


def test_what_is_older_than_the_window_is_not_held_and_not_lost() -> None:
    world = network(dataclasses.replace(WARM, warm_window=4.0))
    phone, feed = walker(world)
    for n in range(1, 4):
        feed.publish(n=n)
    world.run(1)
    assert hold(world, "b") == [1, 2, 3]
    phone.vanish(noticed=300, kept=600)
    for n in range(4, 7):
        feed.publish(n=n)
    world.run(6)
    assert hold(world, "b") == []
    assert not keeping(world, "b").warm.buffer.bytes
    feed.publish(n=7)
    world.run(1)
    assert hold(world, "b") == [7]
    phone.attach("b")
    world.run(8)
    assert numbers(phone) == [1, 2, 3, 4, 5, 6, 7]
    assert handing(world, "b").outcomes[Outcome.EARLY] == 1  # the origin was asked
    assert not check(world.trace)


def test_a_client_that_stayed_for_long_is_handed_over_what_came_lately_and_no_origin_is_asked() -> None:
    world = network(dataclasses.replace(WARM, warm_window=4.0))
    phone, feed = walker(world)
    for n in range(40):
        feed.publish(n=n)
        world.run(0.5)
    assert len(hold(world, "b")) < 12
    phone.vanish(noticed=300, kept=600)
    feed.publish(n=40)
    world.run(1)
    phone.attach("b")
    world.run(8)
    assert numbers(phone) == list(range(41))
    assert handing(world, "b").outcomes[Outcome.HIT] == 1


def test_a_warm_copy_is_activated_and_made_warm_again_without_a_pause_in_listening() -> None:
    world = network(dataclasses.replace(WARM, warm_window=4.0))
    phone, feed = walker(world)
    copy = keeping(world, "b").copies["phone"]
    inner = copy.inner
    feed.publish(n=1)
    world.run(1)
    said = overheard(world)
    link = world.brokers["a"].client("phone")
    assert link is not None
    world.brokers["a"].away(link)
    feed.publish(n=2)
    world.run(20)
    assert states(world) == {"b": "active", "c": "active"}
    assert [one.notification["n"] for one, _ in copy.buffer.all_of(copy)] == [1, 2]  # it forgets nothing any more
    assert not keeping(world, "b").warm.buffer.bytes
    world.brokers["a"].back(link)
    feed.publish(n=3)
    world.run(1)
    assert states(world) == {"b": "warm", "c": "warm"}
    assert hold(world, "b") == [1, 2, 3]
    assert said == [*to("b", "c", what="Activate"), *to("b", "c", what="Warm")]
    world.run(20)
    assert hold(world, "b") == []
    assert copy.inner is inner
    assert numbers(phone) == [1, 2, 3]
    assert not keeping(world, "b").buffer.bytes


def test_a_copy_that_both_brokers_of_a_move_want_goes_on_listening() -> None:
    world = network(WARM)
    phone, feed = walker(world)
    copy = keeping(world, "c").copies["phone"]
    inner = copy.inner
    said = overheard(world)
    go(world, phone, "b")
    world.run(3)
    assert sorted(said) == sorted([*to("a", "c", what="Warm", source="b"), *to("a", what="Propagate", source="b")])
    assert copy.inner is inner
    assert copy.controller == "b"
    assert states(world) == {"a": "warm", "c": "warm"}
    phone.vanish(noticed=30, kept=60)
    feed.publish(n=1)
    world.run(1)
    phone.attach("c")
    world.run(3)
    assert numbers(phone) == [1]
    assert handing(world, "c").outcomes[Outcome.HIT] == 1


def test_a_copy_that_only_the_old_broker_let_listen_rests() -> None:
    world = network(WARM)
    phone, _ = walker(world)
    placing = roaming(world, "b").placing
    placing._options = placing._warming._options = OPTIONS
    go(world, phone, "b")
    world.run(3)
    assert states(world) == {"a": "passive", "c": "passive"}


def test_copies_listen_to_what_their_client_subscribes_to_now() -> None:
    world = network(WARM)
    phone, feed = walker(world)
    feed.publish(n=1)
    world.run(1)
    phone.subscribe("m >= 0")
    world.run(3)
    assert states(world) == {"b": "warm", "c": "warm"}
    phone.vanish(noticed=30, kept=60)
    feed.publish(m=1)
    feed.publish(n=2)
    world.run(1)
    phone.attach("b")
    world.run(3)
    assert len(phone.received) == 3
    assert handing(world, "b").outcomes[Outcome.HIT] == 1
    assert not check(world.trace)


def test_copies_begin_to_listen_after_a_part_of_a_usual_stay() -> None:
    world = network(dataclasses.replace(WARM, warm_from=0.5))
    graph = roaming(world, "a")._neighbourhood.graph
    for broker, stayed in (("b", 60.0), ("c", 20.0)):
        graph.learn("a", broker, world.brokers["a"].now(), stayed=stayed)
    walker(world)
    assert states(world) == {"b": "passive", "c": "passive"}
    world.run(8)
    assert states(world) == {"b": "passive", "c": "warm"}
    world.run(20)
    assert states(world) == {"b": "warm", "c": "warm"}


def test_brokers_learn_how_long_clients_stay() -> None:
    world = network(edges=[])
    phone, _ = walker(world)
    world.run(27)
    go(world, phone, "b", after=5)
    world.run(3)
    edge = roaming(world, "a")._neighbourhood.graph.edge("a", "b")
    assert edge is not None
    assert edge.dwell == pytest.approx(35, abs=1)  # it was not missed before it was elsewhere
    known = roaming(world, "b")._neighbourhood.graph.edge("a", "b")
    assert known is not None
    assert known.dwell == 0  # it has seen nobody go


def test_a_broker_that_restarts_has_its_warm_copies_again() -> None:
    world = network(WARM)
    phone, feed = walker(world)
    world.crash("b")
    world.run(2)
    world.restart("b")
    world.run(8)
    assert states(world) == {"b": "warm", "c": "warm"}
    phone.vanish(noticed=30, kept=60)
    feed.publish(n=1)
    world.run(1)
    phone.attach("b")
    world.run(8)
    assert numbers(phone) == [1]


def test_a_loss_that_a_warm_copy_was_told_long_ago_does_not_make_it_ask() -> None:
    world = network(WARM)
    phone, feed = walker(world)
    copy = keeping(world, "b").copies["phone"]
    for n in range(5):
        feed.publish(n=n)
    world.run(3)
    [envelope, *_] = [one for one, _ in copy.buffer.all_of(copy)]
    identity = envelope.identity
    assert copy.inner is not None
    copy.receive(Frame(Gap(identity.origin, identity.epoch, identity.seq, identity.seq, ("s1",))))
    assert not copy.torn
    phone.vanish(noticed=30, kept=60)
    feed.publish(n=5)
    world.run(1)
    phone.attach("b")
    world.run(3)
    assert numbers(phone) == list(range(6))
    assert handing(world, "b").outcomes[Outcome.HIT] == 1


def test_what_warm_copies_hold_counts_in_the_memory_of_their_broker() -> None:
    world = network(WARM)
    phone, feed = walker(world)
    room = keeping(world, "b").room
    assert isinstance(room, OwnRoom)
    before = room.total
    feed.publish(n=1, text="x" * 10_000)
    world.run(1)
    assert room.total - before >= 10_000
    phone.detach()
    feed.detach()
    world.run()
    assert not waste(world)


def test_copies_are_as_they_were_after_the_network_was_cut() -> None:
    world = network(WARM)
    phone, feed = walker(world)
    world.cut("b", "c")
    world.run(10)
    world.heal("b", "c")
    world.run(20)
    assert states(world) == {"b": "warm", "c": "warm"}
    phone.vanish(noticed=30, kept=60)
    feed.publish(n=1)
    world.run(1)
    phone.attach("c")
    world.run(3)
    assert numbers(phone) == [1]


def test_a_warm_copy_stays_for_as_long_as_its_client() -> None:
    world = network(dataclasses.replace(WARM, dummy_self_expiry=5.0))
    walker(world)
    copy = keeping(world, "b").copies["phone"]
    world.run(60)
    assert states(world) == {"b": "warm", "c": "warm"}
    assert keeping(world, "b").copies["phone"] is copy
