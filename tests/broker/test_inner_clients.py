"""Clients inside the broker: when they hear and are heard, in whose name they act, what one adopts from another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tidings.broker import Advice, Feature, InnerClient, Joinpoint, Link, LocalBroker, RoutingOptions
from tidings.model import EVERYTHING, FeatureError, Filter, Notification, TopologyError
from tidings.scopes import CreateScope, Interface, Join, Leave, Scopes
from tidings.sim import Network, SimClient, Weather
from tidings.sim._invariants import broken_invariants, overgrown
from tidings.wire import AnyMessage, Deliver, Frame, Publish, Quality, Settled, Subscribe, encode_body

STILL = Weather(latency=(1_000, 1_000))


class Host(Feature):
    """Opens clients, and notes what it sees: `turn` is odd while a notification is being sent."""

    name = "host"

    def __init__(self) -> None:
        self.seen: list[tuple[str, ...]] = []
        self.turn = 0

    def advice(self) -> Mapping[Joinpoint, Advice]:
        def note(proceed: Callable[..., Any], old: Link, new: Link, only: object) -> None:
            self.seen.append((old.name, new.name))
            proceed()

        def turn(proceed: Callable[..., Any], *arguments: Any) -> Any:
            self.turn += 1
            result = proceed()
            self.turn += 1
            return result

        return {Joinpoint.ADOPT: note, Joinpoint.PUB_SEND: turn}


class Inner:
    """An inner client, and what has reached it."""

    def __init__(self, host: Host, name: str, principal: str = "") -> None:
        self.heard: list[AnyMessage] = []
        self.during: list[tuple[int, int]] = []
        """In which turns it was when a notification came, before and after it has reacted."""
        self.react: Callable[[], None] = lambda: None
        self._host = host
        self.client: InnerClient = host.context.open_client(name, self._hear, principal)

    def _hear(self, frame: Frame) -> None:
        self.heard.append(frame.message)
        if isinstance(frame.message, Deliver):
            before = self._host.turn
            self.react()
            self.during.append((before, self._host.turn))

    @property
    def link(self) -> Link:
        return self.client.link

    def subscribe(self, filter: str, id: str = "s") -> None:
        self.client.send(Frame(Subscribe(id, Filter.parse(filter), number=1)))

    def publish(self, seq: int, **attributes: object) -> None:
        self.client.send(Frame(Publish(seq, encode_body(attributes), Quality.FIRE)))

    @property
    def received(self) -> list[dict[str, object]]:
        found = (one.envelope.notification for one in self.heard if isinstance(one, Deliver))
        return [dict(one.attributes) for one in found]


def host_of(network: Network, broker: str) -> Host:
    feature = network.brokers[broker].features["host"]
    assert isinstance(feature, Host)
    return feature


def world(*, scopes: bool = False, routing: RoutingOptions | None = None) -> tuple[Network, Host]:
    network = Network(
        weather=STILL, features=lambda name: [Host(), *([Scopes("a")] if scopes else [])], routing=routing
    )
    network.add_brokers("abc", links=["ab", "bc"])
    network.run()
    return network, host_of(network, "b")


def seen(client: SimClient) -> list[object]:
    return [notification["n"] for notification in client.received]


# --- hearing and being heard ------------------------------------------------------------------------


def test_it_hears_in_the_turn_that_sends_and_is_heard_when_the_turn_has_ended() -> None:
    network, host = world()
    alice = network.add_client("alice", "b")
    inner = Inner(host, "inner")
    inner.react = lambda: inner.publish(1, n=2)
    inner.subscribe("n = 1")
    alice.subscribe("n = 2")
    assert inner.heard == []
    network.run()
    alice.publish(n=1)
    network.run()
    assert inner.received == [{"n": 1}]
    assert inner.during == [(1, 1)]  # inside of the first turn, and it began no other
    assert host.turn == 4  # which came when that one had ended
    assert seen(alice) == [2]


def test_the_local_broker_runs_inside_a_broker_as_it_does_anywhere() -> None:
    network, host = world()
    bob = network.add_client("bob", "c")
    local = LocalBroker("inside", lambda frame: client.send(frame))  # noqa: PLW0108 - it is made below
    client = host.context.open_client("inside", local.receive)
    got: list[Notification] = []
    local.subscribe(Filter.parse("n > 1"), got.append)
    bob.subscribe("n > 2")
    network.run()
    local.publish({"n": 3})
    bob.publish(n=2)
    network.run()
    assert [one["n"] for one in got] == [3, 2]
    assert seen(bob) == [3]
    client.close()
    network.run()
    bob.publish(n=4)
    network.run()
    assert len(got) == 2
    assert broken_invariants(network) == overgrown(network) == []


def test_what_it_publishes_after_a_restart_of_its_broker_is_no_repetition() -> None:
    class Voice(Feature):
        name = "voice"

        def start(self) -> None:
            self.client = self.context.open_client("voice", lambda frame: self.local.receive(frame))  # noqa: PLW0108 - made below
            self.local = LocalBroker("voice", self.client.send, published=self.client.published)

    voices: list[Voice] = []

    def made(broker: str) -> list[Feature]:
        voices.append(Voice())
        return [voices[-1]]

    network = Network(seed=1, features=made)
    network.add_brokers("a")
    bob = network.add_client("bob", "a")
    bob.subscribe("n > 0")
    network.run()
    for n in (1, 2):
        voices[-1].local.publish({"n": n})
    network.run()
    network.crash("a")
    network.run(seconds=1)
    network.restart("a")
    network.run(seconds=30)
    voices[-1].local.publish({"n": 3})
    network.run()
    assert seen(bob) == [1, 2, 3]


def test_a_closed_one_says_nothing_and_a_name_is_taken_once() -> None:
    network, host = world()
    network.add_client("alice", "b")
    with pytest.raises(TopologyError, match="'alice' is attached"):
        host.context.open_client("alice", lambda frame: None)
    inner = Inner(host, "inner")
    inner.client.close()
    inner.client.close()
    with pytest.raises(FeatureError, match="the inner client 'inner' has been closed; open another one"):
        inner.subscribe("n = 1")
    Inner(host, "inner")


# --- in whose name ----------------------------------------------------------------------------------


def test_it_publishes_and_sees_in_the_name_of_its_principal() -> None:
    network, host = world(scopes=True)
    alice, bob, carol = (network.add_client(name, "c") for name in ("alice", "bob", "carol"))
    for client in (bob, carol):
        client.subscribe("n EXISTS")
    narrow = Interface.parse(input="n < 10", output="n < 10")
    changes = (CreateScope("S"), Join("@alice", "S", imposed=narrow), Join("@bob", "S"))
    assert not [answer for answer in network.change("a", changes) if answer.error]
    network.run()
    inner = Inner(host, "copy", "alice")
    inner.subscribe("n EXISTS")
    network.run()
    inner.publish(1, n=1)
    inner.publish(2, n=20)
    for n in (2, 30):
        bob.publish(n=n)
    network.run()
    assert sorted(map(str, seen(bob))) == ["1", "2", "30"]  # alice shows S only what is below 10
    assert seen(carol) == []  # who is in no scope sees nothing of S
    assert sorted(str(one["n"]) for one in inner.received) == ["1", "2"]
    publishers = {one.envelope.identity.publisher for one in inner.heard if isinstance(one, Deliver)}
    assert publishers == {"alice", "bob"}
    assert alice.received == []


def test_when_its_principal_leaves_a_scope_it_does_so_everywhere() -> None:
    network, host = world(scopes=True)
    bob = network.add_client("bob", "c")
    network.change("a", (CreateScope("S"), Join("@alice", "S"), Join("@bob", "S")))
    network.run()
    inner = Inner(host, "copy", "alice")
    inner.subscribe("n EXISTS")
    network.run()
    bob.publish(n=1)
    network.run()
    network.change("a", (CreateScope("T"), Join("@alice", "T"), Leave("@alice", "S")))
    network.run()
    bob.publish(n=2)
    network.run()
    assert inner.received == [{"n": 1}]


# --- adoption ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["simple", "identity", "covering", "merging"])
def test_adoption_tells_nobody_and_loses_nothing(algorithm: str) -> None:
    network, host = world(routing=RoutingOptions(algorithm))
    bob = network.add_client("bob", "c")
    network.add_client("eve", "b").subscribe("n > 3")
    network.run()
    copy = Inner(host, "copy", "alice")
    copy.subscribe("n > 1")
    copy.subscribe("n > 5", id="t")
    network.run()
    bob.publish(n=2)
    network.run()
    real = Inner(host, "alice")
    frames: list[AnyMessage] = []
    network.tap = lambda broker, link, frame: frames.append(frame.message) if link.is_broker else None
    host.context.adopt(copy.link, real.link)
    network.run()
    assert frames == []
    copy.client.close()
    network.run()
    assert frames == []
    network.tap = None
    bob.publish(n=7)
    network.run()
    assert copy.received == [{"n": 2}]
    assert real.received == [{"n": 7}]
    (delivered,) = [one for one in real.heard if isinstance(one, Deliver)]
    assert set(delivered.subscriptions) == {"s", "t"}
    assert broken_invariants(network) == overgrown(network) == []
    assert host.seen == [("copy", "alice")]
    real.client.close()
    network.run()
    assert broken_invariants(network) == overgrown(network) == []
    assert [table.subscriptions.count(real.link) for table in network.brokers["b"].scoping.tables.values()] == [0]


def test_what_was_settled_or_asked_for_again_stays_what_it_is() -> None:
    network, host = world()
    copy, real = Inner(host, "copy", "alice"), Inner(host, "alice")
    copy.subscribe("n > 1")
    network.run()
    host.context.adopt(copy.link, real.link)
    (registration,) = network.brokers["b"].registrations.subscriptions(real.link).values()
    assert registration.settled
    real.subscribe("n > 1")  # the same again: it is told at once
    network.run()
    assert [one.id for one in real.heard if isinstance(one, Settled)] == ["s"]


def test_what_is_owed_comes_to_who_has_adopted() -> None:
    network, host = world()
    bob = network.add_client("bob", "c")
    copy = Inner(host, "copy", "alice")
    copy.subscribe("n EXISTS")
    network.run()
    bob.publish(n=1, quality=Quality.STORED)
    network.run()
    network.cut("b", "c")
    network.run(1)
    bob.publish(n=2, quality=Quality.STORED)
    network.run(1)
    assert network.brokers["b"].recovery.suspended == {"c"}
    real = Inner(host, "alice")
    host.context.adopt(copy.link, real.link)
    copy.client.close()
    network.heal("b", "c")
    network.run()
    assert (copy.received, real.received) == ([{"n": 1}], [{"n": 2}])


def test_nobody_adopts_what_is_not_its_own() -> None:
    network, host = world()
    network.add_client("alice", "b").subscribe("n = 1")
    network.add_client("bob", "b")
    network.run()
    alice, bob = network.brokers["b"].clients
    with pytest.raises(FeatureError, match="feature 'host' has opened neither 'alice' nor 'bob'"):
        host.context.adopt(alice, bob)
    copy = Inner(host, "copy", "carol")
    with pytest.raises(FeatureError, match="'copy' stands for 'carol' and 'alice' for 'alice'"):
        host.context.adopt(alice, copy.link)
    mine = Inner(host, "mine", "alice")
    mine.client.send(Frame(Subscribe(next(iter(network.clients["alice"].subscriptions)), EVERYTHING, number=1)))
    network.run()
    with pytest.raises(FeatureError, match=r"client 'mine' has a subscription '\w+' already"):
        host.context.adopt(alice, mine.link)
    mine.client.close()
    with pytest.raises(FeatureError, match="client 'mine' is not attached to broker 'b'"):
        host.context.adopt(alice, mine.link)
    assert host.seen == []
