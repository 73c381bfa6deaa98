"""What a policy keeps back: never early, judged again when it is due, and not lost while it waits."""

from __future__ import annotations

import pytest
from scopes.network_world import Watched

from tidings.broker.forwarding import _delaying
from tidings.scopes import OPEN, CreateScope, Interface, Join, Leave, Mode, PolicyKind, PolicyUse, SetMapping, SetPolicy
from tidings.scopes import edge_mapping, mapping
from tidings.scopes.steps import Rename
from tidings.sim import check

QUARTER = PolicyUse("delay", {"seconds": 900})
SECOND = 1_000_000


def exchange(*, brokers: str = "abc", policy: PolicyUse = QUARTER) -> Watched:
    """A trader publishes among professionals at a; private readers at c get quotes a quarter of an hour later."""
    links = [one + two for one, two in zip(brokers, brokers[1:], strict=False)]
    world = Watched(brokers, links, {"trader": "a", "pro": brokers[1], "private": brokers[-1]}, seed=3)
    answer = world.change(
        *(CreateScope("pros", OPEN), CreateScope("all", OPEN), Join("pros", "all")),
        *(Join("@trader", "pros"), Join("@pro", "pros"), Join("@private", "all")),
        SetPolicy("pros", PolicyKind.PUBLISHING, policy),
    )
    assert not answer.error
    world.subscribe("private", filter="n > 0")
    world.subscribe("pro", filter="n > 0")
    return world


def numbers(world: Watched, client: str = "private") -> list[object]:
    return [notification["n"] for notification in world.got(client)]


def test_private_readers_get_quotes_a_quarter_of_an_hour_after_professionals() -> None:
    world = exchange()
    world.client("trader").publish(n=1)
    world.network.run(899.9)
    assert (numbers(world), numbers(world, "pro")) == ([], [1])
    world.network.run(1)
    assert numbers(world) == [1]
    assert not check(world.network.trace)
