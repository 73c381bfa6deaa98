"""Exposure: what one edge of the graph makes visible, and where. It is for people who read an audit.

The oracle says what becomes of one notification. Here the filters that it must pass take its place: they are collected
along the edges, translated by mappings, and a way ends where one of them passes nothing. They may promise a little more
than can really pass, never less. Each scope is entered once, by the first way found, and no more than `EFFORT` edges
are looked at: a change waits for this, so the work is as large as what the edge touches, and bounded.
"""

from __future__ import annotations

from collections.abc import Callable

from tidings.model import EVERYTHING, Filter

from ._effective import Stage, Terms, inward_terms, offered, outward_terms, wanted
from ._graph import Graph, Membership, is_client
from ._mapping import Mapping

EFFORT = 100
"""The most edges that are looked at for one."""

Filters = tuple[Filter, ...]
"""What must be passed, all of it; joined into one filter for those who read it only."""
Sights = dict[tuple[str, str], Filters]


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
    outward = walk.offered(edge, ())
    if outward is not None:
        walk.entered.add(member)
        walk.climb(scope, outward)
    walk.entered = {scope}
    inward = walk.arriving(edge, ())
    if inward is not None:
        walk.descend(scope, member, inward)
    walk.entered = {member}
    wanted = walk.wanted(edge, ())
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

    def climb(self, scope: str, filters: Filters) -> None:
        """What the member publishes is visible in a scope, and goes on from there, up and down."""
        if not self._enter(scope):
            return
        self.found.setdefault((self.member, scope), filters)
        for above, edge in self._graph.superscopes(scope).items():
            if not self.is_abstract(above) and (shown := self.offered(edge, filters)) is not None:
                self.climb(above, shown)
        for member, edge in self._subscopes(scope):
            if (shown := self.arriving(edge, filters)) is not None:
                self.descend(self.member, member, shown)

    def descend(self, source: str, node: str, filters: Filters) -> None:
        """What was published in `source` is visible in a node, and goes on downwards."""
        if not self._enter(node):
            return
        self.found.setdefault((source, node), filters)
        for member, edge in self._subscopes(node):
            if (shown := self.arriving(edge, filters)) is not None:
                self.descend(source, member, shown)

    # --- against it -------------------------------------------------------------------------------------

    def trace(self, scope: str, filters: Filters) -> None:
        """What is visible in a scope and passes the filter comes to the member: from where may it have come?"""
        if not self._enter(scope):
            return
        self.found.setdefault((scope, self.member), filters)
        for above, edge in self._graph.superscopes(scope).items():
            if not self.is_abstract(above) and (wanted := self.wanted(edge, filters)) is not None:
                self.trace(above, wanted)
        self._trace_members(scope, filters)

    def _trace_members(self, scope: str, filters: Filters) -> None:
        for member, edge in self._subscopes(scope):
            if (wanted := self.leaving(edge, filters)) is not None and self._enter(member):
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

    def offered(self, edge: Membership, filters: Filters) -> Filters | None:
        """What may appear in the scope, if the member has what the filter accepts."""
        return self._possible(_after(outward_terms(self._graph, edge), filters))

    def arriving(self, edge: Membership, filters: Filters) -> Filters | None:
        """What the member may get, if the scope has what the filter accepts."""
        return self._possible(_after(inward_terms(self._graph, edge), filters))

    def wanted(self, edge: Membership, filters: Filters) -> Filters | None:
        """What must be in the scope for the member to get what the filter accepts."""
        return self._possible(_before(inward_terms(self._graph, edge), filters))

    def leaving(self, edge: Membership, filters: Filters) -> Filters | None:
        """What the member must have for the scope to get what the filter accepts."""
        return self._possible(_before(outward_terms(self._graph, edge), filters))

    def _possible(self, filters: Filters) -> Filters | None:
        """The filters, each once; None if nothing can pass them."""
        self.effort -= 1
        if not all(filter.conjunctions for filter in filters):
            return None
        return tuple(dict.fromkeys(filters))


def _after(terms: Terms, filters: Filters) -> Filters:
    """What a notification passes when it has crossed, if it passed the filters before."""
    return _crossed(terms.before, filters, terms.mapping, offered, terms.after)


def _before(terms: Terms, filters: Filters) -> Filters:
    """What a notification passed before it crossed, if it passes the filters now."""
    return _crossed(terms.after, filters, terms.mapping, wanted, terms.before)


def _crossed(
    near: tuple[Stage, ...],
    filters: Filters,
    mapping: Mapping | None,
    translated: Callable[[Mapping, Filter], Filter],
    far: tuple[Stage, ...],
) -> Filters:
    joined = filters + _filters(near)
    if mapping is not None:
        joined = tuple(one for filter in joined or (EVERYTHING,) if (one := translated(mapping, filter)) != EVERYTHING)
    return joined + _filters(far)


def _filters(stages: tuple[Stage, ...]) -> Filters:
    return tuple(stage.filter for stage in stages)
