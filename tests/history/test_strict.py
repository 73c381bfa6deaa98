"""Subscriptions into the past, strict by default: what comes, in which order, and what it costs the others."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from history.history_world import prices

from tidings.broker import RoutingOptions
from tidings.history import HistoryOptions, Strict
from tidings.model import Bound, Filter, last, since
from tidings.sim import Network, SimClient, Weather, check
from tidings.wire import Consistency, Ending, Frame, Past, Quality, pack

ALGORITHMS = ("flooding", "simple", "identity", "covering", "merging", "imperfect-merging")


def tree(algorithm: str = "covering", *, history: bool = True, seed: int = 7, **options: float) -> Network:
    """Seven brokers: a in the middle, b, c, d around it, and e, f, g behind those."""
    network = Network(
        seed,
        routing=RoutingOptions(algorithm),
        features=lambda name: [Strict(HistoryOptions(**options))] if history else [],  # type: ignore[arg-type]
    )
    network.add_brokers("abcdefg", links=["ab", "ac", "ad", "be", "cf", "dg"])
    network.run()
    return network


def publish(network: Network, client: SimClient, *values: int, quality: Quality = Quality.ACCEPTED) -> None:
    for value in values:
        client.publish(price=value, quality=quality)
        network.run(0.01)


@pytest.mark.req("HIS-020", "HIS-022", "HIS-023")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_last_n_of_several_origins_come_first_and_then_what_is_new(algorithm: str) -> None:
    network = tree(algorithm)
    alice, bob = network.add_client("alice", "e"), network.add_client("bob", "f")
    carol = network.add_client("carol", "g")
    for value in range(1, 11):
        publish(network, alice if value % 2 else bob, value)
    carol.subscribe("price > 2", past=last(5))
    network.run(1)
    publish(network, alice, 11)
    network.run()
    assert prices(carol) == [6, 7, 8, 9, 10, 11]
    assert carol.reports["s1"].count == 5
    assert carol.reports["s1"].ending is Ending.ANSWERED
    assert carol.reports["s1"].brokers == 7
    assert not check(network.trace)


@pytest.mark.req("HIS-020", "HIS-106", "HIS-107")
@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (since("25s"), [5, 6]),
        (since("1h"), [1, 2, 3, 4, 5, 6]),
        (last(1, since="25s"), [6]),
        (last(10, since="25s"), [5, 6]),
        (since(datetime(2026, 1, 1, 0, 10, 35, tzinfo=UTC)), [5, 6]),
        (last(0), []),
    ],
)
def test_times_are_those_of_the_brokers_and_count_back_from_the_subscription(bound: Bound, expected: list[int]) -> None:
    network = tree()
    alice, bob, carol = (network.add_client(name, broker) for name, broker in zip("xyz", "efg", strict=True))
    ten_past = int(datetime(2026, 1, 1, 0, 10, tzinfo=UTC).timestamp())
    network.run(ten_past - network.scheduler.now / 1_000_000)
    for value in range(1, 7):
        (alice if value % 2 else bob).publish(price=value)
        network.run(10)
    carol.subscribe("price > 0", past=bound)
    network.run()
    assert prices(carol) == expected
    assert not check(network.trace)


@pytest.mark.req("HIS-024")
def test_fewer_than_asked_for_is_no_error() -> None:
    network = tree()
    alice, carol = network.add_client("alice", "e"), network.add_client("carol", "g")
    publish(network, alice, 1, 2)
    carol.subscribe("price > 0", past=last(50))
    carol.subscribe("price > 100", past=last(50))
    network.run()
    assert prices(carol) == [1, 2]
    assert [carol.reports[id].ending for id in ("s1", "s2")] == [Ending.ANSWERED] * 2
    assert not carol.refusals


@pytest.mark.req("HIS-021", "HIS-133")
def test_a_subscription_without_a_past_costs_what_it_costs_without_history() -> None:
    traffic = []
    for history in (False, True):
        network = tree(history=history)
        frames: Counter[str] = Counter()
        network.tap = lambda broker, link, frame, frames=frames: frames.update([type(frame.message).__name__])  # type: ignore[misc]
        alice, carol = network.add_client("alice", "e"), network.add_client("carol", "g")
        carol.subscribe("price > 2")
        network.run()
        publish(network, alice, 1, 2, 3, 4)
        network.run()
        traffic.append((frames, prices(carol), [b.delivery.lanes.plain for b in network.brokers.values()]))
    assert traffic[0] == traffic[1]


@pytest.mark.req("HIS-033", "HIS-034")
def test_one_question_and_one_answer_on_each_link_and_nothing_else() -> None:
    network = tree()
    alice, carol = network.add_client("alice", "e"), network.add_client("carol", "g")
    publish(network, alice, *range(20))
    network.run()
    between: Counter[str] = Counter()
    to_carol: list[str] = []

    def tap(broker: str, link: object, frame: Frame) -> None:
        name = type(frame.message).__name__
        if getattr(link, "is_broker", False):
            between.update([name])
        elif getattr(link, "name", "") == "carol":
            to_carol.append(name)

    network.tap = tap
    carol.subscribe("price > 2", past=last(10))
    network.run(0.5)
    links = 6
    assert between == {"Subscribe": links, "Settled": links, "Wave": links, "WaveAnswer": links}
    assert to_carol == ["Settled", "HistoryReport", *["Deliver"] * 10]


@pytest.mark.req("HIS-029")
def test_others_at_the_same_broker_are_not_held() -> None:
    network = Network(3, features=lambda name: [Strict()], weather=Weather(latency=(100_000, 100_000)))
    network.add_brokers("abc", links=["ab", "bc"])
    alice, carol, dave = (
        network.add_client("alice", "c"),
        network.add_client("carol", "c"),
        network.add_client("dave", "c"),
    )
    dave.subscribe("price > 0")
    carol.subscribe("price > 0")
    network.run()
    carol.subscribe("price > 0", past=last(3))
    network.run(0.15)
    alice.publish(price=1)
    network.run(0.25)
    assert prices(dave) == [1]
    assert prices(carol) == [1]
    network.run()
    assert prices(carol) == [1, 1]
    assert not check(network.trace)


@pytest.mark.req("HIS-031", "HIS-024")
def test_a_broker_that_does_not_answer_delays_a_subscriber_no_longer_than_its_timer() -> None:
    network = Network(1, features=lambda name: [Strict()] if name != "c" else [])
    network.add_brokers("abc", links=["ab", "bc"])
    alice, carol = network.add_client("alice", "a"), network.add_client("carol", "b")
    network.run()
    publish(network, alice, 1, 2, 3)
    began = network.scheduler.now
    carol.subscribe("price > 0", past=Past(last(2), timeout=2_000_000))
    network.run(1)
    assert prices(carol) == []
    publish(network, alice, 4)
    network.run(0.9)
    assert prices(carol) == []
    network.run(1)
    assert prices(carol) == [2, 3, 4] or prices(carol) == [3, 4]
    report = carol.reports["s1"]
    assert report.ending is Ending.TIMER
    assert report.brokers == 2
    network.run(network.scheduler.now - began)
    publish(network, alice, 5)
    network.run()
    assert prices(carol)[-2:] == [4, 5]
    assert network.brokers["b"].features["history"].statistics.timed_out == 1  # type: ignore[attr-defined]


@pytest.mark.req("HIS-032")
@pytest.mark.parametrize("how", ["unsubscribe", "detach"])
def test_who_leaves_while_it_is_held_leaves_nothing_behind(how: str) -> None:
    network = tree()
    alice, carol = network.add_client("alice", "e"), network.add_client("carol", "g")
    publish(network, alice, 1, 2, 3)
    network.run()
    id = carol.subscribe("price > 0", past=last(2))
    while not network.brokers["g"].holds.all:
        network.run(0.001)
    if how == "unsubscribe":
        carol.unsubscribe(id)
    else:
        carol.detach()
    network.run()
    assert prices(carol) == []
    assert not network.brokers["g"].holds.all
    assert not network.brokers["g"].recovery.active
    assert network.brokers["g"].features["history"].statistics.cancelled == 1  # type: ignore[attr-defined]
    assert not check(network.trace)


@pytest.mark.req("HIS-026")
def test_best_effort_goes_on_when_there_is_enough_of_what_is_new() -> None:
    results = {}
    for consistency in Consistency:
        network = Network(3, features=lambda name: [Strict()], weather=Weather(latency=(100_000, 100_000)))
        network.add_brokers("abc", links=["ab", "bc"])
        alice, carol = network.add_client("alice", "c"), network.add_client("carol", "c")
        network.run()
        publish(network, alice, 1, 2)
        network.run()
        carol.subscribe("price > 0", past=Past(last(2), consistency))
        network.run(0.15)
        alice.publish(price=3)
        alice.publish(price=4)
        network.run(0.25)
        results[consistency] = prices(carol)
        network.run()
        assert prices(carol)[-2:] == [3, 4]
        assert not check(network.trace)
    assert results == {Consistency.STRICT: [], Consistency.BEST_EFFORT: [3, 4]}


@pytest.mark.req("HIS-028")
def test_time_to_live_is_ignored_unless_the_subscriber_asks() -> None:
    network = tree()
    alice, carol = network.add_client("alice", "e"), network.add_client("carol", "g")
    alice._local.publish({"price": 1}, ttl=1_000_000)
    alice._local.publish({"price": 2}, ttl=60_000_000)
    alice._local.publish({"price": 3})
    network.run(10)
    carol.subscribe("price > 0", past=last(5))
    network.run()
    assert prices(carol) == [1, 2, 3]
    dave = network.add_client("dave", "f")
    dave.subscribe("price > 0", past=Past(last(5), respect_ttl=True))
    network.run()
    assert prices(dave) in ([2, 3], [3])  # a minute may have passed meanwhile


def test_a_clock_that_was_set_back_costs_nobody_the_order() -> None:
    network = tree()
    alice, carol = network.add_client("alice", "e"), network.add_client("carol", "g")
    broker = network.brokers["e"]
    shift = 0
    broker.delivery._now = lambda: network.scheduler.now + shift
    publish(network, alice, 1, 2)
    shift = -3_600_000_000
    publish(network, alice, 3, 4)
    shift = 0
    publish(network, alice, 5)
    carol.subscribe("price > 0", past=last(4))
    network.run()
    assert prices(carol) == [2, 3, 4, 5]


@pytest.mark.parametrize("bytes_each", [100, 60_000])
def test_what_does_not_fit_into_one_answer_is_asked_for_again(bytes_each: int) -> None:
    network = tree()
    alice, bob = network.add_client("alice", "e"), network.add_client("bob", "f")
    carol = network.add_client("carol", "g")
    for value in range(30):
        (alice if value % 3 else bob).publish(price=value, text="x" * bytes_each)
        network.run(0.01)
    carol.subscribe("price >= 0", past=last(25))
    network.run()
    assert prices(carol) == list(range(5, 30))
    waves = network.brokers["g"].features["history"].statistics.waves  # type: ignore[attr-defined]
    assert (waves > 1) == (bytes_each == 60_000)


def test_a_limit_that_cuts_is_reported() -> None:
    network = tree(max_answer=10)
    alice, carol = network.add_client("alice", "e"), network.add_client("carol", "g")
    publish(network, alice, *range(15))
    carol.subscribe("price >= 0", past=since("1h"))
    carol.subscribe("price >= 10", past=since("1h"))
    network.run()
    assert carol.reports["s1"].capped
    assert carol.reports["s1"].count == 10
    assert not carol.reports["s2"].capped


def test_a_broker_without_history_says_so() -> None:
    network = tree(history=False)
    carol = network.add_client("carol", "g")
    carol.subscribe("price > 0", past=last(5))
    carol.subscribe("price > 1", past=Past(Bound(None, None, network.scheduler.now + 10**9)))
    network.run()
    assert (
        "broker 'g' keeps no history, so it cannot answer last(5); subscribe without `past`" in carol.refusals[0].reason
    )
    assert "lies in the future" in carol.refusals[1].reason


def test_a_restarted_broker_serves_what_it_had_acknowledged_as_stored() -> None:
    network = tree()
    alice, carol = network.add_client("alice", "e"), network.add_client("carol", "g")
    for value in range(6):
        publish(network, alice, value, quality=Quality.STORED if value % 2 else Quality.ACCEPTED)
    network.run()
    network.crash("e")
    network.run(5)
    network.restart("e")
    network.run()
    publish(network, alice, 6)
    carol.subscribe("price >= 0", past=last(3))
    network.run()
    assert prices(carol) == [3, 5, 6]
    assert carol.reports["s1"].found == {"memory": 1, "store": 2}
    assert not check(network.trace)


@pytest.mark.parametrize("algorithm", ["covering", "merging"])
def test_a_second_consumer_gets_the_past_though_only_the_first_subscription_was_forwarded(algorithm: str) -> None:
    """ActiveMQ documents that its retroactive consumers do not work across a network of brokers for this reason."""
    network = tree(algorithm)
    producer = network.add_client("producer", "e")
    first, second = network.add_client("first", "g"), network.add_client("second", "g")
    first.subscribe("type = 'quote'")
    network.run()
    for value in range(1, 9):
        producer.publish(type="quote", price=value)
        network.run(0.01)
    network.run()
    tables = {name: _tables(network, name) for name in "abcdef"}
    sent = network.brokers["g"].statistics.messages_out["Subscribe"]
    second.subscribe("type = 'quote' AND price > 2", past=last(4))
    network.run(0.002)
    producer.publish(type="quote", price=9)
    network.run()
    assert network.brokers["g"].statistics.messages_out["Subscribe"] == sent
    assert {name: _tables(network, name) for name in "abcdef"} == tables
    assert prices(second) in ([5, 6, 7, 8, 9], [6, 7, 8, 9])
    assert prices(first) == list(range(1, 10))
    assert not check(network.trace)


def _tables(network: Network, name: str) -> list[tuple[str, str, str]]:
    table = network.brokers[name].root
    return sorted((entry.link.name, entry.id, str(entry.filter)) for entry in table.subscriptions)


def test_so_many_may_wait_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.broker.outlets._holds.MAX_OWN_HOLDS", 3)
    monkeypatch.setattr("tidings.broker.outlets._holds.HOLDS_SHARE", 1)
    network = tree()
    carol = network.add_client("carol", "g")
    for _ in range(5):
        carol.subscribe("price > 0", past=last(1))
    network.run()
    assert len(carol.reports) == 3
    assert [refusal.reference for refusal in carol.refusals] == ["s4", "s5"]
    assert (
        "broker 'g' holds 3 subscriptions of 'carol' that wait for their past, and 3 in all" in carol.refusals[0].reason
    )
    carol.subscribe("price > 0", past=last(1))
    network.run()
    assert len(carol.reports) == 4


@pytest.mark.parametrize("kept", [0, 2])
def test_what_is_not_kept_while_a_subscription_is_held_is_fetched_afterwards(
    kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.broker.outlets._backlog.MAX_KEPT", kept)
    network = Network(3, features=lambda name: [Strict()], weather=Weather(latency=(100_000, 100_000)))
    network.add_brokers("abc", links=["ab", "bc"])
    alice, carol = network.add_client("alice", "c"), network.add_client("carol", "c")
    network.run()
    alice.publish(price=1)
    network.run()
    carol.subscribe("price > 0", past=last(5))
    network.run(0.15)
    for price in range(2, 8):
        alice.publish(price=price)
    network.run()
    assert prices(carol) == list(range(1, 8))
    assert not check(network.trace)


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"\x90", b"\x93\x01\x02\x03", b"\xff" * 40, pack(["a", "price >", 1, None])]
)
def test_a_question_that_makes_no_sense_gets_no_answer(body: bytes) -> None:
    network = tree()
    feature = network.brokers["a"].features["history"]
    assert isinstance(feature, Strict)
    answers: list[bytes | None] = []
    feature.visit(body, answers.append)
    assert answers == [None]


@pytest.mark.req("HIS-130")
def test_routing_knows_nothing_of_history() -> None:
    import tidings.broker

    sources = list(__import__("pathlib").Path(tidings.broker.__file__).parent.glob("*.py"))
    assert sources
    for source in sources:
        assert "tidings.history" not in source.read_text(encoding="utf-8"), source


def test_a_filter_that_accepts_nothing_has_no_past() -> None:
    network = tree()
    alice, carol = network.add_client("alice", "e"), network.add_client("carol", "g")
    publish(network, alice, 1)
    carol.subscribe(Filter.parse("FALSE"), past=last(3))
    network.run()
    assert carol.reports["s1"].count == 0
