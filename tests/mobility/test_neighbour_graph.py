"""The neighbour graph: what is learned, what is forgotten, and how good it is."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.mobility import Edge, GraphMode, GraphOptions, NeighbourGraph, Outcome
from tidings.mobility import _neighbour_graph as module
from tidings.model import TidingsError

SECOND = 1_000_000
BROKERS = ("a", "b", "c", "d", "e")
brokers = st.sampled_from(BROKERS)


def pinned(old: str, new: str, weight: float = 1.0) -> Edge:
    return Edge(old, new, weight, 0, 0, pinned=True)


# --- learning -----------------------------------------------------------------------------------------


@pytest.mark.req("MOB-074")
def test_a_graph_starts_empty_and_learns_an_edge_for_both_ends_with_its_times() -> None:
    graph = NeighbourGraph()
    assert not len(graph)
    change = graph.learn("b", "a", at=5)
    assert change.added == (Edge("a", "b", 1.0, 5, 5),)
    assert graph.neighbours("a") == ("b",)
    assert graph.neighbours("b") == ("a",)
    graph.learn("a", "b", at=9)
    edge = graph.edge("a", "b")
    assert edge is not None
    assert (edge.created_at, edge.last_used) == (5, 9)


@pytest.mark.req("MOB-084")
@given(st.lists(st.tuples(brokers, brokers, st.integers(0, 10**9)), max_size=40))
def test_there_are_no_self_edges_and_edges_have_no_direction(moves: list[tuple[str, str, int]]) -> None:
    graph = NeighbourGraph(GraphOptions(max_degree=0))
    for old, new, at in moves:
        graph.learn(old, new, at)
    assert set(graph.edges) == {tuple(sorted((old, new))) for old, new, _ in moves if old != new}
    for one in BROKERS:
        assert one not in graph.neighbours(one)
        for other in graph.neighbours(one):
            assert one in graph.neighbours(other)


@pytest.mark.req("MOB-079")
def test_a_directed_graph_knows_only_the_way_that_was_gone() -> None:
    graph = NeighbourGraph(GraphOptions(directed=True))
    graph.learn("a", "b", at=0)
    assert graph.neighbours("a") == ("b",)
    assert graph.neighbours("b") == ()
    graph.learn("b", "a", at=0)
    assert len(graph) == 2


@pytest.mark.req("MOB-079")
def test_a_static_graph_learns_and_forgets_nothing() -> None:
    graph = NeighbourGraph(GraphOptions(GraphMode.STATIC), [pinned("a", "b")])
    assert graph.learn("a", "c", at=0) == module.UNCHANGED
    assert graph.expire(10**15) == module.UNCHANGED
    assert graph.neighbours("a") == ("b",)


@pytest.mark.req("MOB-079")
def test_a_seeded_graph_learns_and_keeps_what_it_was_given() -> None:
    graph = NeighbourGraph(GraphOptions(GraphMode.SEEDED), [pinned("a", "b")])
    graph.learn("a", "c", at=0)
    assert set(graph.neighbours("a")) == {"b", "c"}
    graph.expire(10**15)
    assert graph.neighbours("a") == ("b",)


def test_the_likeliest_neighbour_comes_first() -> None:
    graph = NeighbourGraph()
    for new in ("b", "c", "c", "d"):
        graph.learn("a", new, at=len(graph))
    assert graph.neighbours("a") == ("c", "d", "b")
    graph.learn("a", "b", at=3000 * SECOND)
    assert graph.neighbours("a") == ("b", "c", "d"), "two uses long ago weigh less than one now"


def test_one_client_makes_one_new_edge_a_minute_and_refreshes_as_often_as_it_likes() -> None:
    graph = NeighbourGraph()
    assert graph.learn("a", "b", at=0, client="phone").added
    assert not graph.learn("b", "c", at=59 * SECOND, client="phone").added
    assert graph.learn("b", "c", at=59 * SECOND, client="tablet").added
    graph.learn("a", "b", at=59 * SECOND, client="phone")
    edge = graph.edge("a", "b")
    assert edge is not None
    assert edge.last_used == 59 * SECOND
    assert graph.learn("b", "d", at=60 * SECOND, client="phone").added


def test_without_a_ration_one_client_makes_any_number_of_edges() -> None:
    graph = NeighbourGraph(GraphOptions(new_edge_interval=0))
    for new in ("b", "c", "d"):
        assert graph.learn("a", new, at=0, client="phone").added


def test_no_client_makes_an_edge_while_more_are_remembered_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_LEARNERS", 1)
    graph = NeighbourGraph()
    assert graph.learn("a", "b", at=0, client="one").added
    assert not graph.learn("a", "c", at=1, client="two").added
    assert graph.learn("a", "c", at=60 * SECOND, client="two").added


# --- limits -------------------------------------------------------------------------------------------


@pytest.mark.req("MOB-081")
def test_a_full_broker_gives_up_the_edge_that_was_not_used_for_longest() -> None:
    graph = NeighbourGraph(GraphOptions(max_degree=2))
    graph.learn("a", "b", at=1)
    graph.learn("a", "c", at=2)
    graph.learn("a", "b", at=3)
    change = graph.learn("a", "d", at=4)
    assert [edge.new for edge in change.removed] == ["c"]
    assert set(graph.neighbours("a")) == {"b", "d"}


@pytest.mark.req("MOB-081")
@given(
    st.lists(st.tuples(brokers, brokers), max_size=60),
    st.integers(1, 3),
    st.booleans(),
    st.sets(st.sampled_from(list(combinations(BROKERS, 2))), max_size=2),
)
def test_no_broker_has_more_neighbours_than_the_bound_and_what_is_pinned_stays(
    moves: list[tuple[str, str]], bound: int, directed: bool, given_edges: set[tuple[str, str]]
) -> None:
    seeds = [pinned(*pair) for pair in given_edges]
    graph = NeighbourGraph(GraphOptions(GraphMode.SEEDED, directed, max_degree=bound), seeds)
    started = {one: len(graph.neighbours(one)) for one in BROKERS}
    for at, (old, new) in enumerate(moves):
        before = set(graph.edges)
        change = graph.learn(old, new, at)
        assert set(graph.edges) == before - {(e.old, e.new) for e in change.removed} | {
            (e.old, e.new) for e in change.added
        }
        for one in BROKERS:
            assert len(graph.neighbours(one)) <= max(bound, started[one])
    assert set(given_edges) <= set(graph.edges)


@pytest.mark.parametrize("field", ["edge_timeout", "window"])
def test_options_that_make_no_sense_are_refused(field: str) -> None:
    with pytest.raises(TidingsError, match=rf"\[mobility\] {field}: 0 is too little; give at least 1"):
        GraphOptions(**{field: 0})


# --- ageing -------------------------------------------------------------------------------------------


@pytest.mark.req("MOB-077")
@given(st.lists(st.integers(0, 1200), min_size=1, max_size=20))
def test_an_edge_that_is_used_within_the_timeout_stays_and_one_that_is_not_goes(pauses: list[int]) -> None:
    graph, at = NeighbourGraph(), 0
    graph.learn("a", "b", at)
    for pause in pauses:
        at += pause * SECOND
        removed = bool(graph.expire(at).removed)
        assert removed == (pause > 600)
        if removed:
            return
        graph.learn("a", "b", at)


@pytest.mark.req("MOB-077")
def test_where_edges_are_added_rarely_they_last_at_least_as_long_as_the_mean_interval() -> None:
    graph = NeighbourGraph()
    for number, new in enumerate(("b", "c", "d")):
        graph.learn("a", new, at=number * 3600 * SECOND)
    assert graph.edge_timeout() == 3600 * SECOND
    assert [edge.new for edge in graph.expire(2 * 3600 * SECOND).removed] == ["b"]
    graph.learn("a", "e", at=10**15)
    assert graph.edge_timeout() == module.MAX_EDGE_TIMEOUT


def test_an_outlier_appears_and_vanishes_while_a_used_edge_stays() -> None:
    graph = NeighbourGraph()
    graph.learn("a", "e", at=0)
    for minute in range(13):
        graph.learn("a", "b", at=minute * 60 * SECOND)
        graph.expire(minute * 60 * SECOND)
        assert ("e" in graph.neighbours("a")) == (minute <= 10)
    assert graph.neighbours("a") == ("b",)


def test_a_weight_halves_in_each_timeout_and_grows_by_one_with_each_use() -> None:
    graph = NeighbourGraph()
    graph.learn("a", "b", at=0)
    graph.learn("a", "b", at=600 * SECOND)
    edge = graph.edge("a", "b")
    assert edge is not None
    assert edge.weight == 1.5
    assert graph.weight(edge, 1800 * SECOND) == 0.375
    assert graph.weight(edge, 0) == 1.5


# --- forgetting ---------------------------------------------------------------------------------------


def test_a_broker_that_is_gone_takes_its_edges_along_and_comes_back_by_being_used() -> None:
    graph = NeighbourGraph(edges=[pinned("c", "e")])
    for pair in ("ab", "bc", "ac"):
        graph.learn(*pair, at=0)
    assert {(edge.old, edge.new) for edge in graph.forget("c", at=1).removed} == {("b", "c"), ("a", "c")}
    assert graph.neighbours("c") == ("e",)
    assert graph.forget("c", at=1, pinned=True).removed == (pinned("c", "e"),)
    assert graph.learn("a", "c", at=2).added
    assert graph.forget("c", "a", at=3).removed
    assert graph.forget("x", at=3) == module.UNCHANGED


def test_what_is_imported_takes_the_place_of_what_was_learned_and_not_of_what_is_pinned() -> None:
    graph = NeighbourGraph(edges=[pinned("a", "e", 7)])
    graph.learn("a", "b", at=0)
    graph.learn("a", "c", at=0)
    new = [Edge("c", "a", 3, 0, 0), Edge("a", "d", 2, 0, 0), Edge("a", "e", 1, 0, 0)]
    change = graph.replace(new, at=1)
    assert [edge.new for edge in change.added] == ["d"]
    assert [edge.new for edge in change.removed] == ["b"]
    assert graph.neighbours("a") == ("e", "c", "d")


def test_an_edge_from_a_broker_to_itself_is_refused() -> None:
    with pytest.raises(TidingsError, match="from broker 'a' to itself"):
        NeighbourGraph(edges=[Edge("a", "a", 1, 0, 0)])


# --- quality ------------------------------------------------------------------------------------------


@pytest.mark.req("MOB-080")
def test_f_neg_is_the_share_of_hand_offs_in_the_window_that_needed_a_new_edge() -> None:
    graph = NeighbourGraph(GraphOptions(window=60))
    assert graph.f_neg(0) == 0
    graph.learn("a", "b", at=0)
    assert graph.f_neg(0) == 1
    for _ in range(3):
        graph.learn("b", "a", at=SECOND)
    assert graph.f_neg(SECOND) == 0.25
    graph.learn("a", "b", at=90 * SECOND)
    assert graph.f_neg(90 * SECOND) == 0
    assert (graph.quality.handoffs, graph.quality.additions) == (5, 1)


@pytest.mark.req("MOB-080")
def test_f_pos_is_removals_times_the_timeout_by_the_time_that_edges_were_there() -> None:
    graph = NeighbourGraph(GraphOptions(window=1000, edge_timeout=100))
    assert graph.f_pos(0) == 0
    graph.learn("a", "b", at=0)
    graph.learn("a", "c", at=100 * SECOND)
    assert graph.f_pos(150 * SECOND) == 0
    graph.expire(150 * SECOND)
    assert graph.neighbours("a") == ("c",)
    # One removal; "ab" was there for 150 seconds, "ac" for 100; the mean interval made the timeout no longer.
    assert graph.f_pos(200 * SECOND) == pytest.approx(1 * 100 / (150 + 100))
    assert graph.f_pos(1160 * SECOND) == 0
    assert graph.quality.removals == 1


def test_what_clients_find_is_counted() -> None:
    graph = NeighbourGraph()
    for outcome in (Outcome.HIT, Outcome.HIT, Outcome.EARLY, Outcome.MISS):
        graph.arrived(outcome)
    assert (graph.quality.hits, graph.quality.early, graph.quality.misses) == (2, 1, 1)


@pytest.mark.parametrize("neighbouring", [True, False])
def test_with_a_long_timeout_the_graph_becomes_that_of_the_walks_and_f_neg_falls_to_nothing(neighbouring: bool) -> None:
    physical = {("a", "b"), ("b", "c"), ("c", "d"), ("c", "e")} if neighbouring else set(combinations(BROKERS, 2))
    graph, rng, here = NeighbourGraph(), random.Random(7), "a"
    for second in range(2000):
        there = rng.choice([one for one in BROKERS if tuple(sorted((one, here))) in physical])
        graph.learn(here, there, at=second * SECOND, client=f"client {second % 50}")
        here = there
    assert set(graph.edges) == physical
    assert graph.f_neg(2000 * SECOND) == 0
