"""Explanations: why somebody sees a publication, or why not."""

from __future__ import annotations

import pytest
from scopes.graph_world import CLIMBING_DIAMOND, GRAPH_A, VALUES, graph, note, random_world, value_of

from tidings.model import EVERYTHING, NOTHING, Filter, Notification, ScopeError
from tidings.scopes import (
    CLOSED,
    OPEN,
    CreateScope,
    EdgeMapping,
    Graph,
    Impose,
    Interface,
    Join,
    Mapping,
    SetInterface,
    SetMapping,
    SetSelective,
    apply,
    edge_mapping,
    effective_interface,
    explain,
    mapping,
    sightings,
)
from tidings.scopes._effective import Rule, Stage
from tidings.scopes._explain import MAX_SHOWN
from tidings.scopes.mappings._convert import Convert
from tidings.scopes.mappings._steps import Rename

CHAIN = graph("x < S", "S < T", "y < T")
BLOCKS = Interface(Filter.parse("a > 5"), Filter.parse("a > 5"))


@pytest.mark.req("VIS-327")
@pytest.mark.parametrize("seed", range(60))
def test_an_explanation_says_what_the_oracle_says(seed: int) -> None:
    world = random_world(f"explain{seed}", abstract=seed % 3 == 0)
    some = world.graph()
    for publisher, reader in ((one, other) for one in world.clients for other in world.clients):
        for a in VALUES[::2]:
            told = explain(some, publisher, note(a), reader)
            seen = sightings(some, publisher, note(a), reader)
            assert told.visible == bool(seen)
            if publisher != reader:
                ways = {way.path: value_of(way.seen) for way in told.ways if way.seen is not None}
                assert ways == {at.path: value_of(at.notification) for at in seen}
            for way in told.ways:
                assert all(one.after is not None for one in way.crossings[:-1])
                assert (way.seen is None) == (way.crossings[-1].blocked_by is not None)
            assert bool(told.apart) == (not told.ways)
            assert str(told)


@pytest.mark.req("VIS-327")
@pytest.mark.parametrize(
    ("change", "rule", "cause"),
    [
        (SetInterface("S", BLOCKS), Rule.BASE, "the output interface of S: a > 5"),
        (SetSelective("S", "T", BLOCKS), Rule.SELECTIVE, "the selective output interface of S in T: a > 5"),
        (Impose("T", BLOCKS, "S"), Rule.IMPOSED_ON_ONE, "the output interface that T imposes on S: a > 5"),
    ],
)
def test_the_interface_that_blocks_on_the_way_up_is_named(change: object, rule: Rule, cause: str) -> None:
    told = explain(apply(CHAIN, (change,)), "@x", note(1), "@y")  # type: ignore[arg-type]
    assert not told.visible
    (way,) = told.ways
    assert [(one.member, one.scope, one.outward) for one in way.crossings] == [("@x", "S", True), ("S", "T", True)]
    assert way.crossings[-1].blocked_by == Stage(rule, BLOCKS.output)
    assert f"S to T: blocked by {cause}" in str(told)


@pytest.mark.req("VIS-327")
@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (SetInterface("S", BLOCKS), "T to S: blocked by the input interface of S: a > 5"),
        (SetSelective("@x", "S", BLOCKS), "S to @x: blocked by the selective input interface of @x in S: a > 5"),
        (Impose("S", BLOCKS), "S to @x: blocked by the input interface that S imposes on all members: a > 5"),
    ],
)
def test_the_interface_that_blocks_on_the_way_down_is_named(change: object, cause: str) -> None:
    assert cause in str(explain(apply(CHAIN, (change,)), "@y", note(1), "@x"))  # type: ignore[arg-type]


@pytest.mark.req("VIS-327")
def test_a_mapping_is_shown_at_work_and_where_it_blocks() -> None:
    doubled = apply(CHAIN, (SetMapping("S", "T", edge_mapping(mapping(Convert("a", 2)))),))
    told = explain(doubled, "@x", note(1), "@y")
    assert told.visible
    assert "S to T: becomes Notification(a=2)" in str(told)
    assert "blocked by the mapping: " in str(explain(doubled, "@x", Notification(a="text"), "@y"))
    shut = apply(CHAIN, (SetMapping("S", "T", EdgeMapping(Mapping.BLOCK, Mapping.IDENTITY)),))
    assert "S to T: blocked by the mapping Mapping(" in str(explain(shut, "@x", note(1), "@y"))


@pytest.mark.req("VIS-327")
def test_each_way_is_explained_and_the_visible_one_first() -> None:
    some = apply(graph(*CLIMBING_DIAMOND), (SetInterface("T", CLOSED),))
    text = str(explain(some, "@c1", note(1), "@c2"))
    assert text == (
        "@c2 sees Notification(a=1) of @c1\n"
        "visible by @c1 > U > S > @c2\n"
        "  @c1 to U: passes\n"
        "  U to S: passes\n"
        "  S to @c2: passes\n"
        "blocked by @c1 > T > S > @c2\n"
        "  @c1 to T: passes\n"
        "  T to S: blocked by the output interface of T: FALSE"
    )


@pytest.mark.req("VIS-327")
def test_those_who_have_nothing_in_common_are_told_so() -> None:
    assert str(explain(graph(*GRAPH_A), "@x", note(1), "@z")) == (
        "@z does not see Notification(a=1) of @x: they have no scope in common: @x is in S; @z is in R, T"
    )
    assert "@stranger is in the root scope" in str(explain(CHAIN, "@x", note(1), "@stranger"))


def test_an_abstract_scope_in_common_is_nothing_in_common() -> None:
    some = apply(
        Graph(),
        (
            CreateScope("A", abstract=True),
            *(CreateScope(name, OPEN) for name in "ST"),
            *(Join(name, "A") for name in "ST"),
            Join("@x", "S"),
            Join("@y", "T"),
        ),
    )
    assert "they meet only in A, and nothing is ever published in an abstract scope" in str(
        explain(some, "@x", note(1), "@y")
    )


def test_a_publisher_is_told_about_its_own_publications() -> None:
    some = apply(graph("x < S"), (Impose("S", Interface(input=NOTHING)),))
    told = explain(some, "@x", note(1), "@x")
    assert not told.visible
    assert [way.path for way in told.ways] == [("@x", "S", "@x")]


def test_a_scope_can_be_asked_for_too_but_must_exist() -> None:
    assert explain(CHAIN, "@x", note(1), "T").visible
    with pytest.raises(ScopeError, match="there is no scope 'U'"):
        explain(CHAIN, "@x", note(1), "U")


def test_of_many_ways_some_are_shown() -> None:
    many = MAX_SHOWN + 5
    edges = [f"T{n} < S" for n in range(many)] + [f"c1 < T{n}" for n in range(many)]
    text = str(explain(graph(*edges, "c2 < S"), "@c1", note(1), "@c2"))
    assert text.count("visible by") == MAX_SHOWN
    assert text.endswith("... and 5 more paths")


# --- the effective interface ----------------------------------------------------------------------------


@pytest.mark.req("VIS-405")
@pytest.mark.parametrize("seed", range(40))
def test_the_folded_interface_passes_what_the_edge_passes(seed: int) -> None:
    world = random_world(f"folded{seed}")
    some = world.graph()
    for (member, scope), edge in world.edges.items():
        output, input = effective_interface(some, member, scope)
        for direction, expected in ((output, world.up), (input, world.down)):
            assert direction.exact
            for a in VALUES:
                passed = note(a) if direction.before.matches(note(a)) else None
                if passed is not None and direction.mapping is not None:
                    passed = direction.mapping.apply(passed)
                if passed is not None and not direction.after.matches(passed):
                    passed = None
                assert (None if passed is None else value_of(passed)) == expected(member, scope, edge, a)
            if direction.is_closed:
                assert all(expected(member, scope, edge, a) is None for a in VALUES)


def test_without_a_mapping_one_filter_says_it_all() -> None:
    some = apply(
        CHAIN, (SetInterface("S", Interface.parse(output="a > 1")), Impose("T", Interface.parse(output="b = 2")))
    )
    output, input = effective_interface(some, "S", "T")
    assert output.before == Filter.parse("b = 2 AND a > 1")
    assert (output.mapping, output.after) == (None, EVERYTHING)
    assert input.before == EVERYTHING


def test_with_a_mapping_each_side_has_its_filter() -> None:
    renamed = edge_mapping(mapping(Rename("a", "b")))
    some = apply(
        CHAIN,
        (
            SetMapping("S", "T", renamed),
            SetInterface("S", Interface.parse(input="a < 9", output="a > 1")),
            Impose("T", Interface.parse(input="b < 8", output="b > 2")),
        ),
    )
    output, input = effective_interface(some, "S", "T")
    assert output == (Filter.parse("a > 1"), renamed.outward, Filter.parse("b > 2"), True)
    assert input == (Filter.parse("b < 8"), renamed.inward, Filter.parse("a < 9"), True)
    assert not output.is_closed


def test_a_closed_direction_is_recognised() -> None:
    assert effective_interface(apply(CHAIN, (SetInterface("S", CLOSED),)), "S", "T").output.is_closed
    blocked = SetMapping("S", "T", EdgeMapping(Mapping.BLOCK, Mapping.IDENTITY))
    output, input = effective_interface(apply(CHAIN, (blocked,)), "S", "T")
    assert output.is_closed
    assert not input.is_closed


def test_an_edge_that_is_not_there_has_no_interface() -> None:
    with pytest.raises(ScopeError, match="'S' is not a member of 'S'"):
        effective_interface(CHAIN, "S", "S")
    assert effective_interface(CHAIN, "@stranger", "").input.before == EVERYTHING
