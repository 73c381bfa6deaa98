"""How many got one publication: noted where it goes, counted by a wave behind it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidings.aggregation import AggregationOptions, Receivers
from tidings.aggregation._receivers import MAX_RESERVED, told
from tidings.aggregation.receiving import (
    FEATURE,
    Abandon,
    AnyMessage,
    Declined,
    Event,
    Follow,
    Received,
    Reserve,
    Reserved,
    Tally,
    decode,
    encode,
)
from tidings.broker import RoutingOptions
from tidings.scopes import OPEN, CreateScope, Interface, Join, Scopes
from tidings.sim import Network, SimClient
from tidings.wire import DeliverAck, Extension, Frame, Publish, encode_body

SILENT = Interface.parse(input="TRUE", output="type = 'alarm'")
"""Lets everything in, and alarms out; no counts."""


class Holding:
    """Holds a subscription, and does nothing."""

    def turn_ended(self) -> None: ...

    has_kept = restarted = ended = turn_ended


LINKS = ["14", "43", "42", "25"]


def chain(features: Callable[[str], list[object]] | None = None, routing: str = "covering") -> Network:
    """Five brokers, with a client at four of them."""
    made = features or (lambda name: [Receivers(AggregationOptions())])
    network = Network(seed=3, routing=RoutingOptions(routing), features=made)  # type: ignore[arg-type]
    network.add_brokers("12345", links=LINKS)
    network.run()
    for client, broker in (("p", "1"), ("c2", "1"), ("c3", "3"), ("c4", "5"), ("c5", "3")):
        network.add_client(client, broker)
    return network


def heard(network: Network) -> list[AnyMessage]:
    """From now on: what brokers say to clients about receivers."""
    said: list[AnyMessage] = []

    def note(broker: str, link: object, frame: Frame) -> None:
        message = frame.message
        if isinstance(message, Extension) and message.feature == FEATURE:
            said.append(decode(message.body))

    network.tap = note
    return said


def say(client: SimClient, message: AnyMessage) -> None:
    client._send(Frame(Extension(FEATURE, encode(message))))


def counted(network: Network, client: str, scope: str = "", within: int = 2_000_000, **attributes: object) -> Received:
    """Publish something, and what its publisher is told of its receivers."""
    said, publisher = heard(network), network.clients[client]
    say(publisher, Reserve("r1", scope, within))
    network.run()
    assert said == [Reserved("r1")], said
    say(publisher, Follow("r1", publisher._local.published + 1))
    publisher.publish(**attributes)
    network.run()
    (answer,) = said[1:]
    assert isinstance(answer, Received)
    return answer


def kept(network: Network) -> list[str]:
    found = [broker.features[FEATURE] for broker in network.brokers.values()]
    return [what for feature in found if isinstance(feature, Receivers) for what in feature.kept()]


@pytest.mark.req("AGG-142")
@pytest.mark.parametrize("routing", ["covering", "simple", "flooding"])
def test_a_publisher_learns_how_many_got_what_it_published(routing: str) -> None:
    network = chain(routing=routing)
    for client, filter in (("c2", "type = 't'"), ("c3", "type = 't'"), ("c4", "price > 5"), ("c5", "type = 'u'")):
        network.clients[client].subscribe(filter)
    network.clients["c3"].subscribe("price > 0")  # twice, and counted once
    network.run()
    assert counted(network, "p", type="t", price=9) == Received("r1", 3, 0, complete=True)
    assert counted(network, "p", type="t", price=1) == Received("r1", 2, 0, complete=True)
    assert counted(network, "p", type="x", price=-1) == Received("r1", 0, 0, complete=True)
    assert len(network.clients["c3"].received) == 4
    assert kept(network) == []


@pytest.mark.req("AGG-142")
def test_only_what_is_marked_leaves_the_lane() -> None:
    network = chain()
    network.clients["c3"].subscribe("type = 't'")
    network.run()

    def taken() -> dict[str, int]:
        return {name: sum(lane.taken for lane in broker.delivery.lanes.all().values()) for name, broker in brokers}

    brokers = network.brokers.items()
    before = taken()
    network.clients["p"].publish(type="t")
    network.run()
    plain = {name: count - before[name] for name, count in taken().items()}
    assert plain == {"1": 1, "4": 1, "3": 1, "2": 0, "5": 0}
    before = taken()
    counted(network, "p", type="t")
    assert taken() == before
    network.clients["p"].publish(type="t")
    network.run()
    assert {name: count - before[name] for name, count in taken().items()} == plain


@pytest.mark.req("AGG-142")
def test_those_who_do_not_acknowledge_it_are_unknown() -> None:
    network = chain()
    for client in ("c2", "c3", "c4"):
        network.clients[client].subscribe("type = 't'")
    network.run()
    silent, send = network.clients["c4"], network.clients["c4"]._send
    silent._local._send = lambda frame: None if isinstance(frame.message, DeliverAck) else send(frame)
    began = network.scheduler.now
    assert counted(network, "p", type="t", within=500_000) == Received("r1", 2, 1, complete=True)
    assert network.scheduler.now - began < 5_000_000
    assert kept(network) == []


@pytest.mark.req("AGG-142")
def test_a_client_for_which_it_is_kept_back_is_unknown() -> None:
    network = chain()
    for client in ("c2", "c3"):
        network.clients[client].subscribe("type = 't'", id="s")
    network.run()
    broker = network.brokers["3"]
    (held,) = broker.client_subscriptions()
    broker.holds.begin(held, Holding())
    assert counted(network, "p", type="t") == Received("r1", 1, 1, complete=True)


@pytest.mark.req("AGG-142")
def test_a_cut_makes_the_count_incomplete() -> None:
    network = chain()
    for client in ("c2", "c3", "c4"):
        network.clients[client].subscribe("type = 't'")
    network.run()
    said, publisher = heard(network), network.clients["p"]
    say(publisher, Reserve("r1"))
    network.run()
    say(publisher, Follow("r1", publisher._local.published + 1))
    publisher.publish(type="t")
    network.run(0.003)
    network.cut("4", "2")
    network.run()
    (answer,) = (one for one in said if isinstance(one, Received))
    assert not answer.complete


def test_a_broker_that_does_not_count_makes_the_count_incomplete() -> None:
    network = chain(lambda name: [] if name == "2" else [Receivers(AggregationOptions())])
    for client in ("c3", "c4"):
        network.clients[client].subscribe("type = 't'")
    network.run()
    assert counted(network, "p", type="t") == Received("r1", 1, 0, complete=False)


@pytest.mark.req("AGG-142")
@pytest.mark.parametrize(("border", "everybody"), [(OPEN, 3), (SILENT, 2)])
def test_only_members_count_to_whom_the_scope_lets_counts_pass(border: Interface, everybody: int) -> None:
    network = chain(lambda name: [Receivers(AggregationOptions()), Scopes("1")])
    members = (Join("@p", "market"), Join("@c2", "market"), Join("@c3", "market"), Join("@c4", "lab"))
    network.change("1", (CreateScope("market", OPEN), CreateScope("lab", border), Join("lab", "market"), *members))
    network.run()
    for client in ("c2", "c3", "c4"):
        network.clients[client].subscribe("type = 't'")
    network.run()
    assert counted(network, "p", "market", type="t") == Received("r1", everybody, 0, complete=True)
    assert len(network.clients["c4"].received) == 1
    assert counted(network, "c4", "lab", type="t") == Received("r1", 1, 0, complete=True)
    assert kept(network) == []


@pytest.mark.parametrize(
    ("tally", "said"),
    [
        (Tally(0, 0), Received("r", 0, 0, complete=True)),
        (Tally(4, 0), Received("r", None, None, complete=True, withheld=True)),
        (Tally(0, 1), Received("r", None, None, complete=True, withheld=True)),
        (Tally(5, 0), Received("r", 5, 0, complete=True)),
        (Tally(5, 4), Received("r", 5, None, complete=True)),
        (Tally(5, 5), Received("r", 5, 5, complete=True)),
    ],
)
@pytest.mark.req("AGG-142", "AGG-146")
def test_small_numbers_are_withheld(tally: Tally, said: Received) -> None:
    assert told("r", tally, True, 5) == said
    assert told("r", tally, True, 0) == Received("r", tally.handled, tally.unknown, complete=True)


def test_a_count_that_is_abandoned_leaves_nothing_behind() -> None:
    network = chain()
    said, publisher = heard(network), network.clients["p"]
    say(publisher, Reserve("r1"))
    say(publisher, Follow("r1", 99))
    network.run()
    say(publisher, Abandon("r1"))
    network.run()
    assert said == [Reserved("r1")]
    assert kept(network) == []
    assert not network.brokers["1"].delivery.following.awaited


def test_a_publisher_that_leaves_takes_its_counts_along() -> None:
    network = chain()
    publisher = network.clients["p"]
    say(publisher, Reserve("r1"))
    say(publisher, Follow("r1", 99))
    network.run()
    publisher.detach()
    network.run()
    assert kept(network) == []
    assert not network.brokers["1"].delivery.following.awaited


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Reserve("x", within=-1), "-1 microseconds"),
        (Reserve("x", within=61_000_000), "60 seconds"),
        (Reserve("x", "nowhere"), "no scope 'nowhere'"),
        (Reserve("x" * 300), "300 characters"),
        (Follow("x", 1), "'x' is no count"),
        (Reserved("x"), "may not send Reserved"),
    ],
)
def test_what_makes_no_sense_is_declined(message: AnyMessage, reason: str) -> None:
    network = chain()
    said = heard(network)
    say(network.clients["p"], message)
    network.run()
    (answer,) = said
    assert isinstance(answer, Declined)
    assert reason in answer.reason
    assert kept(network) == []


def test_a_client_may_count_so_many_at_a_time() -> None:
    network = chain()
    said = heard(network)
    for number in range(MAX_RESERVED + 1):
        say(network.clients["p"], Reserve(f"r{number}"))
    network.run()
    assert [type(one) for one in said] == [Reserved] * MAX_RESERVED + [Declined]


def test_what_a_neighbour_attaches_without_sense_is_refused() -> None:
    network = chain()
    network.clients["c3"].subscribe("type = 't'")
    network.run()
    broker = network.brokers["4"]
    (link,) = (one for one in broker.adjacency.open_links if one.name == "1")
    feature = broker.features[FEATURE]
    before = broker.statistics.refused
    feature.on_attached(link, b"\xff")
    assert broker.statistics.refused == before + 1
    assert broker.delivery.following.noting is None


def test_the_next_publication_is_not_taken_for_the_one_that_is_followed() -> None:
    network = chain()
    network.clients["c3"].subscribe("TRUE")
    network.run()
    said, publisher = heard(network), network.clients["p"]
    say(publisher, Reserve("r1"))
    say(publisher, Follow("r1", publisher._local.published + 2))
    publisher.publish(type="first")
    network.run()
    assert said == [Reserved("r1")]
    publisher.publish(type="second")
    network.run()
    assert said[1:] == [Received("r1", 1, 0, complete=True)]


def test_a_publication_whose_number_was_used_is_not_counted_twice() -> None:
    network = chain()
    said, publisher = heard(network), network.clients["p"]
    number = publisher.publish(type="t")
    network.run()
    say(publisher, Reserve("r1"))
    say(publisher, Follow("r1", number))
    publisher._send(Frame(Publish(number, encode_body({"type": "t"}))))
    network.run()
    assert said == [Reserved("r1")]
    assert Event("1", 1, 1) not in network.brokers["1"].features[FEATURE]._noted  # type: ignore[attr-defined]
