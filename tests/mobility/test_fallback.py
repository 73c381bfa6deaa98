"""Where there was no copy, those that listened for a client are asked beside the origins, and are often nearer."""

from __future__ import annotations

from typing import Any

import pytest
from mobility.roamers import BROKERS, OPTIONS, handing, homes, keeping, network, numbers, roaming, states, walker

from tidings.broker import RoutingOptions
from tidings.mobility import MobilityOptions, Outcome, Scheme
from tidings.mobility._copies import Lent, Saying, Seek, read_saying
from tidings.mobility._fallback import Fallback
from tidings.sim import Network, SimClient, Weather, check
from tidings.sim._invariants import waste
from tidings.wire import Routed, pack

FAR = Weather(latency=(400_000, 400_000))


def fallback(world: Network, broker: str) -> Fallback:
    found = roaming(world, broker).fallback
    assert found is not None
    return found


def overheard(world: Network) -> list[tuple[str, str, Seek | Lent]]:
    """What brokers ask and lend from now on: from where to where, and what."""
    said: list[tuple[str, str, Seek | Lent]] = []

    def tap(name: str, link: Any, frame: Any) -> None:
        message = frame.message
        if isinstance(message, Routed) and message.feature == "roaming" and name == message.source:
            one = read_saying(message.body).said
            if isinstance(one, (Seek, Lent)):
                said.append((name, message.target, one))

    world.tap = tap
    return said


def far_away(edges: list[tuple[str, str]] = [("a", "b")], **more: Any) -> tuple[Network, SimClient, SimClient]:  # noqa: B006
    """A phone, with copies along these edges, and a publisher whose broker is far away."""
    world = network(edges=edges, **more)
    phone, feed = walker(world)
    world.set_weather("c", "o", FAR)
    return world, phone, feed


def missed(world: Network, phone: SimClient, feed: SimClient, *numbers: int) -> None:
    """It is away, and missed there, when these are published."""
    phone.vanish(noticed=0.1, kept=60)
    world.run(2)
    for n in numbers:
        feed.publish(n=n)
    world.run(2)


def until(world: Network, said: list[Any], count: int) -> None:
    """Until brokers have said so much."""
    for _ in range(200):
        if len(said) >= count:
            return
        world.run(0.001)
    raise AssertionError(f"only {said} was said")


@pytest.mark.req("MOB-038")
def test_a_client_that_finds_no_copy_gets_what_it_missed_from_the_broker_that_it_left() -> None:
    world, phone, feed = far_away()
    missed(world, phone, feed, 1, 2)
    said = overheard(world)
    phone.attach("c")
    world.run(0.1)
    assert numbers(phone) == [1, 2]  # long before its origin can answer
    [(new, old, asked), (lender, asker, lent)] = said
    assert ((new, old), (lender, asker)) == (("c", "a"), ("a", "c"))
    assert isinstance(asked, Seek)
    assert isinstance(lent, Lent)
    assert fallback(world, "c").fetched == 2
    assert roaming(world, "c").scheme_of(world.brokers["c"].client("phone")) == "reactive"  # type: ignore[arg-type]
    feed.publish(n=3)
    world.run(8)
    assert numbers(phone) == [1, 2, 3]
    assert handing(world, "c").outcomes[Outcome.MISS] == 1
    assert roaming(world, "c")._neighbourhood.graph.neighbours("c") == ("a",)  # the edge was learned
    assert states(world) == {"a": "passive"}
    assert not any(keeping(world, name).buffer.bytes for name in BROKERS)
    assert not check(world.trace)


@pytest.mark.req("MOB-068")
def test_what_the_old_broker_lacks_is_lent_by_its_neighbour_that_is_nearest() -> None:
    world, phone, feed = far_away()
    feed.publish(n=0)
    world.run(3)  # it is acknowledged
    phone.vanish(noticed=1.0, kept=60)
    feed.publish(n=1)
    world.run(3)  # it was sent to the client, which was gone: only the copy has it
    feed.publish(n=2)
    world.run(2)
    assert len(keeping(world, "b").buffer) == 2
    assert len(keeping(world, "a").buffer) == 1
    said = overheard(world)
    phone.attach("c")
    world.run(0.1)
    assert numbers(phone) == [0, 1, 2]
    assert [(source, target, type(one).__name__) for source, target, one in said] == [
        ("c", "a", "Seek"),
        ("a", "c", "Lent"),
        ("a", "b", "Seek"),
        ("b", "c", "Lent"),
    ]
    rest = said[2][2]
    assert isinstance(rest, Seek)
    assert [one.owed.keys() for one in rest.sought] == [{"o"}]
    world.run(8)
    assert numbers(phone) == [0, 1, 2]
    assert states(world) == {"a": "passive"}
    assert not check(world.trace)


@pytest.mark.parametrize("algorithm", ["covering", "merging", "simple", "flooding"])
@pytest.mark.parametrize("slow", ["ab", "bc", "co"])
def test_nothing_is_lost_or_comes_twice_while_publications_are_on_their_way(slow: str, algorithm: str) -> None:
    world = network(edges=[("a", "b")], routing=RoutingOptions(algorithm))
    phone, feed = walker(world)
    near, beside = world.add_client("near", "a"), world.add_client("beside", "b")
    world.set_weather(*slow, Weather(latency=(60_000, 60_000)))
    world.run(1)
    phone.vanish(noticed=0.05, kept=60)
    for n in range(100):
        for one in (feed, near, beside):
            one.publish(n=n, of=one.name)
        world.run(0.004)
        if n == 60:
            phone.attach("c")
    world.run(8)
    for one in (feed, near, beside):
        assert [got["n"] for got in phone.received if got["of"] == one.name] == list(range(100))
    assert fallback(world, "c").fetched or algorithm == "flooding"  # there the origins may be as quick
    assert not check(world.trace)


@pytest.mark.parametrize("delay", [0.001, 0.012, 0.018, 0.03, 0.04])
def test_an_answer_that_comes_on_another_tree_does_not_count(delay: float) -> None:
    world, phone, feed = far_away()
    missed(world, phone, feed, 1, 2)
    phone.attach("c")
    world.run(delay)
    world.cut("a", "b")
    feed.publish(n=3)
    world.run(1)
    world.heal("a", "b")
    world.run()
    assert numbers(phone) == [1, 2, 3]
    assert not check(world.trace)


@pytest.mark.parametrize("back", [0.02, 0.5, 2.0])
def test_a_client_that_comes_back_finds_what_was_kept_for_it(back: float) -> None:
    world, phone, feed = far_away()
    missed(world, phone, feed, 1)
    phone.attach("c")
    phone.vanish(noticed=0.1, kept=60)
    feed.publish(n=2)
    world.run(back)
    phone.attach("a")
    feed.publish(n=3)
    world.run()
    assert numbers(phone) == [1, 2, 3]
    assert not check(world.trace)
    for client in (phone, feed):
        client.detach()
    world.run()
    assert not waste(world)


def test_what_was_overwritten_is_not_lent_and_what_is_too_much_is_left_to_its_origin() -> None:
    small = MobilityOptions(Scheme.PROACTIVE, ("all",), buffer_bytes=600)
    for options, text in ((small, "x"), (OPTIONS, "x" * 60_000)):
        world = network(options, edges=[("a", "b")])
        phone, feed = walker(world)
        phone.vanish(noticed=0.1, kept=60)
        world.run(2)
        for n in range(10):
            feed.publish(n=n, text=text)
        world.run(2)
        phone.attach("c")
        world.run(8)
        assert numbers(phone) == list(range(10))
        assert not fallback(world, "c").fetched
        assert not check(world.trace)


@pytest.mark.parametrize(("filters", "several"), [(0, 200), (3, 2)])
def test_neither_many_small_notifications_nor_large_filters_make_a_message_too_large(
    filters: int, several: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"broker._doors.MAX_ROUTED": 22_000, "mobility._placing.MAX_CONTEXT": 20_000}
    limits |= {"mobility._fallback.LENT_BYTES": 15_000, "mobility._fallback.MAX_SAID": 20_000}
    for limit, size in limits.items():
        monkeypatch.setattr(f"tidings.{limit}", size)
    world = network(edges=[])
    phone, feed = walker(world)
    for n in range(filters):
        phone.subscribe(f"large = {n} AND text <> '{'x' * 16_000}'")
    roaming(world, "a").placing.locate = lambda client: ["a"]  # it is listened for at its own broker only
    world.run(3)
    missed(world, phone, feed)
    for n in range(several):
        feed.publish(n=n)
    world.run(3)
    phone.attach("c")
    world.run(8)
    assert numbers(phone) == list(range(several))
    assert not check(world.trace)


def test_strangers_and_those_who_did_not_host_the_client_are_told_nothing() -> None:
    world, phone, feed = far_away()
    missed(world, phone, feed, 1)
    said = overheard(world)
    phone.attach("c")
    until(world, said, 1)
    [(_, _, seek)] = said
    assert isinstance(seek, Seek)
    world.run(0.005)  # its claim is there, and the question is still under way
    assert len(fallback(world, "a")) == 1
    whose = seek.whose
    for name, owner, epoch in (
        (whose.name, "mallory", whose.epoch),
        (whose.name, whose.owner, whose.epoch + 1),
        ("other", whose.owner, whose.epoch),
    ):
        forged = Seek(type(whose)(name, owner, epoch), "c", 1, seek.sought)
        roaming(world, "a").on_routed("c", pack(Saying(forged)))
        roaming(world, "b").on_routed("c", pack(Saying(forged)))
    roaming(world, "b").on_routed("o", pack(Saying(seek)))  # it is not who controls this copy
    assert len(said) == 1
    world.run(8)
    assert numbers(phone) == [1]


def test_what_is_lent_to_nobody_or_makes_no_sense_changes_nothing() -> None:
    world, phone, feed = far_away()
    missed(world, phone, feed, 1)
    said = overheard(world)
    phone.attach("c")
    until(world, said, 2)
    lent = said[1][2]
    assert isinstance(lent, Lent)
    [(envelope, ids)] = lent.held
    nonsense = Lent(lent.number, ((type(envelope)(envelope.identity, envelope.routes, b"\xc1"), ids),), lent.paid)
    before = world.brokers["c"].statistics.refused
    roaming(world, "c").on_routed("a", pack(Saying(nonsense)))
    roaming(world, "c").on_routed("a", pack(Saying(Lent(99, lent.held, lent.paid))))
    roaming(world, "c").on_routed("a", pack(Saying(Lent(lent.number, (), {"unknown": ("o",), ids[0]: ("unknown",)}))))
    assert world.brokers["c"].statistics.refused == before + 1
    assert numbers(phone) == []
    world.run(8)
    assert numbers(phone) == [1]
    assert not check(world.trace)


def test_a_broker_with_a_copy_asks_nobody() -> None:
    world, phone, feed = far_away()
    missed(world, phone, feed, 1)
    said = overheard(world)
    phone.attach("b")
    world.run(8)
    assert numbers(phone) == [1]
    assert said == []


@pytest.mark.parametrize("scheme", [Scheme.PROACTIVE, Scheme.ORIGINS])
def test_a_debt_of_which_something_was_forgotten_meanwhile_is_paid_by_its_origin(
    scheme: Scheme, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.broker.outlets._backlog.MAX_KEPT", 1)
    world = network(MobilityOptions(scheme, ("all",)), edges=[("a", "b")])
    phone, feed = walker(world)
    world.set_weather("c", "o", FAR)
    beside = world.add_client("beside", "b")
    missed(world, phone, feed, 1)
    said = overheard(world)
    phone.attach("c")
    until(world, said, 1) if scheme is Scheme.PROACTIVE else world.run(0.01)
    world.run(0.003)
    for n in range(2, 6):  # it comes by itself while it is owed, more than may be kept back
        beside.publish(n=n)
    world.run(8)
    assert len(said) == (2 if scheme is Scheme.PROACTIVE else 0)
    assert [n for n in numbers(phone) if n != 1] == [2, 3, 4, 5]
    assert 1 in numbers(phone)
    assert not check(world.trace)


def test_nothing_is_kept_for_a_question_that_will_not_come() -> None:
    world = network(edges=[("a", "b")], routing=RoutingOptions(advertisements=True))
    phone, feed = walker(world)
    feed.advertise("n >= 0")
    world.run(2)
    missed(world, phone, feed, 1)
    phone.attach("c")
    world.run(0.018)  # its claim is there
    assert not homes(world, "a")
    world.run(8)
    assert numbers(phone) == [1]
    assert not check(world.trace)
