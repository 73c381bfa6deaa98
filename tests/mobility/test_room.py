"""What is kept for clients that are elsewhere counts in the budget of the broker where it lies, within it."""

from __future__ import annotations

from typing import Any

import pytest
from mobility.roamers import BROKERS, OPTIONS, handing, homes, keeping, numbers

from tidings.broker import Link
from tidings.mobility import Edge, Hosts, Neighbourhood, Outcome, Roaming
from tidings.net._budget import COPIES_PART, Budget
from tidings.sim import Network, Weather, check

OWN = 400_000
ALL = 1_600_000
EDGES = [Edge(one, two, 1.0, 0, 0, pinned=True) for one, two in ("ab", "ac", "bc")]


def network(monkeypatch: pytest.MonkeyPatch) -> tuple[Network, dict[str, Budget]]:
    """A line of brokers with small budgets; the first one, to which the crowd is connected, has a large one."""
    monkeypatch.setattr(Link, "owner", property(lambda link: link.principal.split("/")[0]))
    budgets = {name: Budget(100 * OWN, 100 * ALL) if name == "a" else Budget(OWN, ALL) for name in BROKERS}

    def features(name: str) -> list[Any]:
        hosts = Hosts()
        neighbourhood = Neighbourhood(hosts, OPTIONS.graph, EDGES)
        return [hosts, neighbourhood, Roaming(OPTIONS, hosts, neighbourhood, room=budgets[name])]

    made = Network(1, features=features, weather=Weather(latency=(5_000, 5_000)))
    made.add_brokers(BROKERS, links=["ab", "bc", "co"])
    for name, budget in budgets.items():
        made.brokers[name].register = budget.register
    made.run()
    return made, budgets


def run(world: Network, budgets: dict[str, Budget], seconds: int) -> None:
    """Go on, and look at the budgets all the time."""
    for _ in range(seconds * 10):
        world.run(0.1)
        for name in "bc":
            budget = budgets[name]
            assert budget._used.get("crowd", 0) <= OWN
            assert budget.elsewhere <= ALL // COPIES_PART
            assert not budget.exceeded


def test_a_crowd_that_vanishes_leaves_its_neighbours_within_their_budgets_and_others_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, budgets = network(monkeypatch)
    crowd = [world.add_client(f"crowd/{n}", "a") for n in range(30)]
    for n, one in enumerate(crowd):
        for m in range(12):
            one.subscribe(f"crowd >= {n} AND part = {m}")
    phone, feed, other = (world.add_client(*one) for one in (("phone", "a"), ("feed", "o"), ("other", "b")))
    phone.subscribe("n >= 0")
    run(world, budgets, 5)
    for one in (*crowd, phone):
        one.vanish(noticed=0.3, kept=60)
    run(world, budgets, 3)
    assert keeping(world, "b").refused
    assert 0 < budgets["b"].refused <= len(crowd), "each copy is refused once, and not each of its subscriptions"
    for n in range(20):
        feed.publish(n=n, crowd=40, part=n % 12, text="x" * 5_000)
    run(world, budgets, 3)
    other.subscribe("n > 10")  # there is room for those who are there
    run(world, budgets, 1)
    feed.publish(n=20)
    run(world, budgets, 2)
    assert numbers(other) == [20]
    phone.attach("b")
    run(world, budgets, 2)
    assert numbers(phone) == list(range(21))
    assert handing(world, "b").outcomes[Outcome.HIT] == 1
    crowd[-1].attach("c")  # a copy that was not taken, or has lost something, costs time and nothing else
    run(world, budgets, 5)
    assert len(crowd[-1].received) == 20
    run(world, budgets, int(OPTIONS.t_timeout) + 10)
    for client in (*crowd, phone, feed, other):
        client.detach()
    world.run()
    assert {name: (budget.total, budget.elsewhere) for name, budget in budgets.items()} == dict.fromkeys(
        BROKERS, (0, 0)
    )
    assert not check(world.trace)


def test_a_client_that_uses_nearly_all_of_its_budget_may_be_away(monkeypatch: pytest.MonkeyPatch) -> None:
    world, budgets = network(monkeypatch)
    phone, feed = world.add_client("phone", "b"), world.add_client("feed", "o")
    for n in range(70):
        phone.subscribe(f"n >= 0 AND m = {n}")
    world.run(3)
    assert budgets["b"]._used["phone"] > 0.75 * OWN
    phone.vanish(noticed=0.3, kept=60)
    world.run(1)
    assert homes(world, "b")
    feed.publish(n=1, m=69)
    world.run(1)
    phone.attach("b")
    world.run(2)
    assert numbers(phone) == [1]
    assert not check(world.trace)


def test_tombstones_are_counted_and_none_is_left_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    world, budgets = network(monkeypatch)
    tombstones, budget = keeping(world, "b").tombstones, budgets["b"]
    tombstones.leave("phone", "alice", 7)
    tombstones.leave("phone", "alice", 5)
    assert (len(tombstones), tombstones.epoch_of("phone")) == (1, 7)
    assert 0 < budget.elsewhere == budget.total < 1_000
    for n in range(5_000):
        tombstones.leave(f"crowd/{n}", "crowd", 1)
    assert budget.elsewhere <= ALL // COPIES_PART
    assert 100 < len(tombstones) < 5_000
    assert tombstones.epoch_of("phone") == 7
    world.run()
    assert len(tombstones) == 0
    assert budget.total == 0
