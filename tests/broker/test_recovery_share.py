"""What a client says it has seen is bounded: it cannot keep others from going on where they were."""

from __future__ import annotations

import pytest

from tidings.broker import Broker, Link, LinkKind, Registration
from tidings.broker.forwarding import _numbers, _publications
from tidings.broker.outlets import _debts, _holds
from tidings.model import EVERYTHING, Filter, TidingsError
from tidings.sim import Network, check
from tidings.wire import AnyMessage, Fetch, Frame, Refused, Subscribe, Unsubscribe


def attached(broker: Broker, name: str) -> Link:
    link = Link(name, LinkKind.CLIENT)
    broker.attach(link)
    return link


def subscribe(broker: Broker, link: Link, id: str, *origins: str) -> None:
    after = dict.fromkeys(origins, (1, 1))
    broker.receive(link, Frame(Subscribe(id, EVERYTHING, number=1, after=after)))


def many(prefix: str, count: int) -> list[str]:
    return [f"{prefix} {n}" for n in range(count)]


def test_positions_of_made_up_origins_are_bounded_and_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_debts, "MAX_SUSPENSIONS", 2_000)
    network = Network()
    broker = network.add_broker("b")
    for name in ("m1", "m2", "m3"):
        flooder = attached(broker, name)
        subscribe(broker, flooder, "s0", *many(name, _debts.MAX_OWN_SUSPENSIONS))
        subscribe(broker, flooder, "s1", "one more")
        taken = set() if name == "m3" else {"s0"}  # the third is beyond its share of what there is for all
        assert set(broker.registrations.subscriptions(flooder)) - {"s1"} == taken
    honest = attached(broker, "honest")
    subscribe(broker, honest, "s", *many("berlin", 50))
    assert broker.registrations.subscriptions(honest)
    assert len(broker.registrations.returning) >= 3
    network.run()  # after a minute nobody waits for them any more
    assert len(broker.registrations.returning) == 0
    assert not broker.recovery.suspended


def test_who_waits_to_go_on_is_taken_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_debts, "SUSPENSIONS_SHARE", 0)
    monkeypatch.setattr(_debts, "MAX_OWN_SUSPENSIONS", 2)
    network = Network()
    broker = network.add_broker("b")
    link = attached(broker, "m")
    subscribe(broker, link, "first", "x", "y")
    for id in ("second", "third", "fourth"):
        subscribe(broker, link, id, f"of {id}")
    broker.receive(link, Frame(Unsubscribe("second")))
    broker.receive(link, Frame(Unsubscribe("third")))
    broker.receive(link, Frame(Subscribe("third", EVERYTHING, number=2)))  # it can do without its positions
    assert set(broker.registrations.subscriptions(link)) == {"first", "third"}
    assert [message.id for _, message in broker.registrations.returning.waiting()] == ["fourth"]
    network.run()
    assert set(broker.registrations.subscriptions(link)) == {"first", "third", "fourth"}
    subscribe(broker, link, "fifth", "x", "y")
    subscribe(broker, link, "sixth", "z")
    broker.detach(link)
    assert len(broker.registrations.returning) == 0


def test_a_filter_that_is_changed_while_it_waits_to_go_on_still_goes_on_from_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = Network()
    network.add_brokers("ab", links=["ab"])
    reader, writer = network.add_client("reader", "a"), network.add_client("writer", "b")
    reader.subscribe("n >= 0", id="s")
    network.run()
    reader.vanish()
    for n in range(4):
        writer.publish(n=n)
    network.run()
    monkeypatch.setattr(_debts, "SUSPENSIONS_SHARE", 0)
    monkeypatch.setattr(_debts, "MAX_SUSPENSIONS", 0)
    reader.attach("a")
    network.run(0.2)
    assert len(network.brokers["a"].registrations.returning) == 1
    reader.subscribe("n >= 2", id="s")
    network.run(0.2)
    assert not reader.received
    monkeypatch.undo()
    network.brokers["a"].registrations.returning.room_again()
    network.run()
    assert [one["n"] for one in reader.received] == [2, 3]
    assert not check(network.trace)


def test_what_can_never_be_recovered_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_debts, "MAX_OWN_SUSPENSIONS", 2)
    monkeypatch.setattr("tidings.broker.interest._returning.MAX_OWN", 1)
    monkeypatch.setattr(_debts, "SUSPENSIONS_SHARE", 0)
    broker = Network().add_broker("b")
    refused: list[str] = []

    def heard(link: Link, message: AnyMessage) -> None:
        if isinstance(message, Refused):
            refused.append(message.reason)

    monkeypatch.setattr(broker, "send", heard)
    link = attached(broker, "m")
    subscribe(broker, link, "too many", "x", "y", "z")
    assert refused.pop() == (
        "a subscription goes on from 3 origins, of which at most 2 can be waited for at broker 'b'; leave out those of "
        "which nothing can be missed"
    )
    for id in ("taken", "waits", "one more"):
        subscribe(broker, link, id, "x", "y")
    (reason,) = refused
    assert reason.startswith("1 subscriptions of 'm' wait at broker 'b' to go on where they were")


def test_an_answer_about_what_was_missed_is_bounded_by_its_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_publications, "FETCH_COMPARISONS", 1_000)
    network = Network()
    network.add_broker("b")
    writer = network.add_client("writer", "b")
    for n in range(300):
        writer.publish(n=n)
    network.run()
    publications = network.brokers["b"].publications
    cheap = Fetch("b", "a", 1, {1: 0}, (Filter.parse("n >= 0"),))
    dear = Fetch("b", "a", 1, {1: 0}, (Filter.parse(" OR ".join(f"n = {n}" for n in range(100))),))
    found = {name: list(publications.answer(fetch)) for name, fetch in (("cheap", cheap), ("dear", dear))}
    assert [len(pieces[-1].envelopes) for pieces in found.values()] == [300, _publications.FETCH_LEAST]
    assert found["dear"][-1].more
    assert found["dear"][-1].upto == {1: _publications.FETCH_LEAST}


def test_subscriptions_into_the_past_of_one_owner_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_holds, "HOLDS_SHARE", 2)
    monkeypatch.setattr(_holds, "MAX_OWN_HOLDS", 4)
    monkeypatch.setattr(_holds, "MAX_HOLDS", 8)
    broker = Network().add_broker("b")
    held = [Registration(attached(broker, f"m{n}"), "s", EVERYTHING) for n in range(3)]
    for registration in held:
        for _ in range(3):
            broker.holds.all[Registration(registration.link, "s", EVERYTHING)] = None  # type: ignore[assignment]
    with pytest.raises(
        TidingsError, match="broker 'b' holds 3 subscriptions of 'm0' that wait for their past, and 9 in all"
    ):
        broker.holds.check_room(held[0].link)
    broker.holds.check_room(attached(broker, "honest"))


def test_an_owner_with_many_names_pushes_out_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_numbers, "PUBLISHERS_SHARE", 10)
    monkeypatch.setattr(_numbers, "MAX_PUBLISHERS", 50)
    publications = _publications.Publications(1, None)
    publications.numbers.use("vera", 7, "vera")
    for n in range(1_000):
        publications.numbers.use(f"mallory/{n}", 1, "mallory")
    assert publications.latest("vera") == 7
    assert publications.latest("mallory/999") == 1
    assert publications.latest("mallory/0") == 0
