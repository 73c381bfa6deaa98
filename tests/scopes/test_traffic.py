"""What is counted for each scope, and that scopes spare a network traffic and filters."""

from __future__ import annotations

import pytest
from scopes.network_world import Watched

BROKERS, GROUPS, CLIENTS = "abcdef", 4, 24


def traffic(world: Watched) -> dict[str, tuple[int, int, int]]:
    """For each scope, lookups, filters evaluated and copies sent, at all brokers."""
    found: dict[str, tuple[int, int, int]] = {}
    for broker in world.network.brokers.values():
        for scope, table in broker.scoping.tables.items():
            known = found.get(scope, (0, 0, 0))
            found[scope] = (known[0] + table.lookups, known[1] + table.evaluated, known[2] + table.copies)
    return found


def groups(*, scoped: bool) -> Watched:
    """Clients of four groups on six brokers, all with the same subscription; each publishes once."""
    places = {f"c{number}": BROKERS[number % len(BROKERS)] for number in range(CLIENTS)}
    world = Watched(BROKERS, [BROKERS[at : at + 2] for at in range(len(BROKERS) - 1)], places)
    if scoped:
        world.make(*(f"c{number} < G{number // len(BROKERS)}" for number in range(CLIENTS)))
    world.subscribe(filter="type = 'quote'")
    for number in range(CLIENTS):
        world.client(f"c{number}").publish(type="quote", number=number)
    world.network.run()
    return world


@pytest.mark.req("VIS-328")
def test_scopes_send_less_and_look_at_fewer_filters_than_a_flat_system() -> None:
    scoped, flat = groups(scoped=True), groups(scoped=False)
    inside, outside = traffic(scoped), traffic(flat)
    assert set(outside) == {""}
    assert set(inside) == {"", *(f"G{number}" for number in range(GROUPS))}
    assert inside[""] == (0, 0, 0)
    members = CLIENTS // GROUPS
    for scope in set(inside) - {""}:
        lookups, evaluated, copies = inside[scope]
        assert lookups == members * len(BROKERS)  # each publication visits each broker of its scope once
        assert copies == members * (len(BROKERS) - 1 + members)  # every link, and every member
    _, evaluated, copies = (sum(counts) for counts in zip(*inside.values(), strict=True))
    assert evaluated < outside[""][1] / 2
    assert copies < outside[""][2] / 2
    assert len(scoped.notified) == len(flat.notified)  # brokers have members of every group here: readers are spared


@pytest.mark.req("VIS-328")
def test_where_a_scope_has_no_members_it_has_no_traffic() -> None:
    world = Watched("abc", ["ab", "bc"], {"x": "a", "y": "a", "z": "c"})
    world.make("x < S", "y < S", "z < T")
    world.subscribe()
    world.publish("x", n=1)
    assert traffic(world) == {"": (0, 0, 0), "S": (1, 2, 2), "T": (0, 0, 0)}
    assert not world.notified


def test_filters_are_counted_as_they_were_at_each_lookup() -> None:
    world = Watched("a", [], {"x": "a", "y": "a"})
    world.publish("x", n=1)
    ids = [world.client("y").subscribe(f"n > {number}") for number in range(3)]
    world.network.run()
    world.publish("x", n=1)
    world.client("y").unsubscribe(ids[0])
    world.network.run()
    world.publish("x", n=1)
    assert traffic(world) == {"": (3, 0 + 3 + 2, 1)}
