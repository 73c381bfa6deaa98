"""Copies of clients: ready before they arrive, quiet while they rest, gone when nobody wants them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mobility.roamers import ALL, BROKERS, handing, held, homes, keeping, network, numbers, roaming, states, walker

from tidings.mobility import MobilityOptions, Neighbourhood, Outcome, Scheme
from tidings.mobility._protocol import TABLES
from tidings.sim import check
from tidings.sim._invariants import waste


@pytest.mark.req("MOB-025")
@pytest.mark.req("MOB-027")
@pytest.mark.req("MOB-030")
@pytest.mark.req("MOB-037")
@pytest.mark.req("MOB-047")
def test_a_client_that_moves_to_a_broker_that_is_ready_gets_what_it_missed_from_there() -> None:
    world = network()
    phone, feed = walker(world)
    assert states(world) == {"b": "passive", "c": "passive"}
    feed.publish(n=1)
    world.run(3)
    phone.vanish(noticed=0.5, kept=60)
    feed.publish(n=2)
    world.run(3)
    assert states(world) == {"b": "active", "c": "active"}
    feed.publish(n=3)
    world.run(3)
    assert held(world, "b") == held(world, "c") == [2, 3]  # and not what the phone has acknowledged
    asked: list[str] = []
    world.tap = lambda name, link, frame: asked.append(type(frame.message).__name__)
    phone.attach("b")
    world.run(0.02)
    assert numbers(phone) == [1, 2, 3]
    assert not {"Fetch", "Wave", "Subscribe"} & set(asked)  # nobody else is needed
    world.run(8)
    assert handing(world, "b").outcomes[Outcome.HIT] == 1
    assert states(world) == {"a": "passive", "c": "passive"}
    feed.publish(n=4)
    world.run()
    assert numbers(phone) == [1, 2, 3, 4]
    assert not check(world.trace)


def test_a_client_that_stays_is_not_copied_unless_all_are() -> None:
    world = network(MobilityOptions(Scheme.PROACTIVE, new_edge_interval=0))
    phone, _ = walker(world)
    assert states(world) == {}
    phone.vanish(noticed=0.5, kept=60)
    phone.attach("b")  # now it has moved
    world.run(5)
    assert states(world) == {"a": "passive", "c": "passive"}


def test_while_the_neighbour_graph_is_empty_nothing_is_sent_and_nothing_is_woven() -> None:
    world = network(edges=[])
    phone, _ = walker(world)
    broker = world.brokers["a"]
    assert broker.at_sub_add == broker.entries.sub_add
    assert broker.at_ack == broker.delivery.ack
    phone.vanish(noticed=0.5, kept=60)
    world.run(5)
    assert roaming(world, "a").placing.sent == 0
    assert not homes(world, "a")


@pytest.mark.req("MOB-028")
@pytest.mark.req("MOB-032")
def test_a_session_that_goes_on_gets_first_what_was_sent_then_the_buffer_then_live() -> None:
    world = network()
    phone, feed = walker(world)
    link = world.brokers["a"].client("phone")
    assert link is not None
    world.brokers["a"].away(link)
    assert not world.brokers["a"].registrations.subscriptions(link)
    for n in range(1, 4):
        feed.publish(n=n)
    world.run(2)
    assert numbers(phone) == []
    assert len(keeping(world, "a").buffer) == 3
    announced: list[str] = []
    world.tap = lambda name, link, frame: announced.append(type(frame.message).__name__) if link.is_broker else None
    world.brokers["a"].back(link)
    feed.publish(n=4)
    world.run(2)
    assert numbers(phone) == [1, 2, 3, 4]
    assert states(world) == {"b": "passive", "c": "passive"}
    assert not keeping(world, "a").buffer.bytes
    withdrawn = [one for one in announced if one in ("Subscribe", "Unsubscribe")]
    assert withdrawn == ["Unsubscribe"] * len(withdrawn)  # of the copies elsewhere; the home broker says nothing


def test_going_and_coming_announces_and_withdraws_nothing_at_the_home_broker() -> None:
    world = network(edges=[("a", "b")])
    phone, feed = walker(world)
    told: list[str] = []

    def tap(name: str, link: Any, frame: Any) -> None:
        kind = type(frame.message).__name__
        if name == "a" and link.is_broker and kind in ("Subscribe", "Unsubscribe"):
            told.append(kind)

    world.tap = tap
    phone.vanish(noticed=0.5, kept=1)
    world.run(5)
    feed.publish(n=1)
    world.run(1)
    phone.attach("a")
    world.run(5)
    assert numbers(phone) == [1]
    assert told == []


def test_who_goes_and_comes_all_the_time_is_activated_more_and_more_patiently() -> None:
    world = network()
    phone, feed = walker(world)
    broker, feature = world.brokers["a"], roaming(world, "a")
    link = broker.client("phone")
    assert link is not None

    def go_and_come(n: int) -> int:
        sent = feature.placing.sent
        broker.away(link)
        world.run(0.75)
        feed.publish(n=n)
        world.run(0.75)
        broker.back(link)
        world.run(0.5)
        return feature.placing.sent - sent

    assert [go_and_come(n) for n in range(16)] == [4] * 11 + [0] * 5  # two copies that listen, and rest
    assert numbers(phone) == list(range(16))
    broker.away(link)
    world.run(1)
    assert states(world) == {"b": "passive", "c": "passive"}
    world.run(31)
    assert states(world) == {"b": "active", "c": "active"}  # it is waited for, but not for ever
    broker.back(link)
    world.run(61)
    assert go_and_come(16) == 4  # it has calmed down
    assert numbers(phone) == list(range(17))
    assert len(feature.controlling._patience) == 1


@pytest.mark.req("MOB-042")
def test_who_is_away_for_too_long_leaves_nothing_behind_and_is_served_by_the_origins() -> None:
    world = network(MobilityOptions(Scheme.PROACTIVE, roamers=("all",), t_timeout=10, dummy_self_expiry=20))
    phone, feed = walker(world)
    phone.vanish(noticed=0.5, kept=1)
    world.run(5)
    feed.publish(n=1)
    world.run(30)
    assert states(world) == {}
    assert not homes(world, "a")
    assert all(not keeping(world, name).buffer.bytes for name in BROKERS)
    phone.attach("b")
    world.run()
    assert numbers(phone) == [1]
    assert handing(world, "b").outcomes[Outcome.MISS] == 1
    assert not check(world.trace)


def test_who_unsubscribes_while_it_is_connected_is_not_listened_for() -> None:
    world = network()
    phone, feed = walker(world)
    id = phone.subscribe("m >= 0")
    world.run(3)
    [first] = [one for one in phone._local.subscriptions if one != id]
    sent = roaming(world, "a").placing.sent
    phone.unsubscribe(first)
    world.run(3)
    assert roaming(world, "a").placing.sent == sent + 2  # one message for each neighbour
    phone.vanish(noticed=0.5, kept=60)
    world.run(3)
    feed.publish(n=1)
    feed.publish(m=1)
    world.run(3)
    assert len(keeping(world, "b").buffer) == 1
    phone.attach("b")
    world.run()
    assert [one["m"] for one in phone.received] == [1]


@pytest.mark.req("MOB-040")
def test_who_says_goodbye_leaves_nothing_behind() -> None:
    world = network()
    phone, _ = walker(world)
    assert states(world) == {"b": "passive", "c": "passive"}
    phone.detach()
    world.run(3)
    assert states(world) == {}
    world.clients["feed"].detach()
    world.run()
    assert not waste(world)


@pytest.mark.req("MOB-048")
def test_a_client_that_arrives_before_it_is_missed_is_served_and_its_copies_rest() -> None:
    world = network()
    phone, feed = walker(world)
    phone.vanish(noticed=2, kept=60)
    feed.publish(n=1)
    world.run(0.1)
    phone.attach("b")
    world.run(10)
    assert numbers(phone) == [1]
    assert handing(world, "b").outcomes[Outcome.EARLY] == 1
    assert states(world) == {"a": "passive", "c": "passive"}
    assert not homes(world, "a")


def test_what_was_overwritten_is_asked_of_its_origin() -> None:
    world = network(MobilityOptions(Scheme.PROACTIVE, roamers=("all",), buffer_bytes=400))
    phone, feed = walker(world)
    phone.vanish(noticed=0.5, kept=60)
    world.run(3)
    for n in range(20):
        feed.publish(n=n)
    world.run(3)
    assert keeping(world, "b").buffer.overwritten > 10
    assert keeping(world, "b").buffer.bytes <= 400
    phone.attach("b")
    world.run()
    assert numbers(phone) == list(range(20))
    assert not check(world.trace)


def test_what_is_lost_on_the_way_to_a_client_is_owed_though_another_of_its_subscriptions_is_owed_more() -> None:
    """The phone goes again before it has what its copy handed over; meanwhile the origin is out of reach."""
    world = network()
    phone, feed = walker(world)
    phone.subscribe("n >= 100", id="other")
    world.run(3)
    phone.vanish(noticed=0.5, kept=60)
    world.run(3)
    for n in range(1, 4):
        feed.publish(n=n)
    world.run(3)
    world.cut("c", "o")
    world.run(3)
    phone.subscribe("n >= 50", id="other")  # its copies have another filter, so the origin owes it what it may want
    phone.attach("b")
    world.run(0.007)
    assert handing(world, "b").served
    phone.vanish(noticed=0.1, kept=60)  # what was handed over is lost
    world.run(1)
    phone.attach("b")
    world.run(1)
    assert numbers(phone) == []
    world.heal("c", "o")
    world.run()
    assert numbers(phone) == [1, 2, 3]
    assert not check(world.trace)


def test_what_an_origin_only_accepted_and_then_lost_is_delivered_by_a_copy_that_listened() -> None:
    world = network()
    phone, feed = walker(world)
    phone.vanish(noticed=0.5, kept=60)
    world.run(3)
    feed.publish(n=1)
    world.run(2)
    world.crash("o")
    world.run(1)
    phone.attach("b")
    world.run(1)
    assert numbers(phone) == [1]


def test_copies_are_said_again_on_a_new_tree() -> None:
    world = network()
    phone, feed = walker(world)
    world.cut("a", "b")
    phone.vanish(noticed=0.5, kept=60)  # nobody can be told
    world.run(3)
    assert states(world)["b"] == "passive"
    world.heal("a", "b")
    world.run(5)
    assert states(world) == {"b": "active", "c": "active"}
    feed.publish(n=1)
    world.run(3)
    phone.attach("c")
    world.run(1)
    assert numbers(phone) == [1]


def test_a_copy_whose_edge_is_forgotten_while_copies_are_said_again_is_deleted() -> None:
    world = network()
    walker(world)
    placing, graph = roaming(world, "a").placing, roaming(world, "a")._neighbourhood.graph
    graph.forget("a", "c", at=0, pinned=True)
    placing.reconcile()
    placing.say_again()
    world.run(3)
    assert states(world) == {"b": "passive"}


@pytest.mark.req("MOB-039")
@pytest.mark.req("MOB-095")
def test_copies_of_a_controller_that_is_gone_serve_their_client_and_expire() -> None:
    world = network(MobilityOptions(Scheme.PROACTIVE, roamers=("all",), t_timeout=10, dummy_self_expiry=20))
    phone, feed = walker(world)
    phone.vanish(noticed=0.5, kept=60)
    world.run(3)
    world.crash("a")
    world.run(3)
    feed.publish(n=1)
    world.run(3)
    assert states(world) == {"b": "active", "c": "active"}
    phone.attach("b")
    world.run(0.015)  # one round trip to its broker: nobody waits for the one that it has left
    assert numbers(phone) == [1]
    world.run()
    assert states(world) == {"c": "passive"}  # that of `b`, which hosts it now


@pytest.mark.req("MOB-093")
def test_a_copy_that_nobody_speaks_for_expires() -> None:
    world = network(MobilityOptions(Scheme.PROACTIVE, roamers=("all",), t_timeout=10, dummy_self_expiry=20))
    phone, _ = walker(world)
    phone.vanish(noticed=0.5, kept=60)
    world.run(3)
    world.crash("a")
    world.run(60)
    assert states(world) == {}


@pytest.mark.req("MOB-050")
def test_changed_subscriptions_and_new_neighbours_reach_the_copies() -> None:
    world = network(edges=[("a", "b")])
    phone, feed = walker(world)
    assert states(world) == {"b": "passive"}
    feature = world.brokers["a"].features["neighbours"]
    assert isinstance(feature, Neighbourhood)
    feature._changed(feature.graph.learn("a", "c", world.scheduler.now))
    world.run(1)
    assert states(world) == {"b": "passive", "c": "passive"}
    phone.vanish(noticed=0.5, kept=60)
    world.run(3)
    feed.publish(n=1)
    world.run(3)
    phone.attach("c")
    world.run(1)
    assert numbers(phone) == [1]
    world.run(8)
    assert states(world) == {"a": "passive"}
    later = world.brokers["c"].features["neighbours"]
    assert isinstance(later, Neighbourhood)
    later._changed(later.graph.forget("a", "c", at=world.scheduler.now, pinned=True))
    world.run(1)
    assert states(world) == {}


@pytest.mark.req("MOB-026")
def test_a_passive_copy_attracts_nothing_and_buffers_nothing() -> None:
    world = network(edges=[("a", "o")])
    phone, feed = walker(world)
    other = world.add_client("other", "c")
    assert states(world) == {"o": "passive"}
    reached: list[str] = []

    def tap(name: str, link: Any, frame: Any) -> None:
        if name == "c" and link.name == "o" and type(frame.message).__name__ == "Notify":
            reached.append(link.name)

    world.tap = tap
    other.publish(n=1)
    world.run(2)
    assert numbers(phone) == [1]
    assert reached == []
    assert not keeping(world, "o").buffer.bytes
    assert not [one for one in world.brokers["o"].clients if one.principal == "phone"]
    feed.detach()


@pytest.mark.req("MOB-034")
def test_after_a_move_there_are_copies_at_the_neighbours_of_the_new_broker_and_nowhere_else() -> None:
    for edges, left in (([("a", "b"), ("a", "c")], {"a"}), (ALL, {"a", "c"})):
        for noticed in (0.3, 60.0):
            world = network(edges=edges)
            phone, _ = walker(world)
            assert set(states(world)) == {"b", "c"}
            phone.vanish(noticed=noticed, kept=60)
            world.run(2)
            phone.attach("b")
            world.run(8)
            assert states(world) == dict.fromkeys(left, "passive")


@pytest.mark.req("MOB-078")
def test_the_first_who_moves_over_an_edge_finds_nothing_and_the_next_one_a_copy() -> None:
    world = network(MobilityOptions(Scheme.PROACTIVE, new_edge_interval=0), edges=[])
    phone, feed = walker(world)
    for n, broker in enumerate("bab"):
        phone.vanish(noticed=0.3, kept=60)
        world.run(2)
        feed.publish(n=n)
        world.run(2)
        phone.attach(broker)
        world.run(8)
    assert numbers(phone) == [0, 1, 2]
    assert handing(world, "b").outcomes == {Outcome.HIT: 1, Outcome.EARLY: 0, Outcome.MISS: 1}
    assert handing(world, "a").outcomes[Outcome.HIT] == 1


@pytest.mark.req("MOB-052")
def test_many_clients_with_several_subscriptions_each_move_by_themselves() -> None:
    world = network()
    feed = world.add_client("feed", "o")
    phones = [world.add_client(f"phone{n}", "abc"[n % 3]) for n in range(6)]
    for n, phone in enumerate(phones):
        phone.subscribe(f"n >= {n}")
        phone.subscribe(f"n < {n}")
    world.run(3)
    for n, phone in enumerate(phones):
        if n % 2:
            phone.vanish(noticed=0.3 + n / 10, kept=60)
    world.run(3)
    for n in range(6):
        feed.publish(n=n)
    world.run(3)
    for n, phone in enumerate(phones):
        if n % 2:
            phone.attach("abc"[(n + 1) % 3])
    world.run(8)
    assert all(sorted(map(str, numbers(phone))) == list("012345") for phone in phones)
    assert sum(handing(world, name).outcomes[Outcome.HIT] for name in BROKERS) == 3
    assert not check(world.trace)


@pytest.mark.parametrize("scheme", ["covering", "flooding", "merging", "simple"])
@pytest.mark.parametrize("advertisements", [False, True])
def test_every_algorithm_has_copies(scheme: str, advertisements: bool) -> None:
    from tidings.broker import RoutingOptions

    world = network(routing=RoutingOptions(scheme, advertisements=advertisements))
    phone, feed = walker(world)
    if advertisements:
        feed.advertise("n >= 0")
        phone.advertise("answer EXISTS")
        world.run(3)
    for n, broker in enumerate("bcabcb"):
        phone.vanish(noticed=0.3, kept=60)
        world.run(2)
        feed.publish(n=n)
        world.run(2)
        phone.attach(broker)
        world.run(2)
    world.run()
    assert numbers(phone) == list(range(6))
    hits = sum(handing(world, name).outcomes[Outcome.HIT] for name in BROKERS)
    assert hits >= 5
    assert not check(world.trace, advertisements=advertisements)


def test_the_tables_of_the_page_are_those_of_the_protocol() -> None:
    page = (Path(__file__).parents[2] / "docs" / "mobility.md").read_text()
    for name, rows in TABLES.items():
        lines = [f"| {name} is | event | then | action |", "|---|---|---|---|"]
        lines += [
            f"| {row.before.value} | {row.event.value} | {row.after.value} | {row.action.value if row.action else ''} |"
            for row in rows
        ]
        assert "\n".join(lines) in page
