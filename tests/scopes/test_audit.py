"""What an audit says became visible is what the oracle says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.model import Notification
from tidings.scopes import (
    CreateScope,
    DestroyScope,
    Graph,
    Impose,
    Interface,
    Join,
    Leave,
    SetInterface,
    apply,
    reach,
)
from tidings.scopes._audit import compared, described
from tidings.scopes._changes import AnyChange

SAMPLES = [Notification(x=number) for number in range(4)]
SCOPES = ["s0", "s1", "s2", "s3", "s4"]
FILTERS = st.sampled_from(["TRUE", "FALSE", "x > 0", "x < 3", "x = 2"])
interfaces = st.builds(lambda i, o: Interface.parse(input=i, output=o), FILTERS, FILTERS)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    changes: list[AnyChange] = [CreateScope(name, draw(interfaces)) for name in SCOPES]
    pairs = [(low, high) for low in range(5) for high in range(low)]
    for low, high in draw(st.lists(st.sampled_from(pairs), unique=True, max_size=7)):
        changes.append(Join(SCOPES[low], SCOPES[high], selective=draw(interfaces)))
    changes += [Join("@a", name) for name in draw(st.lists(st.sampled_from(SCOPES), unique=True, max_size=2))]
    return apply(Graph(), tuple(changes))


@st.composite
def changes(draw: st.DrawFn) -> tuple[Graph, AnyChange]:
    graph = draw(graphs())
    edges = [Leave(edge.member, edge.scope) for edge in graph.memberships()]
    joins = [
        Join(SCOPES[low], SCOPES[high])
        for low in range(5)
        for high in range(low)
        if SCOPES[high] not in graph.superscopes(SCOPES[low])
    ]
    clients: list[AnyChange] = [Join("@a", name) for name in SCOPES if name not in graph.superscopes("@a")]
    scope = draw(st.sampled_from(SCOPES))
    others: list[AnyChange] = [
        SetInterface(scope, draw(interfaces)),
        Impose(scope, draw(interfaces)),
        DestroyScope(scope, cascade=True),
    ]
    return graph, draw(st.sampled_from([*edges, *joins, *clients, *others]))


def _pairs(graph: Graph, source: str, target: str) -> set[int]:
    """The samples that are seen in a scope, or by @a, if they are published in a scope or by @a."""
    if source == "@a":
        probe, publisher = graph, "@a"
    elif source not in graph.scopes:
        return set()
    else:
        probe, publisher = apply(graph, (Join("@probe", source),)), "@probe"
    return {
        sample["x"]
        for sample in SAMPLES
        for seen in reach(probe, publisher, sample)
        if seen.node == target  # type: ignore[misc]
    }


@given(changes())
def test_whatever_became_visible_by_an_edge_is_listed(case: tuple[Graph, AnyChange]) -> None:
    """The audit speaks of the changed edges: of what their members publish, and of what their members get."""
    before, change = case
    after = apply(before, (change,))
    gained, lost, more = compared(before, after, [change])
    assert not more
    listed = {(sight.source, sight.target) for sight in gained}
    member = getattr(change, "member", None)
    if isinstance(change, Join):
        for scope in SCOPES:
            for source, target in ((member, scope), (scope, member)):
                if source != target and _pairs(after, source, target) - _pairs(before, source, target):
                    assert (source, target) in listed
    assert not {(sight.source, sight.target) for sight in lost} & listed


@given(changes())
def test_nothing_is_said_to_be_visible_between_nodes_that_have_no_way(case: tuple[Graph, AnyChange]) -> None:
    before, change = case
    after = apply(before, (change,))
    gained, _, _ = compared(before, after, [change])
    for sight in gained:
        assert after.above(sight.source) & after.above(sight.target) or "" in (sight.source, sight.target)


def test_a_change_is_one_line_without_secrets() -> None:
    change = CreateScope("m", Interface.parse(input="x > 1"), admission=("0" * 32,), administrators=("alice", "bob"))
    assert described(change) == "CreateScope id=m interface=[input: x > 1] administrators=alice,bob admission=(1)"
    assert len(described(CreateScope("m", attributes={"a": "b" * 5_000}))) <= 500


def test_a_wide_change_is_cut_and_says_so() -> None:
    names = [f"n{number}" for number in range(400)]
    graph = apply(
        Graph(),
        (
            CreateScope("top", Interface.parse()),
            *(CreateScope(name, Interface.parse()) for name in names),
            *(Join(name, "top") for name in names),
        ),
    )
    gained, lost, more = compared(graph, apply(graph, (Join("@a", "top"),)), [Join("@a", "top")])
    assert more
    assert 0 < len(gained) <= 50
    assert len(lost) == 2
