"""Exposure: what one edge of the graph makes visible, and where. It is for people who read an audit.

The oracle says what becomes of one notification. Here filters take its place: they are translated along the edges, and
a way ends where nothing can pass any more. A filter may promise a little more than can really pass, never less. Each
scope is entered once, by the first way found, and no more than `EFFORT` edges are looked at: the work is as large as
what the edge touches, and bounded.
"""

from __future__ import annotations

from tidings.model import EVERYTHING, ROOT_SCOPE, Filter, Matches

from ._graph import Graph, Membership, is_client
from ._passage import Passage

EFFORT = 300
"""The most edges that are looked at for one."""

Sights = dict[tuple[str, str], Filter]


def exposure(graph: Graph, member: str, scope: str) -> tuple[Sights, bool]:
    """For (source, target): what published in the source may be seen in the target by way of this edge.

    The second value says whether that is all. An edge that does not exist makes nothing visible.
    """
    walk = _Walk(graph)
    edge = walk.edge(member, scope)
    if edge is None or walk.is_abstract(member) or walk.is_abstract(scope):
        return {}, True
    walk.member = member
    outward = walk.offered(edge, EVERYTHING)
    if outward is not None:
        walk.entered.add(member)
        walk.climb(scope, outward)
    walk.entered = {scope}
    inward = walk.arriving(edge, EVERYTHING)
    if inward is not None:
        walk.descend(scope, member, inward)
    walk.entered = {member}
    wanted = walk.wanted(edge, EVERYTHING)
    if wanted is not None:
        walk.trace(scope, wanted)
    return walk.found, walk.effort > 0


class _Walk:
    """One look at one edge."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.found: Sights = {}
        self.entered: set[str] = set()
        self.effort = EFFORT
        self.member = ""

    def edge(self, member: str, scope: str) -> Membership | None:
        edges = self._graph.superscopes(member)
        if is_client(member) and not edges and scope == ROOT_SCOPE:
            return Membership(member, ROOT_SCOPE)
        return edges.get(scope)

    def is_abstract(self, node: str) -> bool:
        return not is_client(node) and self._graph.scopes[node].abstract

    # --- along the way of notifications -----------------------------------------------------------------

    def climb(self, scope: str, filter: Filter) -> None:
        """What the member publishes is visible in a scope, and goes on from there, up and down."""
        if not self._enter(scope):
            return
        self.found.setdefault((self.member, scope), filter)
        for above, edge in self._graph.superscopes(scope).items():
            if not self.is_abstract(above) and (shown := self.offered(edge, filter)) is not None:
                self.climb(above, shown)
        for member, edge in self._subscopes(scope):
            if (shown := self.arriving(edge, filter)) is not None:
                self.descend(self.member, member, shown)

    def descend(self, source: str, node: str, filter: Filter) -> None:
        """What was published in `source` is visible in a node, and goes on downwards."""
        if not self._enter(node):
            return
        self.found.setdefault((source, node), filter)
        for member, edge in self._subscopes(node):
            if (shown := self.arriving(edge, filter)) is not None:
                self.descend(source, member, shown)

    # --- against it -------------------------------------------------------------------------------------

    def trace(self, scope: str, filter: Filter) -> None:
        """What is visible in a scope and passes the filter comes to the member: from where may it have come?"""
        if not self._enter(scope):
            return
        self.found.setdefault((scope, self.member), filter)
        for above, edge in self._graph.superscopes(scope).items():
            if not self.is_abstract(above) and (wanted := self.wanted(edge, filter)) is not None:
                self.trace(above, wanted)
        self._trace_members(scope, filter)

    def _trace_members(self, scope: str, filter: Filter) -> None:
        for member, edge in self._subscopes(scope):
            if (wanted := self.leaving(edge, filter)) is not None and self._enter(member):
                self.found.setdefault((member, self.member), wanted)
                self._trace_members(member, wanted)

    # --- steps --------------------------------------------------------------------------------------------

    def _enter(self, node: str) -> bool:
        if node in self.entered or self.effort <= 0:
            return False
        self.entered.add(node)
        return True

    def _subscopes(self, scope: str) -> list[tuple[str, Membership]]:
        if is_client(scope):
            return []
        members = self._graph.members(scope).items()
        return [(m, edge) for m, edge in members if not is_client(m) and not self.is_abstract(m)]

    def offered(self, edge: Membership, filter: Filter) -> Filter | None:
        return self._possible(Passage(self._graph, edge).offered(filter))

    def arriving(self, edge: Membership, filter: Filter) -> Filter | None:
        return self._possible(Passage(self._graph, edge).arriving(filter))

    def wanted(self, edge: Membership, filter: Filter) -> Filter | None:
        return self._possible(Passage(self._graph, edge).wanted(filter))

    def leaving(self, edge: Membership, filter: Filter) -> Filter | None:
        return self._possible(Passage(self._graph, edge).leaving(filter))

    def _possible(self, filter: Matches) -> Filter | None:
        """The filter in its shortest form; None if nothing can pass it."""
        self.effort -= 1
        if not isinstance(filter, Filter):
            return EVERYTHING
        shortest = filter.canonical()
        return shortest if shortest.conjunctions else None
