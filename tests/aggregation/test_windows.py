"""Questions over windows of time: at any depth of the tree, what was published is measured once, in its window."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping

import pytest
from msgspec.msgpack import encode

from tidings.aggregation import Aggregation, question_of
from tidings.aggregation._windows import MAX_GROUPS, Measured, Measuring, Windows
from tidings.aggregation.definitions import Included, group_key
from tidings.aggregation.messages import Result
from tidings.broker import Advice, Feature, Joinpoint, Link
from tidings.model import Identity, Location, Notification, PartialRefused
from tidings.scopes import CreateScope, Join, Scopes
from tidings.sim import Network, topologies
from tidings.sim._aggregates import kept_aggregates
from tidings.wire import Envelope

QUESTION = "count(), sum(load), rate() BY rack WINDOW 4s SLIDE 2s WHERE type = 'load'"


class Ledger(Feature):
    """Writes down what is published, and when."""

    name = "ledger"

    def __init__(self, entries: list[tuple[int, str, int]]) -> None:
        self._entries = entries

    def advice(self) -> Mapping[Joinpoint, Advice]:
        return {Joinpoint.PUBLISHED: self._note}

    def _note(self, envelope: Envelope, link: Link) -> None:
        one = envelope.notification
        if one.get("type") == "load":
            self._entries.append((envelope.identity.published_at // 1_000, str(one["rack"]), int(str(one["load"]))))


def world(shape: object = None, seed: int = 1) -> tuple[Network, list[tuple[int, str, int]]]:
    entries: list[tuple[int, str, int]] = []
    network = Network(seed=seed, features=lambda name: [Aggregation(), Ledger(entries)])
    if shape is None:
        network.add_brokers("abcd", links=["ab", "bc", "bd"])
    else:
        network.add_brokers(shape.brokers, links=shape.links)  # type: ignore[attr-defined]
    network.run()
    for broker in list(network.brokers):
        network.add_client(f"client of {broker}", broker)
    return network, entries


def recount(entries: list[tuple[int, str, int]], window: tuple[int, int]) -> dict[str, list[float]]:
    """What the question asks, from the definition."""
    found: dict[str, list[float]] = {}
    for at, rack, load in entries:
        if window[0] <= at < window[1]:
            count, total, _ = found.get(f'["{rack}"]', [0, 0, 0])
            found[f'["{rack}"]'] = [count + 1, total + load, (count + 1) / 4]
    return dict(sorted(found.items()))


def final(results: list[Result]) -> Iterator[Result]:
    return (result for result in results if result.complete)


@pytest.mark.req("AGG-083", "AGG-089")
@pytest.mark.parametrize("seed", range(4))
def test_a_window_is_what_a_recount_of_what_was_published_in_it_gives(seed: int) -> None:
    rng = random.Random(seed)
    network, entries = world(topologies.random_tree(rng.randint(1, 6), rng), seed)
    clients = list(network.clients.values())
    for client in clients:
        client.subscribe("type = 'load'")  # so that everything passes every broker
    watches = [client.watch(QUESTION) for client in rng.sample(clients, min(2, len(clients)))]
    for _ in range(150):
        rng.choice(clients).publish(
            type=rng.choice(("load", "load", "other")), rack=rng.choice("xy"), load=rng.randrange(9)
        )
        network.run(rng.choice((0.001, 0.05, 0.3)))
    network.run(8)
    for watch in watches:
        windows = [result.window for result in final(watch.results)]
        assert len(windows) > 5
        assert windows == sorted(set(windows))
        for result in final(watch.results):
            assert result.window is not None
            assert result.window[1] - result.window[0] == 4_000
            assert result.value == recount(entries, result.window)


@pytest.mark.req("AGG-083")
def test_a_window_begins_at_its_first_millisecond_and_ends_before_the_next_one() -> None:
    measuring = Measuring("count() WINDOW 4s SLIDE 2s", "b", 0)
    for at in (1_999, 2_000, 5_999, 6_000, 7_999):
        measuring.take(Notification(n=at), Identity("b", 1, at, "p", 1, at * 1_000), at)
    found = {window: one.groups.get("") for window, one in measuring.close(9_000).items()}
    assert found == {2: 2, 3: 2, 4: 3}  # [0 s, 4 s), [2 s, 6 s), [4 s, 8 s)


def test_a_window_that_was_not_measured_from_its_start_is_not_complete() -> None:
    network, _ = world()
    client = network.clients["client of a"]
    watch = client.watch("count() WINDOW 4s SLIDE 2s")
    network.run(0.1)
    began = network.scheduler.now // 1_000
    network.run(20)
    complete = list(final(watch.results))
    assert complete
    assert all(result.window is not None and result.window[0] >= began - 100 for result in complete)
    assert not watch.results[0].complete


def test_a_new_tree_does_not_start_the_windows_anew() -> None:
    network, entries = world()
    watch = network.clients["client of a"].watch(QUESTION)
    network.run(7.5)
    for number in range(60):
        network.clients["client of d"].publish(type="load", rack="x", load=1)
        if number == 20:
            network.cut("b", "d")
        if number == 21:
            network.heal("b", "d")
            cut = network.scheduler.now // 1_000
        network.run(0.1)
    network.run(8)
    windows = list(final(watch.results))
    assert [one.window for one in windows] == sorted(one.window or (0, 0) for one in windows)
    for one, two in itertools.pairwise(windows):  # nobody is shown a window again that shrank with the tree
        assert one.window != two.window or one.value == two.value
    for result in windows:
        assert result.window is not None
        if result.window[0] > cut + 1_000:  # all of it, and its closing, lie behind the cut
            assert result.value == recount(entries, result.window)
    assert any(one.window is not None and cut < one.window[0] < cut + 4_000 for one in windows)


def test_what_is_measured_ends_a_while_after_the_last_ask() -> None:
    network, _ = world()
    client = network.clients["client of a"]
    client.watch(QUESTION)
    network.run(5)
    assert network.brokers["c"].at_published is not None
    client.unwatch("w1")
    network.run(2)
    assert kept_aggregates(network)
    network.run()
    assert kept_aggregates(network) == []


def test_too_many_groups_are_unknown_and_never_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.aggregation._windows.MAX_GROUPS", 3)
    network, _ = world()
    watch = network.clients["client of a"].watch("count() BY n WINDOW 2s")
    network.run(6)
    assert list(final(watch.results))
    seen = len(watch.results)
    for number in range(8):
        network.clients["client of c"].publish(n=number)
    network.run(2)
    network.run(3)
    after = watch.results[seen:]
    assert any(not result.complete for result in after)
    assert not any(0 < len(result.value) < 8 for result in after if result.complete)


def test_too_many_bytes_are_unknown_and_never_cut_off() -> None:
    definition = question_of("values(word) BY n WINDOW 2s")
    form = Windows(definition, lambda: 2, lambda: 7)
    partial = definition.measure("x" * 200)  # type: ignore[attr-defined]
    known = {7: Measured(1, {f"[{number}]": partial for number in range(MAX_GROUPS)})}
    assert form.decode(form.encode(known)) == {7: Measured(None, {})}


@pytest.mark.parametrize(
    "function",
    [
        *("count()", "rate()", "sum(n)", "mean(n)", "max(n)", "min(n)", "product(n)", "p95(n)", "median(n)"),
        *("distinct(n)", "frequent(n)", "histogram(n, 3, 6)", "values(n)", "common(n)"),
        *("bit_and(n)", "bit_or(n)", "bit_xor(n)"),
    ],
)
def test_every_function_of_the_language_is_answered_by_several_brokers(function: str) -> None:
    network, _ = world()
    watch = network.clients["client of a"].watch(f"{function} WINDOW 2s WHERE n EXISTS")
    network.run(4)
    for number, client in enumerate(network.clients.values()):
        client.publish(n=number + 1)
    network.run(5)
    alone = question_of(f"{function} WINDOW 2s")
    told = [result.value for result in final(watch.results)]
    empty = alone.present(alone.zero())
    assert any(value != empty for value in told)
    assert network.brokers["a"].failures.by_feature == {}


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        b"\xff",
        b"\x91\x93\x07\x01\x91\x92\xa0\xc4\x02xx",
        b"\x91\x93\x07\x01\x91\x92\xa0\xc4\x00",
        b"\x90" * 40_000,
        encode([(7, 1, [("a group", b"2")], None)]),
    ],
)
def test_windows_that_are_none_are_refused(hostile: bytes) -> None:
    form = Windows(question_of("count() WINDOW 2s"), lambda: 2, lambda: 7)
    with pytest.raises(PartialRefused):
        form.decode(hostile)


@pytest.mark.parametrize(
    "group", ["", "r1", "[]", '["r1"]', '["r1","r2","r3"]', '[["r1"],"r2"]', "[1e999,2]", "[" * 5_000]
)
def test_a_group_that_is_none_is_refused_before_a_client_sees_it(group: str) -> None:
    form = Windows(question_of("count() BY rack, row WINDOW 2s"), lambda: 2, lambda: 7)
    told = [(7, 1, [(group_key(["r1", None]), b"2"), (group_key([2.5, Location("/a")]), b"3")], None)]
    assert len(form.decode(encode(told))[7].groups) == 2
    with pytest.raises(PartialRefused, match="is no group of"):
        form.decode(encode([(7, 1, [(group, b"2")], None)]))


def test_too_many_panes_are_unknown_and_never_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.aggregation._windows.MAX_HELD", 3)
    measuring = Measuring("count() WINDOW 8s SLIDE 2s", "b", 0)
    for at in (1_000, 1_500, 3_000, 5_000):
        measuring.take(Notification(n=at), Identity("b", 1, at, "p", 1, at * 1_000), at)
    measuring.take(Notification(n=9), Identity("b", 1, 7_500, "p", 1, 7_500_000), 7_500)
    assert {window: one.brokers for window, one in measuring.close(15_100).items()} == {5: None, 6: None, 7: None}
    for at in (17_000, 19_000):  # earlier panes have gone
        measuring.take(Notification(n=at), Identity("b", 1, at, "p", 1, at * 1_000), at)
    assert measuring.close(23_100)[11] == Measured(1, {"": 2}, (Included("b", 1, 17_000, 19_000),))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("p95(load)", "WINDOW"),
        ("p95(load WINDOW 60s", "column"),
        ("count() WINDOW 7s SLIDE 2s", "multiple"),
        ("count() WINDOW 1s SLIDE 1ms", "ends every 1ms; brokers compute one every 100ms at most"),
    ],
)
def test_a_question_that_cannot_be_is_refused(text: str, words: str) -> None:
    network, _ = world()
    watch = network.clients["client of a"].watch(text)
    network.run()
    assert watch.declined is not None
    assert words in watch.declined.reason
    assert kept_aggregates(network) == []


def test_a_question_is_exact_and_has_its_own_filter() -> None:
    network, _ = world()
    client = network.clients["client of a"]
    rough = client.watch("count() WINDOW 2s", id="rough", max_error=3)
    filtered = client.watch("count() WINDOW 2s", "n > 1", id="filtered")
    network.run()
    assert rough.declined is not None
    assert filtered.declined is not None
    assert "exact" in rough.declined.reason
    assert "WHERE" in filtered.declined.reason


def test_what_is_published_outside_the_root_scope_is_not_measured() -> None:
    network = Network(seed=1, features=lambda name: [Scopes("a"), Aggregation()])
    network.add_brokers("ab", links=["ab"])
    network.run()
    inside, outside = network.add_client("inside", "b"), network.add_client("outside", "a")
    network.run()
    network.change("a", (CreateScope("berlin"), Join("@inside", "berlin")))
    network.run()
    watch = outside.watch("count() WINDOW 2s")
    network.run(4)
    inside.publish(n=1)
    outside.publish(n=2)
    outside.publish(n=3)
    network.run(5)
    assert {result.value for result in final(watch.results)} == {0, 2}


def test_a_sum_beyond_64_bits_is_told_as_a_float_and_stops_no_broker() -> None:
    network, _ = world()
    watch = network.clients["client of a"].watch("sum(load), max(load) WINDOW 1s")
    for _ in range(30):
        network.clients["client of c"].publish(type="load", rack="r", load=2**62)
        network.run(0.1)
    network.run(3)
    values = [result.value for result in watch.results if result.complete and result.value[1] is not None]
    assert values
    for total, largest in values:
        assert largest == 2**62
        assert total % 2**62 == 0
    assert any(type(total) is float and total > 2**64 for total, _ in values)
    network.clients["client of a"].unwatch("w1")
    network.run()
    assert kept_aggregates(network) == []
