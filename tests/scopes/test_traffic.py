"""What is counted for each scope, and that scopes spare a network traffic and filters."""

from __future__ import annotations

import pytest
from scopes.network_world import Watched

from tidings.model import Notification

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
def test_scopes_send_less_between_brokers_where_their_members_are_together() -> None:
    """Three branches at two brokers each: the counters of each branch, and less on the links than in a flat system."""

    def run(*, scoped: bool) -> Watched:
        places = {f"c{number}": BROKERS[number // 2] for number in range(2 * len(BROKERS))}
        world = Watched(BROKERS, [BROKERS[at : at + 2] for at in range(len(BROKERS) - 1)], places)
        if scoped:
            world.make(*(f"c{number} < G{number // 4}" for number in range(len(places))))
        world.subscribe(filter="type = 'quote'")
        world.forget()
        for client in places:
            world.client(client).publish(type="quote")
        world.network.run()
        return world

    scoped, flat = run(scoped=True), run(scoped=False)
    branch = (4 * 2, 4 * 2 * 3, 4 * (1 + 4))  # 4 publications at 2 brokers, 3 filters in each: 2 clients, 1 neighbour
    assert traffic(scoped) == {"": (0, 0, 0), **dict.fromkeys(("G0", "G1", "G2"), branch)}
    publications, brokers = 12, len(BROKERS)
    assert len(scoped.notified) == publications  # one link each
    assert len(flat.notified) == publications * (brokers - 1)
    ((lookups, evaluated, copies),) = traffic(flat).values()
    assert lookups == publications * brokers
    assert copies == publications * (brokers - 1 + publications)
    assert evaluated > 3 * branch[1]
    for spared in (scoped.traffic(), scoped.handed):
        assert spared
    assert (len(scoped.handed), len(flat.handed)) == (publications * 4, publications * publications)


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


@pytest.mark.req("VIS-328")
def test_what_crosses_a_border_is_counted_in_both_scopes() -> None:
    """x and y are in S, which is in T with z: what x publishes is looked up in S and in T, and each has its copies."""
    world = Watched("ab", ["ab"], {"x": "a", "y": "a", "z": "b"})
    world.make("x < S", "y < S", "S < T", "z < T")
    world.subscribe()
    world.publish("x", n=1)
    assert [world.got(name) for name in "yz"] == [[Notification(n=1)]] * 2
    at_a, at_b = (world.network.brokers[name].scoping.tables for name in "ab")
    assert (at_a["S"].lookups, at_a["S"].copies) == (1, 2)  # to x and y; T hears of it by no copy
    assert (at_a["T"].lookups, at_a["T"].copies) == (1, 1)  # to b
    assert (at_b["T"].lookups, at_b["T"].copies) == (1, 1)  # to z


@pytest.mark.req("VIS-328")
def test_filters_are_counted_as_they_were_when_something_was_looked_up() -> None:
    world = Watched("a", [], {"x": "a", "y": "a"})
    world.make("x < S", "y < S")
    evaluated = []
    for filters in range(4):
        world.publish("x", n=1)
        evaluated.append(traffic(world)["S"][1])
        world.client("y").subscribe(f"n > {filters}")
        world.network.run()
    assert evaluated == [0, 1, 1 + 2, 1 + 2 + 3]
