"""Groups whose members are in scopes: each member gets only what it sees itself, whatever becomes of the graph."""

from __future__ import annotations

from typing import Any

import pytest

from tidings.groups import Groups
from tidings.scopes import (
    OPEN,
    AnyChange,
    CreateScope,
    EdgeMapping,
    Interface,
    Join,
    Leave,
    Mapping,
    Placement,
    Scopes,
)
from tidings.scopes.steps import Convert
from tidings.sim import Network, SimClient, check


def network(*changes: AnyChange, members: str = "ac") -> Network:
    """Brokers a, b and c in a row, the publisher p at b, and members m0, m1 and so on where `members` says."""
    built = Network(seed=1, features=lambda broker: [Scopes("a"), Groups()])
    built.add_brokers("abc", links=("ab", "bc"))
    built.run()
    built.add_client("p", "b")
    for at, broker in enumerate(members):
        built.add_client(f"m{at}", broker)
    change(built, *changes)
    for one in joined(built):
        one.join("billing", "n > 0", id="g")
    built.run()
    return built


def change(built: Network, *changes: AnyChange) -> None:
    answers = built.change("a", changes)
    built.run()
    assert [one.error for one in answers] == [""]


def joined(built: Network) -> list[SimClient]:
    return [client for name, client in sorted(built.clients.items()) if name != "p"]


def publish(built: Network, publisher: str, *numbers: int) -> None:
    for n in numbers:
        built.clients[publisher].publish(n=n)
    built.run()


def numbers(client: SimClient) -> list[object]:
    return [one["n"] for one in client.received]


NARROW = Interface.parse(output="n > 100")
DOUBLE = EdgeMapping(outward=Mapping((Convert("n", factor=2),)))
SCOPE = (CreateScope("s", OPEN), Join("@p", "s"), Join("@m0", "s"), Join("@m1", "s"))


def test_a_member_that_leaves_the_scope_of_its_group_gets_nothing_more_of_it_and_is_told_why() -> None:
    built = network(*SCOPE)
    publish(built, "p", 1, 2, 3, 4)
    one, two = joined(built)
    assert sorted(map(len, (one.received, two.received))) == [2, 2]
    change(built, Leave("@m0", "s"))
    publish(built, "p", 5, 6, 7, 8)
    assert len(one.received) == 2
    assert [n for n in numbers(two) if n > 4] == [5, 6, 7, 8]  # type: ignore[operator]
    assert [refusal.reason for refusal in one.refusals] == [
        "group 'billing' does not take client 'm0': its members are in the scopes 's', and this client is in (none); "
        "all members of a group must see the same"
    ]
    assert check(built.trace) == []


def test_who_has_left_its_last_scope_cannot_join_a_group_of_the_root_scope() -> None:
    built = network(*SCOPE[:3], Leave("@m0", "s"))
    publish(built, "p", 1)
    one, two = joined(built)
    assert [refusal.reason for refusal in (*one.refusals, *two.refusals)] == [
        "group 'billing' does not take client 'm0': its members are in the scopes (root), and this client is in "
        "(none); all members of a group must see the same"
    ]
    assert one.received == two.received == []


def test_a_group_whose_members_have_all_gone_elsewhere_begins_anew_there() -> None:
    built = network(*SCOPE)
    change(built, CreateScope("t", OPEN), *(Leave(f"@{one}", "s") for one in ("p", "m0", "m1")), Join("@p", "t"))
    change(built, Join("@m0", "t"), Join("@m1", "t"))
    for one in joined(built):
        one.join("billing", "n > 0", id="g")
    built.run()
    publish(built, "p", 1, 2, 3, 4)
    assert sorted(n for one in joined(built) for n in numbers(one)) == [1, 2, 3, 4]  # type: ignore[type-var]
    assert check(built.trace) == []


def test_a_member_gets_what_it_publishes_itself_in_a_scope() -> None:
    built = network(*SCOPE, members="b")
    publish(built, "m0", 1, 2)
    assert numbers(joined(built)[0]) == [1, 2]
    assert check(built.trace) == []


def test_where_an_edge_has_a_gateway_the_next_point_goes_on_where_the_last_one_stopped() -> None:
    gateway = (CreateScope("t", OPEN), Join("s", "t", placement=Placement.GATEWAY, gateway="b"))
    built = network(*SCOPE, *gateway, members="aa")
    built.add_broker("0")
    built.connect("0", "a")  # the one with the smallest name decides
    built.run(0.03)
    publish(built, "m0", 1)
    assert [n for one in joined(built) for n in numbers(one)] == [1]
    assert check(built.trace) == []


@pytest.mark.parametrize("own", [{"selective": NARROW}, {"mapping": DOUBLE}])
def test_who_publishes_through_terms_of_its_own_cannot_join(own: dict[str, Any]) -> None:
    built = network(*SCOPE[:2], Join("@m0", "s", **own), SCOPE[3])
    publish(built, "m0", 1, 2, 3)
    one, two = joined(built)
    assert [refusal.reason for refusal in one.refusals] == [
        "client 'm0' publishes in scope 's' through an interface, a mapping or a policy of its own, so it sees there "
        "what others do not, and cannot share it; join with a client that is a plain member"
    ]
    assert numbers(one) == []
    assert numbers(two) == ([] if "selective" in own else [2, 4, 6])
    assert check(built.trace) == []


def test_members_come_back_to_a_broker_that_does_not_know_the_graph_yet() -> None:
    built = network(*SCOPE)
    built.crash("c")
    built.run()
    built.restart("c")
    built.run()
    publish(built, "p", 1, 2, 3, 4)
    assert [one.refusals for one in joined(built)] == [[], []]
    assert sorted(map(len, (one.received for one in joined(built)))) == [2, 2]
