"""What a comparison of two graphs says is what the oracle says, publication by publication."""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tidings.model import Filter, Notification
from tidings.scopes import (
    AnyChange,
    Comparison,
    CreateScope,
    DestroyScope,
    EdgeMapping,
    Effect,
    EffectiveInterface,
    Graph,
    Impose,
    Interface,
    Join,
    Leave,
    Mapping,
    Membership,
    Pair,
    SetInterface,
    SetMapping,
    SetSelective,
    apply,
    compare,
    effective_interface,
    is_client,
    mapping,
    reach,
    sightings,
)
from tidings.scopes._comparison import STRANGER
from tidings.scopes._oracle import Sighting
from tidings.scopes.steps import Add, Annotate, Convert, Drop, Keep, Named, Rename

OPEN = Interface.parse()
PROBE = "@probe"
SCOPES = ["s0", "s1", "s2", "s3", "s4", "s5"]
CLIENTS = ["@a", "@b"]
SAMPLES = [
    Notification(),
    *(Notification(x=number) for number in (-1, 0, 1, 2, 3, 4, 2.5)),
    *(Notification(x=items) for items in ((), (0, 3), (2, 4))),
    *(Notification(y=number) for number in (1, 2)),
    *(Notification(x=number, y=other) for number in (1, 2) for other in (1, 2, "a")),
    Notification(x="a"),
    Notification(x=2, other=1),
]
TEXTS = ["TRUE", "FALSE", "x > 0", "x < 3", "x = 2", "x <> 2", "x IS NULL", "y = 1 OR x > 2", "x BETWEEN 1 AND 3"]
FILTERS = st.sampled_from(["TRUE", "TRUE", *TEXTS])
interfaces = st.builds(lambda i, o: Interface.parse(input=i, output=o), FILTERS, FILTERS)
MAPPINGS = [
    mapping(Rename("x", "y")),
    mapping(Rename("y", "x")),
    mapping(Drop(("x",))),
    mapping(Keep(("x",))),
    mapping(Add("y", 1)),
    mapping(Annotate("x", 3)),
    mapping(Convert("x", 2)),
    mapping(Filter.parse("x > 1")),
    mapping(Convert("x", 1, 1), Filter.parse("x > 2")),
    Mapping.BLOCK,
    Mapping.IDENTITY,
]
edge_mappings = st.builds(EdgeMapping, st.sampled_from(MAPPINGS), st.sampled_from(MAPPINGS))


def joins(members: list[str], mappings: SearchStrategy[EdgeMapping | None]) -> SearchStrategy[Join]:
    """Edges that go up: from a scope to one with a smaller number, or from a client."""
    pairs = [(one, scope) for one in members for scope in SCOPES if is_client(one) or scope < one]
    return st.builds(
        lambda pair, selective, imposed, mapping: Join(*pair, selective, imposed, mapping),
        st.sampled_from(pairs),
        interfaces,
        interfaces,
        mappings,
    )


@st.composite
def worlds(draw: st.DrawFn, *, mapped: bool) -> tuple[Graph, Graph]:
    """A graph, mostly with diamonds, and what a few changes make of it."""
    mappings = st.none() | edge_mappings if mapped else st.none()
    # Interfaces are open at first, half of the time, or hardly anything would ever pass two borders.
    borders = st.just(OPEN) | interfaces
    graph = apply(Graph(), tuple(CreateScope(name, draw(borders), draw(borders)) for name in SCOPES))
    for change in draw(st.lists(joins(SCOPES, mappings), min_size=4, max_size=9)):
        graph = _changed(graph, change)
    for change in draw(st.lists(joins(CLIENTS, mappings), max_size=3)):
        graph = _changed(graph, change)
    after = graph
    for change in draw(st.lists(changes(graph, mappings), min_size=1, max_size=3)):
        after = _changed(after, change)
    return graph, after


def changes(graph: Graph, mappings: SearchStrategy[EdgeMapping | None]) -> SearchStrategy[AnyChange]:
    scopes = st.sampled_from(SCOPES)
    some: list[SearchStrategy[AnyChange]] = [
        joins([*SCOPES, *CLIENTS], mappings),
        st.builds(SetInterface, scopes, interfaces),
        st.builds(Impose, st.sampled_from(["", *SCOPES]), interfaces),
        st.builds(DestroyScope, scopes, st.just(True)),
    ]
    if edges := [(edge.member, edge.scope) for edge in graph.memberships()]:
        chosen = st.sampled_from(edges)
        some += [
            st.builds(lambda edge: Leave(*edge), chosen),
            st.builds(lambda edge, mapping: SetMapping(*edge, mapping), chosen, mappings),
            st.builds(lambda edge, interface: SetSelective(*edge, interface), chosen, interfaces),
        ]
    return st.one_of(some)


def _changed(graph: Graph, change: AnyChange) -> Graph:
    """The next version; the same one if the change cannot be, as it speaks of what is there already, or no longer."""
    try:
        return apply(graph, (change,))
    except Exception:
        return graph


class Oracle:
    """What the oracle shows of publications in one graph, source by source."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._asked: dict[tuple[str, Notification], tuple[Graph, str, list[Sighting]]] = {}

    def forms(self, pair: Pair, publication: Notification) -> list[Notification]:
        """In which forms the target sees it, if it is visible in the source, or if the client publishes it."""
        known = (pair.source, publication)
        if known not in self._asked:
            graph, publisher = self._publisher(pair.source)
            self._asked[known] = graph, publisher, reach(graph, publisher, publication) if publisher else []
        graph, publisher, seen = self._asked[known]
        if publisher and is_client(pair.target) and graph.is_stranger(pair.target):
            seen = sightings(graph, publisher, publication, pair.target)
        return [one.notification for one in seen if one.node == pair.target]

    def _publisher(self, source: str) -> tuple[Graph, str]:
        """A client whose publications are those of the source; none if nothing can be published there."""
        if is_client(source):
            return self._graph, source
        if source not in self._graph.scopes:
            return self._graph, ""
        imposed = self._graph.scopes[source].imposed
        free = Impose(source, Interface(imposed.input, OPEN.output))  # what is visible there has passed it already
        return apply(self._graph, (free, Join(PROBE, source))), PROBE


def terms(graph: Graph, client: str) -> dict[str, EffectiveInterface]:
    return {scope: effective_interface(graph, client, scope) for scope in graph.upward(client)}


def nodes(before: Graph, after: Graph) -> list[str]:
    """What is compared: all scopes, and the clients whose own edges differ."""
    known = [client for client in CLIENTS if not (before.is_stranger(client) and after.is_stranger(client))]
    clients = [client for client in (*known, STRANGER) if terms(before, client) != terms(after, client)]
    return [*dict.fromkeys((*before.scopes, *after.scopes)), *clients]


def agrees(before: Graph, after: Graph, found: Comparison) -> None:
    """Every difference has a witness that is one, and what is not said to differ, or to be undecided, does not."""
    old, new = Oracle(before), Oracle(after)
    for one in found.differences:
        early, late = old.forms(one.pair, one.witness), new.forms(one.pair, one.witness)
        if one.effect in (Effect.GAINED, Effect.WIDER):
            assert any(form not in early for form in late), one
        else:
            assert any(form not in late for form in early), one
    said = {(one.pair, one.effect) for one in found.differences}
    for pair in (Pair(*two) for two in itertools.permutations(nodes(before, after), 2)):
        if pair.source in found.unexamined or pair in found.undecided:
            continue
        more = (pair, Effect.GAINED) in said or (pair, Effect.WIDER) in said
        less = (pair, Effect.LOST) in said or (pair, Effect.NARROWER) in said
        for sample in SAMPLES:
            early, late = old.forms(pair, sample), new.forms(pair, sample)
            assert more or all(form in early for form in late), (pair, sample)
            assert less or all(form in late for form in early), (pair, sample)
            assert not (early and (pair, Effect.GAINED) in said), (pair, sample)
            assert not (late and (pair, Effect.LOST) in said), (pair, sample)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(mapped=False))
def test_without_mappings_all_is_examined_and_what_is_said_is_what_the_oracle_says(world: tuple[Graph, Graph]) -> None:
    """Undecided is what one filter accepts that several others cover together, and none of them alone; rarely more."""
    found = compare(*world)
    assert not found.unexamined
    agrees(*world, found)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(mapped=True))
def test_with_mappings_what_is_said_is_what_the_oracle_says(world: tuple[Graph, Graph]) -> None:
    agrees(*world, compare(*world))


def graph_of(*changes: AnyChange) -> Graph:
    return apply(Graph(), changes)


DIAMOND = graph_of(
    CreateScope("R", OPEN),
    CreateScope("T1", Interface.parse(input="FALSE", output="price > 100")),
    CreateScope("T2", OPEN),
    CreateScope("S", OPEN),
    *(Join(member, scope) for member, scope in (("S", "T1"), ("S", "T2"), ("T1", "R"), ("T2", "R"))),
)


def told(found: Comparison) -> dict[tuple[str, str, Effect], tuple[str, str]]:
    return {(*one.pair, one.effect): (str(one.before), str(one.after)) for one in found.differences}


def test_a_diamond_is_as_open_as_its_most_open_way() -> None:
    found = compare(DIAMOND, apply(DIAMOND, (Join("@x", "S"),)))
    assert found.complete
    for scope in ("S", "T1", "T2", "R"):
        assert told(found)["@x", scope, Effect.GAINED] == ("FALSE", "TRUE")


def test_what_another_way_still_carries_is_not_lost() -> None:
    joined = apply(DIAMOND, (Join("@x", "S"),))
    found = told(compare(joined, apply(joined, (Leave("S", "T1"),))))
    assert not any(source == "S" and target == "R" for source, target, _ in found)
    assert found["S", "T1", Effect.LOST] == ("TRUE", "FALSE")
    found = told(compare(joined, apply(joined, (Leave("S", "T2"),))))
    assert found["S", "R", Effect.NARROWER] == ("TRUE", "price > 100")


def test_what_is_both_wider_and_narrower_is_said_to_be_both() -> None:
    def limited(output: str) -> Graph:
        return apply(DIAMOND, (Leave("S", "T2"), SetInterface("T1", Interface.parse(output=output))))

    found = compare(limited("price < 50"), limited("price > 10"))
    assert told(found)["S", "R", Effect.WIDER] == ("price < 50", "price > 10")
    assert told(found)["S", "R", Effect.NARROWER] == ("price < 50", "price > 10")
    assert found.complete


def test_filters_that_are_the_same_only_together_are_undecided() -> None:
    """Covering compares one conjunction with one conjunction: that = and <> leave nothing out, it does not see."""

    def shown(output: str) -> Graph:
        return graph_of(CreateScope("R", OPEN), CreateScope("S", Interface.parse(output=output)), Join("S", "R"))

    whole, parts = shown("x >= 1 AND x < 3"), shown("(x <> 2 AND x >= 1 AND x < 3) OR x = 2")
    assert compare(whole, parts) == compare(parts, whole) == Comparison(undecided=(Pair("S", "R"),))


def test_another_mapping_shows_another_form() -> None:
    def mapped(one: Mapping) -> Graph:
        return graph_of(
            CreateScope("R", OPEN), CreateScope("S", OPEN), Join("S", "R", mapping=EdgeMapping(one, Mapping.IDENTITY))
        )

    found = compare(mapped(mapping(Rename("price", "cost"))), mapped(mapping(Rename("price", "preis"))))
    effects = {one.effect: one for one in found.differences if one.pair == ("S", "R")}
    assert effects.keys() == {Effect.WIDER, Effect.NARROWER}
    assert "price" in effects[Effect.WIDER].witness
    assert str(effects[Effect.WIDER].after) == "mapped by Rename(old='price', new='preis')"


def test_mappings_that_mean_the_same_are_undecided_and_nothing_is_claimed() -> None:
    twice, once = mapping(Add("a", 1), Add("b", 2)), mapping(Add("b", 2), Add("a", 1))
    graph = graph_of(CreateScope("R", OPEN), CreateScope("S", OPEN), Join("S", "R", mapping=EdgeMapping(twice)))
    found = compare(graph, apply(graph, (SetMapping("S", "R", EdgeMapping(once)),)))
    assert not found.differences
    assert found.undecided == (Pair("S", "R"),)


def test_a_way_that_returns_through_a_mapping_is_no_way() -> None:
    """What S shows in R never comes back to S, so neither do its members see it in the other form."""
    border = EdgeMapping(mapping(Rename("a", "b")), mapping(Rename("b", "c")))
    graph = graph_of(
        CreateScope("R", OPEN), CreateScope("S", OPEN), CreateScope("I", OPEN), Join("I", "S"), Join("S", "R")
    )
    after = apply(graph, (SetMapping("S", "R", border),))
    found = compare(graph, after)
    assert {one.pair for one in found.differences} == {("S", "R"), ("R", "S"), ("I", "R"), ("R", "I")}
    assert found.complete


def test_where_the_effort_ends_the_sources_that_are_left_are_named() -> None:
    names = [f"n{number}" for number in range(200)]
    graph = graph_of(
        CreateScope("top", OPEN), *(CreateScope(name, OPEN) for name in names), *(Join(name, "top") for name in names)
    )
    after = apply(graph, (Join("@a", "top"),))
    whole, part = compare(graph, after, effort=1_000_000), compare(graph, after, effort=800)
    assert whole.complete
    assert not part.complete
    said = {one.pair.source for one in part.differences}
    assert said <= {one.pair.source for one in whole.differences}
    for one in whole.differences:
        assert one in part.differences or one.pair.source in part.unexamined


def test_a_filter_that_becomes_too_large_claims_nothing() -> None:
    wide = " OR ".join(f"a{number} = 1" for number in range(40))
    other = " OR ".join(f"b{number} = 1" for number in range(40))
    graph = graph_of(
        CreateScope("R", OPEN),
        CreateScope("S", Interface.parse(input="FALSE", output=wide)),
        Join("S", "R", selective=Interface.parse(output=other)),
    )
    found = compare(graph, apply(graph, (SetSelective("S", "R", Interface.parse(output=f"{other} OR c = 1")),)))
    assert found.undecided == (Pair("S", "R"),)
    assert not found.differences
    assert not compare(graph, apply(graph, (Leave("S", "R"),))).differences


def test_a_function_that_is_not_registered_here_claims_nothing() -> None:
    unknown = EdgeMapping(Mapping((Named("nobody registered this one"),)), Mapping.IDENTITY)
    graph = graph_of(CreateScope("R", OPEN), CreateScope("S", OPEN), Join("S", "R"))
    mapped = graph.with_edge(Membership("S", "R", mapping=unknown))
    assert compare(graph, mapped).undecided == (Pair("S", "R"),)
    assert compare(mapped, mapped.with_edge(Membership("S", "R", mapping=unknown, since=3))) == Comparison()


def test_what_changes_for_everybody_outside_is_said_once() -> None:
    graph = graph_of(CreateScope("S", OPEN))
    found = compare(graph, apply(graph, (Impose("", Interface.parse(output="x = 1")),)))
    assert told(found) == {(STRANGER, "", Effect.NARROWER): ("TRUE", "x = 1")}
