"""The oracle against the definitions: who sees whom, and where notifications go."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scopes.definitions import by_rules, least_v, literal, others, publications, seen_by, without_re_entry
from scopes.graph_world import (
    CLIMBING_DIAMOND,
    DESCENDING_DIAMOND,
    FX_1,
    FX_6,
    GRAPH_A,
    GRAPH_B,
    HAZARD,
    Edge,
    Sides,
    World,
    graph,
    note,
    random_world,
    value_of,
)
from strategies import SOAK_SLOWLY

from tidings.model import ROOT_SCOPE, Filter
from tidings.scopes import (
    Graph,
    Interface,
    SetMapping,
    SetSelective,
    apply,
    delivery_paths,
    edge_mapping,
    mapping,
    reach,
    sightings,
    visibility_roots,
    visible,
)
from tidings.scopes._oracle import ancestors
from tidings.scopes.mappings._convert import Convert

# --- v --------------------------------------------------------------------------------------------------


@pytest.mark.req("VIS-303")
@pytest.mark.parametrize("seed", range(60))
def test_visibility_is_the_least_fixpoint_and_meets_in_a_root(seed: int) -> None:
    world = random_world(f"v{seed}", filters=False, mappings=False, abstract=seed % 2 == 0, scopes=8)
    some, least = world.graph(), least_v(world)
    for one, other in itertools.product(world.nodes(), repeat=2):
        assert visible(some, one, other) == ((one, other) in least)
        meet = visibility_roots(some, one) & visibility_roots(some, other)
        assert bool(meet) == ((one, other) in least)
        assert bool(delivery_paths(some, one, other)) == ((one, other) in least)


@pytest.mark.req("VIS-303")
def test_a_member_and_its_scope_see_each_other() -> None:
    """The closed form as printed, with the irreflexive closure, denies it for a scope at the top."""
    some = graph("x < S")

    def strictly_above(node: str) -> set[str]:
        return ancestors(some, node) - {node}

    assert visible(some, "@x", "S")
    assert strictly_above("@x").isdisjoint(strictly_above("S"))


@pytest.mark.req("VIS-303")
@pytest.mark.parametrize("seed", range(40))
def test_an_edge_more_never_hides_anybody(seed: int) -> None:
    world = random_world(f"edge{seed}", filters=False, mappings=False)
    pairs = [(member, scope) for scope in world.scopes for member in world.nodes() if member not in (scope, ROOT_SCOPE)]
    # A client that gets its first edge leaves the root scope: that is another change, not an edge more.
    placed = [member for member, _ in world.edges]
    possible = [
        (member, scope)
        for member, scope in pairs
        if (member, scope) not in world.edges
        and (member in world.scopes or member in placed)
        and member not in world.graph().above(scope)
    ]
    before = least_v(world)
    for pair in possible[:6]:
        more = replace(world, edges={**world.edges, pair: Edge()})
        some = more.graph()
        for one, other in before:
            assert visible(some, one, other)
        assert before <= least_v(more)


def test_graph_a_who_sees_whom() -> None:
    some = graph(*GRAPH_A)
    assert visible(some, "@x", "@y")
    assert visible(some, "@y", "@u")
    assert not visible(some, "@x", "@z")
    assert "R" in ancestors(some, "@y")
    assert all(visible(some, one, other) == visible(some, other, one) for one in some.nodes() for other in some.nodes())


# --- where notifications go -----------------------------------------------------------------------------


def nodes_reached(some: Graph, publisher: str) -> set[str]:
    return {at.node for at in reach(some, publisher, note(1))} - {publisher}


@pytest.mark.req("VIS-307", "VIS-308")
def test_graph_b_what_comes_in_from_one_superscope_never_goes_out_to_another() -> None:
    some = graph(*GRAPH_B, "m < T'")
    assert nodes_reached(some, "@y") == {"S", "T", "T'", "@x", "@m"}
    assert nodes_reached(some, "@x") == {"T", "S", "@y"}


@pytest.mark.parametrize("edges", [CLIMBING_DIAMOND, DESCENDING_DIAMOND])
def test_graphs_c_there_is_one_sighting_for_each_path(edges: tuple[str, ...]) -> None:
    some = graph(*edges)
    seen = sightings(some, "@c1", note(1), "@c2")
    assert [at.path for at in seen] == delivery_paths(some, "@c1", "@c2")
    assert len(seen) == 2
    assert {at.notification for at in seen} == {note(1)}


def test_the_hazard_a_blocked_short_path_leaves_the_long_one() -> None:
    first, second = Filter.parse("a = 1"), Filter.parse("a = 2")
    some = apply(graph(*HAZARD, "reader < T"), (SetSelective("@c", "T", Interface(output=second)),))
    assert not first.overlaps(second)
    assert [at.path for at in sightings(some, "@c", note(1), "@reader")] == [("@c", "S", "Z", "T", "@reader")]
    assert ("@c", "T", "@reader") in [at.path for at in sightings(some, "@c", note(2), "@reader")]


def test_fx_1_the_long_path() -> None:
    some = graph(*FX_1)
    assert delivery_paths(some, "@c1", "@c3") == [("@c1", "T", "S", "U", "V", "@c3")]
    assert delivery_paths(some, "@c3", "@c4") == [("@c3", "V", "U", "@c4")]
    assert nodes_reached(some, "@c1") == {"T", "S", "@c2", "U", "@c4", "V", "@c3"}
    assert ancestors(some, "@c1") - {"@c1"} == {"T", "S"}
    assert visibility_roots(some, "@c1") == {"S"}


def test_fx_6_the_diamond_is_crossed_once() -> None:
    some = graph(*FX_6)
    assert [at.path for at in sightings(some, "@c0", note(1), "@c1")] == [("@c0", "S", "@c1")]
    assert [at.path for at in sightings(some, "@c0", note(1), "@c0")] == [("@c0",)]
    # What the document's check of the last edge alone lets through: up one side, down the other, and in again.
    world = World(
        ["R", "T1", "T2", "S"],
        ["@c0", "@c1"],
        {pair: Edge() for pair in [("S", "T1"), ("S", "T2"), ("T1", "R"), ("T2", "R"), ("@c0", "S"), ("@c1", "S")]},
        {name: Sides() for name in ("S", "T1", "T2", "R")},
    )
    assert len(list(copies(world, ("@c0", "S"), "@c1", lambda path: path[-2:-1]))) == 3
    assert len(list(copies(world, ("@c0", "S"), "@c0", lambda path: path[-2:-1]))) == 2
    assert len(list(copies(world, ("@c0", "S"), "@c1", lambda path: path))) == 1


Path = tuple[str, ...]


def copies(
    world: World, path: Path, reader: str, barred: Callable[[Path], Path], *, down: bool = False
) -> Iterator[Path]:
    """Every path of an open world that ends at a reader, if a scope gives nothing to members that are barred."""
    for member, scope in world.links():
        if scope == path[-1] and member not in barred(path):
            if member == reader:
                yield (*path, member)
            yield from copies(world, (*path, member), reader, barred, down=True)
        if member == path[-1] and not down:
            yield from copies(world, (*path, scope), reader, barred)


def brute_force_paths(world: World, one: str, other: str) -> set[Path]:
    """All ways along edges in either direction that pass no node twice, as far as they go up and then down."""
    links = world.links()
    found = set()

    def walk(path: Path, turns: str) -> None:
        if path[-1] == other:
            found.add((path, turns))
        for member, scope in links:
            if member == path[-1] and scope not in path:
                walk((*path, scope), turns + "u")
            if scope == path[-1] and member not in path:
                walk((*path, member), turns + "d")

    walk((one,), "")
    return {path for path, turns in found if "du" not in turns}


@pytest.mark.req("VIS-309")
@pytest.mark.parametrize("seed", range(40))
def test_delivery_paths_are_all_ways_up_and_then_down(seed: int) -> None:
    world = random_world(f"paths{seed}", filters=False, mappings=False, abstract=seed % 4 == 0)
    some = world.graph()
    for one, other in itertools.product(world.clients, repeat=2):
        paths = delivery_paths(some, one, other)
        assert set(paths) == brute_force_paths(world, one, other)
        assert len(paths) == len(set(paths))
        if one != other:  # a publisher sees its own publication for a reason of its own
            assert Counter(at.path for at in sightings(some, one, note(0), other)) == Counter(paths)


@pytest.mark.req("VIS-305", "VIS-307", "VIS-308", "VIS-502")
@pytest.mark.parametrize("seed", range(80))
def test_the_oracle_is_the_relation_without_re_entry(seed: int) -> None:
    check_relation(random_world(f"all{seed}", abstract=seed % 3 == 0))


def check_relation(world: World) -> None:
    some = world.graph()
    for publisher, a in publications(world):
        assert seen_by(some, publisher, a, world.nodes()) == others(without_re_entry(world, publisher, a), publisher)


@pytest.mark.soak
@SOAK_SLOWLY
@given(st.integers(0), st.booleans())
def test_the_oracle_is_the_relation_without_re_entry_for_long(seed: int, abstract: bool) -> None:
    check_relation(random_world(f"long{seed}", abstract=abstract, scopes=9))


@pytest.mark.req("VIS-305", "VIS-307", "VIS-308", "VIS-401")
@pytest.mark.parametrize("seed", range(80))
def test_without_mappings_every_reading_of_the_definitions_is_the_same(seed: int) -> None:
    world = random_world(f"filters{seed}", mappings=False, abstract=seed % 3 == 0)
    some = world.graph()
    for publisher, a in publications(world):
        seen = seen_by(some, publisher, a, world.nodes())
        assert seen == others(literal(world, publisher, a), publisher)
        assert seen == others(by_rules(world, publisher, a), publisher)
        assert seen == others(without_re_entry(world, publisher, a, only_return=True), publisher)


@pytest.mark.req("VIS-502")
def test_with_mappings_re_entry_makes_a_difference() -> None:
    literally = at_once = total = 0
    for seed in range(150):
        world = random_world(f"re-entry{seed}")
        for publisher, a in publications(world):
            total += 1
            strict = without_re_entry(world, publisher, a)
            literally += strict != literal(world, publisher, a)
            at_once += strict != without_re_entry(world, publisher, a, only_return=True)
    assert total > 2000
    assert literally > at_once > 0


@pytest.mark.req("VIS-502")
def test_what_left_a_scope_does_not_come_back_changed() -> None:
    cents = edge_mapping(mapping(Convert("a", 100)), mapping(Convert("a", 1)))
    some = apply(graph("x < S", "y < S", "S < T", "z < T"), (SetMapping("S", "T", cents),))
    assert [value_of(at.notification) for at in sightings(some, "@x", note(2), "@y")] == [2]
    assert [value_of(at.notification) for at in sightings(some, "@x", note(2), "@z")] == [200]


@pytest.mark.req("VIS-303", "VIS-305")
@pytest.mark.parametrize("seed", range(40))
def test_where_all_is_open_notifications_go_where_components_are_visible(seed: int) -> None:
    world = random_world(f"open{seed}", filters=False, mappings=False)
    some, least = world.graph(), least_v(world)
    for publisher in world.clients:
        expected = {(other, 3) for one, other in least if one == publisher and other != publisher}
        assert seen_by(some, publisher, 3, world.nodes()) == expected


@pytest.mark.parametrize("seed", range(40))
def test_mappings_that_change_nothing_change_nothing(seed: int) -> None:
    """ES^M with identity mappings is ES^S."""
    world = random_world(f"identity{seed}", mappings=False)
    plain = world.graph()
    twice = (("mirror", 0), ("mirror", 0))
    edges = {pair: replace(edge, outward=twice, inward=twice) for pair, edge in world.edges.items()}
    mapped = replace(world, edges=edges).graph()
    for publisher, a in publications(world):
        assert seen_by(mapped, publisher, a, world.nodes()) == seen_by(plain, publisher, a, world.nodes())


@pytest.mark.req("VIS-505")
def test_inside_a_scope_nothing_is_mapped() -> None:
    doubled = edge_mapping(mapping(Convert("a", 2)), mapping(Convert("a", 2)))
    some = apply(graph("x < S", "y < S", "S < T", "z < T"), (SetMapping("S", "T", doubled),))
    assert [at.notification for at in sightings(some, "@x", note(1), "@y")] == [note(1)]
    assert [value_of(at.notification) for at in sightings(some, "@z", note(1), "@y")] == [2]


@pytest.mark.req("VIS-320")
@pytest.mark.parametrize("seed", range(60))
def test_abstract_scopes_change_nothing(seed: int) -> None:
    world = random_world(f"abstract{seed}", abstract=True)
    without = World(
        [scope for scope in world.scopes if scope not in world.abstract],
        world.clients,
        {pair: edge for pair, edge in world.edges.items() if not world.abstract & set(pair)},
        world.base,
        world.imposed,
    )
    some, other, nodes = world.graph(), without.graph(), without.nodes()
    for publisher, a in publications(world):
        assert seen_by(some, publisher, a, nodes) == seen_by(other, publisher, a, nodes)
    for scope in world.abstract:
        assert ancestors(some, scope) == {scope}
