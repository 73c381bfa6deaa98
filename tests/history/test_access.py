"""Where clients come in: brokers that had none, local brokers with several subscriptions, what a past costs there."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from history.history_world import Reader

from tidings.broker import Feature, Link, RoutingOptions
from tidings.history import IndexScope, StrategyOptions, Strict
from tidings.history.caching import BorderBrokerCaching, CachingStrategy, FullReplay, MergingCaching
from tidings.model import Bound, last, since
from tidings.sim import Network, Weather, check
from tidings.wire import Consistency, Envelope, Extension, Frame, Notify, Past

MakeFeature = Callable[[], Feature]
LATENCY = 1_000
STEADY = Weather((LATENCY, LATENCY))
ALGORITHMS = ("flooding", "simple", "identity", "covering", "merging", "imperfect-merging")
BORDER_ALL = StrategyOptions(index_scope=IndexScope.ALL)


# --- roles --------------------------------------------------------------------------------------------


@pytest.mark.req("HIS-002")
@pytest.mark.parametrize(
    ("make", "routing"),
    [
        (Strict, "covering"),
        (MergingCaching, "covering"),
        (FullReplay, "simple"),
        (lambda: BorderBrokerCaching(BORDER_ALL), "simple"),
    ],
    ids=["strict", "merging", "replay", "border"],
)
def test_an_inner_broker_becomes_a_border_broker_with_its_first_client(make: MakeFeature, routing: str) -> None:
    """It has only passed on so far; the first subscription of its first client has a past at once, and a future."""
    network = Network(5, routing=RoutingOptions(routing), features=lambda name: [make()])
    network.add_brokers("abc", links=["ab", "bc"])
    feed, early = network.add_client("feed", "a"), network.add_client("early", "c")
    early.subscribe("n > 0")
    network.run()
    for n in range(1, 6):
        feed.publish(n=n)
    network.run()
    middle = network.brokers["b"]
    assert not middle.clients
    first = Reader(network.add_client("first", "b"), "n > 0", last(3))
    network.run()
    assert [link.name for link in middle.clients] == ["first"]
    assert (first.values, first.past) == ([3, 4, 5], 3)
    feed.publish(n=6)
    network.run()
    assert first.values == [3, 4, 5, 6]
    first.unsubscribe()
    network.clients["first"].detach()
    network.run()
    assert not middle.clients
    feed.publish(n=7)
    network.run()
    assert [notification["n"] for notification in early.received] == [1, 2, 3, 4, 5, 6, 7], "it still passes on"
    again = Reader(network.add_client("again", "b"), "n > 0", last(2))
    network.run()
    assert again.values == [6, 7]
    assert not check(network.trace)


@pytest.mark.req("HIS-003", "ARC-198")
def test_one_local_broker_serves_several_subscriptions_and_one_border_broker_at_a_time() -> None:
    network = Network(5, features=lambda name: [Strict()])
    network.add_brokers("abc", links=["ab", "bc"])
    feed, phone = network.add_client("feed", "a"), network.add_client("phone", "c")
    network.run()
    for n in range(1, 11):
        feed.publish(n=n)
    network.run()
    chart, display, log = Reader(phone, "n > 0", last(5)), Reader(phone, "n > 0", last(1)), Reader(phone, "n > 8", None)
    network.run()
    assert (chart.values, display.values, log.values) == ([6, 7, 8, 9, 10], [10], [])
    display.unsubscribe()
    feed.publish(n=11)
    network.run()
    assert (chart.values, display.values, log.values) == ([6, 7, 8, 9, 10, 11], [10], [11])
    phone.detach()
    network.run()
    phone.attach("b")
    feed.publish(n=12)
    network.run()
    at = [name for name, broker in network.brokers.items() for link in broker.clients if link.name == "phone"]
    assert at == ["b"]
    assert (chart.values[-1], log.values) == (12, [11, 12])
    later = Reader(phone, "n > 0", last(2))
    network.run()
    assert later.values == [11, 12]


# --- what a past costs that is not there --------------------------------------------------------------


LINKS = ["ab", "bc", "bd", "de"]
DISTANCES = {
    "a": {"a": 0, "b": 1, "c": 2, "d": 2, "e": 3},
    "b": {"a": 1, "b": 0, "c": 1, "d": 1, "e": 2},
    "e": {"a": 3, "b": 2, "c": 3, "d": 1, "e": 0},
}


class _Outcome:
    """One subscription, while others publish: nothing that it wants before it is there."""

    def __init__(self, make: MakeFeature, algorithm: str, seed: int, past: Past | None) -> None:
        rng = random.Random(seed)
        network = Network(1, routing=RoutingOptions(algorithm), features=lambda name: [make()], weather=STEADY)
        network.add_brokers("abcde", links=LINKS)
        feeds = {name: network.add_client(f"feed-{name}", name) for name in "abcde"}
        for feed in feeds.values():
            feed.publish(n=0)
        network.run(10)
        begun = network.scheduler.now
        home = "abe"[seed % 3]
        reader = network.add_client("reader", home)
        client = Reader(reader, "n > 0", past)
        settled: int | None = None
        for n in range(1, 26):
            elapsed = network.scheduler.now - begun
            feeds[rng.choice([name for name in "abcde" if DISTANCES[home][name] * LATENCY < elapsed + 1])].publish(n=n)
            for _ in range(rng.choice((1, 2, 4, 8))):
                network.run(LATENCY / 4 / 1_000_000)
                if settled is None and client.id in reader.settled_ids:
                    settled = network.scheduler.now
        network.run()
        assert settled is not None
        assert past is None or reader.reports[client.id].count == 0
        self.settled = settled - begun
        self.values = client.values
        self.times = [time - begun for time in client.times]


@pytest.mark.req("HIS-027")
@pytest.mark.parametrize(
    ("make", "algorithm"),
    [
        *((Strict, algorithm) for algorithm in ALGORITHMS),
        *((make, algorithm) for make in (MergingCaching, FullReplay) for algorithm in ALGORITHMS[1:]),
        (BorderBrokerCaching, "simple"),
    ],
)
def test_a_past_in_which_nothing_is_found_is_a_plain_subscription(make: MakeFeature, algorithm: str) -> None:
    """The same comes; as many as were asked for are there as soon; and after the answers everything is as soon."""
    held = 0
    for seed in range(3):
        plain = _Outcome(make, algorithm, seed, None)
        round_trip = max(plain.settled, 8 * LATENCY)  # to the farthest broker; under flooding nobody else asks so far
        for count in (1, 3):
            bounded = _Outcome(make, algorithm, seed, Past(last(count), Consistency.BEST_EFFORT))
            assert bounded.values == plain.values
            assert bounded.times[count - 1 :] == plain.times[count - 1 :], "as many as asked for, and all that follow"
        for bound in (last(3), since("1s")):
            strict = _Outcome(make, algorithm, seed, Past(bound))
            assert strict.values == plain.values
            for here, there in zip(plain.times, strict.times, strict=True):
                held += there > here
                assert here <= there <= max(here, round_trip)
            if algorithm != "flooding":
                assert strict.settled == plain.settled
    assert held or make is BorderBrokerCaching, "otherwise nothing was published while brokers were asked"


# --- one after the other ------------------------------------------------------------------------------


class _Serial:
    """Notes what a strategy handles, in order, and whether it was still busy with something else."""

    def __init__(self, strategy: CachingStrategy) -> None:
        self.handled: dict[str, list[object]] = {}
        self._busy = False
        append, on_message = strategy.cache.append, strategy.on_message

        def noted_append(envelope: Envelope, link: Link, scope: str = "") -> int:
            self._begin(link, envelope.identity)
            kept = append(envelope, link)
            self._busy = False
            return kept

        def noted_message(link: Link, body: bytes) -> None:
            self._begin(link, body)
            on_message(link, body)
            self._busy = False

        strategy.cache.append = noted_append  # type: ignore[method-assign]
        strategy.on_message = noted_message  # type: ignore[method-assign]

    def _begin(self, link: Link, what: object) -> None:
        assert not self._busy, "an event while another one is handled"
        self._busy = True
        if link.is_broker:
            self.handled.setdefault(link.name, []).append(what)


@pytest.mark.req("HIS-134")
@pytest.mark.parametrize("make", [MergingCaching, FullReplay])
@pytest.mark.parametrize("seed", range(5))
def test_a_strategy_handles_one_event_after_the_other_in_the_order_of_each_link(
    make: type[CachingStrategy], seed: int
) -> None:
    """Notifications and messages about the past alike, while requests and answers race with what is new."""
    rng = random.Random(seed)
    strategies = {name: make() for name in "abcde"}
    serial = {name: _Serial(strategy) for name, strategy in strategies.items()}
    network = Network(
        seed,
        routing=RoutingOptions("identity"),
        features=lambda name: [strategies[name]],
        weather=Weather((100, 3_000)),
    )
    network.add_brokers("abcde", links=["ab", "bc", "bd", "de"])
    network.run()
    sent: dict[tuple[str, str], list[object]] = {}

    def tap(name: str, link: Link, frame: Frame) -> None:
        message = frame.message
        if link.is_broker and isinstance(message, Notify):
            sent.setdefault((link.name, name), []).append(message.envelope.identity)
        elif link.is_broker and isinstance(message, Extension):
            sent.setdefault((link.name, name), []).append(message.body)

    network.tap = tap
    feeds = [network.add_client(f"feed-{name}", name) for name in "abcde"]
    bounds: list[Bound | None] = [None, last(3), last(9)]
    for step in range(40):
        rng.choice(feeds).publish(n=step + 1)
        if rng.random() < 0.4:
            Reader(network.add_client(f"reader-{step}", rng.choice("abcde")), "n > 0", rng.choice(bounds))
        network.run(rng.choice((0, 0, 0.0005, 0.002)))
    network.run()
    handled = {(name, link): what for name, one in serial.items() for link, what in one.handled.items()}
    assert handled == sent
    assert any(isinstance(one, bytes) for whole in sent.values() for one in whole)
