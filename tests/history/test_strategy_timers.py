"""How deep a strategy asks, how long it waits, and what it does without an answer."""

from __future__ import annotations

import pytest
from history.history_world import Messages, Reader, network_of, strategy_at
from history.strategy_world import LATENCY, STEADY, Silent, fed_line, filled_line, sized

from tidings.broker import RoutingOptions
from tidings.history import TimerScheme
from tidings.history._strategy_options import passed_on, period
from tidings.history.caching import CachingStrategy, FullReplay, MergingCaching
from tidings.history.caching._requests import Request
from tidings.model import last
from tidings.wire import Ending


@pytest.mark.req("HIS-071")
@pytest.mark.parametrize("make", [MergingCaching, FullReplay])
@pytest.mark.parametrize(("depth", "expected"), [(1, [6]), (2, [6]), (3, [5, 6]), (4, [4, 5, 6]), (None, [3, 4, 5, 6])])
def test_no_request_goes_deeper_than_it_may(
    make: type[CachingStrategy], depth: int | None, expected: list[int]
) -> None:
    sizes = {"a": 1, "b": 2, "c": 3, "d": 4}
    network = fed_line(lambda name: make(sized(sizes[name], max_depth=depth)))
    messages = Messages(network)
    late = Reader(network.add_client("late", "a"), "n > 0", last(9))
    network.run()
    assert late.values == expected
    levels = [m.level for _, _, m in messages.all if isinstance(m, Request)]
    assert all(depth is None or level <= depth for level in levels)


@pytest.mark.req("HIS-072")
def test_whoever_asks_waits_longer_than_whom_it_asks() -> None:
    round_trip = 40_000
    for level in range(2, 6):
        parent = period(TimerScheme.PER_LEVEL, 10_000_000, level, 0)
        assert parent > period(TimerScheme.PER_LEVEL, 10_000_000, level + 1, 0) + round_trip
    given = 10_000_000
    for level in range(2, 12):
        parent = period(TimerScheme.FRACTION, 0, level, given)
        given = passed_on(parent)
        assert parent > period(TimerScheme.FRACTION, 0, level + 1, given) + round_trip


@pytest.mark.req("HIS-031", "HIS-073", "HIS-098")
@pytest.mark.parametrize("scheme", TimerScheme)
def test_without_an_answer_a_broker_passes_on_what_it_has_in_time(scheme: TimerScheme) -> None:
    """d is silent: c answers b with what it has before b gives up, and so on; the client gets everything else."""
    sizes = {"a": 1, "b": 2, "c": 3, "d": 4}

    def make(name: str) -> CachingStrategy:
        return (Silent if name == "d" else MergingCaching)(sized(sizes[name], timer_scheme=scheme))

    network = fed_line(make)
    begin = network.scheduler.now
    late = Reader(network.add_client("late", "a"), "n > 0", last(9), timeout=5_000_000)
    network.run(seconds=6)
    assert late.values == [4, 5, 6]
    assert strategy_at(network, "a").endings[Ending.ANSWERED] == 1
    assert network.scheduler.now - begin == 6_000_000


@pytest.mark.req("HIS-031", "HIS-098")
@pytest.mark.parametrize("make", [MergingCaching, FullReplay])
def test_a_subscription_waits_no_longer_than_its_timer_and_ignores_what_comes_later(
    make: type[CachingStrategy],
) -> None:
    class Slow(make):  # type: ignore[valid-type, misc]
        def asked(self, *arguments: object) -> None:
            self.context.call_later(500_000, lambda: super(Slow, self).asked(*arguments))

    sizes = {"a": 1, "b": 4}
    network = network_of(
        lambda name: (Slow if name == "b" else make)(sized(sizes[name])),
        ["ab"],
        routing=RoutingOptions("identity"),
        weather=STEADY,
    )
    feed = network.add_client("feed", "b")
    early = Reader(network.add_client("early", "a"), "n > 0", None)
    network.run()
    for n in (1, 2, 3):
        feed.publish(n=n)
    network.run()
    late = Reader(network.add_client("late", "a"), "n > 0", last(9), timeout=100_000)
    network.run(seconds=0.05)
    feed.publish(n=4)
    network.run(seconds=0.01)
    assert late.values == [], "it is held"
    assert early.values == [1, 2, 3, 4], "others are not"
    network.run(seconds=0.1)
    assert late.values == [3, 4], "what was here, then what came meanwhile"
    assert strategy_at(network, "a").endings[Ending.TIMER] == 1
    network.run()
    assert late.values == [3, 4]
    assert strategy_at(network, "a").late == 1


@pytest.mark.req("HIS-026", "HIS-030", "HIS-098")
@pytest.mark.parametrize("make", [MergingCaching, FullReplay])
def test_what_is_new_counts_towards_the_bound(make: type[CachingStrategy]) -> None:
    network = network_of(lambda name: Silent(sized(1)) if name == "b" else make(sized(1)), ["ab"], weather=STEADY)
    feed = network.add_client("feed", "b")
    reader = Reader(network.add_client("reader", "a"), "n > 0", last(2))
    network.run(seconds=0.02)
    feed.publish(n=1)
    network.run(seconds=0.02)
    assert reader.values == []
    (hold,) = network.brokers["a"].holds.all.values()
    assert [(item.envelope.identity.seq, item.link.name) for item in hold.holder.new] == [(1, "b")]  # type: ignore[attr-defined, union-attr]
    feed.publish(n=2)
    network.run(seconds=0.02)
    assert reader.values == [1, 2], "that is enough, though nobody has answered"
    assert strategy_at(network, "a").endings[Ending.SATISFIED] == 1


@pytest.mark.req("HIS-032")
@pytest.mark.parametrize("make", [MergingCaching, FullReplay])
def test_a_subscription_that_ends_while_it_is_held_gets_nothing(make: type[CachingStrategy]) -> None:
    network = filled_line(make, dict.fromkeys("abcd", 3))
    late = Reader(network.add_client("late", "a"), "n > 0", last(9))
    network.run(seconds=2.5 * LATENCY / 1e6)
    assert network.brokers["a"].holds.all
    late.unsubscribe()
    network.run()
    assert late.values == []
    assert not network.brokers["a"].holds.all
    gone = Reader(network.add_client("gone", "a"), "n > 0", last(9))
    network.run(seconds=2.5 * LATENCY / 1e6)
    network.clients["gone"].detach()
    network.run()
    assert gone.values == []
    assert strategy_at(network, "a").endings == dict.fromkeys(Ending, 0)


@pytest.mark.parametrize("make", [MergingCaching, FullReplay])
def test_a_new_tree_leaves_no_hole_in_what_was_retained(make: type[CachingStrategy]) -> None:
    """1 is retained; 2 is under way when its link is cut, and there is another way. Were 1 delivered, 2 would be
    missing behind it."""
    network = network_of(
        lambda name: Silent(sized(5)) if name == "b" else make(sized(5)),
        ["ab", "bc", "ac"],
        routing=RoutingOptions("identity"),
        weather=STEADY,
    )
    feed = network.add_client("feed", "b")
    reader = Reader(network.add_client("reader", "a"), "n > 0", last(5))
    network.run(seconds=0.05)
    feed.publish(n=1)
    network.run(seconds=0.05)
    assert network.brokers["a"].holds.all
    feed.publish(n=2)
    network.run(seconds=1.5 * LATENCY / 1e6)
    network.cut("a", "b")
    network.run(seconds=0.5)
    assert network.brokers["a"].holds.all, "b does not answer on the new tree either"
    for n in (3, 4):
        feed.publish(n=n)
    network.run()
    assert reader.values == [3, 4]
