"""The neighbour graph: from which broker to which one clients move.

Theory of operation
-------------------
The graph says where copies of a client's subscriptions are worth their price: at the brokers where it may turn up next.
It is a graph of *movement*, not of broker links. Each broker keeps the edges that it has seen used itself: the old and
the new broker of a hand-off both learn, unless the graph is directed, where only the old one needs to know.

An edge is learned when the old broker has confirmed that it hosted this client under the epoch that the client showed;
whoever calls `learn` vouches for that. A client makes one new edge in `new_edge_interval` at most, so that one which
visits all brokers does not put everybody's copies everywhere. Edges that are known are refreshed without limit.

| an edge that                                             | then                                                |
|----------------------------------------------------------|-----------------------------------------------------|
| is used for the first time                               | is added with weight 1, unless a limit forbids it    |
| is used again                                            | has its weight, as it has aged, plus 1               |
| makes one more learned edge than `max_degree` at a broker | displaces the one there that was not used for longest |
| was not used for the edge timeout                        | is removed by the next `expire`, unless it is pinned |
| is *pinned*: it comes from the configuration             | neither ages nor makes room for others               |

The *edge timeout* is the configured one or, if that is longer, the running mean of the time between two additions: a
graph that learns an edge a day must not forget within minutes. A weight halves in each edge timeout.

The graph reads no clock. Times are microseconds, given by the caller, and never go backwards for long: an edge that was
used "later" than now is used now.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from tidings.model import TidingsError

from ._graph_quality import GraphQuality

SECOND = 1_000_000
"""Microseconds."""
MAX_EDGE_TIMEOUT = 7 * 24 * 3600 * SECOND
"""Microseconds: the longest that the running mean makes the edge timeout."""
MAX_LEARNERS = 100_000
"""The most clients whose last new edge is remembered; beyond that no client makes a new one until some have aged."""
_SHARE_OF_LATEST = 1 / 8
"""How much the latest interval between two additions, or stay, counts in their running mean."""


class GraphMode(enum.Enum):
    """Where edges come from."""

    DYNAMIC = "dynamic"
    """They are learned; what is imported ages like what is learned."""
    STATIC = "static"
    """They are configured, and nothing is learned."""
    SEEDED = "seeded"
    """They are configured, and more are learned."""


class Outcome(enum.Enum):
    """What a client found at its new broker."""

    HIT = "hit"
    """A copy that was ready."""
    EARLY = "early"
    """A copy that was not ready yet: the client came before its old broker had noticed that it was gone."""
    MISS = "miss"
    """Nothing."""


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """How the graph is learned and how large it grows."""

    mode: GraphMode = GraphMode.DYNAMIC
    directed: bool = False
    """Whether an edge leads from the old broker to the new one only."""
    edge_timeout: float = 600.0
    """Seconds after which an edge that was not used is removed; longer where edges are added more rarely than that."""
    max_degree: int = 8
    """The most neighbours of one broker; 0: any number."""
    new_edge_interval: float = 60.0
    """Seconds in which one client makes at most one new edge; 0: any number."""
    window: float = 600.0
    """Seconds over which the quality of the graph is measured."""

    def __post_init__(self) -> None:
        """Raise `TidingsError` for a value that makes no sense."""
        for name, least in (("edge_timeout", 1), ("max_degree", 0), ("new_edge_interval", 0), ("window", 1)):
            if not getattr(self, name) >= least:
                raise TidingsError(f"[mobility] {name}: {getattr(self, name)} is too little; give at least {least}")


class Edge(msgspec.Struct, frozen=True):
    """One edge; in an undirected graph `old` comes before `new` in the alphabet, and both directions are meant."""

    old: str
    new: str
    weight: float
    """How often it was used, as of `last_used`; older uses count less."""
    created_at: int
    last_used: int
    pinned: bool = False
    dwell: float = 0.0
    """Seconds that clients usually stay before they use it, at the broker that knows it, or where most use it; 0: that
    is not known."""


class Change(NamedTuple):
    """What became of the graph."""

    added: tuple[Edge, ...] = ()
    removed: tuple[Edge, ...] = ()


UNCHANGED = Change()


class NeighbourGraph:
    """The edges that one broker knows, or that were mined for a network.

    >>> graph = NeighbourGraph()
    >>> _ = graph.learn("home", "office", at=0, client="phone")
    >>> graph.neighbours("office")
    ('home',)
    """

    def __init__(self, options: GraphOptions | None = None, edges: Iterable[Edge] = ()) -> None:
        """Begin with these edges, which are taken as they are: from a file that was checked, or from disk."""
        self.options = options = options or GraphOptions()
        self.quality = GraphQuality(int(options.window * SECOND))
        self.edges: dict[tuple[str, str], Edge] = {}
        self._neighbours: dict[str, set[str]] = {}
        self._learners: dict[str, int] = {}
        """When each client made its last new edge, the earliest first."""
        self._last_addition: int | None = None
        self._mean_interval = 0.0
        self._latest = 0
        """The time of the latest hand-off, to compare weights at."""
        for edge in edges:
            self._put(edge)

    def __len__(self) -> int:
        return len(self.edges)

    # --- questions ------------------------------------------------------------------------------------

    def neighbours(self, broker: str) -> tuple[str, ...]:
        """Where clients of this broker may go next, the likeliest first."""
        return tuple(sorted(self._neighbours.get(broker, ()), key=lambda other: self._rank(broker, other)))

    def _rank(self, broker: str, other: str) -> tuple[float, int, str]:
        edge = self.edges[self._key(broker, other)]
        return -self.weight(edge, self._latest), -edge.last_used, other

    def edge(self, old: str, new: str) -> Edge | None:
        """The edge that a client uses when it moves from one broker to the other."""
        return self.edges.get(self._key(old, new))

    def edge_timeout(self) -> int:
        """Microseconds after which an edge that was not used is removed."""
        return max(int(self.options.edge_timeout * SECOND), min(int(self._mean_interval), MAX_EDGE_TIMEOUT))

    def weight(self, edge: Edge, at: int) -> float:
        """How much an edge weighs now."""
        if edge.pinned:
            return edge.weight
        return float(edge.weight * 0.5 ** (max(at - edge.last_used, 0) / self.edge_timeout()))

    # --- learning -------------------------------------------------------------------------------------

    def learn(self, old: str, new: str, at: int, *, client: str = "", stayed: float = 0.0) -> Change:
        """Note a hand-off that the old broker has confirmed. Without `client`, new edges are not rationed.

        `stayed` is for how many seconds the client was at its old broker; 0: that is not known here.
        """
        if old == new or not old or not new:
            return UNCHANGED
        self.quality.handed_off(at)
        known = self.edges.get(self._key(old, new))
        if known is not None:
            self._put(self._used(known, at, stayed))
            return UNCHANGED
        if self.options.mode is GraphMode.STATIC or not self._has_room(old, new) or not self._may_learn(client, at):
            return UNCHANGED
        return self._add(old, new, at, stayed)

    def _used(self, edge: Edge, at: int, stayed: float) -> Edge:
        at = max(at, edge.last_used)
        dwell = edge.dwell + (stayed - edge.dwell) * _SHARE_OF_LATEST if edge.dwell and stayed else edge.dwell or stayed
        return msgspec.structs.replace(edge, weight=self.weight(edge, at) + 1, last_used=at, dwell=dwell)

    def _add(self, old: str, new: str, at: int, stayed: float) -> Change:
        if self._last_addition is not None:
            interval = max(at - self._last_addition, 0)
            known = self._mean_interval
            self._mean_interval = known + (interval - known) * _SHARE_OF_LATEST if known else interval
        self._last_addition = at
        self.quality.added(at)
        edge = Edge(*self._key(old, new), 1.0, at, at, dwell=stayed)
        self._put(edge)
        ends = (old,) if self.options.directed else (old, new)
        removed = [self._displace(end, edge, at) for end in ends]
        return Change((edge,), tuple(one for one in removed if one is not None))

    def _has_room(self, old: str, new: str) -> bool:
        """Whether there is an edge to displace at both ends, should they be full."""
        most = self.options.max_degree
        ends = (old,) if self.options.directed else (old, new)
        return not most or all(sum(edge.pinned for edge in self._at(end)) < most for end in ends)

    def _displace(self, broker: str, latest: Edge, at: int) -> Edge | None:
        if not self.options.max_degree or len(self._neighbours[broker]) <= self.options.max_degree:
            return None
        others = [edge for edge in self._at(broker) if not edge.pinned and edge != latest]
        oldest = min(others, key=lambda edge: (edge.last_used, edge.weight, edge.old, edge.new))
        self._remove(oldest, at)
        return oldest

    def _may_learn(self, client: str, at: int) -> bool:
        interval = int(self.options.new_edge_interval * SECOND)
        if not interval or not client:
            return True
        while self._learners and (first := next(iter(self._learners))) and self._learners[first] <= at - interval:
            del self._learners[first]
        if self._learners.get(client, at - interval) > at - interval or len(self._learners) >= MAX_LEARNERS:
            return False
        self._learners[client] = at
        return True

    def learned_at(self, client: str) -> int:
        """When a client made its last new edge, as far as that is remembered; 0: it is not."""
        return self._learners.get(client, 0)

    def remember_learner(self, client: str, at: int) -> None:
        """Another broker knows that a client made a new edge then."""
        if at > self.learned_at(client) and len(self._learners) < MAX_LEARNERS:
            self._learners[client] = at

    # --- forgetting -----------------------------------------------------------------------------------

    def expire(self, at: int) -> Change:
        """Remove what was not used for the edge timeout; call it now and then."""
        before = at - self.edge_timeout()
        return self._remove_all((edge for edge in self.edges.values() if edge.last_used < before), at)

    def forget(self, broker: str, other: str | None = None, *, at: int, pinned: bool = False) -> Change:
        """Remove all edges of a broker, or the one between two; pinned ones only if told so."""
        ends = (
            self._touching(broker)
            if other is None
            else [edge for edge in (self.edge(broker, other), self.edge(other, broker)) if edge is not None]
        )
        return self._remove_all(ends, at, pinned=pinned)

    def replace(self, edges: Iterable[Edge], at: int) -> Change:
        """Have these edges and no others, as after an import; pinned ones stay."""
        wanted = {self._key(edge.old, edge.new): edge for edge in edges}
        gone = self._remove_all((edge for key, edge in self.edges.items() if key not in wanted), at).removed
        added = tuple(edge for key, edge in wanted.items() if key not in self.edges)
        for key, edge in wanted.items():
            if key not in self.edges or not self.edges[key].pinned:
                self._put(edge)
        return Change(added, gone)

    def _remove_all(self, edges: Iterable[Edge], at: int, *, pinned: bool = False) -> Change:
        removed = tuple(dict.fromkeys((edge.old, edge.new) for edge in edges if pinned or not edge.pinned))
        gone = tuple(self.edges[key] for key in removed)
        for edge in gone:
            self._remove(edge, at)
        return Change((), gone)

    # --- the edges ------------------------------------------------------------------------------------

    def _key(self, old: str, new: str) -> tuple[str, str]:
        return (old, new) if self.options.directed or old < new else (new, old)

    def _at(self, broker: str) -> list[Edge]:
        """Those that lead on from a broker."""
        return [self.edges[self._key(broker, other)] for other in self._neighbours.get(broker, ())]

    def _touching(self, broker: str) -> list[Edge]:
        return [edge for edge in self.edges.values() if broker in (edge.old, edge.new)]

    def _put(self, edge: Edge) -> None:
        if edge.old == edge.new:
            raise TidingsError(f"an edge leads from broker '{edge.old}' to itself; give two different brokers")
        key = self._key(edge.old, edge.new)
        self._latest = max(self._latest, edge.last_used)
        self.edges[key] = msgspec.structs.replace(edge, old=key[0], new=key[1])
        self._neighbours.setdefault(key[0], set()).add(key[1])
        if not self.options.directed:
            self._neighbours.setdefault(key[1], set()).add(key[0])

    def _remove(self, edge: Edge, at: int) -> None:
        del self.edges[edge.old, edge.new]
        self.quality.removed(edge.created_at, at)
        ends = [(edge.old, edge.new)] if self.options.directed else [(edge.old, edge.new), (edge.new, edge.old)]
        for end, other in ends:
            self._neighbours[end].discard(other)
            if not self._neighbours[end]:
                del self._neighbours[end]

    # --- how good it is -------------------------------------------------------------------------------

    def arrived(self, outcome: Outcome) -> None:
        """A client came from another broker, and found this."""
        if outcome is Outcome.HIT:
            self.quality.hits += 1
        elif outcome is Outcome.EARLY:
            self.quality.early += 1
        else:
            self.quality.misses += 1

    def f_neg(self, at: int) -> float:
        """The share of hand-offs in the window that used an edge which was not there: how often copies were missing."""
        return self.quality.f_neg(at)

    def f_pos(self, at: int) -> float:
        """Removals in the window times the edge timeout, by the time that edges were there: how many were wasted."""
        return self.quality.f_pos(at, self.edge_timeout(), [edge.created_at for edge in self.edges.values()])
