"""Overlays: which brokers carry a scope, and what a version of the graph means for each of them."""

from __future__ import annotations

import itertools
import random

import pytest
from scopes.graph_world import FX_3, graph, note

from tidings.broker import OPEN_PASSAGE, Tree
from tidings.model import ROOT_SCOPE
from tidings.scopes import (
    OPEN,
    Anchor,
    CreateScope,
    Graph,
    Impose,
    Interface,
    Join,
    Placement,
    Plan,
    SetPlacement,
    View,
    apply,
)
from tidings.scopes._overlay import MAX_TREES, Spans, span

Parents = dict[str, str | None]


def random_tree(dice: random.Random, size: int) -> Parents:
    names = [f"b{number}" for number in range(size)]
    dice.shuffle(names)
    return {name: dice.choice(names[:number]) if number else None for number, name in enumerate(names)}


def is_connected(parents: Parents, brokers: set[str]) -> bool:
    """Whether one can go from each to each without leaving them."""
    reached, stack = set(), [min(brokers)] if brokers else []
    while stack:
        here = stack.pop()
        reached.add(here)
        around = {name for name in brokers if parents[name] == here or parents[here] == name}
        stack += around - reached
    return reached == brokers


def smallest_connected(parents: Parents, anchors: frozenset[str]) -> set[str]:
    """Tried out, the smallest sets first."""
    others = sorted(parents.keys() - anchors)
    for size in range(len(others) + 1):
        for more in itertools.combinations(others, size):
            if is_connected(parents, {*anchors, *more}):
                return {*anchors, *more}
    raise AssertionError("a tree is connected")


@pytest.mark.parametrize("seed", range(100))
def test_an_overlay_is_the_smallest_connected_set_with_its_anchors(seed: int) -> None:
    dice = random.Random(seed)
    parents = random_tree(dice, dice.randint(1, 9))
    anchors = frozenset(dice.sample(sorted(parents), dice.randint(0, min(4, len(parents)))))
    assert span(parents, anchors) == smallest_connected(parents, anchors)


def test_an_anchor_that_the_tree_does_not_reach_is_left_out() -> None:
    tree: Parents = {"a": None, "b": "a"}
    assert span(tree, frozenset({"b", "gone"})) == {"b"}
    assert span(tree, frozenset({"gone"})) == span(tree, frozenset()) == frozenset()


@pytest.mark.parametrize("seed", range(20))
def test_more_anchors_never_make_an_overlay_smaller(seed: int) -> None:
    dice = random.Random(seed)
    parents = random_tree(dice, 9)
    few = frozenset(dice.sample(sorted(parents), 2))
    many = few | frozenset(dice.sample(sorted(parents), 2))
    assert span(parents, few) <= span(parents, many)


def test_overlays_of_many_trees_are_not_all_remembered() -> None:
    spans = Spans()
    for epoch in range(MAX_TREES * 2):
        tree: Parents = {"a": None, f"b{epoch}": "a"}
        assert spans.of(epoch, tree, frozenset({"a", f"b{epoch}"})) == {"a", f"b{epoch}"}
    assert len(spans._trees) == MAX_TREES
    assert spans.of(0, {"a": None}, frozenset({"a"})) == {"a"}, "forgotten, so worked out anew"


# --- what a version means for one broker -----------------------------------------------------------------

LINKS = [("B1", "B2"), ("B1", "B5"), ("B2", "B3"), ("B2", "B4")]
PARENTS: Parents = {"B1": None, "B2": "B1", "B5": "B1", "B3": "B2", "B4": "B2"}
PLACES = {"c1": "B1", "c2": "B1", "c3": "B3", "c4": "B4", "c6": "B4", "c5": "B5"}


def anchored(some: Graph) -> Graph:
    edges = [edge for edge in some.memberships() if edge.member[1:] in PLACES]
    return apply(some, tuple(Anchor(edge.scope, PLACES[edge.member[1:]]) for edge in edges))


STATIC = anchored(graph(*FX_3))


def tree_of(broker: str) -> Tree:
    around = frozenset(b if a == broker else a for a, b in LINKS if broker in (a, b))
    hops = {}
    for neighbour in around:
        behind = [neighbour]
        for one in behind:
            behind += [b if a == one else a for a, b in LINKS if one in (a, b) and broker not in (a, b)]
            behind = list(dict.fromkeys(behind))
            hops[one] = neighbour
    return Tree(4711, around, hops, PARENTS)


def view(broker: str, some: Graph = STATIC) -> View:
    return Plan(some).on(broker, tree_of(broker))


def test_fx_3_every_broker_carries_what_its_place_asks_for() -> None:
    """The overlay of U contains that of S, a scope in it; see docs/decisions/0060."""
    one = view("B1")
    assert one.overlay("S") == {"B1", "B2", "B4"}
    assert one.overlay("T") == {"B1", "B2", "B3", "B4"}
    assert one.overlay("U") == {"B1", "B2", "B4", "B5"}
    assert one.overlay(ROOT_SCOPE) == set(PARENTS)
    carried = {broker: view(broker).scopes - {ROOT_SCOPE} for broker in PARENTS}
    assert carried == {"B1": set("STU"), "B2": set("STU"), "B3": {"T"}, "B4": set("STU"), "B5": {"U"}}


@pytest.mark.parametrize("broker", sorted(PARENTS))
def test_where_a_scope_is_its_superscopes_are_too(broker: str) -> None:
    here = view(broker)
    for scope in here.scopes - {ROOT_SCOPE}:
        assert set(here.supers(scope)) <= here.scopes


def test_fx_3_a_scope_is_told_to_the_neighbours_that_carry_it() -> None:
    one, two = view("B1"), view("B2")
    assert one.neighbours("S") == {"B2"}
    assert one.neighbours("U") == {"B2", "B5"}
    assert two.neighbours("T") == {"B1", "B3", "B4"}
    assert two.neighbours("S") == {"B1", "B4"}
    assert view("B3").neighbours("S") == frozenset(), "it does not carry S itself"
    assert one.neighbours(ROOT_SCOPE) == {"B2", "B5"}


def test_fx_3_edges_are_crossed_where_both_scopes_are() -> None:
    one = view("B1")
    assert set(one.supers("S")) == {"T", "U"}
    assert set(one.subs("T")) == set(one.subs("U")) == {"S"}
    assert one.subs("S") == {}
    for broker, gates in {"B1": {"T", "U"}, "B2": {"T", "U"}, "B4": {"T", "U"}, "B3": set(), "B5": set()}.items():
        assert set(view(broker).gates("S")) == gates
    assert one.gates("T") == {}


def test_fx_3_what_a_neighbour_lets_in_itself_is_not_let_in_here() -> None:
    one = view("B1")
    assert one.admits("S", "T", "B2")
    assert one.admits("S", "U", "B2")
    assert not one.admits("S", "U", "B5"), "B5 does not carry S"
    assert not one.admits("T", "S", "B2"), "T is no member of S"
    assert not one.admits("T", "gone", "B2")


def test_fx_3_with_a_gateway_everything_crosses_there() -> None:
    some = apply(STATIC, (SetPlacement("S", "T", Placement.GATEWAY, "B1"),))
    assert {broker for broker in PARENTS if "T" in view(broker, some).gates("S")} == {"B1"}
    assert {broker for broker in PARENTS if "U" in view(broker, some).gates("S")} == {"B1", "B2", "B4"}
    one = view("B1", some)
    assert one.gateway("S", "T") == "B1"
    assert one.gateway("S", "U") is None
    assert not one.admits("S", "T", "B2")


def test_a_gateway_need_not_be_where_members_are() -> None:
    some = apply(STATIC, (SetPlacement("S", "U", Placement.GATEWAY, "B5"),))
    assert view("B5", some).overlay("U") == {"B5"}
    assert view("B5", some).overlay("S") == {"B1", "B2", "B4", "B5"}
    assert {broker for broker in PARENTS if "U" in view(broker, some).gates("S")} == {"B5"}


def test_everywhere_means_that_no_neighbour_crosses_in_one_s_stead() -> None:
    some = apply(STATIC, (SetPlacement("S", "T", Placement.EVERYWHERE),))
    assert not view("B1", some).admits("S", "T", "B2")
    assert set(view("B2", some).gates("S")) == {"T", "U"}


def test_clients_are_members_where_the_graph_says_so_or_of_the_root_scope() -> None:
    one = view("B1")
    assert set(one.memberships("c1")) == {"S"}
    assert one.memberships("stranger") == {ROOT_SCOPE: OPEN_PASSAGE}
    assert one.memberships("c1")["S"] is one.memberships("c1")["S"], "made once"


def test_what_the_root_scope_imposes_is_imposed_on_strangers() -> None:
    some = apply(STATIC, (Impose(ROOT_SCOPE, Interface.parse(input="a > 3", output="a > 1")),))
    passage = view("B1", some).memberships("stranger")[ROOT_SCOPE]
    assert passage.outward(note(1)) is None
    assert passage.outward(note(2)) == note(2)
    assert passage.inward(note(2)) is None
    assert [seen.path for seen in view("B1", some).sightings("x", note(4), "y")] == [(ROOT_SCOPE,)]
    assert list(view("B1", some).sightings("x", note(2), "y")) == []


@pytest.mark.req("VIS-320")
def test_nobody_carries_an_abstract_scope() -> None:
    changes = (
        CreateScope("A", OPEN, abstract=True),
        Join("S", "A"),
        Join("A", "T"),
        Join("@stranger", "A"),
        Anchor("A", "B3"),
    )
    here = view("B3", apply(STATIC, changes))
    assert here.overlay("A") == frozenset()
    assert here.scopes == {ROOT_SCOPE, "T"}
    assert set(here.supers("S")) == {"T", "U"}
    assert set(here.subs("T")) == {"S"}
    assert here.supers("A") == here.subs("A") == {}
    assert set(here.memberships("stranger")) == {ROOT_SCOPE}
