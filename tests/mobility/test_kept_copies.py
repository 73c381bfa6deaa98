"""Records of copies survive the restart of their broker; what they held is fetched again."""

from __future__ import annotations

import pytest
from mobility.roamers import BROKERS, OPTIONS, handing, held, homes, keeping, network, numbers, roaming, states, walker

from tidings.mobility import MobilityOptions, Outcome, Scheme
from tidings.mobility._copies import Announced, Deactivate, Propagate, Saying, Whose
from tidings.mobility._kept_copies import KeptCopies
from tidings.mobility._room import IDENTITY_BYTES
from tidings.model import Position
from tidings.sim import check
from tidings.sim._disk import SimDisk
from tidings.sim._scheduler import Scheduler
from tidings.wire import Routed, pack

SHORT = MobilityOptions(Scheme.PROACTIVE, roamers=("all",), t_timeout=10, dummy_self_expiry=20)


@pytest.mark.req("MOB-090")
def test_a_copy_that_listened_listens_again_after_a_restart_and_is_ready_when_its_client_arrives() -> None:
    world = network()
    phone, feed = walker(world)
    phone.vanish(noticed=0.5, kept=60)
    world.run(2)
    feed.publish(n=1)
    world.run(2)
    assert held(world, "b") == [1]
    world.crash("b")
    world.run(1)
    feed.publish(n=2)
    world.restart("b")
    world.run(0.001)
    assert states(world)["b"] == "active"  # from its disk: nobody has spoken to it yet
    assert keeping(world, "b").copies["phone"].restored
    world.run(5)
    assert held(world, "b") == [1, 2]
    assert not keeping(world, "b").copies["phone"].restored  # its controller has
    phone.attach("b")
    world.run(0.02)
    assert numbers(phone) == [1, 2]
    world.run(8)
    assert handing(world, "b").outcomes[Outcome.HIT] == 1
    assert not check(world.trace)
    assert states(world) == {"a": "passive", "c": "passive"}
    world.crash("b")
    world.run(1)
    world.restart("b", clients_within=600)
    world.run(0.001)
    assert "b" not in states(world)  # it has hosted its client since, and has no record any more


@pytest.mark.req("MOB-090")
def test_a_copy_that_rested_rests_after_a_restart() -> None:
    world = network()
    walker(world)
    link = world.brokers["a"].client("phone")
    assert link is not None
    world.brokers["a"].away(link)
    world.run(2)
    assert states(world) == {"b": "active", "c": "active"}
    world.brokers["a"].back(link)
    world.run(2)
    world.crash("b")
    world.run(1)
    world.restart("b")
    world.run(0.001)
    assert states(world) == {"b": "passive", "c": "passive"}
    world.run(5)
    assert states(world) == {"b": "passive", "c": "passive"}


@pytest.mark.req("MOB-091")
def test_a_broker_that_restarts_is_told_what_has_become_of_the_clients_meanwhile() -> None:
    world = network()
    phone, _ = walker(world)
    other = world.add_client("other", "a")
    third = world.add_client("third", "a")
    for client in (other, third):
        client.subscribe("m >= 0")
    world.run(2)
    third.vanish(noticed=0.5, kept=60)
    world.run(2)
    assert [states(world, name)["b"] for name in ("phone", "other", "third")] == ["passive", "passive", "active"]
    world.crash("b")
    world.run(1)
    phone.vanish(noticed=0.5, kept=60)
    other.detach()
    third.attach("a")
    world.run(3)
    heard: list[tuple[str, object]] = []

    def tap(name: str, link: object, frame: object) -> None:
        message = getattr(frame, "message", None)
        if isinstance(message, Routed) and message.feature == "roaming" and name == message.source == "b":
            heard.append((message.target, message.body))

    world.tap = tap
    world.restart("b")
    world.run(0.001)
    assert [states(world, name).get("b") for name in ("phone", "other", "third")] == ["passive", "passive", "active"]
    world.run(8)
    assert [states(world, name).get("b") for name in ("phone", "other", "third")] == ["active", None, "passive"]
    announced = [body for target, body in heard if target == "a"]
    whose = {one.name: one for one in (copy.whose for copy in keeping(world, "b").copies.values())}
    assert any(whose["phone"].name.encode() in body and b"announced" in body for body in announced)  # type: ignore[operator]


@pytest.mark.req("MOB-092")
def test_what_a_broker_that_died_hosted_is_forgotten_there_and_at_its_neighbours_if_nobody_comes_back() -> None:
    world = network(SHORT)
    phone, _ = walker(world)
    phone.vanish(noticed=0.5, kept=1)
    world.run(3)
    assert states(world) == {"b": "active", "c": "active"}
    world.crash("a")
    world.crash("b")
    world.run(1)
    world.restart("a", clients_within=100_000)
    world.restart("b")
    world.run(5)
    assert states(world) == {"b": "active", "c": "active"}  # its client may come yet
    world.run(40)
    assert states(world) == {}
    assert all(not keeping(world, name).buffer.bytes and not homes(world, name) for name in BROKERS)
    for name in "abc":
        assert not world.disk(name).items("copies")
        assert not world.disk(name).items("copies listening")


def test_the_client_of_a_broker_that_died_finds_its_copy_elsewhere_after_both_have_restarted() -> None:
    world = network()
    phone, feed = walker(world)
    phone.vanish(noticed=0.5, kept=60)
    world.run(2)
    world.crash("a")
    world.crash("b")
    world.run(1)
    world.restart("b")
    world.run(3)
    feed.publish(n=1)
    world.run(3)
    phone.attach("b")
    world.run(0.015)
    assert numbers(phone) == [1]


def test_an_order_to_rest_that_was_lost_is_said_again_on_the_next_tree() -> None:
    world = network()
    phone, _ = walker(world)
    phone.vanish(noticed=0.5, kept=60)
    world.run(2)
    kept = roaming(world, "a").context
    send_to = kept.send_to
    kept.send_to = lambda broker, body: True  # type: ignore[method-assign] # lost on the way
    phone.attach("a")
    world.run(0.04)
    kept.send_to = send_to  # type: ignore[method-assign]
    copy = keeping(world, "b").copies["phone"]
    client = roaming(world, "a").controlling._clients["phone"]
    copy.whose = client.whose  # it has heard of the return, but not that it is to rest
    world.cut("a", "b")
    world.run(1)
    world.heal("a", "b")
    world.run(8)
    assert states(world) == {"b": "passive", "c": "passive"}


def test_records_that_cannot_be_read_are_deleted_and_others_are_loaded() -> None:
    disk = SimDisk(Scheduler(), 0)
    kept = KeptCopies(disk)
    whose = Whose("phone", "alice", 7)
    record = Propagate(whose, 1, ())
    kept.put(whose, "a", pack(record))
    kept.listens(whose, {"o": Position(1, 2)})
    disk.put("copies", "torn", b"\xc1")
    disk.put("copies", "empty", pack(Saying(Deactivate(whose))))
    assert kept.read() == [(whose, "a", record, {"o": Position(1, 2)})]
    assert set(disk.items("copies")) == {"phone"}
    kept.listens(Whose("phone", "alice", 6), {})  # of an epoch that has passed
    assert kept.read() == [(whose, "a", record, None)]
    assert KeptCopies(None).read() == []


def test_what_was_kept_is_bounded_when_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    world = network()
    walker(world)
    world.crash("b")
    monkeypatch.setattr("tidings.mobility._keeping.COPY_BYTES", IDENTITY_BYTES)
    world.restart("b")
    assert "b" not in states(world)
    assert keeping(world, "b").refused == 1
    assert not world.disk("b").items("copies")


def test_an_announcement_of_a_stranger_changes_nothing() -> None:
    world = network()
    walker(world)
    feature = roaming(world, "a")
    sent = feature.placing.sent
    epoch = feature.controlling._clients["phone"].whose.epoch
    feature.on_routed("c", pack(Saying(Announced(((Whose("phone", "mallory", epoch), 1, True),)))))
    assert feature.placing.sent == sent
    assert OPTIONS.scheme is Scheme.PROACTIVE
