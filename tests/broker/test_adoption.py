"""Trees that scale: many links at once make one tree, waves wait for neighbours, marks are gathered once."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tidings.broker import Broker, Link, LinkKind, RoutingOptions
from tidings.broker.overlay._adjacency import ADOPT_LONGEST, ADOPT_QUIET
from tidings.model import TopologyError
from tidings.sim import Network, Weather, check, topologies
from tidings.wire import Attach, Frame, LinkState

STILL = Weather(latency=(1_000, 1_000))


def kinds(network: Network) -> Counter[str]:
    """How many frames of each kind brokers send from now on."""
    sent: Counter[str] = Counter()

    def tap(broker: str, link: Link, frame: Frame) -> None:
        if link.is_broker:
            sent[type(frame.message).__name__] += 1

    network.tap = tap
    return sent


@pytest.mark.parametrize("shape", [topologies.star(40), topologies.random_tree(60, random.Random(2))])
def test_a_network_that_starts_comes_to_rest_with_one_tree_and_few_frames(shape: topologies.Shape) -> None:
    network = Network(seed=1, weather=STILL)
    sent = kinds(network)
    network.add_brokers(shape.brokers, links=shape.links)
    network.run()
    links = len(shape.links)
    assert len({broker.adjacency.tree.epoch for broker in network.brokers.values()}) == 1
    assert {broker.adjacency.generation for broker in network.brokers.values()} == {1}
    assert network.frames <= 1.5 * len(shape.brokers) * links
    assert sent["TreeReady"] == sent["TreeMarks"] == 2 * links


def test_links_that_come_up_together_are_one_state_and_those_that_go_again_are_none() -> None:
    network = Network(weather=STILL)
    sent = kinds(network)
    network.add_brokers("abc", links=["ab", "ac"])
    network.run()
    assert network.brokers["a"].adjacency.topology.own.neighbours.keys() == {"b", "c"}
    assert sent["LinkState"] == 2 + 2 + 2  # each broker's own state, over both links
    before = sent["LinkState"]
    network.connect("b", "c")
    network.cut("b", "c")
    network.run()
    assert sent["LinkState"] - before == 6  # both ends told each other what they knew, and nobody heard of the link
    assert network.brokers["b"].adjacency.topology.own.neighbours.keys() == {"a"}


def test_a_strict_topology_refuses_a_cycle_of_links_that_come_up_together() -> None:
    network = Network(strict_topology=True)
    network.add_brokers("abc", links=["bc"])
    network.run()
    network.connect("a", "b")
    network.run(seconds=0.006)
    with pytest.raises(TopologyError, match="would close a cycle"):
        network.connect("a", "c")


def fed(network: Network) -> tuple[Broker, Link]:
    """A broker and a link to it on which the test speaks for a neighbour."""
    broker = network.add_broker("a")
    link = Link("b", LinkKind.BROKER)
    broker.link_up(link)
    network.run(seconds=1)
    return broker, link


@pytest.mark.parametrize(("pause", "latest"), [(9_000, ADOPT_LONGEST), (ADOPT_QUIET + 1, ADOPT_QUIET)])
def test_a_flood_of_states_delays_a_tree_for_so_long_and_no_longer(pause: int, latest: int) -> None:
    network = Network()
    broker, link = fed(network)
    adopted: list[int] = []
    adopt = broker.at_tree
    broker.at_tree = lambda old, new: (adopted.append(network.scheduler.now), adopt(old, new))[1]
    begin = network.scheduler.now
    for n in range(40):
        state = LinkState("b", 1, n + 1, {"a": 1, **{f"c{m}": m + 2 for m in range(n)}})
        network.scheduler.after(n * pause, lambda state=state: broker.receive(link, Frame(state)))  # type: ignore[misc]
    network.run()
    assert adopted[0] - begin == latest


def test_a_broker_that_loses_a_link_adopts_at_once() -> None:
    network = Network(weather=STILL)
    network.add_brokers("abc", links=["ab", "bc"])
    network.run()
    network.cut("a", "b")
    assert network.brokers["a"].adjacency.tree.hops == {}
    assert network.brokers["b"].adjacency.tree.hops == {"c": "c"}


def test_a_broker_that_adopts_later_is_understood_by_those_that_did_before() -> None:
    network = Network(weather=STILL)
    network.add_brokers("ab", links=["ab"])
    network.run()
    late, link = network.brokers["b"], network.brokers["b"].adjacency.neighbours["a"]
    stale = late.statistics.stale_frames
    late.receive(link, Frame(Attach(4711, 9)))  # of a tree that this broker has not adopted yet
    assert late.statistics.stale_frames == stale + 1
    alice, bob = network.add_client("alice", "a"), network.add_client("bob", "b")
    bob.subscribe("n EXISTS")
    network.run()
    alice.publish(n=1)
    network.run()
    assert [one["n"] for one in bob.received] == [1]


@pytest.mark.parametrize("latency", [(500, 5_000), (25_000, 25_000)])
def test_marks_are_gathered_for_all_and_nothing_is_lost_over_a_cut(latency: tuple[int, int]) -> None:
    network = Network(seed=5, weather=Weather(latency=latency), routing=RoutingOptions("covering"))
    shape = topologies.ring(10)
    network.add_brokers(shape.brokers, links=shape.links)
    clients = [network.add_client(f"c{n}", broker) for n, broker in enumerate(shape.brokers)]
    for client in clients:
        client.subscribe("n EXISTS")
    network.run()
    sent = kinds(network)
    for n in range(200):
        network.scheduler.after(n * 1_000, lambda n=n: clients[n % 10].publish(n=n))  # type: ignore[misc]
    network.scheduler.after(50_000, lambda: network.cut(*shape.links[0]))
    network.run()
    assert all(sorted(one["n"] for one in client.received) == list(range(200)) for client in clients)
    assert check(network.trace) == []
    assert sent["TreeReady"] <= 2 * 18  # for each of the two states of the cut
    assert sent["Wave"] == 0
