"""Positions and epochs that somebody made up: believed by nobody else, and no reason to keep anybody out."""

from __future__ import annotations

import msgspec
import pytest

from tidings.broker._bounds import MAX_NUMBER
from tidings.broker.overlay._topology import MAX_EPOCH, Topology
from tidings.model import Filter, TidingsError, TopologyError
from tidings.sim import Network, Weather
from tidings.wire import JSON, MSGPACK, Frame, LinkState, Mark, Quality, Subscribe, TreeMarks

FAR = 10**15
"""A number that no origin has reached."""


def test_a_client_that_claims_the_future_costs_the_others_nothing() -> None:
    """What one client says it has seen of an origin must not become what its broker has seen."""
    network = Network(weather=Weather(latency=(1_000, 1_000)))
    network.add_brokers("ab", links=["ab"])
    alice, feed = network.add_client("alice", "a"), network.add_client("feed", "b")
    alice.subscribe("n EXISTS")
    network.run()
    feed.publish(n=1, quality=Quality.STORED)
    network.run()
    mallory = network.add_client("mallory", "a")
    mallory._send(Frame(Subscribe("s", Filter.parse("m = 1"), after={"b": (1, FAR)})))
    network.run()
    assert network.brokers["a"].progress.seen["b"] == (1, 1)
    network.cut("a", "b")
    feed.publish(n=2, quality=Quality.STORED)
    network.run(seconds=1)
    network.heal("a", "b")
    network.run()
    assert [one["n"] for one in alice.received] == [1, 2]


def test_a_subscription_that_is_refused_for_its_positions_uses_up_no_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.broker.outlets._debts.SUSPENSIONS_SHARE", 3)
    monkeypatch.setattr("tidings.broker.outlets._debts.MAX_OWN_SUSPENSIONS", 3)
    network = Network()
    network.add_brokers("ab", links=["ab"])
    network.run()
    broker = network.brokers["a"]
    counted: list[int] = []
    broker.register = lambda link, size: counted.append(size)
    alice = network.add_client("alice", "a")
    alice._send(Frame(Subscribe("s", Filter.parse("n = 1"), after={f"b{n}": (1, 1) for n in range(4)})))
    network.run()
    assert len(alice.refusals) == 1
    assert sum(counted) == 0


@pytest.mark.parametrize(
    "message", [Mark("b", 1, 2**64 - 1), TreeMarks({"b": (1, 2**63)}), LinkState("b", 1, 1, {"a": 2**63})]
)
def test_numbers_that_nothing_can_hold_are_refused_where_they_are_read(message: object) -> None:
    frame = Frame(message)  # type: ignore[arg-type]
    for serialiser in (MSGPACK, JSON):
        with pytest.raises((TidingsError, msgspec.ValidationError)):
            serialiser.decode(serialiser.encode(frame))


def test_an_epoch_of_the_next_centuries_is_refused() -> None:
    topology = Topology("a", 5)
    with pytest.raises(TopologyError, match="of broker 'c' is not a valid link state"):
        topology.learn(LinkState("c", MAX_EPOCH + 1, 1, {}))
    assert topology.learn(LinkState("c", MAX_EPOCH, 1, {}))


@pytest.mark.parametrize("version", [1, 2**62, 2**63 - 3])
def test_a_broker_can_outdo_whatever_was_made_up_about_it(version: int) -> None:
    honest, other = Topology("b", 5), Topology("a", 5)
    made_up = LinkState("b", 7, version, {"nobody": 1})
    assert other.learn(made_up)
    assert honest.contests(made_up)
    assert other.learn(honest.defend(made_up))


@pytest.mark.parametrize("version", [2**62, 2**63 - 3])
def test_a_state_that_cannot_be_outdone_is_not_answered_by_one_that_all_refuse(version: int) -> None:
    topology = Topology("b", 5)
    assert not topology.contests(LinkState("b", MAX_EPOCH, version, {}))
    made_up = LinkState("b", MAX_EPOCH, MAX_NUMBER // 2 - 1, {})
    assert topology.contests(made_up)
    assert Topology("a", 5).learn(topology.defend(made_up))


def test_a_mark_counts_only_if_it_comes_from_where_its_origin_lies() -> None:
    network = Network(seed=1)
    network.add_brokers("abe", links=["ab", "ae"])
    reader, writer = network.add_client("reader", "a"), network.add_client("writer", "b")
    reader.subscribe("n > 0")
    network.run()
    writer.publish(n=1)
    network.run()
    liar = network.brokers["e"]
    liar.send(liar.adjacency.neighbours["a"], Mark("b", 1, 2**62))
    network.run()
    network.cut("a", "b")
    writer.publish(n=2)
    network.run(seconds=2)
    network.heal("a", "b")
    network.run()
    assert [one["n"] for one in reader.received] == [1, 2]
