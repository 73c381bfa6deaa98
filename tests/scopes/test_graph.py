"""The scope graph: who is a member of what, and who is related to whom."""

from __future__ import annotations

import pytest
from scopes.graph_world import FX_1, GRAPH_A, graph, random_world

from tidings.model import ROOT_SCOPE, ScopeError
from tidings.scopes import CLOSED, OPEN, Anchor, CreateScope, Graph, Join, Placement, SetPlacement, apply, is_client

ONE = graph(*FX_1)
"""T < S, U < S, V < U; a client in each."""


def test_an_empty_graph_is_the_root_scope() -> None:
    empty = Graph()
    assert list(empty.scopes) == [ROOT_SCOPE]
    assert empty.roots() == [ROOT_SCOPE]
    assert empty.nodes() == {ROOT_SCOPE}
    assert list(empty.memberships()) == []


@pytest.mark.req("VIS-302")
def test_every_relation_can_be_asked_for() -> None:
    assert set(ONE.members("S")) == {"T", "U", "@c2"}
    assert set(ONE.superscopes("U")) == {"S"}
    assert set(ONE.superscopes("@c3")) == {"V"}
    assert sorted(ONE.subscopes("S")) == ["T", "U"]
    assert ONE.siblings("T") == {"U", "@c2"}
    assert ONE.siblings("S") == set()
    assert sorted(ONE.roots()) == [ROOT_SCOPE, "S"]
    assert ONE.leaves() == [ROOT_SCOPE, "@c1", "@c2", "@c3", "@c4"]
    assert ONE.above("@c3") == {"@c3", "V", "U", "S"}
    assert ONE.below("U") == {"U", "V", "@c3", "@c4"}
    assert ONE.nodes() == {ROOT_SCOPE, "S", "T", "U", "V", "@c1", "@c2", "@c3", "@c4"}
    assert ONE.membership("V", "U").member == "V"
    assert len(list(ONE.memberships())) == 7


@pytest.mark.req("VIS-302")
def test_relations_of_a_member_of_two_scopes() -> None:
    two = graph(*GRAPH_A)
    assert set(two.superscopes("@y")) == {"S", "T"}
    assert two.siblings("@y") == {"@x", "@z"}
    assert two.above("@y") == {"@y", "S", "T", "R"}
    assert sorted(two.roots()) == [ROOT_SCOPE, "R", "S"]


@pytest.mark.parametrize("seed", range(30))
def test_members_and_superscopes_say_the_same(seed: int) -> None:
    some = random_world(seed).graph()
    for node in some.nodes():
        for scope, edge in some.superscopes(node).items():
            assert some.members(scope)[node] is edge
            assert (edge.member, edge.scope) == (node, scope)
            assert node in some.below(scope)
            assert scope in some.above(node)
    assert sum(len(some.members(scope)) for scope in some.scopes) == len(list(some.memberships()))


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(ScopeError, match=r"there is no scope 'X'; known scopes: S, T, U, V"):
        ONE.scope("X")
    with pytest.raises(ScopeError, match="known scopes: none yet"):
        Graph().scope("X")
    with pytest.raises(ScopeError, match="there is no scope 'c1'; the client of that name is written '@c1'"):
        ONE.scope("c1")
    with pytest.raises(ScopeError, match="'T' is not a member of 'U'"):
        ONE.membership("T", "U")
    assert ONE.superscopes("nobody") == {}
    assert ONE.members("nothing") == {}


def test_a_long_list_of_known_scopes_is_cut() -> None:
    many = apply(Graph(), tuple(CreateScope(f"s{number:02}") for number in range(11)))
    with pytest.raises(ScopeError, match=r"s06, s07 and 3 more$"):
        many.scope("X")


def test_a_client_of_no_scope_is_in_the_root_scope() -> None:
    assert list(ONE.upward("@stranger")) == [ROOT_SCOPE]
    assert list(ONE.upward("@c1")) == ["T"]
    assert list(ONE.upward("S")) == []


@pytest.mark.req("VIS-320")
def test_nothing_climbs_into_an_abstract_scope_or_out_of_it() -> None:
    changes = (
        CreateScope("R", OPEN),
        CreateScope("A", OPEN, abstract=True),
        CreateScope("S", OPEN),
        Join("A", "R"),
        Join("S", "A"),
        Join("@x", "A"),
        Join("@y", "A"),
        Join("@y", "S"),
    )
    some = apply(Graph(), changes)
    assert some.upward("A") == some.upward("S") == {}
    assert list(some.upward("@x")) == [ROOT_SCOPE]
    assert list(some.upward("@y")) == ["S"]
    # ... but people find in it what they have put there.
    assert set(some.members("A")) == {"S", "@x", "@y"}
    assert some.above("@x") == {"@x", "A", "R"}


@pytest.mark.req("VIS-407")
def test_a_new_scope_is_closed_and_new_edges_are_open() -> None:
    some = apply(Graph(), (CreateScope("S"), CreateScope("T"), Join("S", "T")))
    assert some.scopes["S"].interface == CLOSED
    assert some.scopes["S"].imposed == OPEN
    edge = some.membership("S", "T")
    assert (edge.selective, edge.imposed, edge.mapping) == (OPEN, OPEN, None)


def test_a_scope_is_anchored_where_its_members_and_subscopes_are() -> None:
    some = apply(graph("S < T", "T < R"), (Anchor("S", "b1"), Anchor("T", "b2")))
    assert some.anchored("S") == {"b1"}
    assert some.anchored("T") == {"b1", "b2"}
    assert some.anchored("R") == {"b1", "b2"}


def test_behind_a_gateway_only_the_gateway_is_an_anchor() -> None:
    some = apply(graph("S < T"), (Anchor("S", "b1"), SetPlacement("S", "T", Placement.GATEWAY, "b9")))
    assert some.anchored("T") == {"b9"}
    assert some.anchored("S") == {"b1", "b9"}


def test_an_abstract_scope_anchors_nothing() -> None:
    changes = (
        CreateScope("S"),
        CreateScope("A", abstract=True),
        Join("S", "A", placement=Placement.GATEWAY, gateway="b9"),
        Anchor("S", "b1"),
    )
    assert apply(Graph(), changes).anchored("S") == {"b1"}


def test_the_name_of_a_scope_is_the_end_of_its_id() -> None:
    some = apply(Graph(), (CreateScope("market/frankfurt/floor"), CreateScope("market")))
    assert some.scopes["market/frankfurt/floor"].name == "floor"
    assert some.scopes["market"].name == "market"


def test_graphs_are_equal_by_value_and_can_be_read() -> None:
    assert graph("x < S") == graph("x < S")
    assert graph("x < S") != graph("y < S")
    assert graph("x < S") != graph("x < S").numbered(2)
    assert repr(apply(Graph(), (CreateScope("S"), Join("S", ROOT_SCOPE)))) == "Graph(1: S < root)"
    assert is_client("@x")
    assert not is_client("x")
