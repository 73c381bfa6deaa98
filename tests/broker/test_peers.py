"""What one peer of a broker, a neighbour or a client, is told and gets: nothing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tidings.broker import Advice, Broker, Feature, Joinpoint, Link, RoutingOptions
from tidings.sim import Network, topologies
from tidings.wire import Advertise, Deliver, Frame, Notify


class Onlooker(Feature):
    """Advises everything about notifications and changes nothing: the plain path is not taken then."""

    name = "onlooker"

    def advice(self) -> Mapping[Joinpoint, Advice]:
        def proceed(proceed: Callable[..., Any], *arguments: object) -> Any:
            return proceed()

        return dict.fromkeys((Joinpoint.PUB_MATCH, Joinpoint.PUB_SEND, Joinpoint.DELIVER), proceed)


@pytest.mark.req("AGG-026")
@pytest.mark.parametrize("advised", [False, True], ids=["plain", "advised"])
@pytest.mark.parametrize("algorithm", ["flooding", "simple", "identity", "covering", "merging"])
def test_a_peer_gets_an_event_once_however_many_of_its_filters_it_passes(algorithm: str, advised: bool) -> None:
    """What is on the links is judged: a local broker would not hand over a second copy anyway."""
    network = Network(1, routing=RoutingOptions(algorithm), features=lambda name: [Onlooker()] if advised else [])
    shape = topologies.star(4)
    network.add_brokers(shape.brokers, shape.links)
    clients = [network.add_client(f"c{number}", broker) for number, broker in enumerate(shape.brokers * 2)]
    for client in clients:
        for text in ("n > 0", "n > 0", "n > 1", "n < 9 OR k = 1", "k = 1"):
            client.subscribe(text)
    network.run()
    copies: Counter[tuple[str, str, int]] = Counter()

    def tap(broker: str, link: Link, frame: Frame) -> None:
        if isinstance(frame.message, Notify | Deliver):
            copies[broker, link.name, frame.message.envelope.identity.publisher_seq] += 1

    network.tap = tap
    for n in range(5):
        clients[0].publish(n=n, k=1)
    network.run()
    assert set(copies.values()) == {1}
    assert len(copies) == 5 * (len(shape.brokers) - 1 + len(clients))


@pytest.mark.req("AGG-020")
@pytest.mark.parametrize("algorithm", ["identity", "covering", "merging"])
def test_every_link_hears_once_of_a_topic_that_somebody_behind_its_other_end_publishes(algorithm: str) -> None:
    network = Network(1, routing=RoutingOptions(algorithm, advertisements=True))
    shape = topologies.AGGREGATION  # b1 - b4 - b3, and b4 - b2 - b5
    network.add_brokers(shape.brokers, shape.links)
    at_b1, also_at_b1, at_b5, at_b3 = (
        network.add_client(f"p{number}", broker) for number, broker in enumerate(("b1", "b1", "b5", "b3"))
    )
    network.run()
    told: list[tuple[str, str]] = []

    def tap(broker: str, link: Link, frame: Frame) -> None:
        if isinstance(frame.message, Advertise):
            told.append((broker, link.name))

    network.tap = tap

    def heard() -> list[tuple[str, str]]:
        network.run()
        now, told[:] = sorted(told), []
        return now

    at_b1.advertise("type = 't'")
    assert heard() == [("b1", "b4"), ("b2", "b5"), ("b4", "b2"), ("b4", "b3")]
    also_at_b1.advertise("type = 't'")
    assert heard() == [], "all of them know"
    at_b5.advertise("type = 't'")
    assert heard() == [("b2", "b4"), ("b4", "b1"), ("b5", "b2")], "b3 knows that b4 has a publisher behind it"
    at_b3.advertise("type = 't'")
    assert heard() == [("b3", "b4")]
    at_b3.advertise("type = 'u'")
    assert heard() == [("b2", "b5"), ("b3", "b4"), ("b4", "b1"), ("b4", "b2")], "another topic"


@pytest.mark.req("VIS-211")
@pytest.mark.parametrize("advised", [False, True], ids=["plain", "advised"])
@pytest.mark.parametrize("algorithm", ["flooding", "simple", "identity", "covering", "merging"])
def test_every_message_is_counted_by_its_type_where_it_leaves_and_where_it_comes(algorithm: str, advised: bool) -> None:
    """What is on the links is what the brokers have counted, and whatever a broker sent a neighbour has got."""
    options = RoutingOptions(algorithm, advertisements=True)
    network = Network(1, routing=options, features=lambda name: [Onlooker()] if advised else [])
    network.add_brokers("abcd", links=["ab", "bc", "bd"])
    clients = [network.add_client(f"c{number}", broker) for number, broker in enumerate("aacd")]
    network.run()
    before = {
        name: (broker.statistics.messages_in, broker.statistics.messages_out) for name, broker in _brokers(network)
    }
    sent: dict[str, Counter[str]] = {name: Counter() for name, _ in _brokers(network)}
    got: dict[str, Counter[str]] = {name: Counter() for name, _ in _brokers(network)}

    def tap(broker: str, link: Link, frame: Frame) -> None:
        sent[broker][type(frame.message).__name__] += 1
        if link.is_broker:
            got[link.name][type(frame.message).__name__] += 1

    network.tap = tap
    for client in clients:
        client.advertise("n > 0", id="a")
        client.subscribe("n > 0", id="s")
        client.subscribe("n > 5", id="t")
    network.run()
    for client in clients:
        for n in range(1, 9):
            client.publish(n=n)
    network.run()
    for client in clients:
        client.unsubscribe("s")
        client.unadvertise("a")
    network.run()
    control = {"Advertise", "Unadvertise"} | (set() if algorithm == "flooding" else {"Subscribe", "Unsubscribe"})
    assert {"Notify", "Deliver", *control} <= set(sum(sent.values(), Counter()))
    for name, broker in _brokers(network):
        came, left = before[name]
        assert broker.statistics.messages_out - left == sent[name]
        expected = got[name]
        for _ in broker.clients:
            expected += Counter(Advertise=1, Subscribe=2, Publish=8, Unsubscribe=1, Unadvertise=1)
        heard = broker.statistics.messages_in - came
        assert {kind: heard[kind] for kind in expected} == expected


def _brokers(network: Network) -> list[tuple[str, Broker]]:
    return list(network.brokers.items())
