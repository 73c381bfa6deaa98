"""Aggregation in a broker: who counts, what is woven, what rides, what is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from tidings.aggregation import Aggregation, AggregationOptions, Policy, Riding
from tidings.aggregation._riding import Counted
from tidings.aggregation.messages import FEATURE, Ask, Cancel, Told, Watch, decode, encode
from tidings.broker import Feature, Link, LinkKind, LocalBroker, RoutingOptions
from tidings.sim import Network, Scenario
from tidings.sim._aggregates import broken_aggregates, kept_aggregates
from tidings.wire import Extension, Frame

EXAMPLE = ["14", "43", "42", "25"]
"""The links of the example network of the theory, b1 to b5."""


DEFAULTS = AggregationOptions()


def example(options: AggregationOptions = DEFAULTS, *, routing: str = "covering") -> Network:
    network = Network(seed=1, routing=RoutingOptions(routing), features=lambda name: [Aggregation(options)])
    network.add_brokers("12345", links=EXAMPLE)
    network.run()
    for client, broker in (("c1", "1"), ("c2", "1"), ("c3", "3"), ("c4", "5"), ("c5", "3"), ("c6", "3")):
        network.add_client(client, broker)
    return network


def aggregation(network: Network, broker: str) -> Aggregation:
    feature = network.brokers[broker].features["aggregation"]
    assert isinstance(feature, Aggregation)
    return feature


def values(network: Network, client: str, id: str = "w1") -> list[object]:
    """The complete values that a client was told."""
    return [result.value for result in network.clients[client].watches[id].results if result.complete]


def updates(network: Network) -> Iterator[tuple[str, str, int]]:
    """From now on: from whom, to whom, how many updates; alone or on another message."""
    found: list[tuple[str, str, int]] = []

    def note(broker: str, link: Link, frame: Frame) -> None:
        carried = frame.message.body if isinstance(frame.message, Extension) else b""
        both = (carried, (frame.hop.attachments or {}).get(FEATURE, b""))
        heard = [decode(data) for data in both if link.is_broker and data]
        found.extend((broker, link.name, len(one.updates)) for one in heard if isinstance(one, Told))

    network.tap = note
    return iter(found)


@pytest.mark.req("AGG-053", "AGG-056", "AGG-057", "AGG-080")
def test_the_example_of_the_theory_counts_to_two_then_three_and_back() -> None:
    network = example()
    clients = network.clients
    clients["c1"].watch("subscriber_count", "type = 't'")
    network.run()
    assert values(network, "c1") == [0]
    for client, count in (("c3", 1), ("c4", 2), ("c2", 3)):
        clients[client].subscribe("type = 't'", id="s")
        network.run()
        assert values(network, "c1")[-1] == count
    clients["c2"].unsubscribe("s")
    network.run()
    clients["c3"].unsubscribe("s")
    network.run()
    assert values(network, "c1") == [0, 1, 2, 3, 2, 1]
    state = aggregation(network, "4").engine.states
    (at_four,) = state.values()
    assert {link.name: side.got.low for link, side in at_four.sides.items() if side.asked is not None} == {
        "3": 0,
        "2": 1,
    }


def travelled(network: Network) -> tuple[int, int]:
    """How many updates came with another message, and how many by themselves."""
    rows = [one for name in network.brokers for _, _, one in aggregation(network, name).counted.rows()]
    return sum(one.ridden for one in rows), sum(one.alone for one in rows)


@pytest.mark.req("AGG-086")
def test_a_count_rides_on_a_subscription_and_goes_alone_where_none_is_announced() -> None:
    """Another one with the same filter: b4 has announced it to b1 before, so there the count goes by itself."""
    network = example(AggregationOptions(ride_on=Riding.REGISTRATIONS), routing="identity")
    network.clients["c1"].watch("subscriber_count", "type = 't'")
    network.clients["c3"].subscribe("type = 't'")
    network.run()
    ridden, alone = travelled(network)
    network.clients["c4"].subscribe("type = 't'")
    network.run()
    assert travelled(network) == (ridden + 2, alone + 1)
    assert values(network, "c1")[-1] == 2


@pytest.mark.req("AGG-066")
@pytest.mark.parametrize("riding", Riding)
def test_what_updates_ride_on_is_a_matter_of_choice(riding: Riding) -> None:
    """Every level tells the same; they differ in what carries it. Notifications follow each change at once."""
    network = example(AggregationOptions(ride_on=riding, ride_within=0.05), routing="identity")
    network.clients["c1"].watch("subscriber_count", "type = 't'")
    network.clients["c1"].subscribe("type = 'other'")
    network.clients["c3"].subscribe("type = 't'")
    network.run()
    before = travelled(network)
    for number in range(4):
        network.clients["c4"].subscribe("type = 't'", id="s")
        network.clients["c4"].publish(type="other", n=number)
        network.run()
        network.clients["c4"].unsubscribe("s")
        network.clients["c4"].publish(type="other", n=number)
        network.run()
    after = travelled(network)
    ridden, alone = after[0] - before[0], after[1] - before[1]
    # Eight changes, each of them told over three links. From b5 and b2 a subscription leaves, from b4 to b1 none.
    expected = {
        Riding.NOTHING: (0, 24),
        Riding.REGISTRATIONS: (16, 8),
        Riding.CONTROL: (16, 8),
        Riding.EVERYTHING: (24, 0),
    }
    assert (ridden, alone) == expected[riding]
    assert values(network, "c1")[-1] == 1
    assert broken_aggregates(network) == []


def test_traffic_is_counted_by_aggregate_and_neighbour() -> None:
    network = example(AggregationOptions(share=Policy.LEAF))
    network.clients["c1"].watch("subscriber_count", "type = 't'", max_error=4)
    network.clients["c1"].watch("subscription_count", "type = 't'")
    network.run()
    for client in ("c3", "c4"):
        network.clients[client].subscribe("type = 't'")
        network.run()
    rows = {(what, link): one for what, link, one in aggregation(network, "3").counted.rows()}
    assert rows["subscriber_count", "4"].suppressed == 1
    assert rows["subscriber_count", "4"].sent == 1  # its first value, and no other
    assert rows["subscription_count", "4"].sent == 2
    one = {(what, link): one for what, link, one in aggregation(network, "1").counted.rows()}["subscription_count", "4"]
    assert one.ridden + one.alone == aggregation(network, "4").counted.of("subscription_count", "1").sent


def test_the_number_of_pairs_that_are_counted_apart_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.aggregation._riding.MAX_COUNTED", 2)
    counted = Counted()
    for name in ("a", "b", "c", "d"):
        counted.of(name, "n").sent += 1
    assert {(what, one.sent) for what, _, one in counted.rows()} == {("a", 1), ("b", 1), ("others", 2)}


@pytest.mark.req("AGG-079")
def test_changes_within_the_bound_are_told_to_nobody() -> None:
    network = example(AggregationOptions(share=Policy.LEAF))
    clients = network.clients
    for client in ("c3", "c4", "c6"):
        clients[client].subscribe("type = 't'", id="s")
    network.run()
    watch = clients["c1"].watch("subscriber_count", "type = 't'", max_error=2)
    network.run()
    told = updates(network)
    clients["c3"].unsubscribe("s")
    network.run()
    clients["c5"].subscribe("type = 't'", id="s")
    network.run()
    assert list(told) == []
    assert watch.last is not None
    assert abs(watch.last.value - 3) <= 2


@pytest.mark.req("AGG-090")
def test_what_was_subscribed_before_anybody_asked_is_counted() -> None:
    network = example()
    for client in ("c2", "c3", "c4"):
        network.clients[client].subscribe("price > 5")
        network.clients[client].subscribe("price > 7")
    network.run()
    network.clients["c1"].watch("subscriber_count", "price > 6")
    network.clients["c1"].watch("subscription_count", "price > 6")
    network.run()
    assert values(network, "c1", "w1")[-1] == 3
    assert values(network, "c1", "w2")[-1] == 6


def test_many_subscriptions_are_looked_at_in_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.aggregation._counting.LOOK_COST", 2)
    network = example()
    for number in range(10):
        network.clients["c3"].subscribe(f"n = {number}", id=f"s{number}")
    network.run()
    watch = network.clients["c1"].watch("subscription_count", "n > 4")
    network.run(0.02)
    network.clients["c3"].unsubscribe("s9")
    network.clients["c3"].subscribe("n = 8", id="new")
    network.run()
    assert watch.last is not None
    assert watch.last.value == 5


def test_a_probe_counts_exactly_those_that_would_get_it() -> None:
    network = example()
    network.clients["c3"].subscribe("price > 100 AND symbol = 'SAP'")
    network.clients["c4"].subscribe("price > 200")
    network.run()
    network.clients["c1"].watch("subscriber_count", probe={"price": 150, "symbol": "SAP"})
    network.run()
    assert values(network, "c1")[-1] == 1


def test_a_publisher_is_counted_where_brokers_know_advertisements() -> None:
    network = Network(seed=1, routing=RoutingOptions(advertisements=True), features=lambda name: [Aggregation()])
    network.add_brokers("abc", links=["ab", "bc"])
    network.run()
    for client, broker in (("c1", "a"), ("c2", "b"), ("c3", "c")):
        network.add_client(client, broker)
    network.clients["c3"].advertise("type = 't'", id="a")
    network.run()
    network.clients["c1"].watch("publisher_count", "type = 't'")
    network.run()
    network.clients["c2"].advertise("type = 't' AND n > 3")
    network.run()
    network.clients["c3"].unadvertise("a")
    network.run()
    assert values(network, "c1") == [1, 2, 1]


def test_a_publisher_count_is_refused_where_nobody_advertises() -> None:
    network = example()
    watch = network.clients["c1"].watch("publisher_count")
    network.run()
    assert watch.declined is not None
    assert "uses no advertisements" in watch.declined.reason
    assert kept_aggregates(network) == []


# --- who counts ---------------------------------------------------------------------------------------


class Copies(Feature):
    """Opens clients inside the broker that stand for others."""

    name = "copies"

    def open(self, principal: str) -> tuple[Link, LocalBroker]:
        def send(frame: Frame) -> None:
            client.send(frame)

        voice = LocalBroker(f"copy of {principal}", send)
        client = self.context.open_client(voice.name, voice.receive, principal)
        return client.link, voice


def copying() -> Network:
    network = Network(seed=1, features=lambda name: [Aggregation(), Copies()])
    network.add_brokers("abc", links=["ab", "bc"])
    network.run()
    network.add_client("watcher", "c").watch("subscriber_count", "type = 't'")
    network.run()
    return network


def copies(network: Network, broker: str) -> Copies:
    feature = network.brokers[broker].features["copies"]
    assert isinstance(feature, Copies)
    return feature


def test_copies_of_a_client_are_never_counted() -> None:
    """A client that roams with four listening copies was counted five times, and the value said complete."""
    network = copying()
    network.add_client("alice", "a").subscribe("type = 't'")
    for broker in "abc":
        _, voice = copies(network, broker).open("alice")
        voice.subscribe("type = 't'", lambda notification: None)  # type: ignore[arg-type]
    network.run()
    assert values(network, "watcher")[-1] == 1
    assert sum(len(network.brokers[name].client_subscriptions()) for name in "abc") == 4


def test_a_client_whose_subscriptions_a_copy_adopts_is_counted_until_then_and_again_when_it_is_back() -> None:
    network = copying()
    alice = network.add_client("alice", "a")
    alice.subscribe("type = 't'")
    network.run()
    link, _ = copies(network, "a").open("alice")
    here = network.brokers["a"].client("alice")
    assert here is not None
    copies(network, "a").context.adopt(here, link)
    network.run()
    copies(network, "a").context.adopt(link, here)
    network.run()
    assert values(network, "watcher") == [0, 1, 0, 1]


def test_a_client_with_several_subscriptions_counts_once_until_the_last_of_them_ends() -> None:
    network = example()
    network.clients["c1"].watch("subscriber_count", "type = 't'")
    network.run()
    alice = network.clients["c4"]
    alice.subscribe("type = 't'", id="one")
    alice.subscribe("type = 't' AND n > 3", id="two")
    network.run()
    alice.unsubscribe("one")
    network.run()
    assert values(network, "c1") == [0, 1]
    alice.subscribe("type = 'other'", id="two")  # its filter is another one now
    network.run()
    assert values(network, "c1") == [0, 1, 0]


def test_a_client_that_is_gone_counts_no_more_and_one_that_moves_counts_once() -> None:
    network = example()
    network.clients["c1"].watch("subscriber_count", "type = 't'")
    for client in ("c3", "c4"):
        network.clients[client].subscribe("type = 't'")
    network.run()
    network.clients["c3"].detach()
    network.clients["c3"].attach("2")
    network.run()
    assert values(network, "c1")[-1] == 2
    network.clients["c4"].vanish(noticed=1, kept=1)
    network.run()
    assert values(network, "c1")[-1] == 1


# --- weaving ------------------------------------------------------------------------------------------


def steps(network: Network, broker: str) -> set[str]:
    """The steps of a broker that are advised."""
    found = network.brokers[broker]
    return {step.label for step, default in found._defaults.items() if getattr(found, f"at_{step.label}") != default}


def test_nothing_is_woven_until_a_broker_is_asked_and_again_when_the_last_ask_ends() -> None:
    network = example()
    assert all(steps(network, name) == set() for name in "12345")
    network.clients["c1"].watch("subscriber_count")
    network.run()
    assert all("sub_add" in steps(network, name) for name in "12345")
    network.clients["c1"].unwatch("w1")
    network.run()
    assert all(steps(network, name) == set() for name in "12345")
    assert kept_aggregates(network) == []


def test_a_request_that_ends_before_it_is_woven_leaves_nothing() -> None:
    network = example()
    feature = aggregation(network, "1")
    link = network.brokers["1"].client("c1")
    assert link is not None
    for round in range(3):
        feature.on_message(link, encode(Watch(f"w{round}", "subscriber_count")))
        network.clients["c1"].unwatch("none")
        network.brokers["1"].detach(link)  # before anything is advised
        network.clients["c1"].lost()
        network.clients["c1"].attach("1")
        link = network.brokers["1"].client("c1")
        assert link is not None
        network.run()
        assert kept_aggregates(network) == []


def test_asking_again_before_what_ended_is_unwoven_counts_as_ever() -> None:
    network = example()
    network.clients["c3"].subscribe("n > 1")
    network.run()
    one = network.clients["c1"]
    for _ in range(3):
        one.watch("subscriber_count", "n > 2", id="w1")
        one.unwatch("w1")
    one.watch("subscriber_count", "n > 2", id="w1")
    network.run()
    assert values(network, "c1")[-1] == 1
    assert broken_aggregates(network) == []


@pytest.mark.parametrize("seed", range(6))
def test_where_nothing_is_asked_every_frame_is_the_plain_brokers(seed: int) -> None:
    def frames(watching: bool) -> list[str]:
        scenario = Scenario.random(seed)
        network = scenario.build() if not watching else _with_feature(scenario)
        found: list[str] = []
        network.tap = lambda broker, link, frame: found.append(f"{network.scheduler.now} {broker} {link.name} {frame}")
        network.run()
        return found

    assert frames(watching=True) == frames(watching=False)


def _with_feature(scenario: Scenario) -> Network:
    import dataclasses

    return dataclasses.replace(scenario, watching=True).build()


# --- links and trees ----------------------------------------------------------------------------------


@pytest.mark.req("AGG-065", "AGG-068")
def test_a_cut_makes_a_value_incomplete_and_then_that_of_what_is_left() -> None:
    network = example()
    for client in ("c3", "c4"):
        network.clients[client].subscribe("n > 1")
    network.run()
    watch = network.clients["c1"].watch("subscriber_count")
    network.run()
    before = len(watch.results)
    network.cut("4", "2")
    network.run()
    assert not watch.results[before].complete
    assert (watch.results[-1].value, watch.results[-1].complete) == (1, True)
    network.heal("4", "2")
    network.run()
    assert (watch.results[-1].value, watch.results[-1].complete) == (2, True)


@pytest.mark.req("AGG-065")
def test_a_value_is_not_complete_before_every_broker_has_contributed() -> None:
    network = example()
    for client in ("c3", "c4", "c5"):
        network.clients[client].subscribe("n > 1")
    network.run()
    watch = network.clients["c1"].watch("subscriber_count")
    network.run()
    assert [result.complete for result in watch.results].count(True) == 1
    assert watch.results[-1].value == 3


def test_a_broker_that_dies_takes_its_clients_with_it_and_brings_them_back() -> None:
    network = example()
    for client in ("c3", "c4"):
        network.clients[client].subscribe("n > 1")
    network.clients["c1"].watch("subscriber_count", "n > 3")
    network.run()
    network.crash("5")
    network.run()
    assert values(network, "c1")[-1] == 1
    network.restart("5")
    network.run()
    assert values(network, "c1")[-1] == 2
    assert broken_aggregates(network) == []


def test_updates_ride_on_messages_that_leave_anyway() -> None:
    network = example(AggregationOptions(ride_within=0.05), routing="simple")
    network.clients["c1"].watch("subscriber_count", "n > 1")
    network.run()
    before = {name: aggregation(network, name).counters["updates_riding"] for name in "14"}
    network.clients["c3"].subscribe("n > 2")  # with simple routing every broker is told of it
    network.run()
    assert values(network, "c1")[-1] == 1
    assert {name: aggregation(network, name).counters["updates_riding"] - before[name] for name in "14"} == {
        "1": 1,
        "4": 1,
    }


# --- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("watch", "words"),
    [
        (Watch("x", "no_such_count"), "no aggregate is called 'no_such_count'; choose one of"),
        (Watch("x", "subscriber_count", "price >"), "column"),
        (Watch("x", "subscriber_count", max_error=-1), "max_error=-1"),
        (Watch("x", "subscriber_count", max_error=float("nan")), "max_error=nan"),
        (Watch("x", "subscriber_count", "n = 1", b"\x80"), "a filter and a probe"),
        (Watch("x", "subscriber_count", scope="berlin"), "scope 'berlin'"),
        (Watch("x" * 300, "subscriber_count"), "an id of 300 characters"),
        (Watch("x", "subscriber_count", "place WITHIN myloc"), "myloc"),
    ],
)
def test_what_cannot_be_watched_is_refused_with_the_reason_and_leaves_nothing(watch: Watch, words: str) -> None:
    network = example()
    heard: list[object] = []
    client = network.clients["c1"]
    client.extended = lambda message: heard.append(decode(message.body))  # type: ignore[method-assign]
    client._extend(encode(watch))
    network.run()
    (declined,) = heard
    assert words in declined.reason  # type: ignore[attr-defined]
    assert kept_aggregates(network) == []
    assert all(steps(network, name) == set() for name in "12345")


def test_what_a_client_may_watch_is_bounded() -> None:
    network = example(AggregationOptions(max_watches=3, max_keys=2))
    one, two = network.clients["c1"], network.clients["c3"]
    for number in range(4):
        one.watch("subscriber_count", "n = 1", id=f"w{number}")
    network.run()
    two.watch("subscriber_count", "n = 2", id="second")
    network.run()
    two.watch("subscriber_count", "n = 3", id="third")
    network.run()
    assert one.watches["w3"].declined is not None
    assert "at most 3 values" in one.watches["w3"].declined.reason
    assert two.watches["second"].declined is None
    assert two.watches["third"].declined is not None
    assert "2 keys are watched" in two.watches["third"].declined.reason


@pytest.mark.parametrize("body", [b"", b"\x00" * 9, b"\x93" * 50, encode(Told([])), encode(Watch("x", "y"))[:-1]])
def test_a_client_that_talks_nonsense_changes_nothing(body: bytes) -> None:
    network = example()
    network.clients["c1"].watch("subscriber_count")
    network.clients["c1"]._extend(body)
    network.run()
    assert values(network, "c1")[-1] == 0
    assert broken_aggregates(network) == []


def test_a_neighbour_that_talks_nonsense_is_counted_and_changes_nothing() -> None:
    network = example()
    network.clients["c3"].subscribe("n > 1")
    network.clients["c1"].watch("subscriber_count")
    network.run()
    feature = aggregation(network, "1")
    (link,) = network.brokers["1"].adjacency.open_links
    (state,) = feature.engine.states.values()
    number, refused = state.sides[link].number, network.brokers["1"].statistics.refused
    hostile = [
        b"",
        b"\xff" * 30,
        encode(Ask(1, "no_such", "1", "TRUE", b"", "", 0)),
        encode(Ask(1, "subscriber_count", "9", "TRUE", b"", "", 0)),
        encode(Ask(1, "subscriber_count", "1", "TRUE", b"", "", -3)),
        encode(Ask(1, "subscriber_count", "1", "price >", b"", "", 0)),
        encode(Told([(number, True, b"\x92\x05\x01")])),  # type: ignore[list-item]
        encode(Watch("x", "subscriber_count")),
    ]
    for body in hostile:
        feature.on_message(link, body)
    network.run()
    assert network.brokers["1"].statistics.refused == refused + len(hostile)
    assert feature.counters["partials_refused"] == 1
    assert broken_aggregates(network) == []
    assert values(network, "c1") == [1]


def test_a_neighbour_that_uses_a_number_twice_is_refused_and_leaves_nothing_behind() -> None:
    network = example()
    feature, refused = aggregation(network, "1"), network.brokers["1"].statistics.refused
    (link,) = network.brokers["1"].adjacency.open_links
    first, second = (Ask(7, "subscriber_count", "1", key, b"", "", 0) for key in ("n = 1", "n = 2"))
    for message in (first, second, Cancel(7), msgspec.structs.replace(first, number=8), Cancel(8)):
        feature.on_message(link, encode(message))
    network.run()
    assert network.brokers["1"].statistics.refused == refused + 1
    assert feature.kept() == []


class Allowed:
    """A guard of somebody who may do nothing special."""

    name = "somebody"
    administer = deploy = False

    def may_count(self, scope: str) -> bool:
        return False

    def check_publish(self, notification: object) -> None: ...

    def check_subscribe(self, filter: object) -> None: ...

    def check_advertise(self, filter: object) -> None: ...


def test_whoever_may_not_administer_may_not_count() -> None:
    network = example()
    broker = network.brokers["1"]
    link = Link("guest", LinkKind.CLIENT, Allowed())
    broker.attach(link)
    sent: list[object] = []
    network.tap = lambda broker, link, frame: sent.append(decode(frame.message.body))  # type: ignore[union-attr]
    network.runtime("1").pipes[link] = type("Way", (), {"send": lambda self, frame: None, "cut": lambda self: None})()
    broker.receive(link, Frame(Extension(FEATURE, encode(Watch("x", "subscriber_count")))))
    (declined,) = sent
    assert "'somebody' may not count" in declined.reason  # type: ignore[attr-defined]
    assert aggregation(network, "1").kept() == []


@pytest.mark.req("AGG-062", "AGG-081")
def test_subscribers_count_publishers_and_publishers_count_subscribers() -> None:
    """Each client once, whatever the number of its advertisements, until its last one has ended."""
    network = Network(2, routing=RoutingOptions(advertisements=True), features=lambda name: [Aggregation()])
    network.add_brokers("123", links=["12", "23"])
    network.run()
    seller, rival, buyer = (network.add_client(name, broker) for name, broker in (("s", "1"), ("r", "2"), ("b", "3")))
    buyer.watch("publisher_count", "type = 'quote'")
    seller.watch("subscriber_count", "type = 'quote'")
    seller.advertise("type = 'quote' AND price > 5", id="one")
    seller.advertise("type = 'quote' AND price < 50", id="two")
    rival.advertise("type = 'trade'", id="one")
    buyer.subscribe("type = 'quote'")
    network.run()
    assert (values(network, "b")[-1], values(network, "s")[-1]) == (1, 1)
    rival.advertise("type = 'quote'", id="two")
    network.run()
    assert values(network, "b")[-1] == 2
    seller.unadvertise("one")
    network.run()
    assert values(network, "b")[-1] == 2
    seller.unadvertise("two")
    rival.detach()
    network.run()
    assert values(network, "b")[-1] == 0
    assert broken_aggregates(network) == []


@pytest.mark.req("AGG-088")
def test_what_a_broker_is_told_goes_on_only_to_those_whose_range_no_longer_holds() -> None:
    """b4 hears of each change behind b3. With a bound of 30, divided evenly, b1 need not hear of most of them."""
    network = example()
    network.clients["c1"].watch("subscription_count", "type = 't'", max_error=30)
    network.clients["c2"].watch("subscription_count", "type = 't'", max_error=30)
    network.run()
    (state,) = aggregation(network, "4").engine.states.values()
    (told_to_one,) = [side for link, side in state.sides.items() if link.name == "1"]
    told = updates(network)
    for number in range(60):
        client, id = network.clients["c3" if number % 20 < 10 else "c4"], f"s{number % 10}"
        client.unsubscribe(id) if number >= 20 and number % 40 >= 20 else client.subscribe("type = 't'", id=id)
        network.run()
        assert told_to_one.sent.holds(state.total(next(link for link in state.sides if link.name == "1")))
    sent = list(told)
    from_three, to_one = (sum(count for a, b, count in sent if pair == a + b) for pair in ("34", "41"))
    assert 0 < to_one < from_three < 60
    assert broken_aggregates(network) == []


@pytest.mark.req("AGG-063")
def test_counts_are_kept_all_the_time_or_only_while_somebody_asks() -> None:
    """What is exported is always on: every broker knows it, and nobody has asked."""
    on_demand, always = example(), example(AggregationOptions(export=("subscriber_count type = 't'",)))
    for network in (on_demand, always):
        network.run()
        for client in ("c3", "c4", "c5"):
            network.clients[client].subscribe("type = 't'")
        network.run()
    for name in "12345":
        assert aggregation(on_demand, name).kept() == []
        samples, left_out = aggregation(always, name).exports.samples
        assert [(one.value, one.complete) for one in samples] == [(3, True)]
        assert left_out == 0
    network.clients["c4"].detach()
    network.run()
    assert {aggregation(always, name).exports.samples[0][0].value for name in "12345"} == {2}


@pytest.mark.req("AGG-127")
def test_the_core_runs_without_aggregation_and_does_not_know_of_it() -> None:
    script = (
        "import sys, tidings.broker, tidings.history, tidings.mobility\n"
        "assert not [name for name in sys.modules if name.startswith('tidings.aggregation')]\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    network = Network(1, features=lambda name: [])
    network.add_brokers("12", links=["12"])
    network.add_client("a", "1").subscribe("n > 1")
    network.add_client("b", "2")
    network.run()
    network.clients["b"].publish(n=2)
    network.run()
    assert [dict(one) for one in network.clients["a"].received] == [{"n": 2}]
