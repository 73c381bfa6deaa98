"""A neighbour graph as a file: what is read back, and what is refused with what would be right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.mobility import (
    Edge,
    GraphOptions,
    NeighbourGraph,
    as_dot,
    as_json,
    edges_of,
    graph_file,
    read_graph,
)
from tidings.model import TidingsError

names = st.text(min_size=1, max_size=5)
lines = st.tuples(names, names, st.floats(0, 1e9), st.integers(0, 2 * 10**15), st.booleans())
ANY = GraphOptions(max_degree=0)


@given(st.lists(lines, max_size=10), st.booleans())
def test_what_is_exported_is_what_is_imported(rows: list[tuple[str, str, float, int, bool]], directed: bool) -> None:
    options = GraphOptions(directed=directed, max_degree=0)
    edges = [Edge(old, new, weight, at, at, pinned) for old, new, weight, at, pinned in rows if old != new]
    graph = NeighbourGraph(options, edges)
    text = as_json(graph_file(graph.edges.values(), directed=directed))
    again = NeighbourGraph(options, edges_of(read_graph(text, "graph.json"), options, "graph.json", 2 * 10**15))
    assert again.edges == graph.edges


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", r"^g\.json: Input data was truncated; give \{\"edges\":"),
        ("[]", r"^g\.json: Expected `object`"),
        ('{"edges": [{"old": "a"}]}', r"missing required field `new`.*edges\[0\]"),
        (b'{"edges": [{"old": "\xff", "new": "b"}]}', r"^g\.json: .*utf-8.*; give"),
        ('{"edges": [{"old": "a", "new": "a"}]}', r"^g\.json: edge 1: it leads from 'a' to itself; give two"),
        ('{"edges": [{"old": "", "new": "a"}]}', r"^g\.json: edge 1: a broker has no name; give"),
        ('{"edges": [{"old": "a", "new": "b", "weight": -2}]}', r"edge 1: weight -2\.0 of 'a' to 'b'; give 0 or more"),
        ('{"edges": [{"old": "a", "new": "b"}, {"old": "b", "new": "a"}]}', r"edge 2: 'b' to 'a' is there twice; rem"),
        (
            '{"edges": [{"old": "a", "new": "b", "last_used": "2026-01-01T00:00:00"}]}',
            r"edge 1: last_used 2026-01-01T00:00:00 has no time zone; write 2026-01-01T00:00:00Z",
        ),
        ('{"brokers": ["a"], "edges": [{"old": "a", "new": "b"}]}', r"no broker 'b'; add them to `brokers`, or"),
        ('{"edges": [{"old": "a", "new": "z"}]}', r"^g\.json: there is no broker 'z'; start and link them first, or"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_remedy(text: str | bytes, error: str) -> None:
    with pytest.raises(TidingsError, match=error):
        read_graph(text, "g.json", known=("a", "b"))


def test_many_unknown_brokers_are_not_all_named() -> None:
    edges = ", ".join(f'{{"old": "a", "new": "x{number}"}}' for number in range(7))
    with pytest.raises(TidingsError, match=r"'x0', 'x1', 'x2', 'x3', 'x4' and 2 more; start"):
        read_graph(f'{{"edges": [{edges}]}}', "g.json", known=("a",))


def test_a_file_with_too_many_edges_is_refused() -> None:
    with pytest.raises(TidingsError, match="2 edges are too many; give at most 1"):
        read_graph('{"edges": [{"old": "a", "new": "b"}, {"old": "a", "new": "c"}]}', "g.json", most=1)


def test_a_broker_with_more_neighbours_than_the_bound_is_refused() -> None:
    file = read_graph('{"edges": [{"old": "a", "new": "b"}, {"old": "c", "new": "a"}]}', "g.json")
    with pytest.raises(TidingsError, match=r"'a' has 2 neighbours, more than max_degree, 1; remove .* raise `max_deg"):
        edges_of(file, GraphOptions(max_degree=1), "g.json", 0)


def test_a_directed_file_in_an_undirected_graph_adds_both_ways_up_and_the_other_way_round_gives_both() -> None:
    one_way = read_graph(
        '{"directed": true, "edges": [{"old": "b", "new": "a", "weight": 2}, {"old": "a", "new": "b", "weight": 3}]}',
        "g",
    )
    assert edges_of(one_way, ANY, "g", 9) == [Edge("a", "b", 5, 9, 9)]
    both = read_graph('{"edges": [{"old": "b", "new": "a", "weight": 2}]}', "g")
    directed = GraphOptions(directed=True)
    assert edges_of(both, directed, "g", 9, pinned=True) == [
        Edge("b", "a", 2, 9, 9, pinned=True),
        Edge("a", "b", 2, 9, 9, pinned=True),
    ]


def test_an_edge_is_not_used_in_the_future() -> None:
    file = read_graph('{"edges": [{"old": "a", "new": "b", "last_used": "2200-01-01T00:00:00Z"}]}', "g")
    assert edges_of(file, ANY, "g", 9) == [Edge("a", "b", 1, 9, 9)]


def test_dot_shows_weights_and_what_is_pinned() -> None:
    file = graph_file([Edge('a"x', "b", 1.25, 0, 0, pinned=True), Edge("a", "c", 10, 0, 0)], directed=True)
    assert as_dot(file) == (
        'digraph neighbours {\n  "a" -> "c" [label="10"];\n  "a\\"x" -> "b" [label="1.25", style=bold];\n}\n'
    )
    assert as_dot(graph_file([Edge("a", "b", 1, 0, 0)], directed=False)).startswith('graph neighbours {\n  "a" -- "b"')
