"""Exposure: what one edge of the graph makes visible, and where. It is for people who read an audit.

The oracle says what becomes of one notification. Here filters take its place: they are translated along the edges, and
a way ends where nothing can pass any more. A filter may promise a little more than can really pass, never less. Each
scope is entered once, by the first way found, and no more than `EFFORT` edges are looked at: the work is as large as
what the edge touches, and bounded.
"""

from __future__ import annotations

from tidings.model import EVERYTHING, Filter

from ._effective import Terms, inward_terms, offered, outward_terms, wanted
from ._graph import Graph, Membership, is_client
from ._interface import both

EFFORT = 300
"""The most edges that are looked at for one."""

Sights = dict[tuple[str, str], Filter]


def exposure(graph: Graph, member: str, scope: str) -> tuple[Sights, bool]:
    """For (source, target): what published in the source may be seen in the target by way of this edge.

    The second value says whether that is all. An edge that does not exist makes nothing visible.
    """
    walk = _Walk(graph)
    known = is_client(member) or member in graph.scopes
    edge = graph.upward(member).get(scope) if known else None
    if edge is None:
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
        """What may appear in the scope, if the member has what the filter accepts."""
        return self._possible(_after(outward_terms(self._graph, edge), filter))

    def arriving(self, edge: Membership, filter: Filter) -> Filter | None:
        """What the member may get, if the scope has what the filter accepts."""
        return self._possible(_after(inward_terms(self._graph, edge), filter))

    def wanted(self, edge: Membership, filter: Filter) -> Filter | None:
        """What must be in the scope for the member to get what the filter accepts."""
        return self._possible(_before(inward_terms(self._graph, edge), filter))

    def leaving(self, edge: Membership, filter: Filter) -> Filter | None:
        """What the member must have for the scope to get what the filter accepts."""
        return self._possible(_before(outward_terms(self._graph, edge), filter))

    def _possible(self, filter: Filter) -> Filter | None:
        """The filter in its shortest form; None if nothing can pass it."""
        self.effort -= 1
        shortest = filter.canonical()
        return shortest if shortest.conjunctions else None


def _after(terms: Terms, filter: Filter) -> Filter:
    """What a notification passes when it has crossed, if it passed the filter before."""
    joined, _ = both(*(stage.filter for stage in terms.before), filter)
    if terms.mapping is not None:
        joined = offered(terms.mapping, joined)
    return both(*(stage.filter for stage in terms.after), joined)[0]


def _before(terms: Terms, filter: Filter) -> Filter:
    """What a notification passed before it crossed, if it passes the filter now."""
    joined, _ = both(*(stage.filter for stage in terms.after), filter)
    if terms.mapping is not None:
        joined = wanted(terms.mapping, joined)
    return both(*(stage.filter for stage in terms.before), joined)[0]
