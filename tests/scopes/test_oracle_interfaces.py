"""Interfaces and mappings of single edges: what the oracle makes of them, against what the definitions say."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec
import pytest
from scopes.definitions import publications, seen_by
from scopes.graph_world import ALL, CLIMBING_DIAMOND, VALUES, Sides, World, graph, note, random_world, run, value_of

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
    edge_mapping,
    mapping,
    reach,
    sightings,
)
from tidings.scopes.mappings._steps import Rename


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
