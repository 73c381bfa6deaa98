"""The oracle against the definitions, written down a second time: relations as sets of pairs, rules as fixpoints.

Nothing here asks the oracle whether the oracle is right: both start from the same plain `World`.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scopes.graph_world import (
    ALL,
    CLIMBING_DIAMOND,
    DESCENDING_DIAMOND,
    FX_1,
    FX_6,
    GRAPH_A,
    GRAPH_B,
    HAZARD,
    VALUES,
    Edge,
    Sides,
    World,
    graph,
    note,
    random_world,
    run,
    value_of,
)
from strategies import SOAK_SLOWLY

from tidings.model import ROOT_SCOPE, Filter, Notification
from tidings.scopes import (
    CLOSED,
    OPEN,
    CreateScope,
    Graph,
    Impose,
    Interface,
    Join,
    Passage,
    SetInterface,
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
from tidings.scopes._convert import Convert
from tidings.scopes._oracle import ancestors
from tidings.scopes._steps import Rename

Fact = tuple[str, int]
"""A node, and the value that it sees."""


def saturated(facts: set, rule: Callable[[tuple], Iterator[tuple]]) -> set:
    """The least set that holds these facts and all that follows from them."""
    new = set(facts)
    while new:
        new = {result for fact in new for result in rule(fact)} - facts
        facts |= new
    return facts


# --- the definitions ------------------------------------------------------------------------------------


def least_v(world: World) -> set[tuple[str, str]]:
    """v, the least relation of Def. 3.2, as the set of its pairs."""
    links = world.links()

    def rule(pair: tuple[str, str]) -> Iterator[tuple[str, str]]:
        one, other = pair
        yield other, one
        yield from ((member, other) for member, scope in links if scope == one)

    return saturated({(node, node) for node in world.nodes()}, rule)


def literal(world: World, publisher: str, a: int) -> set[Fact]:
    """All (n', Y) with (n, X) ~> (n', Y), as Def. 3.5 has it: what has climbed an edge may come back down it."""
    links = world.links().items()

    def climb(fact: Fact) -> Iterator[Fact]:
        for (member, scope), edge in links:
            if member == fact[0] and (shown := world.up(member, scope, edge, fact[1])) is not None:
                yield scope, shown

    def descend(fact: Fact) -> Iterator[Fact]:
        for (member, scope), edge in links:
            if scope == fact[0] and (shown := world.down(member, scope, edge, fact[1])) is not None:
                yield member, shown

    return saturated(saturated({(publisher, a)}, climb), descend)


def without_re_entry(world: World, publisher: str, a: int, *, only_return: bool = False) -> set[Fact]:
    """~> with no descent into a node that was climbed through; or, with `only_return`, not at once back down."""
    links = world.links().items()

    def climb(fact: tuple) -> Iterator[tuple]:
        node, value, trail = fact
        for (member, scope), edge in links:
            if member == node and (shown := world.up(member, scope, edge, value)) is not None:
                yield scope, shown, (*trail, scope)

    def descend(fact: tuple) -> Iterator[tuple]:
        node, value, trail = fact
        barred = trail[-2:-1] if only_return and trail[-1] == node else () if only_return else trail
        for (member, scope), edge in links:
            if scope == node and member not in barred and (shown := world.down(member, scope, edge, value)) is not None:
                yield member, shown, trail

    climbed = saturated({(publisher, a, (publisher,))}, climb)
    return {(node, value) for node, value, _ in saturated(climbed, descend)}


def by_rules(world: World, publisher: str, a: int) -> set[Fact]:
    """Eqs. 3.5-3.7: what is visible where, as an internal or as an incoming notification, by whom."""
    links = world.links().items()

    def rule(fact: tuple) -> Iterator[tuple]:
        source, value, node, internal = fact
        for (member, scope), edge in links:
            if member == node and internal and (shown := world.up(member, scope, edge, value)) is not None:
                yield node, shown, scope, True  # PP
            if scope == node and not (internal and member == source):
                shown = world.down(member, scope, edge, value)
                if shown is not None:
                    yield node, shown, member, False  # DP, iDP

    return {(node, value) for _, value, node, _ in saturated({("", a, publisher, True)}, rule)}


def seen_by(some: Graph, publisher: str, a: int, nodes: list[str]) -> set[Fact]:
    """The same from the oracle, all nodes but the publisher."""
    found = {(at.node, value_of(at.notification)) for at in reach(some, publisher, note(a))}
    for node in nodes:
        if ROOT_SCOPE in some.upward(node) and node not in some.members(ROOT_SCOPE):  # the graph does not list it there
            found |= {(node, value_of(at.notification)) for at in sightings(some, publisher, note(a), node)}
    return {fact for fact in found if fact[0] != publisher}


def others(facts: set[Fact], publisher: str) -> set[Fact]:
    return {fact for fact in facts if fact[0] != publisher}


def publications(world: World) -> Iterator[tuple[str, int]]:
    yield from itertools.product(world.clients, VALUES)


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


# --- interfaces -----------------------------------------------------------------------------------------


@pytest.mark.req("VIS-402", "VIS-403", "VIS-404", "VIS-405", "VIS-501", "VIS-506")
@pytest.mark.parametrize("seed", range(40))
def test_an_edge_does_what_its_interfaces_and_its_mapping_do_in_this_order(seed: int) -> None:
    world = random_world(f"order{seed}")
    some = world.graph()
    for (member, scope), edge in world.edges.items():
        passage = Passage(some, some.membership(member, scope))
        for a in VALUES:
            out, back = passage.outward(note(a)), passage.inward(note(a))
            assert (None if out is None else value_of(out)) == world.up(member, scope, edge, a)
            assert (None if back is None else value_of(back)) == world.down(member, scope, edge, a)


@pytest.mark.req("VIS-405")
def test_the_member_s_filters_see_its_own_model_and_the_scope_s_filters_theirs() -> None:
    some = apply(
        graph("x < S", "S < T", "z < T"),
        (
            SetMapping("S", "T", edge_mapping(mapping(Rename("usd", "eur")))),
            SetInterface("S", Interface.parse(input="usd > 1", output="usd > 2")),
            SetSelective("S", "T", Interface.parse(input="usd < 10", output="usd < 20")),
            Impose("T", Interface.parse(input="eur > 3", output="eur > 4"), "S"),
            Impose("T", Interface.parse(input="eur < 8", output="eur < 9")),
        ),
    )
    crossing = Passage(some, some.membership("S", "T"))
    out = [usd for usd in range(25) if crossing.outward(Notification(usd=usd)) is not None]
    back = [eur for eur in range(25) if crossing.inward(Notification(eur=eur)) is not None]
    assert out == [5, 6, 7, 8]
    assert back == [4, 5, 6, 7]
    assert crossing.outward(Notification(usd=5)) == Notification(eur=5)
    assert crossing.inward(Notification(usd=5)) is None, "nothing in the scope speaks of dollars"


Step = Callable[[int], int | None]


def concatenated(first: tuple[Step, Step], second: tuple[Step, Step]) -> tuple[Step, Step]:
    """I1 . I2: input runs through I2 first, output through I1 first."""

    def then(one: Step, other: Step) -> Step:
        return lambda a: None if (shown := one(a)) is None else other(shown)

    return then(second[0], first[0]), then(first[1], second[1])


@pytest.mark.req("VIS-405")
@pytest.mark.parametrize("seed", range(30))
def test_the_effective_interface_is_a_concatenation_and_brackets_do_not_matter(seed: int) -> None:
    world = random_world(f"brackets{seed}")
    some = world.graph()
    for (member, scope), edge in world.edges.items():
        sides = [world.base.get(member, Sides()), edge.selective, edge.imposed, world.imposed.get(scope, Sides())]
        filters = [tuple(map(only, (side.input, side.output))) for side in sides]
        mapped = functools.partial(run, edge.inward), functools.partial(run, edge.outward)
        five = [*filters[:2], mapped, *filters[2:]]
        left = five[0]
        for one in five[1:]:
            left = concatenated(left, one)
        right = five[-1]
        for one in reversed(five[:-1]):
            right = concatenated(one, right)
        passage = Passage(some, some.membership(member, scope))
        for a in VALUES:
            back, out = passage.inward(note(a)), passage.outward(note(a))
            assert left[0](a) == right[0](a) == (None if back is None else value_of(back))
            assert left[1](a) == right[1](a) == (None if out is None else value_of(out))


def only(values: frozenset[int]) -> Step:
    return lambda a: a if a in values else None


def narrowings(world: World) -> Iterator[tuple[str, str, World]]:
    """The world with one interface narrowed: of which member, in which scope, and what it is then."""
    for scope in world.base:
        tighter = Sides(world.base[scope].input - {0, 1}, world.base[scope].output - {2, 3})
        yield scope, "", replace(world, base={**world.base, scope: tighter})
    for (member, scope), edge in world.edges.items():
        for kind in ("selective", "imposed"):
            sides: Sides = getattr(edge, kind)
            tighter = Sides(sides.input - {0, 1}, sides.output - {2, 3})
            yield (
                member,
                scope,
                replace(world, edges={**world.edges, (member, scope): replace(edge, **{kind: tighter})}),
            )


@pytest.mark.req("VIS-305", "VIS-401")
@pytest.mark.parametrize("seed", range(10))
def test_a_narrower_interface_never_shows_more(seed: int) -> None:
    world = random_world(f"narrow{seed}", mappings=False, scopes=4)
    before = {one: seen_by(world.graph(), *one, world.nodes()) for one in publications(world)}
    for _, _, narrower in narrowings(world):
        after = narrower.graph()
        for one, seen in before.items():
            assert seen_by(after, *one, world.nodes()) <= seen


@pytest.mark.req("VIS-402", "VIS-404")
@pytest.mark.parametrize("seed", range(10))
def test_an_interface_of_one_edge_concerns_only_what_crosses_that_edge(seed: int) -> None:
    world = random_world(f"edges{seed}", scopes=4)
    before = world.graph()
    for member, scope, narrower in itertools.islice((one for one in narrowings(world) if one[1]), 8):
        after = narrower.graph()
        for publisher, a in publications(world):
            crossing = {(member, scope), (scope, member)}
            kept = [at for at in reach(before, publisher, note(a)) if crossing.isdisjoint(itertools.pairwise(at.path))]
            still = [at for at in reach(after, publisher, note(a)) if crossing.isdisjoint(itertools.pairwise(at.path))]
            assert [at for at in kept if at.node != publisher] == [at for at in still if at.node != publisher]


@pytest.mark.req("VIS-402", "VIS-404")
def test_types_a_and_b_at_one_component() -> None:
    only_a, only_b = Interface.parse(output="type = 'A'"), Interface.parse(output="type = 'B'")
    some = apply(graph("c < S", "c < T"), (SetSelective("@c", "T", only_a), Impose("S", only_b, "@c")))
    reached = {kind: {at.node for at in reach(some, "@c", Notification(type=kind))} - {"@c"} for kind in "AB"}
    assert reached == {"A": {"T"}, "B": {"S"}}


@pytest.mark.req("VIS-410")
def test_a_selective_interface_closes_the_second_path() -> None:
    some = graph(*CLIMBING_DIAMOND)
    assert len(sightings(some, "@c1", note(1), "@c2")) == 2
    shut = apply(some, (SetSelective("@c1", "U", Interface(output=CLOSED.output)),))
    assert [at.path for at in sightings(shut, "@c1", note(1), "@c2")] == [("@c1", "T", "S", "@c2")]


@pytest.mark.req("VIS-407")
def test_a_scope_that_says_nothing_keeps_everything_to_itself() -> None:
    some = apply(Graph(), (CreateScope("S"), Join("S", ROOT_SCOPE), Join("@x", "S"), Join("@y", "S")))
    assert {at.node for at in reach(some, "@x", note(1))} == {"@x", "S", "@y"}
    assert sightings(some, "@stranger", note(1), "@x") == []
    opened = apply(some, (SetInterface("S", OPEN),))
    assert {at.node for at in reach(opened, "@x", note(1))} == {"@x", "S", "@y", ROOT_SCOPE}
    assert len(sightings(opened, "@stranger", note(1), "@x")) == 1


def test_what_the_root_scope_imposes_is_imposed_on_those_who_know_of_no_scope() -> None:
    some = apply(Graph(), (Impose(ROOT_SCOPE, Interface.parse(input="a > 2", output="a > 1")),))
    assert sightings(some, "@x", note(1), "@y") == []
    assert sightings(some, "@x", note(2), "@y") == []
    assert [at.path for at in sightings(some, "@x", note(3), "@y")] == [("@x", ROOT_SCOPE, "@y")]


def test_a_publisher_sees_what_its_scope_would_show_it() -> None:
    some = apply(graph("x < S", "x < T"), (Impose("S", Interface.parse(input="a > 2", output="a > 1")),))
    assert [at.path for at in sightings(some, "@x", note(1), "@x")] == [("@x",)], "T shows it"
    closed = apply(some, (Impose("T", CLOSED),))
    assert [len(sightings(closed, "@x", note(a), "@x")) for a in (1, 2, 3)] == [0, 0, 1]


@pytest.mark.parametrize("seed", range(60))
def test_filters_lose_nothing_on_their_way_through_an_edge(seed: int) -> None:
    """What a reader wants and a publisher offers is asked for and announced on the other side, or more."""
    world = random_world(f"translate{seed}")
    some = world.graph()
    wish = Filter.parse("a IN (1, 2, 4)")
    for member, scope in world.edges:
        passage = Passage(some, some.membership(member, scope))
        for a in VALUES:
            back = passage.inward(note(a))
            if back is not None and wish.matches(back):
                assert passage.wanted(wish).matches(note(a))
            out = passage.outward(note(a))
            if out is not None and wish.matches(note(a)):
                assert passage.offered(wish).matches(out)


class Even:
    """A subscription in another language than that of filters."""

    def matches(self, notification: Notification) -> bool:
        return value_of(notification) % 2 == 0


@pytest.mark.parametrize("seed", range(30))
def test_a_subscription_in_another_language_loses_nothing_either(seed: int) -> None:
    world = random_world(f"languages{seed}")
    some = world.graph()
    for member, scope in world.edges:
        passage = Passage(some, some.membership(member, scope))
        for a in VALUES:
            back = passage.inward(note(a))
            if back is not None and Even().matches(back):
                assert passage.wanted(Even()).matches(note(a))  # type: ignore[arg-type]
            out = passage.outward(note(a))
            if out is not None and Even().matches(note(a)):
                assert passage.offered(Even()).matches(out)  # type: ignore[arg-type]


def test_every_value_is_somewhere_blocked_and_somewhere_passed() -> None:
    """Random worlds would prove little if nothing crossed in them."""
    crossed = blocked = 0
    for seed in range(40):
        world = random_world(f"all{seed}")
        for (member, scope), edge in world.edges.items():
            results = [world.up(member, scope, edge, a) for a in ALL]
            crossed += sum(shown is not None for shown in results)
            blocked += results.count(None)
    assert min(crossed, blocked) > 500


@pytest.mark.req("VIS-409")
def test_a_scope_in_a_scope_is_a_component_like_any_other() -> None:
    """In place of a client, a scope with the same interface publishes the same to the same readers."""
    border = Interface.parse(input="a < 3", output="a > 1")
    plain = apply(graph("z < T"), (Join("@x", "T", border),))
    nested = apply(graph("z < T", "x < S"), (SetInterface("S", border), Join("S", "T")))
    for a in VALUES:
        assert len(sightings(plain, "@x", note(a), "@z")) == len(sightings(nested, "@x", note(a), "@z"))
        assert len(sightings(plain, "@z", note(a), "@x")) == len(sightings(nested, "@z", note(a), "@x"))
    assert msgspec.structs.asdict(nested.scope("S"))["interface"] == border
