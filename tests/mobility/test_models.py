"""The analytical models, against the numbers that the documents print and against themselves."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.mobility.models import control_messages, ctmc, curve, forecasting, messaging_cost, stats
from tidings.mobility.models._linear import solve
from tidings.mobility.models.control_messages import HandOff
from tidings.mobility.models.messaging_cost import (
    CASES,
    CONNECTED,
    DISCONNECTED,
    FIGURE_3_5,
    FIGURE_3_6,
    SCHEMES,
    TABLE_3_1,
    Branching,
    Prices,
    Scheme,
    Shares,
    Stays,
)
from tidings.model import TidingsError

BUILDING = ("12", "23", "34", "35", "61", "62", "63", "64")
"""The six brokers of the document."""


def graph_of(edges: tuple[str, ...] | list[tuple[str, str]]) -> dict[str, list[str]]:
    names = sorted({name for edge in edges for name in edge})
    return {name: [other for edge in edges if name in edge for other in edge if other != name] for name in names}


# --- messaging cost -----------------------------------------------------------------------------------

R1 = (
    (2.4234, 0.8078, 0.4039, 0.2693, 0.0808),
    (0.8841, 0.2947, 0.1474, 0.0983, 0.0295),
    (1.3754, 0.4585, 0.2293, 0.1529, 0.0459),
    (1.1791, 0.3930, 0.1965, 0.1310, 0.0393),
    (0.5733, 0.1911, 0.0956, 0.0637, 0.0191),
)
R2_EQUAL = (
    (35.94, 17.18, 9.96, 7.19, 2.96),
    (18.45, 9.08, 5.47, 4.09, 1.98),
    (26.17, 10.42, 5.86, 4.28, 2.00),
    (23.11, 9.96, 5.73, 4.22, 1.99),
    (14.11, 5.78, 3.45, 2.65, 1.50),
)
R2_NOTHING = (
    (61.96, 21.32, 11.16, 7.77, 3.03),
    (31.81, 11.27, 6.14, 4.42, 2.03),
    (31.33, 11.11, 6.06, 4.37, 2.01),
    (31.48, 11.16, 6.08, 4.39, 2.02),
    (16.20, 6.07, 3.53, 2.69, 1.51),
)
TABLE_3_2 = {
    1.3: (0.4277, 0.1426, 0.0713, 0.0475, 0.0143),
    1.5: (0.4935, 0.1645, 0.0823, 0.0548, 0.0164),
    1.7: (0.5593, 0.1864, 0.0932, 0.0621, 0.0186),
    2.0: (0.6580, 0.2193, 0.1097, 0.0731, 0.0219),
}
GRID = list(itertools.product(CASES, CONNECTED, DISCONNECTED, SCHEMES))


def multiplied(row: Shares, matrix: list[list[float]]) -> list[float]:
    return [sum(share * matrix[at][to] for at, share in enumerate(row)) for to in range(4)]


@pytest.mark.req("MOB-096")
def test_the_stationary_distribution_is_one_of_the_chain_and_near_its_limit() -> None:
    for branching, connected, disconnected, scheme in GRID:
        stays = TABLE_3_1.stays(scheme, connected, disconnected)
        shares = messaging_cost.stationary(branching, stays)
        chain = messaging_cost.transitions(branching, stays)
        assert all(sum(row) == pytest.approx(1) for row in chain)
        assert multiplied(shares, chain) == pytest.approx(list(shares), rel=1e-9)
        rates = [[chain[at][to] - (at == to) for at in range(4)] for to in range(4)]
        assert solve([*rates[:3], [1] * 4], [0, 0, 0, 1]) == pytest.approx(list(shares), rel=1e-6)
        assert messaging_cost.stationary_limit(branching, stays) == pytest.approx(shares, rel=0.02)
        finer = messaging_cost.stationary(branching, stays, tau=1e-6)
        assert messaging_cost.stationary_limit(branching, stays) == pytest.approx(finer, rel=1e-4)


@pytest.mark.req("MOB-097")
def test_r1_and_r2_are_those_of_the_tables_to_the_printed_digits() -> None:
    for number, branching in enumerate(CASES):
        for at, disconnected in enumerate(DISCONNECTED):
            assert f"{messaging_cost.r1(branching, 600, disconnected):.4f}" == f"{R1[number][at]:.4f}"
            assert f"{messaging_cost.r2(branching, 60, disconnected, 1):.2f}" == f"{R2_EQUAL[number][at]:.2f}"
            assert f"{messaging_cost.r2(branching, 60, disconnected, 0):.2f}" == f"{R2_NOTHING[number][at]:.2f}"


@pytest.mark.req("MOB-097")
def test_what_the_document_quotes_follows_from_the_other_parameters() -> None:
    first, last = CASES[0], CASES[4]
    quoted = [messaging_cost.r2(case, 60, 30, 1, FIGURE_3_5) for case in (first, last)]
    quoted += [messaging_cost.r2(case, 60, 30, 0, FIGURE_3_6) for case in (first, last)]
    assert [f"{value:.2f}" for value in quoted] == ["13.95", "5.51", "21.10", "6.02"]


@pytest.mark.req("MOB-097")
@given(st.sampled_from(GRID), st.tuples(*[st.floats(0, 100)] * 4))
def test_costs_are_those_of_the_transitions_and_the_ratios_say_who_is_cheaper(
    drawn: tuple[Branching, float, float, Scheme], said: tuple[float, float, float, float]
) -> None:
    branching, connected, disconnected, _ = drawn
    prices = Prices(*said)
    one = branching
    ways = [[0, one.a01, one.a02, one.a03], [one.a10, 0, one.a12, one.a13], [1, 0, 0, 0], [1, 0, 0, 0]]
    costs = {}
    for scheme in SCHEMES:
        shares = messaging_cost.stationary(branching, TABLE_3_1.stays(scheme, connected, disconnected))
        theta = messaging_cost.prices_of_transitions(scheme, prices)
        long = sum(shares[i] * ways[i][j] * theta[i][j] for i in range(4) for j in range(4))
        costs[scheme] = messaging_cost.cost(scheme, branching, shares, prices)
        assert costs[scheme] == pytest.approx(long)
    if prices.control == 0 and min(said[:3]) > 0.01:
        wins_r1 = prices.neighbours / prices.transfer < messaging_cost.r1(branching, connected, disconnected)
        assert wins_r1 == (costs[Scheme.PROACTIVE] < costs[Scheme.REACTIVE])
        ratio = prices.transfer / prices.neighbours
        wins_r2 = prices.neighbours / prices.everywhere < messaging_cost.r2(branching, connected, disconnected, ratio)
        assert wins_r2 == (costs[Scheme.PROACTIVE] < costs[Scheme.DURABLE])


def test_without_control_messages_costs_are_these() -> None:
    shares, prices = Shares(0.5, 0.2, 0.2, 0.1), Prices(transfer=10, neighbours=3, everywhere=7, control=1)
    assert messaging_cost.cost(Scheme.DURABLE, CASES[0], shares, prices) == 7
    assert messaging_cost.cost(Scheme.REACTIVE, CASES[0], shares, prices) == pytest.approx(11 * 0.3)
    assert messaging_cost.cost(Scheme.PROACTIVE, CASES[0], shares, prices) == pytest.approx(
        3 * 0.2 + 1 * (0.2 * 0.4 + 0.3) + 10 * 0.1
    )


@pytest.mark.req("MOB-098")
def test_table_3_2_is_reproduced() -> None:
    for n1, row in TABLE_3_2.items():
        for at, disconnected in enumerate(DISCONNECTED):
            assert messaging_cost.neighbours_by_transfer(n1, disconnected) == pytest.approx(row[at], abs=1e-4)


def test_the_threshold_per_round_is_nearly_that_of_r1() -> None:
    assert [messaging_cost.round_threshold(case) for case in CASES] == pytest.approx([7.40, 2.70, 4.20, 3.60, 1.75])
    for case in CASES:
        threshold = messaging_cost.round_threshold(case)
        at_threshold = Prices(transfer=1, neighbours=threshold, everywhere=9)
        costs = [messaging_cost.cost_per_round(scheme, case, at_threshold) for scheme in SCHEMES]
        assert costs[0] == pytest.approx(costs[1])
        assert costs[2] == 9
        for disconnected in DISCONNECTED:
            factor = messaging_cost.r1(case, 600, disconnected) / (threshold * 3.29 / disconnected)
            assert 0.995 <= round(factor, 3) <= 0.997


def test_few_sends_to_neighbours_always_win_and_two_do_in_four_cases() -> None:
    def wins(n1: float, case: Branching, disconnected: float) -> bool:
        return messaging_cost.neighbours_by_transfer(n1, disconnected) < messaging_cost.r1(case, 600, disconnected)

    assert all(wins(1.7, case, disconnected) for case in CASES for disconnected in DISCONNECTED)
    assert [all(wins(2.0, case, one) for one in DISCONNECTED) for case in CASES] == [True] * 4 + [False]
    assert messaging_cost.neighbours_by_everywhere(2.5, 2) == 1.25


def test_shares_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(TidingsError, match=r"leaves the state connected, \(0.5, 0.1, 0.1\), does not add up to 1"):
        Branching(0.5, 0.1, 0.1, 1, 0, 0)
    with pytest.raises(TidingsError, match="leaves the state disconnected"):
        Branching(1, 0, 0, 1.5, -0.5, 0)
    assert Stays(1, 2, 3, 4).elsewhere == 4


# --- control messages ---------------------------------------------------------------------------------


def test_operations_take_as_many_messages_as_the_table_says() -> None:
    assert control_messages.connect(3) == control_messages.reconnect(3) == control_messages.unsubscribe(3) == 3
    assert control_messages.disconnect(3) == 6
    assert control_messages.disconnect(3, rate=10, activation_seconds=0.5) == 6 + 15
    move = HandOff("a", "b", old_neighbours={"b", "c", "d"}, new_neighbours={"a", "c", "e", "f"})
    # Notice and reply, c and d are told, e and f get copies.
    assert control_messages.hand_off_hit(move) == control_messages.hand_off_early(move) == 2 + 2 + 2
    assert control_messages.hand_off_miss(move, 40) == 6 + 1 + 40
    stranger = HandOff("a", "b", old_neighbours={"c"}, new_neighbours={"a"})
    assert control_messages.hand_off_hit(stranger) == 2 + 1
    assert (control_messages.edge_changed(3), control_messages.edge_changed(3, removed=True)) == (3, 4)
    assert control_messages.recovered(3) == 6


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=5))
def test_covering_saves_what_is_covered(covered: list[list[bool]]) -> None:
    full = control_messages.propagation(len(covered), 3)
    less = control_messages.propagation_covered(covered)
    assert less == full - sum(map(sum, covered)) <= full
    rates = [2.0] * len(covered)
    assert control_messages.caching(rates, 5, covered) == 10 * less
    assert control_messages.overhead(rates, 5, covered) == 11 * less


# --- where clients are --------------------------------------------------------------------------------


@pytest.mark.req("MOB-099")
def test_the_random_model_gives_the_documents_numbers() -> None:
    found = ctmc.random_model(6)
    assert found.connected == pytest.approx(0.147679, abs=5e-7)
    assert found.handoff == pytest.approx(0.025316, abs=5e-7)
    assert found.disconnected == pytest.approx(0.088608, abs=5e-7)
    assert found.expected(200) == pytest.approx(29.5359, abs=5e-5)


@pytest.mark.req("MOB-099", "MOB-102")
@given(st.integers(2, 12), st.tuples(*[st.floats(0.5, 500)] * 3))
def test_the_random_models_closed_form_solves_its_matrix(brokers: int, said: tuple[float, float, float]) -> None:
    times = ctmc.Times(*said)
    found = ctmc.random_model(brokers, times)
    row = [found.handoff, found.disconnected, *[found.connected] * brokers]
    matrix = ctmc.random_rates(brokers, times)
    for at in range(brokers + 2):
        assert sum(matrix[at]) == pytest.approx(0, abs=1e-9)
        assert sum(share * matrix[to][at] for to, share in enumerate(row)) == pytest.approx(0, abs=1e-9)
    assert sum(row) == pytest.approx(1)
    assert sum(200 * share for share in row) == pytest.approx(200)


@pytest.mark.req("MOB-100")
def test_table_6_1_is_reproduced() -> None:
    found = ctmc.neighbour_model(graph_of(BUILDING))
    exact = [0.109890, 0.164835, 0.219780, 0.109890, 0.054945, 0.219780]
    assert [found.connected[name] for name in "123456"] == pytest.approx(exact, abs=5e-7)
    assert [f"{found.connected[name]:.4f}" for name in "123456"] == [
        "0.1099", "0.1648", "0.2198", "0.1099", "0.0549", "0.2198"
    ]  # fmt: skip
    assert found.away == pytest.approx(0.120879, abs=5e-7)
    rates = ctmc.neighbour_rates(graph_of(BUILDING), ctmc.Times())
    alphas = [max(rates[at + 12]) for at in range(6)]
    assert alphas == pytest.approx([1 / 6, 1 / 9, 1 / 12, 1 / 6, 1 / 3, 1 / 12])


graphs = st.integers(2, 7).flatmap(
    lambda size: st.tuples(
        st.just([(f"b{at}", f"b{draw}") for at in range(1, size) for draw in [at - 1]]),
        st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=8),
    )
)


@pytest.mark.req("MOB-101", "MOB-102")
@given(graphs, st.tuples(*[st.floats(0.5, 500)] * 3))
def test_the_share_of_a_broker_is_proportional_to_its_degree_in_every_graph(
    drawn: tuple[list[tuple[str, str]], list[tuple[int, int]]], said: tuple[float, float, float]
) -> None:
    line, more = drawn
    pairs = {tuple(sorted(edge)) for edge in [*line, *((f"b{one}", f"b{two}") for one, two in more if one != two)]}
    graph = graph_of([(one, two) for one, two in pairs])
    times = ctmc.Times(*said)
    closed, solved = ctmc.neighbour_model(graph, times), ctmc.neighbour_solution(graph, times)
    degrees = sum(map(len, graph.values()))
    for name in graph:
        assert closed.connected[name] == pytest.approx(solved.connected[name])
        assert closed.disconnected[name] == pytest.approx(solved.disconnected[name])
        assert closed.handoff[name] == pytest.approx(solved.handoff[name])
        assert closed.connected[name] * degrees / len(graph[name]) == pytest.approx(times.connected / times.round)
    parts = (closed.connected, closed.disconnected, closed.handoff)
    assert sum(sum(part.values()) for part in parts) == pytest.approx(1)
    assert sum(closed.expected(200).values()) + 200 * closed.away == pytest.approx(200)
    for row in ctmc.neighbour_rates(graph, times):
        assert sum(row) == pytest.approx(0, abs=1e-9)


@pytest.mark.req("MOB-099")
def test_the_exact_random_model_is_that_of_the_complete_graph() -> None:
    found = ctmc.random_exact(6)
    assert sum(found.connected.values()) == pytest.approx(0.87912, abs=5e-6)
    assert sum(found.disconnected.values()) == pytest.approx(0.08791, abs=5e-6)
    assert sum(found.handoff.values()) == pytest.approx(0.03297, abs=5e-6)
    assert found.expected(200)["B1"] == pytest.approx(29.304, abs=5e-4)
    assert 6 * ctmc.random_model(6).connected == pytest.approx(0.88608, abs=5e-6)


def test_hand_offs_of_a_client_become_rarer_by_57_percent_when_it_stays_longer() -> None:
    assert ctmc.handoff_rate() == pytest.approx(0.01099, abs=5e-6)
    assert ctmc.handoff_rate(ctmc.Times(connected=150)) == pytest.approx(0.00474, abs=5e-6)


def test_a_directed_weighted_walk_visits_brokers_by_where_it_leads() -> None:
    weights = {"a": {"b": 3, "c": 1}, "b": {"a": 1}, "c": {"b": 1}}
    # One round a-b-a three times in four, a-c-b-a otherwise: of nine arrivals four at a, four at b, one at c.
    assert ctmc.visits(weights) == pytest.approx({"a": 4 / 9, "b": 4 / 9, "c": 1 / 9})
    even = {name: dict.fromkeys(others, 1.0) for name, others in graph_of(BUILDING).items()}
    assert ctmc.walk_model(even).connected == pytest.approx(ctmc.neighbour_model(graph_of(BUILDING)).connected)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: ctmc.walk_model({"a": {"b": 1}, "b": {}}), "no client leaves 'b'; add an edge"),
        (lambda: ctmc.walk_model({"a": {"b": 1, "a": 1}, "b": {"a": 1}}), "'a' is its own neighbour"),
        (lambda: ctmc.walk_model({"a": {"z": 1}, "b": {"a": 1}}), "'z', a neighbour of 'a', has no neighbours itself"),
        (lambda: ctmc.walk_model({"a": {"b": -1}, "b": {"a": 1}}), "weight -1 of 'a' to 'b'; give 0 or more"),
        (lambda: ctmc.walk_model({"a": {"b": 1}, "b": {"a": 1}, "c": {"a": 1}}), "'c' cannot be reached from 'a'"),
        (
            lambda: ctmc.walk_model({"a": {"b": 1, "c": 1}, "b": {"a": 1}, "c": {"d": 1}, "d": {"c": 1}}),
            "'c' does not lead back to 'a'",
        ),
        (lambda: ctmc.walk_model({"a": {}}), "a graph of 1 brokers; give one of 2 to 500"),
        (lambda: ctmc.neighbour_model({"a": ["b"], "b": ["c"], "c": ["a"]}), "'a' has the neighbour 'b', but not"),
        (lambda: ctmc.random_model(1), "1 brokers: clients cannot move"),
        (lambda: ctmc.Times(connected=0), "connected: 0 seconds; give a mean time above 0"),
        (lambda: solve([[1, 1], [2, 2]], [1, 2]), "no single solution"),
    ],
)
def test_a_walk_that_does_not_go_on_is_refused(make: Callable[[], object], error: str) -> None:
    with pytest.raises(TidingsError, match=error):
        make()


# --- curves -------------------------------------------------------------------------------------------


@pytest.mark.req("MOB-103")
def test_the_documents_curve_is_a_constant_that_says_where_it_was_fitted() -> None:
    assert curve.DOCUMENT_CURVE(29.5358) == pytest.approx(218.983, abs=5e-4)
    assert curve.DOCUMENT_CURVE.r_squared == 0.9198
    assert not curve.DOCUMENT_CURVE.covers(44)
    with pytest.warns(curve.OutsideFittedRange, match=r"1 of 2 brokers have 44\.0 to 44\.0 clients, but .* 1\.5 to 29"):
        found = curve.extrapolate({"a": 44, "b": 20}, curve.DOCUMENT_CURVE)
    assert found.outside == ("a",)


@pytest.mark.req("MOB-103")
@given(st.lists(st.floats(-9, 9), min_size=4, max_size=4), st.floats(0.1, 50))
def test_a_fit_finds_the_polynomial_that_points_lie_on(coefficients: list[float], width: float) -> None:
    exact = curve.Curve(tuple(coefficients), 0, 1, 1)
    xs = [width * at / 7 for at in range(8)]
    found = curve.fit(xs, [exact(x) for x in xs])
    scale = 1 + max(abs(exact(x)) for x in xs)
    for x in xs:
        assert found(x) == pytest.approx(exact(x), abs=1e-6 * scale)
    assert (found.low, found.high) == (0, xs[-1])


@pytest.mark.req("MOB-103")
def test_no_other_cubic_is_nearer_to_the_points_and_r_squared_says_how_near() -> None:
    rng = random.Random(3)
    xs = [rng.uniform(0, 30) for _ in range(60)]
    ys = [curve.DOCUMENT_CURVE(x) + rng.gauss(0, 20) for x in xs]
    found = curve.fit(xs, ys)

    def missed(one: curve.Curve) -> float:
        return sum((y - one(x)) ** 2 for x, y in zip(xs, ys, strict=True))

    for at, step in itertools.product(range(4), (-1e-4, 1e-4)):
        other = [*found.coefficients]
        other[at] += step
        assert missed(curve.Curve(tuple(other), 0, 30, 0)) > missed(found)
    mean = sum(ys) / len(ys)
    assert found.r_squared == pytest.approx(1 - missed(found) / sum((y - mean) ** 2 for y in ys))
    assert 0.8 < found.r_squared < 1


@pytest.mark.parametrize(
    ("xs", "ys", "error"),
    [([1, 2], [1], "2 numbers of clients and 1 measurements"), ([1, 1, 1, 2, 3], [1] * 5, "degree 3 with 3 different")],
)
def test_too_few_points_are_refused(xs: list[float], ys: list[float], error: str) -> None:
    with pytest.raises(TidingsError, match=error):
        curve.fit(xs, ys)


RND = {10: (1.477, 19.48, 116.89), 50: (7.384, 81.46, 488.74), 100: (14.768, 141.19, 847.14),
       150: (22.152, 185.50, 1113.02), 200: (29.536, 218.98, 1313.90)}  # fmt: skip
NBR = {10: ((15.03, 21.48, 27.81, 15.03, 8.44, 27.81), 115.59),
       50: ((63.14, 89.34, 112.84, 63.14, 34.01, 112.84), 475.29),
       100: ((112.84, 152.69, 184.60, 112.84, 63.14, 184.60), 810.71),
       150: ((152.69, 198.17, 232.14, 152.69, 89.34, 232.14), 1057.16),
       200: ((184.60, 232.14, 270.57, 184.60, 112.84, 270.57), 1255.32)}  # fmt: skip


@pytest.mark.req("MOB-104")
@pytest.mark.filterwarnings("ignore::tidings.mobility.models.curve.OutsideFittedRange")
def test_predictions_are_those_of_the_document() -> None:
    for clients, (x, y, total) in RND.items():
        expected = ctmc.random_model(6).expected(clients)
        found = curve.extrapolate(dict.fromkeys("123456", expected), curve.DOCUMENT_CURVE)
        assert (f"{expected:.3f}", f"{found.values['1']:.2f}", f"{found.total:.2f}") == (
            f"{x:.3f}",
            f"{y:.2f}",
            f"{total:.2f}",
        )
    neighbouring = ctmc.neighbour_model(graph_of(BUILDING))
    for clients, (values, total) in NBR.items():
        found = curve.extrapolate(neighbouring.expected(clients), curve.DOCUMENT_CURVE)
        assert [f"{found.values[name]:.2f}" for name in "123456"] == [f"{value:.2f}" for value in values]
        assert f"{found.total:.2f}" == f"{total:.2f}"
    for brokers, clients, total in ((8, 200, 1484.7), (8, 300, 1865.4), (10, 300, 2067.3), (10, 400, 2412.0)):
        expected = ctmc.random_model(brokers).expected(clients)
        assert f"{brokers * curve.DOCUMENT_CURVE(expected):.1f}" == f"{total:.1f}"


@pytest.mark.req("MOB-107")
def test_any_other_measure_goes_through_the_same_pipeline() -> None:
    xs = [1, 5, 10, 20, 30, 45]
    processing = curve.fit(xs, [0.2 + 0.01 * x for x in xs], 1, measure="processing time", unit="ms")
    found = curve.extrapolate(ctmc.neighbour_model(graph_of(BUILDING)).expected(200), processing)
    assert found.values["3"] == pytest.approx(0.2 + 0.01 * 200 * 0.219780, abs=1e-5)
    assert not found.outside
    with pytest.warns(curve.OutsideFittedRange, match="its processing time there"):
        curve.extrapolate({"a": 46}, processing)


# --- how sure -----------------------------------------------------------------------------------------


@pytest.mark.req("MOB-105")
def test_students_distribution_has_the_printed_quantiles() -> None:
    for freedom, printed in ((1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (30, 2.042), (120, 1.980)):
        assert stats.student_t(freedom) == pytest.approx(printed, abs=5e-4)
    assert stats.student_t(4, 0.99) == pytest.approx(4.604, abs=5e-4)


@pytest.mark.req("MOB-105")
def test_five_runs_give_an_interval_around_their_mean() -> None:
    low, high = stats.student_ci([1, 2, 3, 4, 5])
    half = 2.776 * math.sqrt(2.5) / math.sqrt(5)
    assert (low, high) == pytest.approx((3 - half, 3 + half), abs=1e-3)


@pytest.mark.req("MOB-105")
def test_the_models_interval_is_given_where_the_distribution_is_round_enough() -> None:
    share = ctmc.random_model(6).connected
    found = stats.binomial_bounds(200, share)
    assert found is not None
    assert [f"{end:.2f}" for end in found] == ["19.70", "39.37"]
    assert [f"{curve.DOCUMENT_CURVE(end):.1f}" for end in found] == ["172.2", "254.7"]
    assert stats.binomial_bounds(10, share) is None
    assert stats.binomial_bounds(50, share) is None
    loose = stats.binomial_bounds(50, share, validity=2, z=2)
    assert loose is not None
    assert [f"{end:.2f}" for end in loose] == ["2.37", "12.40"]
    assert stats.binomial_bounds(50, 1 - share) is None


@pytest.mark.req("MOB-105")
def test_intervals_that_overlap_do_not_differ() -> None:
    assert stats.Interval(1, 2).overlaps(stats.Interval(2, 3))
    assert not stats.Interval(1, 2).overlaps(stats.Interval(2.1, 3))


def test_one_measurement_and_a_wrong_share_are_refused() -> None:
    with pytest.raises(TidingsError, match="1 measurements say nothing about their spread; give at least 2"):
        stats.student_ci([1])
    with pytest.raises(TidingsError, match="confidence 95; give a share between 0 and 1"):
        stats.student_t(4, 95)


# --- forecasts -----------------------------------------------------------------------------------------


def even(graph: dict[str, list[str]]) -> dict[str, dict[str, float]]:
    return {name: dict.fromkeys(others, 1.0) for name, others in graph.items()}


def test_a_plan_has_the_models_numbers_and_warns_where_the_curve_was_not_fitted() -> None:
    found = forecasting.forecast(even(graph_of(BUILDING)), 200)
    by_name = {one.broker: one for one in found.brokers}
    assert by_name["3"].clients == pytest.approx(43.956, abs=5e-4)
    assert f"{found.throughput:.2f}" == "1255.32"
    assert [one.broker for one in found.brokers if not one.fitted] == ["2", "3", "6"]
    assert "3 of 6 brokers have 33.0 to 44.0 clients" in found.warning
    assert found.handoffs == pytest.approx(200 * ctmc.handoff_rate())
    # Whoever is at 3, connected or away, has a copy at 5; 5 has one neighbour, so its clients have one copy.
    assert by_name["5"].copies == pytest.approx(200 * 4 / 16)
    assert sum(one.copies for one in found.brokers) == pytest.approx(200 * sum(d * d for d in (2, 3, 4, 2, 1, 4)) / 16)
    assert by_name["5"].active_copies == pytest.approx(200 * 4 / 16 * 0.120879, rel=1e-4)
    assert not forecasting.forecast(even(graph_of(BUILDING)), 100).warning


def test_the_planned_buffer_is_the_mean_of_what_walks_keep() -> None:
    times, rng = ctmc.Times(), random.Random(5)
    whole = kept = 0.0
    for _ in range(200_000):
        away = 0.0
        if rng.random() < 0.5:
            away += rng.expovariate(1 / times.disconnected)
            if rng.random() < 0.5:
                away += rng.expovariate(1 / times.handoff)
        else:
            away += rng.expovariate(1 / times.handoff)
        whole += times.connected + away
        kept += away * away / 2
    found = forecasting.forecast({"a": {"b": 1}, "b": {"a": 1}}, 10, times, rate=2, message_bytes=100)
    # Both brokers keep everything for everybody: the one that was left, and its only neighbour.
    for one in found.brokers:
        assert one.buffer_bytes == pytest.approx(10 * 2 * 100 * kept / whole, rel=0.03)


def test_without_clients_there_is_nothing_to_plan() -> None:
    with pytest.raises(TidingsError, match="0 clients: there is nothing to forecast; give 1 or more"):
        forecasting.forecast({"a": {"b": 1}, "b": {"a": 1}}, 0)
