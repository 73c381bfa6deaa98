"""The documents' worked examples, on real brokers."""

from __future__ import annotations

import pytest
from history.history_world import REFERENCE, Messages, Reader, network_of, strategy_at

from tidings.broker import RoutingOptions
from tidings.history import CacheLimits, StrategyOptions
from tidings.history.caching import BorderBrokerCaching, EventCache, FullReplay, MergingCaching
from tidings.history.caching._requests import Expect, Release, Replay, Request
from tidings.model import Filter, last
from tidings.sim import Network


def sized(each: int) -> StrategyOptions:
    return StrategyOptions(limits=CacheLimits(max_global=20 * each + 1, max_filters=20, max_per_filter=each))


@pytest.mark.req("HIS-024", "HIS-063")
def test_vector_2_border_broker_caching() -> None:
    """X2 gets from ER1 what X1 has had; X4, at ER2, gets nothing: its border broker has no client with that filter."""
    network = network_of(lambda name: BorderBrokerCaching(), REFERENCE)
    for number, broker in ((1, "er1"), (2, "er1"), (4, "er2"), (5, "er2"), (6, "er4")):
        network.add_client(f"x{number}", broker)
    x1 = Reader(network.clients["x1"], "kind = 'f'", None)
    network.run()
    network.clients["x5"].publish(kind="f", n=1)
    network.clients["x6"].publish(kind="g", n=2)
    network.run()
    assert x1.values == [1]
    messages = Messages(network)
    x2, x4 = (Reader(network.clients[name], "kind = 'f'", last(1)) for name in ("x2", "x4"))
    network.run()
    assert (x2.values, x2.past) == ([1], 1)
    assert x4.values == []
    assert messages.all == [], "nobody asks a neighbour, and subscriptions go on without a bound"
    network.clients["x5"].publish(kind="f", n=3)
    network.run()
    assert (x1.values, x2.values, x4.values) == ([1, 3], [1, 3], [3])


def mc_example(each: dict[str, int]) -> tuple[Network, Messages, Reader]:
    """X1 has F; X5 and X6 have published 40 each, strictly alternating; X3 asks for 50 of G, which F covers."""
    network = network_of(lambda name: MergingCaching(sized(each[name])), REFERENCE)
    for number, broker in ((1, "er1"), (3, "er1"), (5, "er2"), (6, "er4")):
        network.add_client(f"x{number}", broker)
    Reader(network.clients["x1"], "n > 0", None)
    network.run()
    for n in range(1, 81):
        network.clients["x5" if n % 2 else "x6"].publish(n=n, kind="g")
        network.run()
    messages = Messages(network)
    x3 = Reader(network.clients["x3"], "n > 0 AND kind = 'g'", last(50))
    network.run()
    return network, messages, x3


@pytest.mark.req("HIS-033", "HIS-066", "HIS-067", "HIS-070")
def test_vector_3_a_larger_cache_nearby_answers_alone() -> None:
    network, messages, x3 = mc_example({"er1": 25, "er2": 25, "er3": 60, "er4": 25})
    assert x3.values == list(range(31, 81))
    assert x3.past == 50
    assert messages.of("bounded") == [("er1", "er3")]
    ((_, _, replay),) = [one for one in messages.all if isinstance(one[2], Replay)]
    assert isinstance(replay, Replay)
    assert len(replay.envelopes) == 50, "one message between brokers, one for each notification to the client"
    assert messages.of(Replay) == [("er3", "er1")]
    assert messages.of(Request) == []
    assert network.brokers["er1"].statistics.messages_out["Deliver"] == 80 + 50


@pytest.mark.req("HIS-066", "HIS-068", "HIS-069")
def test_vector_3_small_caches_are_put_together() -> None:
    _, messages, x3 = mc_example(dict.fromkeys(("er1", "er2", "er3", "er4"), 25))
    assert sorted(messages.of("bounded")) == [("er1", "er3"), ("er3", "er2"), ("er3", "er4")]
    assert len(messages.of(Replay)) == 3, "two messages for each broker that is asked"
    assert sorted(x3.values) == list(range(31, 81))  # type: ignore[type-var]
    for parity in (0, 1):
        of_one = [value for value in x3.values if value % 2 == parity]  # type: ignore[operator]
        assert of_one == sorted(of_one)  # type: ignore[type-var]
    assert x3.values[-25:] == list(range(56, 81)), "what ER1 has is the newest"


@pytest.mark.req("HIS-074", "HIS-075", "HIS-081")
def test_vector_4_fetch_where_routing_stops() -> None:
    """X1 has F everywhere, X2 subscribes G: routing stops at ER1, the request does not, and leaves nothing behind."""
    network = network_of(lambda name: MergingCaching(), REFERENCE, routing=RoutingOptions("covering"))
    for number, broker in ((1, "er1"), (2, "er1"), (6, "er4")):
        network.add_client(f"x{number}", broker)
    x1 = Reader(network.clients["x1"], "n > 0", None)
    network.run()
    for n in (1, 2, 3):
        network.clients["x6"].publish(n=n)
    network.run()
    tables = {name: sorted(map(str, broker.root.subscriptions)) for name, broker in network.brokers.items()}
    messages = Messages(network)
    x2 = Reader(network.clients["x2"], "n > 1", last(9))
    network.run()
    assert x2.values == [2, 3]
    assert messages.of(Request) == [("er1", "er3"), ("er3", "er2"), ("er3", "er4")]
    assert messages.of("bounded") == []
    after = {name: sorted(map(str, broker.root.subscriptions)) for name, broker in network.brokers.items()}
    assert {name: table for name, table in after.items() if name != "er1"} == {
        name: table for name, table in tables.items() if name != "er1"
    }
    assert all(len(strategy_at(network, name).cache) == 2 for name in network.brokers), "F, and G for the request"
    x2.unsubscribe()
    network.run()
    assert messages.of(Release) == [("er1", "er3"), ("er3", "er2"), ("er3", "er4")]
    assert all(len(strategy_at(network, name).cache) == 1 for name in network.brokers)
    x1.unsubscribe()
    network.run()
    for name in network.brokers:
        cache: EventCache = strategy_at(network, name).cache
        assert (len(cache), cache.cells, cache.bytes) == (0, 0, 0)


@pytest.mark.req("HIS-076", "HIS-077")
@pytest.mark.parametrize("routing", ["simple", "covering", "merging"])
def test_vector_6_advertisements_restrict_the_search(routing: str) -> None:
    """X6 advertises F; the request of X7 reaches only brokers on the way to X6."""
    options = RoutingOptions(routing, advertisements=True)
    network = network_of(lambda name: MergingCaching(), REFERENCE, routing=options)
    x6 = network.add_client("x6", "er4")
    network.add_client("x7", "er1")
    network.add_client("x8", "er4")
    x6.advertise("n > 0")
    network.run()
    messages = Messages(network)
    x7 = Reader(network.clients["x7"], "n > 5", last(2))
    network.run()
    assert messages.of("bounded") == [("er1", "er3"), ("er3", "er4")]
    assert messages.of(Request) == []
    for n in (5, 6, 7):
        x6.publish(n=n)
    network.run()
    assert x7.values == [6, 7]
    messages.all.clear()
    x8 = Reader(network.clients["x8"], "n > 6", last(2))
    network.run()
    assert messages.all == [], "both share ER4: only ER4 is asked"
    assert x8.values == [7]
    x9 = Reader(network.add_client("x9", "er2"), "n > 5", last(2))
    network.run()
    asked = messages.of("bounded") + messages.of(Request)
    assert sorted(asked) == [("er2", "er3")], "ER3 has enough"
    assert x9.values == [6, 7]


@pytest.mark.req("HIS-095")
def test_vector_8_expect_comes_before_the_replay_that_it_belongs_to() -> None:
    """As printed, the replay comes first: then it is taken for the last, and what is older is lost."""

    class AsPrinted(FullReplay):
        def reply(self, link: object, id: object, found: object, further: int) -> None:
            self.send(link, Replay(id, found))  # type: ignore[arg-type]
            if further:
                self.send(link, Expect(id, further, further > 1))  # type: ignore[arg-type]

    def past_of(make: type[FullReplay]) -> tuple[list[object], int]:
        sizes = {"a": 1, "b": 1, "c": 5}
        network = network_of(lambda name: make(sized(sizes[name])), ["ab", "bc"])
        network.add_client("feed", "c")
        Reader(network.add_client("early", "a"), "n > 0", None)
        network.run()
        for n in range(1, 6):
            network.clients["feed"].publish(n=n)
        network.run()
        late = Reader(network.add_client("late", "a"), "n > 0", last(4))
        network.run()
        return late.values, strategy_at(network, "a").late

    assert past_of(FullReplay) == ([2, 3, 4, 5], 0)
    assert past_of(AsPrinted) == ([5], 2)


@pytest.mark.req("HIS-045")
def test_equal_filters_are_one_in_every_cache() -> None:
    network = network_of(lambda name: MergingCaching(), REFERENCE)
    for number in (1, 2, 3):
        network.add_client(f"x{number}", "er1").subscribe("n > 1 AND n < 9" if number % 2 else "n < 9 AND n > 1")
    network.run()
    for name in network.brokers:
        entry = strategy_at(network, name).cache.entry(Filter.parse("n > 1 AND n < 9"))
        assert entry is not None
        assert entry.refs == 3
