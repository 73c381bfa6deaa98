"""How many clients are where, in the long run: Markov chains in continuous time.

A client is connected to a broker for `connected` seconds on the average, then disconnected or under way to another one,
with equal odds; disconnected for `disconnected` seconds, then back or under way, with equal odds; under way for
`handoff` seconds. All times are exponential.

`random_model` is the document's for clients that go anywhere, in which a disconnected client may come back anywhere;
`random_exact` does as the document says instead of as it counts. `neighbour_model` is for clients that move along a
graph, any graph in which they can come back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidings.model import TidingsError

from ._linear import Matrix, solve
from ._linear import stationary as _stationary

MAX_BROKERS = 500
"""The most brokers of a graph: the equations are solved in Python."""
GONE = 0.75
"""The share of stays at a broker that end with a move to another one: 1/2 + 1/2 * 1/2."""

Graph = Mapping[str, Collection[str]]
"""For each broker its neighbours."""
Weights = Mapping[str, Mapping[str, float]]
"""For each broker its neighbours, with how often they are chosen."""


@dataclass(frozen=True, slots=True)
class Times:
    """Mean seconds of each state."""

    connected: float = 60.0
    disconnected: float = 12.0
    handoff: float = 3.0

    def __post_init__(self) -> None:
        """Raise `TidingsError` for a time that is none."""
        for name in ("connected", "disconnected", "handoff"):
            if not 0 < getattr(self, name) < float("inf"):
                raise TidingsError(f"{name}: {getattr(self, name)} seconds; give a mean time above 0")

    @property
    def round(self) -> float:
        """Mean seconds from one time that a client connects to the next."""
        return self.connected + self.disconnected / 2 + GONE * self.handoff


@dataclass(frozen=True, slots=True)
class Population:
    """The share of all clients in each state, by broker; who is disconnected or under way counts where it was."""

    connected: dict[str, float]
    disconnected: dict[str, float]
    handoff: dict[str, float]

    def expected(self, clients: int) -> dict[str, float]:
        """How many clients are connected to each broker."""
        return {broker: clients * share for broker, share in self.connected.items()}

    @property
    def away(self) -> float:
        """The share of all clients that are connected to no broker."""
        return sum(self.disconnected.values()) + sum(self.handoff.values())


@dataclass(frozen=True, slots=True)
class RandomPopulation:
    """The same in the document's random model, where those who are away are nowhere."""

    connected: float
    """At each broker."""
    disconnected: float
    handoff: float
    brokers: int

    def expected(self, clients: int) -> float:
        """How many clients are connected to each broker."""
        return clients * self.connected


def random_rates(brokers: int, times: Times) -> list[list[float]]:
    """The document's matrix: hand-off, disconnected, then connected to each broker."""
    beta, delta, alpha = _random_constants(brokers, times)
    ends = [alpha] * brokers
    rows = [[-brokers * alpha, 0.0, *ends], [delta, -(brokers + 1) * delta, *([delta] * brokers)]]
    stays = ([-2 * beta if at == other else 0.0 for other in range(brokers)] for at in range(brokers))
    return [*rows, *([beta, beta, *row] for row in stays)]


def random_model(brokers: int, times: Times = Times()) -> RandomPopulation:  # noqa: B008 - frozen
    """The document's closed form (6.4 to 6.6)."""
    if brokers < 2:
        raise TidingsError(f"{brokers} brokers: clients cannot move; give at least 2")
    beta, delta, alpha = _random_constants(brokers, times)
    whole = brokers * beta * alpha + (brokers + 2) * beta * delta + brokers * (brokers + 1) * alpha * delta
    return RandomPopulation(
        connected=(brokers + 1) * alpha * delta / whole,
        disconnected=brokers * beta * alpha / whole,
        handoff=(brokers + 2) * beta * delta / whole,
        brokers=brokers,
    )


def _random_constants(brokers: int, times: Times) -> tuple[float, float, float]:
    beta = 1 / (2 * times.connected)
    delta = 1 / ((brokers + 1) * times.disconnected)
    alpha = 1 / (brokers * times.handoff)
    return beta, delta, alpha


def complete_graph(brokers: int) -> dict[str, tuple[str, ...]]:
    """Brokers B1 to Bn, each a neighbour of all others."""
    names = [f"B{number}" for number in range(1, brokers + 1)]
    return {name: tuple(other for other in names if other != name) for name in names}


def random_exact(brokers: int, times: Times = Times()) -> Population:  # noqa: B008
    """Clients that go anywhere, and come back where they were."""
    return neighbour_model(complete_graph(brokers), times)


def neighbour_rates(graph: Graph, times: Times) -> list[list[float]]:
    """The matrix of a graph: connected to, disconnected from and under way from each broker, in its order."""
    names = list(_evenly(graph))
    size = len(names)
    beta, delta = 1 / (2 * times.connected), 1 / (2 * times.disconnected)
    rows = [_row(size, {at: -2 * beta, at + size: beta, at + 2 * size: beta}) for at in range(size)]
    rows += [_row(size, {at: delta, at + size: -2 * delta, at + 2 * size: delta}) for at in range(size)]
    for at, name in enumerate(names):
        alpha = 1 / (len(set(graph[name])) * times.handoff)
        onward = {names.index(other): alpha for other in graph[name]}
        rows.append(_row(size, {**onward, at + 2 * size: -1 / times.handoff}))
    return rows


def _row(size: int, filled: Mapping[int, float]) -> list[float]:
    return [filled.get(at, 0.0) for at in range(3 * size)]


def neighbour_solution(graph: Graph, times: Times = Times()) -> Population:  # noqa: B008
    """What the matrix of a graph says, solved as it stands."""
    shares = _stationary(neighbour_rates(graph, times))
    names, size = list(graph), len(graph)
    parts = [dict(zip(names, shares[at * size : (at + 1) * size], strict=True)) for at in range(3)]
    return Population(*parts)


def neighbour_model(graph: Graph, times: Times = Times()) -> Population:  # noqa: B008
    """Clients that choose evenly among the neighbours of their broker: in proportion to its degree."""
    weights = _evenly(graph)
    for name, others in graph.items():
        for other in others:
            if name not in graph[other]:
                raise TidingsError(f"'{name}' has the neighbour '{other}', but not the other way round; add that, too")
    degrees = {name: float(len(others)) for name, others in weights.items()}
    _check_connected(weights)
    return _spread(degrees, times)


def walk_model(weights: Weights, times: Times = Times()) -> Population:  # noqa: B008
    """Clients that choose among the neighbours of their broker by weight, in a graph that may be directed."""
    _check(weights)
    _check_connected(weights)
    return _spread(visits(weights), times)


def visits(weights: Weights) -> dict[str, float]:
    """The share of all arrivals that each broker sees."""
    names = list(weights)
    totals = {name: sum(weights[name].values()) for name in names}
    moves: Matrix = [[weights[old].get(new, 0.0) / totals[old] - (old == new) for old in names] for new in names]
    found = solve([*moves[:-1], [1.0] * len(names)], [0.0] * (len(names) - 1) + [1.0])
    return dict(zip(names, found, strict=True))


def _spread(arrivals: Mapping[str, float], times: Times) -> Population:
    """Whatever the walk is, a broker has its share of arrivals of the time of each state."""
    whole = sum(arrivals.values()) * times.round
    parts = (times.connected, times.disconnected / 2, GONE * times.handoff)
    return Population(*({name: share * part / whole for name, share in arrivals.items()} for part in parts))


def handoff_rate(times: Times = Times()) -> float:  # noqa: B008
    """Hand-offs of one client in a second."""
    return GONE / times.round


def _evenly(graph: Graph) -> Weights:
    weights = {name: dict.fromkeys(others, 1.0) for name, others in graph.items()}
    _check(weights)
    return weights


def _check(weights: Weights) -> None:
    if not 2 <= len(weights) <= MAX_BROKERS:
        raise TidingsError(f"a graph of {len(weights)} brokers; give one of 2 to {MAX_BROKERS}")
    for name, others in weights.items():
        if name in others:
            raise TidingsError(f"'{name}' is its own neighbour; remove that edge")
        for other, weight in others.items():
            if other not in weights:
                raise TidingsError(f"'{other}', a neighbour of '{name}', has no neighbours itself; add its edges")
            if not 0 <= weight < float("inf"):
                raise TidingsError(f"weight {weight} of '{name}' to '{other}'; give 0 or more")
        if not sum(others.values()) > 0:
            raise TidingsError(f"no client leaves '{name}'; add an edge from it, or leave it out")


def _check_connected(weights: Weights) -> None:
    onward = {name: {other for other, weight in others.items() if weight > 0} for name, others in weights.items()}
    backward: dict[str, set[str]] = {name: set() for name in weights}
    for name, others in onward.items():
        for other in others:
            backward[other].add(name)
    first = next(iter(weights))
    for ways, what in ((onward, "cannot be reached from"), (backward, "does not lead back to")):
        reached, open_ends = {first}, [first]
        while open_ends:
            fresh = ways[open_ends.pop()] - reached
            reached |= fresh
            open_ends.extend(fresh)
        for name in weights:
            if name not in reached:
                raise TidingsError(f"'{name}' {what} '{first}'; add an edge, or plan the parts of the graph one by one")
