"""The documents' algorithms have errors. Each has a test here: as printed it goes wrong, and Tidings does not."""

from __future__ import annotations

import itertools
from collections import Counter, deque

import pytest
from scopes.graph_world import FX_6, GRAPH_B, graph
from scopes.network_world import Watched, fx_3

from tidings.model import Notification, RouteState
from tidings.scopes import EdgeMapping, Graph, Join, View, mapping
from tidings.scopes._graph import Membership
from tidings.scopes.steps import Convert
from tidings.sim import Op

# --- O-7: a leak through a second superscope --------------------------------------------------------------


@pytest.mark.req("VIS-308", "ARC-147")
def test_what_came_in_from_one_superscope_does_not_go_out_to_another() -> None:
    """x < T, y < P, K < T and K < P: as printed, the mapping components of K would hand x's notification on to P."""
    mapped = Join("K", "T", mapping=EdgeMapping(mapping(Convert("n", 10)), mapping(Convert("n", 0.1))))
    for edges in (("x < T", "y < P", "K < T", "K < P", "k < K"), (*GRAPH_B, "k < S", "z < T'")):
        world = Watched("abc", ["ab", "bc"], {"x": "a", "y": "b", "k": "b", "z": "c"})
        world.make(*edges, K_T=mapped)
        world.subscribe()
        world.publish("x", n=10)
        getters = world.getters()
        assert "k" in getters
        assert not getters & ({"y"} if "y < P" in edges else {"z"})
        states = {one.route.path: one.route.state for one in world.crossed}
        assert set(states.values()) == {RouteState.DOWNWARD}


# --- O7: crossing twice where an interface is empty ---------------------------------------------------------


def cross_by_entries(world: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """The printed rule: a neighbour has let it in if the table of the subscope has an entry that points there."""

    def admits(view: View, sub: str, scope: str, neighbour: str) -> bool:
        table = world.network.brokers[view._broker].scoping.tables[sub]
        return any(entry.link.name == neighbour for entry in table.subscriptions)

    monkeypatch.setattr(View, "admits", admits)


def crossings_into_s(world: Watched) -> list[str]:
    """Where what c3 publishes in T crosses into S; only c4 wants it there."""
    world.subscribe("c4")
    world.publish("c3", n=1)
    return [one.broker for one in world.crossed if one.edge == ("T", "S")]


@pytest.mark.req("ARC-152")
def test_a_neighbour_without_subscribers_behind_it_has_still_let_it_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """S spans B1, B2 and B4; all its subscribers are at B4, so B4 has no entry that points to B2."""
    assert crossings_into_s(fx_3()) == ["B2"]
    world = fx_3()
    cross_by_entries(world, monkeypatch)
    assert crossings_into_s(world) == ["B2", "B4"], "as printed, it crosses where it should and once more"


# --- O8: diamonds -----------------------------------------------------------------------------------------


def printed_walk(some: Graph, publisher: str) -> Counter[str]:
    """Who gets how many copies if a copy only must not go back over the edge that it came by."""
    got: Counter[str] = Counter()
    copies = deque((scope, publisher, True) for scope in some.superscopes(publisher))
    while copies:
        scope, source, climbing = copies.popleft()
        for member in some.members(scope):
            if member == source:
                continue
            if member.startswith("@"):
                got[member] += 1
            else:
                copies.append((member, scope, False))
        if climbing:
            copies += [(above, scope, True) for above in some.superscopes(scope) if above != source]
    return got


@pytest.mark.req("ARC-149")
def test_in_a_diamond_nobody_is_entered_twice() -> None:
    printed = printed_walk(graph(*FX_6), "@c0")
    assert printed == {"@c1": 3, "@c0": 2}, "the source check alone: up one side, down the other"
    world = Watched("ab", ["ab"], {"c0": "a", "c1": "b"})
    world.make(*FX_6)
    world.subscribe()
    world.publish("c0", n=1)
    assert [client for _, client, _ in world.handed] == ["c0", "c1"]


# --- O9: tags that loop -----------------------------------------------------------------------------------


class Echo:
    """A medium that hands every publication to all relays, also to the one that made it; relays tag by scope only."""

    def __init__(self, some: Graph, limit: int) -> None:
        self._edges = [edge for edge in some.memberships() if not edge.member.startswith("@")]
        self._limit = limit

    def relays(self, scope: str) -> int:
        """How often a publication in a scope is relayed, up to the limit."""
        count, queue = 0, deque([scope])
        while queue and count < self._limit:
            here = queue.popleft()
            for edge in self._edges:
                for one, other in (self._ends(edge), self._ends(edge)[::-1]):
                    if here == one:
                        count += 1
                        queue.append(other)
        return count

    def _ends(self, edge: Membership) -> tuple[str, str]:
        return edge.member, edge.scope


@pytest.mark.req("ARC-147", "ARC-149")
def test_a_copy_knows_its_state_and_its_way_so_nothing_goes_round() -> None:
    assert Echo(graph("x < S", "S < T"), 5_000).relays("S") == 5_000, "a scope tag alone: up, down, up, down"
    world = Watched("ab", ["ab"], {"x": "a", "y": "b", "z": "b"})
    world.make("x < S", "y < S", "S < T", "z < T")
    world.subscribe()
    world.publish("x", n=1)  # it comes to rest
    assert [(one.edge, one.route.state) for one in world.crossed] == [(("S", "T"), RouteState.UPWARD)]
    assert world.getters() == {"x", "y", "z"}


# --- O-10: delivery after unsubscribe -----------------------------------------------------------------------


def test_what_is_on_its_way_to_a_client_that_has_unsubscribed_is_not_delivered() -> None:
    world = Watched("ab", ["ab"], {"x": "a", "y": "b"})
    world.make("x < S", "y < T", "S < T")
    subscription = world.client("y").subscribe("TRUE")
    world.network.run()
    world.client("x").publish(n=1)
    while not world.handed:
        world.network.run(0.0001)
    world.client("y").unsubscribe(subscription)  # the broker has sent it, and it has not arrived
    world.network.run()
    assert world.got("y") == []
    assert not [record for record in world.network.trace.records if record.op is Op.NOTIFY]


# --- O14: a mapping on every hop ----------------------------------------------------------------------------


@pytest.mark.req("ARC-134")
@pytest.mark.parametrize("brokers", ["ab", "abcdef"])
def test_a_mapping_is_applied_once_however_far_the_readers_are(brokers: str) -> None:
    """As printed, the entry of a remote member holds its mapping, and every broker on the way would apply it."""
    hops = len(brokers) - 1
    tenfold = mapping(Convert("n", 10))
    printed = Notification(n=1)
    for _ in range(hops + 1):
        mapped = tenfold.apply(printed)
        assert mapped is not None
        printed = mapped
    assert printed == Notification(n=10 ** (hops + 1))
    world = Watched(brokers, itertools.pairwise(brokers), {"x": "a", "y": brokers[-1], "z": brokers[-1]})
    world.make(
        "x < S",
        "S < T",
        "y < T",
        "z < U",
        "U < T",
        S_T=Join("S", "T", mapping=EdgeMapping(tenfold, mapping())),
        U_T=Join("U", "T", mapping=EdgeMapping(mapping(), tenfold)),
    )
    world.subscribe()
    world.publish("x", n=1)
    assert (world.got("y"), world.got("z")) == ([Notification(n=10)], [Notification(n=100)])
