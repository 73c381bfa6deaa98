"""Each strategy in detail: how it aligns, whom it asks, and that nothing else changes."""

from __future__ import annotations

import random

import pytest
from history.history_world import EAST, REFERENCE, WEST, Messages, Reader, envelope, f, network_of, numbers, strategy_at
from history.strategy_world import ALL, LATENCY, LINE, ONE_FILTER, SIZES, STEADY, Silent, filled_line, random_run, sized

from tidings.broker import Link, RoutingOptions
from tidings.history import Align, MergeOrder, StrategyOptions
from tidings.history.caching import (
    BorderBrokerCaching,
    CachingStrategy,
    FullReplay,
    Gathering,
    MergingCaching,
    Question,
    SequenceReplay,
)
from tidings.history.caching._gathering import Item
from tidings.history.caching._order import merged
from tidings.history.caching._requests import Replay, Request
from tidings.model import last, since
from tidings.sim import Network
from tidings.wire import Extension, Frame, encode


def gathering(*items: Item, limit: int = 9) -> Gathering:
    one = Gathering(("a", 1, 1), f("n > 0"), limit=limit, since=None, level=2, time=1_000, source=None)
    one.old = list(items)
    return one


# --- aligning and merging -----------------------------------------------------------------------------


@pytest.mark.req("HIS-069")
def test_unequal_caches_behind_a_junction_mislead_counting() -> None:
    """Here are 7, 8, 9 from one link; it answers with what it has put together from two branches."""
    here = gathering(*(Item(envelope(n, "xy"[n % 2]), EAST) for n in (7, 8, 9)))
    found = [envelope(n, "xy"[n % 2]) for n in (6, 8, 5, 7, 9)]
    assert numbers(here.unknown(Align.COUNT, found, EAST)) == [6, 8], "8 twice, 5 lost"
    assert numbers(here.unknown(Align.ORIGIN, found, EAST)) == [6, 5]
    assert numbers(here.unknown(Align.ID, found, EAST)) == [6, 5]


@pytest.mark.req("HIS-069")
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
@pytest.mark.parametrize("silent", [False, True], ids=["answering", "silent"])
@pytest.mark.parametrize("make", [*ALL, BorderBrokerCaching])
def test_the_last_of_what_was_asked_for_comes_no_later_than_without_history(
    make: type[CachingStrategy], silent: bool
) -> None:
    """Everything takes the same time in both runs, so that they can be compared; one broker may never answer."""

    class Mute(make):  # type: ignore[valid-type, misc]
        def asked(self, *arguments: object) -> None:
            """Nothing."""

    def strategy(name: str) -> CachingStrategy:
        return (Mute if silent and name == "er3" else make)(sized(2))

    def times(seed: int, history: bool) -> list[int | None]:
        rng = random.Random(seed)
        network = Network(
            1,
            routing=RoutingOptions("simple" if make is BorderBrokerCaching else "identity"),
            features=lambda name: [strategy(name)] if history else [],
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
    for seed in range(2):
        for with_it, without in zip(times(seed, True), times(seed, False), strict=True):
            assert without is None or (with_it is not None and with_it <= without), f"seed {seed}"
            sooner += with_it is not None and (without is None or with_it < without)
    assert sooner > 5


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


# --- what is found, refused and counted ----------------------------------------------------------------


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
    assert "clients ask for the past with `past` in a subscription" in refusal.reason


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
