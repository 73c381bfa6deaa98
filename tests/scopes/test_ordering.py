"""Order where copies take detours: what a later publication can overtake, and scopes whose members wait for it."""

from __future__ import annotations

import pytest
from scopes.network_world import Watched

from tidings.broker.forwarding import _ordering
from tidings.scopes import OPEN, CreateScope, Interface, Join, Placement, SetDelivery
from tidings.sim import check


def hazard(*, ordered: bool, gateway: bool = True) -> Watched:
    """x is in S and in T, both in Z. What may not go straight into T comes by S and Z, over a gateway far away."""
    world = Watched("abc", ["ab", "bc"], {"x": "a", "y": "a"}, seed=4)
    detour = {"placement": Placement.GATEWAY, "gateway": "c"} if gateway else {}
    answer = world.change(
        *(CreateScope(scope, OPEN, ordered=ordered and scope == "T") for scope in "STZ"),
        Join("S", "Z", **detour),  # type: ignore[arg-type]
        *(Join("T", "Z"), Join("@x", "S"), Join("@y", "T")),
        Join("@x", "T", Interface.parse(output="urgent = TRUE")),
    )
    assert not answer.error
    world.subscribe("y", filter="n > 0")
    return world


def numbers(world: Watched) -> list[object]:
    return [notification["n"] for notification in world.got("y")]


@pytest.mark.req("VIS-411")
def test_a_detour_is_overtaken_unless_the_scope_is_ordered() -> None:
    for ordered, expected in ((False, [2, 1]), (True, [1, 2])):
        world = hazard(ordered=ordered)
        world.client("x").publish(n=1, urgent=False)
        world.client("x").publish(n=2, urgent=True)
        world.network.run()
        assert numbers(world) == expected


@pytest.mark.req("VIS-411")
def test_many_publications_of_one_publisher_come_in_order_and_once() -> None:
    world = hazard(ordered=True)
    for number in range(1, 40):
        world.client("x").publish(n=number, urgent=number % 3 == 0)
        world.network.run(0.3)
    world.network.run()
    assert numbers(world) == list(range(1, 40))


def test_an_ordered_scope_without_gateways_waits_for_nothing() -> None:
    world = hazard(ordered=True, gateway=False)
    for number in (1, 2):
        world.client("x").publish(n=number, urgent=number == 2)
    world.network.run(0.1)
    assert numbers(world) == [1, 2]
    assert not check(world.network.trace)


def test_what_waits_obeys_what_its_reader_does_meanwhile() -> None:
    world = hazard(ordered=True)
    x, y = world.client("x"), world.client("y")
    (id,) = y.subscriptions
    for number in (1, 2, 3):
        x.publish(n=number, urgent=True)
    world.network.run(1)
    y.subscribe("n >= 2", id=id)
    world.network.run()
    assert numbers(world) == [2, 3]
    x.publish(n=4, urgent=True)
    world.network.run(1)
    y.unsubscribe(id)
    world.network.run()
    assert numbers(world) == []
    y.subscribe("n > 0")
    world.network.run()
    x.publish(n=5, urgent=True)
    world.network.run(1)
    y.detach()
    world.network.run()
    assert numbers(world) == []


def test_order_can_be_asked_for_and_given_up_while_everything_runs() -> None:
    world = hazard(ordered=False)
    x = world.client("x")
    for number, ordered in ((1, True), (3, False)):
        world.change(SetDelivery("T", ordered=ordered))
        for step in (0, 1):
            x.publish(n=number + step, urgent=step == 1)
        world.network.run()
    assert numbers(world) == [1, 2, 4, 3]


def test_where_too_much_waits_the_rest_comes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ordering, "MAX_HELD", 3)
    world = hazard(ordered=True)
    for number in range(1, 8):
        world.client("x").publish(n=number, urgent=True)
    world.network.run()
    found = numbers(world)
    assert found[:4] == [4, 5, 6, 7]
    assert sorted(map(str, found)) == list("1234567")


def test_what_waits_for_a_client_that_has_gone_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ordering, "MAX_HELD", 3)
    world = hazard(ordered=True)
    x, y = world.client("x"), world.client("y")
    for number in (1, 2, 3):
        x.publish(n=number, urgent=True)
    world.network.run(0.5)
    y.detach()
    y.attach("a")
    world.network.run(0.5)  # what waited for it would have to wait still
    x.publish(n=4, urgent=False)
    x.publish(n=5, urgent=True)
    world.network.run()
    assert numbers(world) == [1, 2, 3, 4, 5]
