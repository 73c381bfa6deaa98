"""The replay family: how much of the path each of its members takes into account, and how they align it."""

from __future__ import annotations

import pytest
from history.history_world import Messages, Reader, f, network_of, numbers, strategy_at
from history.strategy_world import (
    FOUR_FILTERS,
    LATENCY,
    ONE_FILTER,
    SIZES,
    STEADY,
    faults_of,
    filled_line,
    random_run,
    requests,
    sized,
)

from tidings.broker import RoutingOptions
from tidings.history import ReplayVariant, StrategyOptions
from tidings.history.caching import (
    BasicReplay,
    CachingStrategy,
    FullReplay,
    JunctionReplay,
    LargestReplay,
    MergedReplay,
    MergingCaching,
    Question,
    SequenceReplay,
    replay_strategy,
)
from tidings.history.caching._gathering import Item
from tidings.history.caching._requests import Replay, Request
from tidings.model import last
from tidings.wire import Quality


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


@pytest.mark.req("HIS-091")
def test_largest_replay_keeps_what_is_new_and_shortens_what_it_finds_by_it() -> None:
    """13 comes by the link that is asked, 100 by another one, while b waits for c: c's answer ends in 13, too."""
    network = filled_line(LargestReplay, SIZES)
    network.clients["early"].detach()
    Reader(network.add_client("steady", "b"), "n > 0", None)
    aside = network.add_client("aside", "b")
    network.run()
    for n in range(7, 13):
        network.clients["feed"].publish(n=n)
        network.run()
    messages = Messages(network)
    late = Reader(network.add_client("late", "a"), "n > 0", last(5))
    aside.publish(n=100, quality=Quality.ACCEPTED)
    network.run(seconds=1.5 * LATENCY / 1e6)
    network.clients["feed"].publish(n=13)
    network.run()
    answers = [(sender, one.envelopes) for sender, _, one in messages.all if isinstance(one, Replay)]
    assert [(sender, [one.notification["n"] for one in found]) for sender, found in answers] == [
        ("d", [11, 12, 13]),
        ("c", [9, 10, 11, 12, 13]),
        ("b", [10, 11, 12, 100, 13]),
    ]
    assert late.values == [10, 11, 12, 100, 13]


@pytest.mark.req("HIS-091")
def test_largest_replay_takes_the_longer_memory_instead_of_its_own_and_merged_replay_both() -> None:
    """b has seen 100 of its own client between 6 and 7; what c remembers is longer, and does not have it."""

    def past_of(make: type[CachingStrategy]) -> list[object]:
        network = filled_line(make, SIZES | {"d": 1})
        network.add_client("aside", "b").publish(n=100)
        network.run()
        network.clients["feed"].publish(n=7)
        network.run()
        late = Reader(network.add_client("late", "b"), "n > 0", last(9))
        network.run()
        return late.values

    assert past_of(LargestReplay) == [4, 5, 6, 7]
    assert past_of(MergedReplay) == [4, 5, 6, 100, 7]


@pytest.mark.req("HIS-092", "HIS-093", "HIS-094", "HIS-097")
@pytest.mark.parametrize("make", [MergedReplay, JunctionReplay, SequenceReplay, FullReplay])
def test_merged_replays_take_everything_on_the_path(make: type[CachingStrategy]) -> None:
    values, messages = replayed(make)
    assert values == [9, 10, 11, 12]
    assert sorted(messages.of("bounded") + messages.of(Request)) == [("a", "b"), ("b", "c"), ("c", "d")]


@pytest.mark.req("HIS-092")
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
        seeds = (*range(30), 295, 355)  # the last two find it
        return sum(faults_of(random_run(seed, make, filters=ONE_FILTER, racing=False))["gap"] for seed in seeds)

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
