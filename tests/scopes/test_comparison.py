"""What a comparison of two graphs says is what the oracle says, publication by publication."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tidings.model import Filter, Notification
from tidings.scopes import (
    CreateScope,
    DestroyScope,
    EdgeMapping,
    Graph,
    Impose,
    Interface,
    Join,
    Leave,
    Mapping,
    SetInterface,
    SetMapping,
    SetSelective,
    apply,
    is_client,
    mapping,
    reach,
    sightings,
)
from tidings.scopes._changes import AnyChange
from tidings.scopes._comparison import STRANGER, Comparison, Difference, Effect, Pair, compare
from tidings.scopes.steps import Add, Annotate, Convert, Drop, Keep, Rename, register_mapping

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


def forms(graph: Graph, pair: Pair, publication: Notification) -> list[Notification]:
    """In which forms the oracle shows a publication in the target, if it is visible in the source."""
    source, target = pair
    if not is_client(source):
        if source not in graph.scopes:
            return []
        imposed = graph.scopes[source].imposed
        free = Impose(source, Interface(imposed.input, OPEN.output))  # what is visible there need not pass it any more
        graph, source = apply(graph, (free, Join(PROBE, source))), PROBE
    if is_client(target):
        seen = sightings(graph, source, publication, target)
    else:
        seen = reach(graph, source, publication, clients=False)
    return [one.notification for one in seen if one.node == target]


def nodes(before: Graph, after: Graph) -> list[str]:
    """What is compared: all scopes, and the clients whose own edges differ, where that can be seen."""
    return [*dict.fromkeys((*before.scopes, *after.scopes))]


def pairs(before: Graph, after: Graph) -> Iterator[Pair]:
    nodes = [*dict.fromkeys((*before.scopes, *after.scopes))]
    yield from (Pair(one, other) for one in nodes for other in nodes if one != other)


def agrees(before: Graph, after: Graph, found: Comparison) -> None:
    """Every difference has a witness that is one, and what is not said to differ does not."""
    for one in found.differences:
        early, late = (forms(graph, one.pair, one.witness) for graph in (before, after))
        if one.effect in (Effect.GAINED, Effect.WIDER):
            assert any(form not in early for form in late), one
        else:
            assert any(form not in late for form in early), one
    said = {(one.pair, one.effect) for one in found.differences}
    for pair in pairs(before, after):
        if pair in found.undecided or pair.source in found.unexamined:
            continue
        more = {(pair, Effect.GAINED), (pair, Effect.WIDER)} & said
        less = {(pair, Effect.LOST), (pair, Effect.NARROWER)} & said
        shown = [False, False]
        for sample in SAMPLES:
            early, late = forms(before, pair, sample), forms(after, pair, sample)
            shown = [shown[0] or bool(early), shown[1] or bool(late)]
            assert more or all(form in early for form in late), (pair, sample)
            assert less or all(form in late for form in early), (pair, sample)
        assert not ((pair, Effect.GAINED) in said and shown[0])
        assert not ((pair, Effect.LOST) in said and shown[1])


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(mapped=False))
def test_without_mappings_everything_is_said_and_it_is_what_the_oracle_says(world: tuple[Graph, Graph]) -> None:
    found = compare(*world)
    agrees(*world, found)
    assert not found.unexamined


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(mapped=True))
def test_with_mappings_what_is_said_is_what_the_oracle_says(world: tuple[Graph, Graph]) -> None:
    agrees(*world, compare(*world))
