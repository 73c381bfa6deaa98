"""Each strategy in detail: whom it asks, how it aligns, how long it waits, what it does without an answer."""

from __future__ import annotations

import random

import pytest
from history.history_world import (
    EAST,
    REFERENCE,
    WEST,
    Messages,
    Reader,
    envelope,
    f,
    network_of,
    numbers,
    strategy_at,
)
from history.strategy_world import FOUR_FILTERS, ONE_FILTER, faults_of, random_run, requests

from tidings.broker import Link, RoutingOptions
from tidings.history import (
    COMBINATIONS,
    Align,
    BasicReplay,
    BorderBrokerCaching,
    CacheLimits,
    CachingStrategy,
    FullReplay,
    Gathering,
    JunctionReplay,
    LargestReplay,
    MergedReplay,
    MergeOrder,
    MergingCaching,
    Question,
    ReplayVariant,
    SequenceReplay,
    StrategyOptions,
    TimerScheme,
    check_combination,
    replay_strategy,
)
from tidings.history._gathering import Item
from tidings.history._order import merged
from tidings.history._requests import Replay, Request
from tidings.history._strategy_options import passed_on, period
from tidings.model import FeatureError, TidingsError, last, since
from tidings.sim import Network, Weather
from tidings.wire import Ending, Extension, Frame, encode

LATENCY = 1_000
STEADY = Weather((LATENCY, LATENCY))
LINE = ["ab", "bc", "cd"]


def sized(each: int, **options: object) -> StrategyOptions:
    limits = CacheLimits(max_global=20 * each + 1, max_filters=20, max_per_filter=each)
    return StrategyOptions(limits=limits, **options)  # type: ignore[arg-type]


def gathering(*items: Item, limit: int = 9) -> Gathering:
    one = Gathering(("a", 1, 1), f("n > 0"), limit=limit, since=None, level=2, time=1_000, source=None)
    one.old = list(items)
    return one


def filled_line(make: type[CachingStrategy], sizes: dict[str, int], count: int = 6, **routing: object) -> Network:
    """A line of brokers; the feed is at the last one, and a reader at the first has seen everything."""
    network = network_of(
        lambda name: make(sized(sizes[name])),
        LINE,
        weather=STEADY,
        routing=RoutingOptions("identity", **routing),  # type: ignore[arg-type]
    )
    feed = network.add_client("feed", "d")
    Reader(network.add_client("early", "a"), "n > 0", None)
    network.run()
    for n in range(1, count + 1):
        feed.publish(n=n)
        network.run()
    return network


# --- aligning and merging -----------------------------------------------------------------------------


@pytest.mark.req("HIS-069", "HIS-138")
def test_unequal_caches_behind_a_junction_mislead_counting() -> None:
    """Here are 7, 8, 9 from one link; it answers with what it has put together from two branches."""
    here = gathering(*(Item(envelope(n, "xy"[n % 2]), EAST) for n in (7, 8, 9)))
    found = [envelope(n, "xy"[n % 2]) for n in (6, 8, 5, 7, 9)]
    assert numbers(here.unknown(Align.COUNT, found, EAST)) == [6, 8], "8 twice, 5 lost"
    assert numbers(here.unknown(Align.ORIGIN, found, EAST)) == [6, 5]
    assert numbers(here.unknown(Align.ID, found, EAST)) == [6, 5]


@pytest.mark.req("HIS-069", "HIS-138")
def test_a_narrower_filter_that_flows_already_misleads_counting() -> None:
    """1 came by an older, narrower subscription, 2 did not; the answer has both."""
    here = gathering(Item(envelope(1), EAST))
    found = [envelope(1), envelope(2)]
    assert numbers(here.unknown(Align.COUNT, found, EAST)) == [1], "1 twice, 2 lost"
    assert numbers(here.unknown(Align.ORIGIN, found, EAST)) == [1]
    assert numbers(here.unknown(Align.ID, found, EAST)) == [2]


def test_counting_looks_at_the_link_that_answers_only() -> None:
    here = gathering(Item(envelope(1, "w"), WEST), Item(envelope(2, "e"), EAST))
    assert numbers(here.unknown(Align.COUNT, [envelope(1, "e"), envelope(2, "e")], EAST)) == [1]


@pytest.mark.req("HIS-078")
def test_merge_orders() -> None:
    here = [envelope(3, "a", at=30), envelope(4, "a", at=40)]
    found = [envelope(1, "b", at=35), envelope(2, "a", at=20)]

    def order(how: MergeOrder) -> list[tuple[str, int]]:
        return [(one.identity.origin, one.identity.seq) for one in merged(how, found, here)]

    assert order(MergeOrder.FCFS) == [("b", 1), ("a", 2), ("a", 3), ("a", 4)]
    assert order(MergeOrder.INTERLEAVE) == [("b", 1), ("a", 2), ("a", 3), ("a", 4)]
    assert order(MergeOrder.TIMESTAMP) == [("a", 2), ("a", 3), ("b", 1), ("a", 4)]
    assert numbers(merged(MergeOrder.INTERLEAVE, [envelope(1, "b"), envelope(3, "b")], here[:1])) == [1, 3, 3]


def test_everything_new_is_delivered_and_of_the_old_what_is_left_of_the_bound() -> None:
    here = gathering(*(Item(envelope(n), EAST) for n in (1, 2, 3)), limit=3)
    here.new = [Item(envelope(4), EAST), Item(envelope(5), EAST)]
    assert numbers(here.chosen(Align.ID)) == [3, 4, 5]
    here.new += [Item(envelope(n), EAST) for n in (6, 7)]
    assert numbers(here.chosen(Align.ID)) == [4, 5, 6, 7]


# --- depth and time -----------------------------------------------------------------------------------


@pytest.mark.req("HIS-071")
@pytest.mark.parametrize("make", [MergingCaching, FullReplay])
@pytest.mark.parametrize(("depth", "expected"), [(1, [6]), (2, [6]), (3, [5, 6]), (4, [4, 5, 6]), (None, [3, 4, 5, 6])])
def test_no_request_goes_deeper_than_it_may(
    make: type[CachingStrategy], depth: int | None, expected: list[int]
) -> None:
    sizes = {"a": 1, "b": 2, "c": 3, "d": 4}
    network = network_of(
        lambda name: make(sized(sizes[name], max_depth=depth)), LINE, routing=RoutingOptions("identity")
    )
    feed = network.add_client("feed", "d")
    Reader(network.add_client("early", "a"), "n > 0", None)
    network.run()
    for n in range(1, 7):
        feed.publish(n=n)
    network.run()
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


class Silent(MergingCaching):
    """A broker that never answers."""

    def asked(self, *arguments: object) -> None:
        """Nothing."""


@pytest.mark.req("HIS-031", "HIS-073", "HIS-098")
@pytest.mark.parametrize("scheme", TimerScheme)
def test_without_an_answer_a_broker_passes_on_what_it_has_in_time(scheme: TimerScheme) -> None:
    """d is silent: c answers b with what it has before b gives up, and so on; the client gets everything else."""
    sizes = {"a": 1, "b": 2, "c": 3, "d": 4}

    def make(name: str) -> CachingStrategy:
        return (Silent if name == "d" else MergingCaching)(sized(sizes[name], timer_scheme=scheme))

    network = network_of(make, LINE, routing=RoutingOptions("identity"), weather=STEADY)
    feed = network.add_client("feed", "d")
    Reader(network.add_client("early", "a"), "n > 0", None)
    network.run()
    for n in range(1, 7):
        feed.publish(n=n)
    network.run()
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


@pytest.mark.req("HIS-026", "HIS-030")
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


# --- whom it asks -------------------------------------------------------------------------------------


@pytest.mark.req("HIS-075")
@pytest.mark.parametrize(("forced", "asked", "found"), [(True, ["ab", "bc"], [1, 2]), (False, [], [2])])
def test_without_force_forwards_only_those_are_asked_to_whom_the_subscription_goes(
    forced: bool, asked: list[str], found: list[int]
) -> None:
    """Routing sends nothing: the filter is covered. (A broker does not start with this; it is switched off later.)"""
    sizes = {"a": 1, "b": 2, "c": 2}
    network = network_of(
        lambda name: MergingCaching(sized(sizes[name])), ["ab", "bc"], routing=RoutingOptions("covering")
    )
    for name in network.brokers:
        strategy_at(network, name).force_forwards = forced
    feed = network.add_client("feed", "c")
    Reader(network.add_client("early", "a"), "n > 0", None)
    network.run()
    for n in (1, 2):
        feed.publish(n=n)
    network.run()
    messages = Messages(network)
    late = Reader(network.add_client("late", "a"), "n > 0 AND n < 9", last(3))
    network.run()
    assert [one + two for one, two in messages.of(Request)] == asked
    assert messages.of("bounded") == []
    assert late.values == found


@pytest.mark.req("HIS-076")
@pytest.mark.parametrize("routing", ["simple", "identity", "covering", "merging"])
def test_every_neighbour_gets_one_of_subscription_bounded_subscription_and_fetch(routing: str) -> None:
    """With advertisements: towards publishers goes the request, with the subscription where routing sends it."""
    network = network_of(
        lambda name: MergingCaching(),
        [*REFERENCE, ("er5", "er3")],
        routing=RoutingOptions(routing, advertisements=True),
    )
    network.add_client("x6", "er4").advertise("n > 0 AND n < 9")
    network.add_client("x5", "er5").advertise("n > 100")
    wide = Reader(network.add_client("wide", "er2"), "n > 0", None)
    network.run()
    messages = Messages(network)
    Reader(network.add_client("x1", "er1"), "n > 3 AND n < 9", last(3))
    network.run()
    bounded, fetched = messages.of("bounded"), messages.of(Request)
    assert sorted(bounded + fetched) == [("er1", "er3"), ("er3", "er4")], "er2 and er5 have no such publishers"
    known_at_er4 = routing in ("covering", "merging")
    assert (("er3", "er4") in fetched) == known_at_er4
    assert ("er1", "er3") in bounded
    wide.unsubscribe()


@pytest.mark.req("HIS-068")
def test_what_came_from_the_router_that_asks_is_not_sent_back_to_it() -> None:
    network = network_of(lambda name: MergingCaching(sized(5)), ["ab"], routing=RoutingOptions("identity"))
    here, there = network.add_client("here", "a"), network.add_client("there", "b")
    for name, broker in (("one", "a"), ("two", "b")):
        Reader(network.add_client(name, broker), "n > 0", None)
    network.run()
    here.publish(n=1)
    there.publish(n=2)
    network.run()
    messages = Messages(network)
    late = Reader(network.add_client("late", "a"), "n > 0", last(9))
    network.run()
    ((_, _, replay),) = [one for one in messages.all if isinstance(one[2], Replay)]
    assert isinstance(replay, Replay)
    assert [one.identity.origin for one in replay.envelopes] == ["b"]
    assert sorted(late.values) == [1, 2]  # type: ignore[type-var]


@pytest.mark.req("HIS-068")
def test_what_comes_from_the_router_that_asks_while_others_are_waited_for_is_not_sent_back_either() -> None:
    network = network_of(
        lambda name: (Silent if name == "c" else MergingCaching)(sized(5)),
        ["ab", "bc"],
        routing=RoutingOptions("identity"),
        weather=STEADY,
    )
    here, there = network.add_client("here", "a"), network.add_client("there", "b")
    Reader(network.add_client("one", "b"), "n > 0", None)
    network.run()
    messages = Messages(network)
    Reader(network.add_client("late", "a"), "n > 0", last(9))
    network.run(seconds=0.05)
    here.publish(n=1)
    there.publish(n=2)
    network.run()
    ((_, _, replay),) = [one for one in messages.all if isinstance(one[2], Replay)]
    assert isinstance(replay, Replay)
    assert [one.identity.origin for one in replay.envelopes] == ["b"]


@pytest.mark.req("HIS-011")
@pytest.mark.parametrize("make", [MergingCaching, FullReplay])
def test_requests_are_told_apart_by_ids_of_the_broker_and_name_no_client(make: type[CachingStrategy]) -> None:
    network = network_of(lambda name: make(), ["ab"], routing=RoutingOptions("identity"))
    frames: list[bytes] = []
    messages = Messages(network)
    noted = network.tap
    assert noted is not None

    def tap(name: str, link: Link, frame: Frame) -> None:
        noted(name, link, frame)
        frames.extend([encode(frame)] if link.is_broker else [])

    network.tap = tap
    for client in ("alice-of-a", "bob-of-a"):
        Reader(network.add_client(client, "a"), "n > 0", last(2))
    network.run()
    ids = {
        request.id
        for _, _, message in messages.all
        if isinstance(request := message[1] if isinstance(message, tuple) else message, Request)
    }
    assert len(ids) == 2
    assert {origin for origin, _, _ in ids} == {"a"}
    assert frames
    assert not any(b"-of-a" in frame for frame in frames)


@pytest.mark.req("HIS-055")
@pytest.mark.parametrize("advertisements", [False, True])
@pytest.mark.parametrize("make", [MergingCaching, FullReplay])
def test_producer_history_gives_the_first_subscriber_a_past(make: type[CachingStrategy], advertisements: bool) -> None:
    network = network_of(
        lambda name: make(StrategyOptions(producer_history=2)),
        LINE,
        routing=RoutingOptions("covering", advertisements=advertisements),
    )
    feed = network.add_client("feed", "d")
    if advertisements:
        feed.advertise("n > 0")
        network.run()
    for n in (1, 2, 3):
        feed.publish(n=n)
    network.run()
    first = Reader(network.add_client("first", "a"), "n > 0", last(9))
    network.run()
    assert first.values == [2, 3]
    network.clients["feed"].detach()
    network.run()
    left = 0 if advertisements else 1
    assert len(strategy_at(network, "d").cache) == left, "the filter of the subscription, if it still goes there"


def test_a_bound_in_time() -> None:
    network = filled_line(MergingCaching, dict.fromkeys("abcd", 5))
    network.run(seconds=60)
    network.clients["feed"].publish(n=7)
    network.run()
    late = Reader(network.add_client("late", "b"), "n > 0", since("30s"))
    network.run()
    assert late.values == [7]


@pytest.mark.req("HIS-028")
def test_time_to_live_does_not_count_for_the_past() -> None:
    network = filled_line(MergingCaching, dict.fromkeys("abcd", 5), count=1)
    network.clients["feed"]._local.publish({"n": 2}, ttl=1_000)
    network.run(seconds=60)
    late = Reader(network.add_client("late", "b"), "n > 0", last(2))
    network.run()
    assert late.values == [1, 2]


@pytest.mark.req("HIS-082")
@pytest.mark.parametrize("make", [MergingCaching, FullReplay])
def test_a_neighbour_that_is_lost_is_not_waited_for(make: type[CachingStrategy]) -> None:
    network = network_of(
        lambda name: Silent(sized(3)) if name == "d" else make(sized(3)),
        LINE,
        routing=RoutingOptions("identity"),
        weather=STEADY,
    )
    feed = network.add_client("feed", "b")
    Reader(network.add_client("early", "b"), "n > 0", None)
    network.run()
    feed.publish(n=1)
    network.run()
    late = Reader(network.add_client("late", "b"), "n > 0", last(2))
    network.run(seconds=0.1)
    assert late.values == []
    network.cut("c", "d")
    network.run(seconds=1)
    assert late.values == [1], "long before its timer of ten seconds"


@pytest.mark.req("HIS-065")
def test_a_broker_remembers_as_soon_as_it_has_a_client() -> None:
    network = network_of(lambda name: BorderBrokerCaching(), REFERENCE)
    feed = network.add_client("feed", "er2")
    assert "history" in network.brokers["er3"].features, "so far an inner broker"
    Reader(network.add_client("first", "er3"), "n > 0", None)
    network.run()
    feed.publish(n=1)
    network.run()
    second = Reader(network.add_client("second", "er3"), "n > 0", last(1))
    network.run()
    assert second.values == [1]


# --- nothing else changes -----------------------------------------------------------------------------


@pytest.mark.req("HIS-006", "HIS-029", "HIS-074")
@pytest.mark.parametrize("routing", ["identity", "covering", "merging"])
@pytest.mark.parametrize("make", [MergingCaching, FullReplay])
def test_others_get_the_same_and_tables_are_the_same_with_history_and_without(
    make: type[CachingStrategy], routing: str
) -> None:
    def outcome(features: bool) -> tuple[list[list[object]], dict[str, list[str]]]:
        network = Network(
            3,
            routing=RoutingOptions(routing),
            features=lambda name: [make(sized(2))] if features else [],
            weather=STEADY,
        )
        network.add_brokers(["er1", "er2", "er3", "er4"], links=REFERENCE)
        network.run()
        feeds = [network.add_client(f"feed-{name}", name) for name in ("er2", "er4")]
        plain = []
        for at in range(12):
            for number, feed in enumerate(feeds):
                feed.publish(n=2 * at + number, k=at % 3)
            text = ["n >= 0", "k > 0", "k = 2"][at % 3]
            client = network.add_client(f"client-{at}", ("er1", "er2", "er3")[at % 3])
            if at % 2:
                Reader(client, text, last(5) if features else None)
            else:
                plain.append(Reader(client, text, None))
            network.run(seconds=0.0015)
        network.run()
        tables = {
            name: sorted(f"{entry.link.name} {entry.filter}" for entry in broker.root.subscriptions)
            for name, broker in network.brokers.items()
        }
        return [reader.values for reader in plain], tables

    assert outcome(True) == outcome(False)


@pytest.mark.req("HIS-025")
@pytest.mark.parametrize("make", [MergingCaching, FullReplay, SequenceReplay])
def test_the_last_of_what_was_asked_for_comes_no_later_than_without_history(make: type[CachingStrategy]) -> None:
    """Everything takes the same time in both runs, so that they can be compared."""

    def times(seed: int, history: bool) -> list[int | None]:
        rng = random.Random(seed)
        network = Network(
            1,
            routing=RoutingOptions("identity"),
            features=lambda name: [make(sized(2))] if history else [],
            weather=STEADY,
        )
        network.add_brokers(["er1", "er2", "er3", "er4"], links=REFERENCE)
        network.run(seconds=5)
        feeds = [network.add_client(f"feed-{name}", name) for name in ("er2", "er4")]
        readers = []
        for at in range(40):
            rng.choice(feeds).publish(n=at)
            if rng.random() < 0.3:
                client = network.add_client(f"client-{at}", rng.choice(["er1", "er2", "er3", "er4"]))
                count = rng.randint(1, 6)
                readers.append((Reader(client, "n >= 0", last(count) if history else None), count))
            network.run(seconds=rng.choice((0, 0.001, 0.003)))
        network.run()
        return [reader.times[count - 1] if len(reader.times) >= count else None for reader, count in readers]

    sooner = 0
    for seed in range(10):
        for with_it, without in zip(times(seed, True), times(seed, False), strict=True):
            assert without is None or (with_it is not None and with_it <= without), f"seed {seed}"
            sooner += with_it is not None and (without is None or with_it < without)
    assert sooner > 20


def test_a_subscriber_that_wants_nothing_of_its_own_gets_nothing_of_its_own_from_the_past() -> None:
    network = network_of(lambda name: MergingCaching(), ["ab"])
    both = network.add_client("both", "a")
    Reader(both, "n > 0", None)
    network.run()
    both.publish(n=1)
    network.add_client("other", "b").publish(n=2)
    network.run()
    assert Reader(both, "n > 0", last(9), receive_own=False).values == []
    without, with_own = Reader(both, "n > 0", last(9), receive_own=False), Reader(both, "n > 0", last(9))
    network.run()
    assert (without.values, sorted(with_own.values)) == ([2], [1, 2])  # type: ignore[type-var]


# --- the replay family --------------------------------------------------------------------------------


SIZES = {"a": 1, "b": 2, "c": 4, "d": 3}


def replayed(make: type[CachingStrategy]) -> tuple[list[object], Messages]:
    """A reader at b, whose filter is known from there on; b remembers 2, c 4, d 3 of six."""
    network = filled_line(make, SIZES)
    network.clients["early"].detach()
    Reader(network.add_client("steady", "b"), "n > 0", None)
    network.run()
    for n in range(7, 13):
        network.clients["feed"].publish(n=n)
        network.run()
    messages = Messages(network)
    late = Reader(network.add_client("late", "a"), "n > 0", last(5))
    network.run()
    return late.values, messages


@pytest.mark.req("HIS-090")
def test_basic_replay_takes_what_the_nearest_broker_with_the_filter_has() -> None:
    values, messages = replayed(BasicReplay)
    assert values == [11, 12]
    assert messages.of("bounded") == [("a", "b")]
    assert messages.of(Replay) == [("b", "a")], "as many replays as hops"
    assert messages.of(Request) == []


@pytest.mark.req("HIS-091")
def test_largest_replay_takes_the_longest_memory_instead() -> None:
    values, messages = replayed(LargestReplay)
    assert values == [9, 10, 11, 12]
    assert messages.of(Request) == [("b", "c"), ("c", "d")]


@pytest.mark.req("HIS-092", "HIS-093", "HIS-094", "HIS-097")
@pytest.mark.parametrize("make", [MergedReplay, JunctionReplay, SequenceReplay, FullReplay])
def test_merged_replays_take_everything_on_the_path(make: type[CachingStrategy]) -> None:
    values, messages = replayed(make)
    assert values == [9, 10, 11, 12]
    assert sorted(messages.of("bounded") + messages.of(Request)) == [("a", "b"), ("b", "c"), ("c", "d")]


@pytest.mark.req("HIS-092", "HIS-138")
@pytest.mark.parametrize("make", [MergedReplay, JunctionReplay, SequenceReplay])
def test_vector_7_what_is_new_while_the_search_goes_on_is_aligned(make: type[CachingStrategy]) -> None:
    """B3 has f e d c, B4 has f e, g is published while the subscription is on its way: d, e, f, g are delivered."""
    sizes = {"b1": 9, "b3": 4, "b4": 2, "b5": 9}
    network = network_of(
        lambda name: make(sized(sizes[name])),
        [("b1", "b3"), ("b3", "b4"), ("b4", "b5")],
        routing=RoutingOptions("identity"),
        weather=STEADY,
    )
    x1 = network.add_client("x1", "b1")
    Reader(network.add_client("x6", "b4"), "n > 0", None)
    network.run()
    for n in (3, 4, 5, 6):  # c d e f
        x1.publish(n=n)
        network.run()
    held = {name: numbers(strategy_at(network, name).cache.query(Question(filter=f("n > 0")))) for name in ("b3", "b4")}
    assert held == {"b3": [1, 2, 3, 4], "b4": [3, 4]}
    x1.publish(n=7)
    x7 = Reader(network.add_client("x7", "b5"), "n > 0", last(4))
    network.run()
    assert x7.values == [4, 5, 6, 7]


@pytest.mark.req("HIS-093")
def test_where_paths_meet_counting_for_each_origin_is_right_and_counting_is_not() -> None:
    """Two feeds behind a junction whose memory is short: what it puts together does not end where it should."""

    def past_of(make: type[CachingStrategy]) -> list[object]:
        sizes = {"a": 3, "l": 1, "x": 4, "y": 4}
        network = network_of(
            lambda name: make(sized(sizes[name])), ["al", "lx", "ly"], routing=RoutingOptions("identity")
        )
        feeds = [network.add_client("fx", "x"), network.add_client("fy", "y")]
        Reader(network.add_client("early", "a"), "n > 0", None)
        network.run()
        for n in range(1, 9):
            feeds[n % 2].publish(n=n)
            network.run()
        late = Reader(network.add_client("late", "a"), "n > 0", last(8))
        network.run()
        return late.values

    for make in (JunctionReplay, SequenceReplay, FullReplay, MergingCaching):
        assert sorted(past_of(make)) == list(range(1, 9)), make.__name__  # type: ignore[type-var]
    assert sorted(set(past_of(MergedReplay))) != list(range(1, 9))  # type: ignore[type-var]


@pytest.mark.req("HIS-096", "HIS-094", "HIS-099")
@pytest.mark.parametrize("make", [SequenceReplay, FullReplay])
def test_nothing_is_sent_that_whoever_asks_has(make: type[CachingStrategy]) -> None:
    sent = 0
    for seed in range(15):
        run = random_run(seed, make, filters=ONE_FILTER, racing=False)
        asked: dict[tuple[object, str, str], Request] = {}
        for sender, receiver, message in run.messages.all:
            request = message[1] if isinstance(message, tuple) else message
            if isinstance(request, Request):
                assert receiver != request.id[0], "the border broker of the client is never asked for its own request"
                asked[request.id, sender, receiver] = request
            elif isinstance(request, Replay):
                known = asked[request.id, receiver, sender].have
                for one in request.envelopes:
                    identity = one.identity
                    sent += 1
                    assert (identity.epoch, identity.seq) < known.get(identity.origin, (99, 0))
    assert sent > 20


@pytest.mark.req("HIS-095")
def test_the_number_of_answers_to_come_is_known_at_any_time() -> None:
    """At every moment: requests that were sent for a subscription, less replays that have reached its border broker."""
    for seed in range(10):
        run = random_run(seed, FullReplay, filters=FOUR_FILTERS, racing=True, ending=False)
        for id, ways in requests(run).items():
            replays = [
                (sender, receiver)
                for sender, receiver, message in run.messages.all
                if isinstance(message, Replay) and message.id == id and receiver == id[0]  # type: ignore[index]
            ]
            assert len(replays) == len(ways), "everybody who was asked has answered, and the answer has come back"
        for name in run.network.brokers:
            strategy = strategy_at(run.network, name)
            assert isinstance(strategy, FullReplay)
            assert strategy.outstanding == {}


@pytest.mark.req("HIS-095")
def test_a_later_replay_is_older_and_goes_in_front() -> None:
    """As printed in one place, it is appended: then the bound cuts off what should stay."""

    class Appending(FullReplay):
        def joined(self, found: list[Item], old: list[Item]) -> list[Item]:
            return old + found

    def gaps(make: type[FullReplay]) -> int:
        return sum(faults_of(random_run(seed, make, filters=ONE_FILTER, racing=False))["gap"] for seed in range(40))

    assert gaps(FullReplay) == 0
    assert gaps(Appending) > 0


@pytest.mark.parametrize("variant", ReplayVariant)
def test_every_variant_can_be_chosen(variant: ReplayVariant) -> None:
    names = {
        "basic": BasicReplay,
        "largest": LargestReplay,
        "merged": MergedReplay,
        "junction": JunctionReplay,
        "sequence": SequenceReplay,
        "full": FullReplay,
    }
    assert type(replay_strategy(StrategyOptions(replay_variant=variant))) is names[variant.value]


@pytest.mark.req("HIS-066", "HIS-070", "HIS-095")
@pytest.mark.parametrize("make", [MergingCaching, FullReplay, SequenceReplay])
def test_whatever_anybody_remembers_is_found(make: type[CachingStrategy]) -> None:
    """Nothing was evicted and the bound is wide: what is delivered is what all caches together hold."""
    for seed in range(10):
        run = random_run(seed, make, filters=ONE_FILTER, racing=False, each=(60, 60), ending=False)
        network = run.network
        held = {
            (one.identity.origin, one.identity.seq)
            for name in network.brokers
            for one in strategy_at(network, name).cache.query(Question(filter=f(ONE_FILTER[0])))
        }
        late = Reader(network.add_client("late", "a"), ONE_FILTER[0], last(900))
        network.run()
        assert set(late.got) == held, f"seed {seed}"


@pytest.mark.parametrize("make", [MergingCaching, FullReplay])
@pytest.mark.parametrize("body", [b"", b"rubbish", b"\x92\xa7Request\x01"])
def test_what_a_neighbour_says_and_nobody_can_read_stops_nobody(make: type[CachingStrategy], body: bytes) -> None:
    network = network_of(lambda name: make(), ["ab"])
    strategy = strategy_at(network, "a")
    (link,) = strategy.context.neighbours
    strategy.context.send(link, body)
    network.run()
    assert network.brokers["b"].statistics.refused == 1
    client = network.add_client("client", "a")
    client._send(Frame(Extension("history", body)))
    network.run()
    (refusal,) = client.refusals
    assert "clients ask for the past by `past` in a subscription" in refusal.reason


@pytest.mark.req("HIS-057")
def test_what_is_kept_and_what_came_of_it_is_counted() -> None:
    network = filled_line(MergingCaching, SIZES)
    Reader(network.add_client("late", "a"), "n > 0", last(3))
    cancelled = Reader(network.add_client("gone", "a"), "n > 0", last(9))
    network.run(seconds=1.5 * LATENCY / 1e6)
    cancelled.unsubscribe()
    network.run()
    counted = strategy_at(network, "a").statistics
    kept = strategy_at(network, "a").cache.query(Question(filter=f("n > 0")))
    assert counted == {
        "asked": 2,
        "answered": 1,
        "satisfied": 0,
        "timed_out": 0,
        "cancelled": 1,
        "delivered": 3,
        "late": counted["late"],
        "cache_filters": 1,
        "cache_notifications": 1,
        "cache_bytes": sum(len(one.body) for one in kept),
        "cache_rejected": 0,
    }


# --- combinations and settings ------------------------------------------------------------------------


ROUTING = ["flooding", "simple", "identity", "covering", "merging", "imperfect-merging"]
ALLOWED = {
    "local": ["flooding", "simple"],
    "border": ["simple"],
    "merging": ["simple", "identity", "covering", "merging", "imperfect-merging"],
    "replay": ["simple", "identity", "covering", "merging", "imperfect-merging"],
}


@pytest.mark.req("HIS-079")
@pytest.mark.parametrize("routing", ROUTING)
@pytest.mark.parametrize("strategy", COMBINATIONS)
def test_which_strategy_works_with_which_routing(strategy: str, routing: str) -> None:
    if routing in ALLOWED[strategy]:
        check_combination(strategy, RoutingOptions(routing))
    else:
        with pytest.raises(FeatureError, match=f"'{strategy}' .* does not work with routing '{routing}': .* choose"):
            check_combination(strategy, RoutingOptions(routing))


@pytest.mark.req("HIS-079")
def test_a_broker_does_not_start_with_a_combination_that_does_not_work() -> None:
    with pytest.raises(FeatureError, match=r"'border' .* does not work with routing 'covering'"):
        network_of(lambda name: BorderBrokerCaching(), ["ab"], routing=RoutingOptions("covering"))
    with pytest.raises(FeatureError, match=r"'merging' .* needs force_forwards with routing 'identity'"):
        network_of(
            lambda name: MergingCaching(StrategyOptions(force_forwards=False)),
            ["ab"],
            routing=RoutingOptions("identity"),
        )
    with pytest.raises(FeatureError, match="no history strategy is called 'best'"):
        check_combination("best", RoutingOptions())
    with pytest.raises(FeatureError, match="does not work with advertisements"):
        check_combination("local", RoutingOptions("flooding", advertisements=True))


@pytest.mark.req("HIS-080")
def test_every_strategy_says_what_it_needs() -> None:
    kinds = [BorderBrokerCaching, MergingCaching, BasicReplay, JunctionReplay, SequenceReplay, FullReplay]
    assert all(kind.requirements for kind in kinds)
    assert BasicReplay.requirements < JunctionReplay.requirements < SequenceReplay.requirements


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"timer": 0}, "timer = 0 microseconds"),
        ({"max_depth": 0}, "max_depth = 0; 1 is the client's own level"),
        ({"producer_history": 101}, "producer_history = 101 is not within 0 and max_per_filter = 100"),
        ({"producer_history": -1}, "producer_history = -1 is not within"),
        ({"max_answer": 0}, "max_answer = 0; give at least 1"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, int], message: str) -> None:
    with pytest.raises(TidingsError, match=message):
        StrategyOptions(**settings)  # type: ignore[arg-type]
