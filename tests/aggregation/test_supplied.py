"""Aggregates that have a name: rates, active publishers, distributions, brokers."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tidings.aggregation import Aggregation, question_of, supplied_question
from tidings.model import AggregateError, ExpressionError, Filter
from tidings.scopes import OPEN, CreateScope, Join, Scopes
from tidings.sim import Network, SimClient
from tidings.sim._aggregates import kept_aggregates
from tidings.sim._watch import SimWatch


def network() -> Network:
    world = Network(5, features=lambda name: [Scopes("1"), Aggregation()])
    world.add_brokers("1234", links=["12", "23", "34"])
    world.run()
    for name, broker in (("boss", "4"), ("a", "1"), ("b", "2"), ("c", "3")):
        world.add_client(name, broker)
    world.run()
    return world


def ask(world: Network, name: str, **blanks: object) -> SimWatch:
    question = supplied_question(name, **blanks)  # type: ignore[arg-type]
    assert question is not None
    watch = world.clients["boss"].watch(question, id=name)
    world.run(2.5)  # the first window that is measured from its start
    return watch


def windows(watch: SimWatch) -> dict[int, object]:
    """What was told of each window that is complete, by when it ends, in milliseconds."""
    return {result.window[1]: result.value for result in watch.results if result.complete and result.window}


def align(world: Network) -> None:
    """Go on to the beginning of a second."""
    world.run((-world.scheduler.now % 1_000_000) / 1_000_000 + 0.01)


@pytest.mark.req("AGG-084")
def test_active_publishers_are_clients_that_published_within_the_window_each_once() -> None:
    world = network()
    watch = ask(world, "active_publishers", filter=Filter.parse("type = 'load'"), window="3s SLIDE 1s")
    align(world)
    start = world.scheduler.now // 1_000_000 * 1_000
    for number in range(5):
        world.clients["a"].publish(type="load", n=number)
    world.clients["b"].publish(type="load")
    world.clients["c"].publish(type="other")
    world.run(1)
    world.clients["c"].publish(type="load")
    world.run(1)
    world.clients["a"].publish(type="load")
    world.run(8)
    told = windows(watch)
    assert [told[start + 1_000 * at] for at in range(1, 8)] == [2, 3, 3, 2, 1, 0, 0]


def test_load_is_what_the_clients_of_each_broker_publish() -> None:
    world = network()
    watch = ask(world, "load", filter=Filter.parse("type = 'load'"), window="2s")
    for client, count in (("a", 6), ("b", 2), ("c", 0)):
        for _ in range(count):
            world.clients[client].publish({"type": "load", "tidings.broker": "9"})
    world.clients["c"].publish(type="other")
    world.run(6)
    assert {'["1"]': 3.0, '["2"]': 1.0} in windows(watch).values()


def test_a_publisher_that_roams_within_a_window_is_one() -> None:
    world = network()
    watch = ask(world, "active_publishers", window="4s SLIDE 1s")
    roamer: SimClient = world.clients["a"]
    align(world)
    for broker in ("2", "3", "1"):
        roamer.publish(n=1)
        world.run(0.2)
        roamer.detach()
        roamer.attach(broker)
        world.run(0.2)
    world.run(6)
    assert max(int(str(value)) for value in windows(watch).values()) == 1


@pytest.mark.req("AGG-082")
@pytest.mark.parametrize("seed", range(3))
def test_the_rate_of_subscriptions_is_what_a_recount_finds(seed: int) -> None:
    rng, world = random.Random(seed), network()
    watch = ask(world, "subscription_rate", filter=Filter.parse("price < 10"), window="2s SLIDE 1s")
    begun: Counter[int] = Counter()
    for number in range(60):
        world.run(rng.uniform(0, 0.3))
        client = world.clients[rng.choice("abc")]
        concerned = rng.random() < 0.7
        client.subscribe("price < 5" if concerned else "price > 50", id=f"s{number}")
        world.run(0.02)  # it is there
        if rng.random() < 0.4:
            client.unsubscribe(f"s{number}")
        begun[world.brokers["1"].now() // 1_000_000] += concerned
    world.run(5)
    told = windows(watch)
    first, last = min(begun) + 2, max(begun)
    near = [
        abs(float(str(told[1_000 * end])) - (begun[end - 2] + begun[end - 1]) / 2)
        for end in range(first, last)
        if 1_000 * end in told
    ]
    assert len(near) > 5
    # A subscription is stamped where it enters, some milliseconds before this test looks at the clock.
    assert max(near) <= 0.5
    assert sum(near) <= 1.5


@pytest.mark.req("AGG-091")
@pytest.mark.parametrize("seed", range(3))
def test_the_distribution_of_an_attribute_is_what_a_recount_finds(seed: int) -> None:
    rng, world = random.Random(seed), network()
    edges = (10, 50, 90)
    watch = ask(world, "distribution", filter=Filter.parse("type = 'load'"), window="1s", of="load", edges=edges)
    align(world)
    start = world.scheduler.now // 1_000_000 * 1_000
    expected = [0] * (len(edges) + 1)
    for _ in range(50):
        load, kind = rng.choice((rng.randint(0, 100), 10, 50, 90)), rng.choice(("load", "load", "other"))
        world.clients[rng.choice("abc")].publish(type=kind, load=load)
        if kind == "load":
            expected[sum(load > edge for edge in edges)] += 1
    world.run(5)
    assert windows(watch)[start + 1_000] == expected


def test_brokers_are_counted_in_the_tree_and_in_a_scope() -> None:
    world = network()
    world.change("1", (CreateScope("market", OPEN), Join("@a", "market"), Join("@b", "market")))
    world.run()
    boss = world.clients["boss"]
    everywhere, market = boss.watch("broker_count"), boss.watch("broker_count", scope="market", id="m")
    world.run()
    assert [watch.last and (watch.last.value, watch.last.complete) for watch in (everywhere, market)] == [
        (4, True),
        (2, True),
    ]
    world.change("1", (Join("@c", "market"),))
    world.cut("3", "4")
    world.run()
    assert [watch.last and watch.last.value for watch in (everywhere, market)] == [1, 0]
    world.heal("3", "4")
    world.run()
    assert [watch.last and watch.last.value for watch in (everywhere, market)] == [4, 3]
    refused = boss.watch("broker_count", "price > 5", id="x")
    world.run()
    assert refused.declined is not None
    assert "counts brokers" in refused.declined.reason
    for id in ("w1", "m", "x"):
        boss.unwatch(id)
    world.run()
    assert kept_aggregates(world) == []


def test_blanks_that_are_left_or_over_are_refused() -> None:
    with pytest.raises(AggregateError, match="give of='load' and edges"):
        supplied_question("distribution", window="1s")
    with pytest.raises(AggregateError, match="leave out of and edges"):
        supplied_question("publication_rate", of="load", edges=(1,))
    with pytest.raises(ExpressionError):
        supplied_question("publication_rate", window="long")
    for mixed in ("subscriptions() BY rack WINDOW 1s", "count(), subscriptions() WINDOW 1s"):
        with pytest.raises(ExpressionError, match="without BY"):
            question_of(mixed)
    assert supplied_question("subscriber_count") is None
