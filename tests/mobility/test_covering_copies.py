"""Copies whose subscriptions cover one another: routing shares what they announce, and each keeps what is its own."""

from __future__ import annotations

from typing import Any

import pytest
from mobility.roamers import keeping, network, numbers, states

from tidings.broker import RoutingOptions
from tidings.sim import Network, SimClient, check

ALGORITHMS = ["covering", "merging", "simple", "flooding"]


def two(algorithm: str) -> tuple[Network, SimClient, SimClient, SimClient]:
    """One who wants everything, one who wants a part of that, and somebody far away who publishes."""
    world = network(routing=RoutingOptions(algorithm))
    wide, narrow, feed = world.add_client("wide", "a"), world.add_client("narrow", "a"), world.add_client("feed", "o")
    wide.subscribe("n >= 0")
    narrow.subscribe("n >= 5")
    world.run(3)
    return world, wide, narrow, feed


def away(world: Network, client: SimClient) -> None:
    client.vanish(noticed=0.3, kept=60)
    world.run(2)


def publish(world: Network, feed: SimClient, *values: int) -> None:
    for n in values:
        feed.publish(n=n)
    world.run(2)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("first", ["wide", "narrow"])
def test_a_copy_listens_as_long_as_its_own_client_is_away(algorithm: str, first: str) -> None:
    """Rule 1 of the documents; and rule 3: what was stored for both is handed over to each as it wants it."""
    world, wide, narrow, feed = two(algorithm)
    away(world, wide)
    away(world, narrow)
    publish(world, feed, 1, 6)
    back, still = (wide, narrow) if first == "wide" else (narrow, wide)
    back.attach("a")
    world.run(2)
    assert set(states(world, back.name).values()) == {"passive"}
    assert set(states(world, still.name).values()) == {"active"}
    publish(world, feed, 2, 7)
    still.attach("b")
    world.run(2)
    assert numbers(wide) == [1, 6, 2, 7]
    assert numbers(narrow) == [6, 7]
    assert not check(world.trace)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("away_before", [True, False])
def test_what_covered_another_may_go(algorithm: str, away_before: bool) -> None:
    """Rules 2 and 5: the copy that was covered is announced in its place."""
    world, wide, narrow, feed = two(algorithm)
    if away_before:
        away(world, narrow)
    for id in list(wide.subscriptions):
        wide.unsubscribe(id)
    wide.detach()
    world.run(2)
    assert states(world, "wide") == {}
    if not away_before:
        away(world, narrow)
    publish(world, feed, 1, 6)
    narrow.attach("c")
    world.run(2)
    assert numbers(narrow) == [6]
    assert not check(world.trace)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_positions_are_those_of_each_client(algorithm: str) -> None:
    """Rule 4: the narrow one goes later, and has seen more."""
    world, wide, narrow, feed = two(algorithm)
    publish(world, feed, 1, 6)
    away(world, wide)
    publish(world, feed, 2, 7)
    away(world, narrow)
    publish(world, feed, 3, 8)
    keeps = keeping(world, "b")
    stored = {
        name: [one.notification["n"] for one, _ in keeps.buffer.all_of(keeps.copies[name])]
        for name in ("narrow", "wide")
    }
    assert stored["wide"] == [2, 7, 3, 8]
    assert stored["narrow"] in ([7, 8], [8]), "the wide one has not moved it back"
    for client in (narrow, wide):  # rule 3: what is stored for the wide one lies there, too
        client.attach("b")
        world.run(1)
    world.run(2)
    assert numbers(wide) == [1, 6, 2, 7, 3, 8]
    assert numbers(narrow) == [6, 7, 8]
    assert not check(world.trace)


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [("covering", ["n >= 0"]), ("merging", ["n >= 0"]), ("simple", ["n >= 0"] * 2 + ["n >= 5"] * 2), ("flooding", [])],
)
def test_a_copy_that_is_covered_announces_nothing(algorithm: str, expected: list[str]) -> None:
    world, wide, narrow, _ = two(algorithm)
    announced: list[str] = []

    def tap(name: str, link: Any, frame: Any) -> None:
        if name == "b" and link.name == "a" and type(frame.message).__name__ == "Subscribe":
            announced.append(str(frame.message.filter))

    world.tap = tap
    away(world, wide)
    away(world, narrow)
    assert states(world, "narrow") == {"b": "active", "c": "active"}
    assert announced == expected
