"""What a policy keeps back: never early, judged again when it is due, and not lost while it waits."""

from __future__ import annotations

import itertools

import pytest
from scopes.network_world import Watched

from tidings.broker.forwarding import _delaying
from tidings.scopes import (
    OPEN,
    CreateScope,
    Interface,
    Join,
    Leave,
    Mode,
    PolicyKind,
    PolicyUse,
    SetMapping,
    SetPolicy,
    edge_mapping,
    mapping,
)
from tidings.scopes.steps import Rename
from tidings.sim import check

QUARTER = PolicyUse("delay", {"seconds": 900})
SECOND = 1_000_000


def exchange(*, brokers: str = "abc", policy: PolicyUse = QUARTER) -> Watched:
    """A trader publishes among professionals at a; private readers at c get quotes a quarter of an hour later."""
    links = [one + two for one, two in itertools.pairwise(brokers)]
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
    """What a client has got since the start."""
    return [notification["n"] for notification in world.client(client).received]


def test_private_readers_get_quotes_a_quarter_of_an_hour_after_professionals() -> None:
    world = exchange()
    world.client("trader").publish(n=1)
    world.network.run(899.9)
    assert (numbers(world), numbers(world, "pro")) == ([], [1])
    world.network.run(1)
    assert numbers(world) == [1]
    assert not check(world.network.trace)


@pytest.mark.req("VIS-609")
def test_what_is_due_is_dropped_if_its_way_has_been_closed_meanwhile() -> None:
    world = exchange()
    for number in (1, 2):
        world.client("trader").publish(n=number)
        world.network.run(300)
    world.change(SetPolicy("pros", PolicyKind.DELIVERY, PolicyUse("full")))  # another version that changes nothing here
    assert numbers(world) == [1, 2]
    world.client("trader").publish(n=3)
    world.network.run(10)
    world.network.change("a", (Leave("pros", "all"),))
    world.network.run()
    assert numbers(world) == [1, 2]
    assert not check(world.network.trace)


@pytest.mark.req("VIS-609")
def test_a_narrower_interface_counts_for_what_is_still_held() -> None:
    world = exchange()
    for number in (1, 50):
        world.client("trader").publish(n=number)
    world.network.run(10)
    selective = Interface.parse(input="TRUE", output="n > 10")
    world.network.change("a", (Leave("pros", "all"), Join("pros", "all", selective)))
    world.network.run()
    assert numbers(world) == [50]


def test_what_the_graph_shows_by_another_way_when_it_is_due_is_handed_over() -> None:
    world = exchange()
    world.client("trader").publish(n=1)
    world.network.run(10)
    world.network.change("a", (Leave("@private", "all"), Join("@private", "pros")))
    world.network.run(800)
    assert numbers(world) == []
    world.network.run()
    assert numbers(world) == [1]
    assert not check(world.network.trace)


def test_another_way_with_a_later_time_counts_if_the_own_way_is_closed() -> None:
    world = exchange(policy=PolicyUse("delay", {"seconds": 60}))
    world.client("trader").publish(n=1)
    world.network.run(10)
    slow = SetPolicy("slow", PolicyKind.INTERNAL, PolicyUse("delay", {"seconds": 120}))
    joins = (Join("@trader", "slow"), Join("@private", "slow"))
    world.network.change("a", (Leave("@private", "all"), CreateScope("slow", OPEN), *joins, slow))
    world.network.run(100)
    assert numbers(world) == []
    world.network.run()
    assert numbers(world) == [1]


def test_what_is_due_while_its_origin_cannot_be_reached_is_handed_over() -> None:
    world = exchange()
    world.client("trader").publish(n=1)
    world.network.run(890)
    world.network.cut("b", "c")
    world.network.run(100)
    assert numbers(world) == [1]
    world.network.heal("b", "c")
    world.network.run()
    assert numbers(world) == [1]
    assert not check(world.network.trace)


def test_what_waits_for_a_subscription_that_has_ended_does_not_reach_the_next_of_its_id() -> None:
    world = exchange()
    private = world.client("private")
    id = private.subscribe("n > 0", id="again")
    world.network.run(1)
    world.client("trader").publish(n=1)
    world.network.run(1)
    private.unsubscribe(id)
    world.network.run(1)
    private.subscribe("n > 0", id="again")
    world.network.run()
    assert len(numbers(world)) == 1  # by its other subscription


def test_a_mapped_copy_whose_way_has_changed_is_told_as_a_gap() -> None:
    renamed = edge_mapping(mapping(Rename("n", "m")))
    world = exchange()
    world.change(SetMapping("pros", "all", renamed))
    world.client("private").subscribe("m > 0", id="mapped")
    world.network.run()
    world.client("trader").publish(n=1)
    world.network.run(1)
    world.network.change("a", (SetMapping("pros", "all", edge_mapping(mapping(Rename("n", "k")))),))
    world.network.run()
    assert [(gap.first, gap.last) for gap in world.client("private").gaps] == [(1, 1)]
    assert world.got("private") == []


@pytest.mark.req("VIS-609")
@pytest.mark.parametrize("mode", [Mode.DRAIN, Mode.INSTANT])
def test_a_change_does_not_wait_for_what_is_held_and_nothing_comes_against_it(mode: Mode) -> None:
    world = exchange()
    world.client("trader").publish(n=1)
    world.network.run(1)
    answers = world.network.change("a", (Leave("@private", "all"),), mode)
    world.network.run(30)
    assert [answer.error for answer in answers] == [""]
    world.network.run()
    assert numbers(world) == []


@pytest.mark.req("VIS-609")
def test_what_is_held_survives_the_crash_of_the_broker_that_holds_it() -> None:
    world = exchange()
    world.client("trader").publish(n=1)
    world.network.run(10)
    world.network.crash("c")
    world.network.run(10)
    world.network.restart("c")
    world.network.run(5)
    world.client("private").attach("c")
    world.network.run(800)
    assert numbers(world) == []
    world.network.run()
    assert numbers(world) == [1]
    assert not check(world.network.trace)


@pytest.mark.req("VIS-609")
def test_what_is_held_follows_a_client_that_moves_though_later_ones_came_first() -> None:
    world = exchange(policy=PolicyUse("delay", {"seconds": 900, "filter": "urgent = FALSE"}))
    world.client("trader").publish(n=1, urgent=False)
    world.client("trader").publish(n=2, urgent=True)
    world.network.run(10)
    assert numbers(world) == [2]
    world.client("private").detach()
    world.client("private").attach("b")
    world.network.run(800)
    assert numbers(world) == [2]
    world.network.run()
    assert numbers(world) == [2, 1]
    assert not check(world.network.trace)


def test_more_than_a_broker_holds_is_told_as_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_delaying, "MAX_DELAYED", 2)
    world = exchange()
    for number in (1, 2, 3):
        world.client("trader").publish(n=number)
    world.network.run()
    assert numbers(world) == [1, 2]
    assert [(gap.first, gap.last) for gap in world.client("private").gaps] == [(3, 3)]


def test_the_longest_of_several_delays_counts() -> None:
    world = exchange()
    world.change(SetPolicy("all", PolicyKind.INTERNAL, PolicyUse("delay", {"seconds": 1})))
    world.client("trader").publish(n=1)
    world.network.run(899)
    assert numbers(world) == []
    world.network.run()
    assert numbers(world) == [1]
