"""Warm copies listen before their clients go: a client that arrives before it was missed finds everything ready."""

from __future__ import annotations

import dataclasses

import pytest
from mobility.roamers import OPTIONS, handing, keeping, network, numbers, overheard, roaming, states, to, walker

from tidings.mobility import Outcome
from tidings.sim import Network, SimClient, check
from tidings.sim._invariants import waste

WARM = dataclasses.replace(OPTIONS, warm_copies=8)


def hold(world: Network, broker: str) -> list[object]:
    """What the warm copy of the phone at a broker holds."""
    keeps = keeping(world, broker)
    return [one.notification["n"] for one, _ in keeps.warm.buffer.all_of(keeps.copies["phone"])]


def go(world: Network, phone: SimClient, broker: str, *, after: float = 0.05) -> None:
    """Go to another broker long before it is noticed."""
    phone.vanish(noticed=30, kept=60)
    world.run(after)
    phone.attach(broker)


def test_a_client_that_arrives_before_it_was_missed_gets_everything_from_a_copy_that_listened() -> None:
    world = network(WARM)
    phone, feed = walker(world)
    assert states(world) == {"b": "warm", "c": "warm"}
    feed.publish(n=1)
    world.run(1)
    phone.vanish(noticed=30, kept=60)
    for n in range(2, 6):
        feed.publish(n=n)
    world.run(1)
    said: list[str] = []
    world.tap = lambda broker, link, frame: said.append(type(frame.message).__name__) if broker == "b" else None
    phone.attach("b")
    world.run(0.01)
    assert numbers(phone) == [1, 2, 3, 4, 5]
    assert not {"Wave", "Fetch"} & set(said)
    world.run(8)
    assert handing(world, "b").outcomes == {Outcome.HIT: 1, Outcome.EARLY: 0, Outcome.MISS: 0}
    assert states(world) == {"a": "warm", "c": "warm"}
    assert not check(world.trace)
