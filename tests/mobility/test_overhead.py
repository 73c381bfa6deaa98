"""What a hand-off costs by the documents' formulas, beside what brokers send and keep."""

from __future__ import annotations

from typing import Any

import pytest
from mobility.roamers import OPTIONS, keeping, network, overheard

from tidings.mobility.models import control_messages
from tidings.model import Filter
from tidings.wire import Subscribe

SECONDS = 10
NEIGHBOURS = ("b", "c")
EDGES = [("a", "b"), ("a", "c")]
FILTERS = {"n >= 0": 2, "n >= 5": 2, "m >= 0": 1, "n >= 10": 2}
"""What each of several clients wants, and how many notifications a second match."""


def covered() -> list[list[bool]]:
    """For each subscription and neighbour: whether one that is there already covers it."""
    filters = [Filter.parse(one) for one in FILTERS]
    return [[any(other.covers(one) for other in filters[:at])] * len(NEIGHBOURS) for at, one in enumerate(filters)]


@pytest.mark.req("MOB-086")
def test_the_overhead_of_hand_offs_is_what_the_formulas_say() -> None:
    world = network(OPTIONS, edges=EDGES)
    clients, feed = [world.add_client(f"phone{at}", "a") for at in range(len(FILTERS))], world.add_client("feed", "o")
    said = overheard(world)
    for client, filter in zip(clients, FILTERS, strict=True):
        client.subscribe(filter)
    world.run(3)
    propagated = [one for one in said if one[2] == "Propagate"]
    assert len(propagated) == control_messages.propagation(len(FILTERS), len(NEIGHBOURS))  # (3.2)

    announced: list[str] = []

    def tap(name: str, link: Any, frame: Any) -> None:
        if link.is_broker and isinstance(frame.message, Subscribe):
            announced.append(str(frame.message.filter))

    world.tap = tap
    for client in clients:
        client.vanish(noticed=0.5, kept=60)
    world.run(3)
    assert len(announced) == control_messages.propagation_covered(covered())  # (3.3)

    for _ in range(SECONDS):
        for n in (10, 20):
            feed.publish(n=n)
        feed.publish(m=1)
        world.run(1)
    world.run(2)
    rates = [float(rate) for rate in FILTERS.values()]
    buffers = [keeping(world, name).buffer for name in NEIGHBOURS]
    assert sum(map(len, buffers)) == control_messages.caching(rates, SECONDS, covered())  # (3.4): each is kept once
    references = sum(len(one.references) for name in NEIGHBOURS for one in keeping(world, name).copies.values())
    nothing = [[False] * len(NEIGHBOURS)] * len(FILTERS)
    assert references == control_messages.caching(rates, SECONDS, nothing)
    total = len(announced) + sum(map(len, buffers))
    assert total == control_messages.overhead(rates, SECONDS, covered())  # (3.1)
