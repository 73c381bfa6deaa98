"""Two qualities of service by duplicated scopes: what is confidential never goes by the way of what is bulk."""

from __future__ import annotations

import pytest
from scopes.network_world import Watched

from tidings.model import Identity, Notification
from tidings.scopes import (
    OPEN,
    AnyChange,
    CreateScope,
    Graph,
    Interface,
    Join,
    PolicyKind,
    PolicyUse,
    SetPolicy,
    apply,
    reach,
)
from tidings.sim import check

KINDS = ("bulk", "secret")
BY_KIND = PolicyUse("key-dispatch", {"attribute": "kind", "table": ["bulk=S1", "secret=S2"]})


def undivided() -> tuple[AnyChange, ...]:
    """c1 and c2 share a scope inside T, where a reader is."""
    edges = (("S", "T"), ("@c1", "S"), ("@c2", "S"), ("@reader", "T"))
    return (CreateScope("T", OPEN), CreateScope("S", OPEN), *(Join(*edge) for edge in edges))


def divided(*, policies: bool = True, interfaces: bool = True) -> tuple[AnyChange, ...]:
    """The same with one scope for each quality of service; only some brokers are trusted with what is secret."""
    changes: list[AnyChange] = [CreateScope("T", OPEN), Join("@reader", "T")]
    for scope, kind, trusted in (("S1", "bulk", ()), ("S2", "secret", ("a", "c", "t"))):
        border = Interface.parse(input=f"kind = '{kind}'", output=f"kind = '{kind}'") if interfaces else OPEN
        changes += [CreateScope(scope, OPEN, trusted=trusted, imposed=border), Join(scope, "T")]
        changes += [Join(client, scope) for client in ("@c1", "@c2")]
    if policies:
        changes += [SetPolicy(client, PolicyKind.PUBLISHING, BY_KIND) for client in ("@c1", "@c2")]
    return tuple(changes)


def told(changes: tuple[AnyChange, ...]) -> tuple[dict[str, list[Notification]], set[tuple[str, str]]]:
    """What everybody gets of each kind from c1; and which kind has travelled, or was handed over, in which scope.

    The brokers a and c of c1 and c2 are joined by t, which also joins them to what is only trusted with bulk.
    """
    places = {"c1": "a", "c2": "c", "reader": "t", "bystander": "b"}
    world = Watched("abct", ["at", "tc", "bt"], places, seed=4)
    assert not world.change(*changes, Join("@bystander", "T")).error
    world.subscribe("c2", "reader")
    for number, kind in enumerate(KINDS):
        world.client("c1").publish(kind=kind, n=number)
    world.network.run()
    assert not check(world.network.trace)
    travelled = {
        (str(message.envelope.notification["kind"]), route.scope)
        for _, _, message in world.notified
        for route in message.envelope.routes
    }
    return {client: world.got(client) for client in ("c2", "reader")}, travelled


@pytest.mark.req("ARC-174")
def test_each_kind_goes_by_its_own_scope_and_readers_see_no_difference() -> None:
    before, _ = told(undivided())
    after, travelled = told(divided())
    assert after == before
    assert [len(got) for got in after.values()] == [2, 2]
    assert {("bulk", "S1"), ("secret", "S2")} <= travelled
    assert not {("bulk", "S2"), ("secret", "S1")} & travelled


def test_policies_alone_do_not_keep_what_climbs_from_coming_down_on_the_other_side() -> None:
    _, travelled = told(divided(interfaces=False))
    assert ("secret", "S1") in travelled


@pytest.mark.req("ARC-174")
def test_a_publisher_offers_nothing_to_the_wrong_scope_even_where_no_interface_stands() -> None:
    graph = apply(Graph(), divided(interfaces=False))
    for kind, scope in (("bulk", "S1"), ("secret", "S2")):
        identity = Identity("a", 1, 1, "c1", 1, 0)
        seen = reach(graph, "@c1", Notification(kind=kind), identity=identity)
        assert [one.path for one in seen if one.node in ("S1", "S2") and len(one.path) == 2] == [("@c1", scope)]
