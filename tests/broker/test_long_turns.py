"""Long turns: the most expensive filters that a broker takes hold up everybody else for a few milliseconds only.

A busy machine blurs milliseconds. So these tests count what takes them: conjunctions that go into an index or out of
one, and texts that are parsed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tidings.broker import MAX_COST, RoutingOptions
from tidings.broker.interest._covering import COMPARED_COST
from tidings.broker.interest._registrations import LEAVING_COST
from tidings.matching import CompiledIndex, Index, Matcher
from tidings.model import Filter, FilterTooLarge, Notification
from tidings.sim import Network
from tidings.wire import (
    JSON,
    MSGPACK,
    Frame,
    Publish,
    Subscribe,
    UnreadableFilter,
    Unsubscribe,
    encode_body,
)

NEIGHBOURS = "bcd"


class Work:
    """Counts the conjunctions that go into indexes and out of them."""

    def __init__(self) -> None:
        self.done = 0

    def take(self) -> int:
        """What was done since the last time."""
        done, self.done = self.done, 0
        return done


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    work = Work()
    for engine in (Index, CompiledIndex):
        count(work, engine, monkeypatch)
    return work


def count(work: Work, engine: type[Matcher], monkeypatch: pytest.MonkeyPatch) -> None:
    add, remove = engine.add, engine.remove
    sizes: dict[tuple[int, object], int] = {}

    def counted_add(self, filter, key) -> None:
        sizes[id(self), key] = len(filter.conjunctions)
        work.done += len(filter.conjunctions)
        add(self, filter, key)

    def counted_remove(self, key) -> None:
        work.done += sizes[id(self), key]
        remove(self, key)

    monkeypatch.setattr(engine, "add", counted_add)
    monkeypatch.setattr(engine, "remove", counted_remove)


def costly(count: int, name: str = "a") -> Iterator[Filter]:
    rng = random.Random(7)
    for _ in range(count):
        parts = (f"{name}{rng.randrange(500)} > {at}.{rng.randrange(99)}" for at in range(MAX_COST))
        yield Filter.parse(" OR ".join(parts))


def network(algorithm: str) -> Network:
    """A broker `a` with several neighbours, and a client `c` at it."""
    network = Network(1, routing=RoutingOptions(algorithm=algorithm))
    network.add_brokers("a" + NEIGHBOURS, links=["a" + other for other in NEIGHBOURS])
    network.add_client("c", "a")
    network.run()
    return network


@pytest.mark.parametrize("algorithm", ["covering", "merging", "imperfect-merging"])
def test_a_costly_filter_is_indexed_once_however_many_neighbours_there_are(algorithm: str, work: Work) -> None:
    world = network(algorithm)
    broker = world.brokers["a"]
    link = broker.client("c")
    work.take()
    for number, filter in enumerate(costly(30)):
        assert filter.cost == MAX_COST
        broker.receive(link, Frame(Subscribe(f"s{number}", filter)))
        assert 0 < work.take() <= MAX_COST
    world.run()
    for other in NEIGHBOURS:
        assert len(world.brokers[other].root.subscriptions) == 30
    work.take()
    for number in range(30):
        broker.receive(link, Frame(Unsubscribe(f"s{number}")))
        assert 0 < work.take() <= MAX_COST
    world.run()
    for other in NEIGHBOURS:
        assert len(world.brokers[other].root.subscriptions) == 0


def test_what_a_gone_client_asked_for_leaves_the_tables_bit_by_bit_and_delivers_nothing(work: Work) -> None:
    world = network("covering")
    broker = world.brokers["a"]
    held: list[int] = []
    broker.register = lambda link, size: held.append(size)
    world.add_client("p", "a")
    world.run()
    link, writer = broker.client("c"), broker.client("p")
    body = encode_body(Notification({f"a{at}": 1_000 for at in range(200)}))
    for number, filter in enumerate([*costly(2, "other"), *costly(18)]):
        broker.receive(link, Frame(Subscribe(f"s{number}", filter)))
    world.run()
    sent: list[str] = []
    world.tap = lambda name, to, frame: sent.append(f"{type(frame.message).__name__} {to.name}")
    broker.receive(writer, Frame(Publish(1, body)))
    assert "Deliver c" in sent  # and the broker remembers whom it has delivered such a notification to
    sent.clear()
    work.take()
    broker.detach(link)
    assert 0 < work.take() <= LEAVING_COST
    assert broker.client("c") is None
    assert len(broker.root.subscriptions) > 10
    assert sum(held) > 0, "what is still in the tables still counts"
    turns = 0
    turn = broker.registrations._leave

    def leave(link) -> None:
        nonlocal turns
        work.take()
        turn(link)
        assert work.take() <= LEAVING_COST
        turns += 1

    broker.registrations._leave = leave
    broker.receive(writer, Frame(Publish(2, body)))
    assert "Deliver c" not in sent
    world.run()
    assert turns >= 20 * MAX_COST // LEAVING_COST - 2
    assert sum(held) == 0
    assert not broker.registrations.leaving
    for name in "a" + NEIGHBOURS:
        assert len(world.brokers[name].root.subscriptions) == 0


@pytest.mark.parametrize("serialiser", [MSGPACK, JSON], ids=lambda one: one.name)
def test_a_text_that_costs_too_much_is_refused_to_a_client_before_it_is_parsed(serialiser, monkeypatch) -> None:
    listed = "a IN (" + ", ".join(str(number) for number in range(8 * MAX_COST)) + ")"
    for text in (listed, " OR ".join(f"a{number} = 1" for number in range(MAX_COST + 1))):
        filter = Filter.parse(text)
        data = serialiser.encode(Frame(Subscribe("s", filter)))
        with monkeypatch.context() as patch:
            parsed: list[str] = []
            patch.setattr("tidings.model._language._parsed", lambda text: parsed.append(text) or filter)  # noqa: B023
            got = serialiser.decode_sparingly(data).message.filter
            assert isinstance(got, UnreadableFilter)
            assert isinstance(got.error, FilterTooLarge)
            assert "several subscriptions" in str(got.error)
            assert not parsed
            assert serialiser.decode(data).message.filter is filter, "a neighbour may have other limits"


@pytest.mark.parametrize(
    "text",
    [
        " OR ".join(f"(NOT a{at} IN (1, 2, 3) AND b{at} NOT IN (1, 2, 3))" for at in range(MAX_COST // 2)),
        " OR ".join(f"(a{at} BETWEEN 1 AND 2 AND b{at} BETWEEN 1 AND 2)" for at in range(MAX_COST // 2)),
        " OR ".join(f"a{at} NOT LIKE '!%%' ESCAPE '!'" for at in range(MAX_COST // 2)),
        "a IN (" + ", ".join(str(number) for number in range(4 * MAX_COST - 4)) + ")",
    ],
    ids=["few-values", "ranges", "escapes", "many-values"],
)
def test_whatever_a_broker_takes_from_a_client_can_be_read(text: str) -> None:
    filter = Filter.parse(text)
    assert filter.cost <= MAX_COST
    got = MSGPACK.decode_sparingly(MSGPACK.encode(Frame(Subscribe("s", filter)))).message.filter
    assert got == filter


def test_a_merger_costs_no_more_than_what_is_compared() -> None:
    world = network("merging")
    client = world.clients["c"]
    for first in range(0, 1_000, 50):
        client.subscribe(f"a IN ({', '.join(str(first + at) for at in range(50))})")
    world.run()
    told = world.brokers["a"].root.subscriptions.told(world.brokers["a"].adjacency.neighbours["b"])
    assert 1 < len(told) < 20
    assert all(filter.cost <= COMPARED_COST for filter in told.values())
