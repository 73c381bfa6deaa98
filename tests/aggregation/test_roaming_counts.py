"""A client that roams, or is away, is never counted twice in a value that is complete."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidings.aggregation import Aggregation
from tidings.broker import Feature
from tidings.mobility import Hosts
from tidings.sim import Network, Weather
from tidings.sim._aggregates import broken_aggregates


def features(name: str) -> Iterator[Feature]:
    hosts, aggregation = Hosts(), Aggregation()
    aggregation.serve(hosts)
    yield hosts
    yield aggregation


def world(seed: int) -> Network:
    network = Network(seed, weather=Weather(latency=(20_000, 60_000)), features=features)
    network.add_brokers("1234", links=["12", "23", "34"])
    network.run()
    network.add_client("boss", "1").watch("subscriber_count", "price > 3")
    network.clients["boss"].watch("subscriber_count", "price > 3", away=True)
    network.add_client("roamer", "2").subscribe("price > 5")
    network.run()
    return network


def complete(network: Network, id: str = "w1") -> list[object]:
    return [result.value for result in network.clients["boss"].watches[id].results if result.complete]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("noticed", [0.0, 30.0])
def test_whoever_is_at_two_brokers_for_a_moment_counts_twice_in_no_complete_value(seed: int, noticed: float) -> None:
    """The old broker notices at once that the connection is lost, or not before it is told."""
    network = world(seed)
    roamer = network.clients["roamer"]
    for broker in ("4", "2", "3", "1"):
        roamer.vanish(noticed=noticed, kept=60)
        roamer.attach(broker)
        network.run()
    for id in ("w1", "w2"):
        assert 2 not in complete(network, id)
        assert complete(network, id)[-1] == 1
    assert broken_aggregates(network) == []


def test_whoever_is_away_counts_only_if_that_is_asked_for() -> None:
    network = world(1)
    network.clients["roamer"].vanish(noticed=1, kept=30)
    network.run(5)
    assert (complete(network)[-1], complete(network, "w2")[-1]) == (0, 1)
    late = network.clients["boss"].watch("subscriber_count", "price > 4")
    network.run(5)
    assert late.last is not None
    assert late.last.value == 0
    network.run()
    assert (complete(network)[-1], complete(network, "w2")[-1]) == (0, 0)


def test_whoever_is_back_counts_again() -> None:
    network = world(1)
    broker = network.brokers["2"]
    (link,) = [link for link in broker.clients if link.name == "roamer"]
    broker.away(link)
    network.run()
    assert complete(network)[-1] == 0
    broker.back(link)
    network.run()
    assert (complete(network)[-1], complete(network, "w2")) == (1, [1])
