"""Where an edge of the scope graph is crossed may be changed while everybody is there: nothing is lost by it."""

from __future__ import annotations

from itertools import permutations

import pytest

from tidings.broker import RoutingOptions
from tidings.scopes import OPEN, AnyChange, CreateScope, DestroyScope, Join, Placement, Scopes, SetPlacement
from tidings.sim import Network, check

PLACES = [
    (Placement.ONCE, ""),
    (Placement.EVERYWHERE, ""),
    (Placement.GATEWAY, "a"),
    (Placement.GATEWAY, "b"),
    (Placement.GATEWAY, "c"),
]


def network(*, advertisements: bool) -> Network:
    """Three brokers in a line, and a client at each."""
    routing = RoutingOptions("covering", advertisements)
    network = Network(3, routing=routing, features=lambda broker: [Scopes("a")])
    network.add_brokers("abc", links=["ab", "bc"])
    for client, broker in (("alice", "a"), ("bob", "c"), ("carol", "b")):
        network.add_client(client, broker)
    network.run()
    return network


def change(network: Network, *changes: AnyChange) -> None:
    answers = network.change("a", changes)
    network.run()
    assert [answer.error for answer in answers] == [""]


@pytest.mark.parametrize("advertisements", [False, True])
@pytest.mark.parametrize(("first", "then"), list(permutations(PLACES, 2)))
def test_what_is_published_in_a_scope_is_seen_above_it_wherever_it_crosses_from_now_on(
    first: tuple[Placement, str], then: tuple[Placement, str], advertisements: bool
) -> None:
    some = network(advertisements=advertisements)
    alice, bob = some.clients["alice"], some.clients["bob"]
    change(
        some,
        CreateScope("above", OPEN),
        CreateScope("below", OPEN),
        Join("below", "above", placement=first[0], gateway=first[1]),
        Join("@alice", "below"),
        Join("@carol", "below"),
        Join("@bob", "above"),
    )
    if advertisements:
        alice.advertise("n > 0")
    bob.subscribe("n > 0")
    some.run()
    for n, (placement, gateway) in enumerate((first, then, first), 1):
        if n > 1:
            change(some, SetPlacement("below", "above", placement, gateway))
        alice.publish(n=n)
        some.run()
        assert [one["n"] for one in bob.received] == list(range(1, n + 1))
    assert check(some.trace, advertisements=advertisements) == []


def test_a_scope_behind_a_gateway_can_be_destroyed_where_there_are_advertisements() -> None:
    some = network(advertisements=True)
    change(
        some,
        CreateScope("above", OPEN),
        CreateScope("below", OPEN),
        Join("below", "above", placement=Placement.GATEWAY, gateway="b"),
        *(Join(f"@{client}", "below") for client in ("alice", "bob", "carol")),
    )
    for client in some.clients.values():
        client.advertise("n > 0")
        client.subscribe("n > 0")
    some.run()
    change(some, DestroyScope("below", cascade=True))
    for client in some.clients.values():
        client.subscribe("n > 1")
    some.run()
    assert check(some.trace, advertisements=True) == []


@pytest.mark.parametrize("back_at", "abc")
@pytest.mark.parametrize("origin", "ad")
@pytest.mark.parametrize("changed", [False, True])
def test_a_client_that_leaves_before_any_mark_is_believed_gets_what_was_on_its_way(
    origin: str, back_at: str, changed: bool
) -> None:
    """Broker d is new; where there are gateways, its marks and those of the client's own broker are believed later."""
    some = network(advertisements=False)
    change(
        some,
        *(CreateScope(scope, OPEN) for scope in ("above", "below")),
        Join("below", "above", placement=Placement.GATEWAY, gateway="b"),
        *(Join(f"@{client}", "below") for client in ("alice", "dora")),
    )
    some.add_broker("d")
    some.connect("b", "d")
    dora, alice = some.add_client("dora", origin), some.clients["alice"]
    some.run(0.5)
    dora.publish(n=1)
    some.run(0.5)
    id = alice.subscribe("n > 0")
    if changed:
        alice.subscribe("n >= 1", id=id)
    some.run(0.5)
    assert alice.settled_ids == {id}
    dora.publish(n=2)
    some.run(0.001)
    alice.detach()
    alice.attach(back_at)
    dora.publish(n=3)
    some.run()
    assert {one["n"] for one in alice.received} >= {2, 3}
    assert check(some.trace) == []


def test_a_client_that_comes_back_is_not_given_what_its_broker_published_before_it_subscribed() -> None:
    some = network(advertisements=False)
    alice, dora = some.clients["alice"], some.add_client("dora", "a")
    change(
        some,
        *(CreateScope(scope, OPEN) for scope in ("above", "below")),
        Join("below", "above", placement=Placement.GATEWAY, gateway="b"),
        *(Join(f"@{client}", "below") for client in ("alice", "dora")),
    )
    dora.publish(n=1)
    some.run(0.5)
    id = alice.subscribe("n > 0")
    some.run(0.5)
    alice.detach()
    alice.attach("a")
    dora.publish(n=2)
    some.run()
    assert alice.settled_ids == {id}
    assert [one["n"] for one in alice.received] == [2]
