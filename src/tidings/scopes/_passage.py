"""The passage: everything that an edge of the graph does to what crosses it, in the order of its definition.

    outward (member to scope)   base output, selective output, mapping, imposed on this member, imposed on all
    inward  (scope to member)   imposed on all, imposed on this member, mapping, selective input, base input

Base and selective filters see the member's data model, imposed ones the scope's. The first that blocks ends it. The
base interface of a client is what it subscribes to and advertises, and is not part of the passage.
"""

from __future__ import annotations

import functools

from tidings.model import EVERYTHING, Filter, FilterError, Matches, Notification, Route

from ._graph import Graph, Membership, is_client
from ._interface import OPEN, both
from ._mapping import Mapping


class Passage:
    """One edge of one version of a graph."""

    __slots__ = (
        "_in_mapping",
        "_inside_in",
        "_inside_out",
        "_out_mapping",
        "_outside_in",
        "_outside_out",
        "edge",
        "exact",
        "member",
        "open_out",
        "route",
        "scope",
        "since",
    )

    def __init__(self, graph: Graph, edge: Membership) -> None:
        scope = graph.scopes[edge.scope]
        inner = None if is_client(edge.member) else graph.scopes[edge.member]
        base = inner.interface if inner is not None else OPEN
        self.edge = edge
        self.member, self.scope = edge.member, edge.scope
        self.since = max(edge.since, scope.revised, inner.revised if inner is not None else 0)
        self.route = Route(edge.scope, source=edge.member, path=(edge.scope,))
        mapping = edge.mapping
        self._out_mapping = mapping.outward if mapping is not None and not mapping.outward.is_identity else None
        self._in_mapping = mapping.inward if mapping is not None and not mapping.inward.is_identity else None
        self._inside_out = _chain(base.output, edge.selective.output)
        self._outside_out = _chain(edge.imposed.output, scope.imposed.output)
        self._outside_in = _chain(scope.imposed.input, edge.imposed.input)
        self._inside_in = _chain(edge.selective.input, base.input)
        self.open_out = self._out_mapping is None and not self._inside_out and not self._outside_out
        # Nothing is tested inward: what passes a filter in the scope is just what the member gets.
        self.exact = self._in_mapping is None and not self._inside_in and not self._outside_in

    def outward(self, notification: Notification) -> Notification | None:
        """What the scope gets of a notification of the member; the same object if it is not changed."""
        if self.open_out:
            return notification
        return _pass(self._inside_out, self._out_mapping, self._outside_out, notification)

    def inward(self, notification: Notification) -> Notification | None:
        """What the member gets of a notification in the scope; the same object if it is not changed."""
        if self.exact:
            return notification
        return _pass(self._outside_in, self._in_mapping, self._inside_in, notification)

    def wanted(self, filter: Matches) -> Matches:
        """What must be asked for in the scope so that the member gets all that the filter accepts."""
        if self.exact:
            return filter
        return _before(self._outside_in, self._in_mapping, self._inside_in, filter)

    def offered(self, filter: Matches) -> Matches:
        """What may appear in the scope if the member publishes what the filter accepts."""
        if self.open_out:
            return filter
        return _after(self._inside_out, self._out_mapping, self._outside_out, filter)

    def leaving(self, filter: Matches) -> Matches:
        """What the member must publish so that the scope gets what the filter accepts."""
        return _before(self._inside_out, self._out_mapping, self._outside_out, filter)

    def arriving(self, filter: Matches) -> Matches:
        """What the member may get if what the filter accepts appears in the scope."""
        return _after(self._outside_in, self._in_mapping, self._inside_in, filter)

    def __repr__(self) -> str:
        return f"Passage({self.member!r} in {self.scope!r}, since {self.since})"


def _chain(*filters: Filter) -> tuple[Filter, ...]:
    return tuple(one for one in filters if one != EVERYTHING)


def _pass(
    first: tuple[Filter, ...], mapping: Mapping | None, then: tuple[Filter, ...], notification: Notification
) -> Notification | None:
    for one in first:
        if not one.matches(notification):
            return None
    if mapping is not None:
        mapped = mapping.apply(notification)
        if mapped is None:
            return None
        notification = mapped
    for one in then:
        if not one.matches(notification):
            return None
    return notification


def _before(first: tuple[Filter, ...], mapping: Mapping | None, then: tuple[Filter, ...], filter: Matches) -> Matches:
    """What a notification passes before, if it passes the filter after."""
    later, _ = both(*then, filter) if isinstance(filter, Filter) else both(*then)
    if mapping is not None:
        try:
            later = mapping.wanted(later)
        except FilterError:
            later = EVERYTHING
    return both(*first, later)[0]


def _after(first: tuple[Filter, ...], mapping: Mapping | None, then: tuple[Filter, ...], filter: Matches) -> Matches:
    """What a notification passes after, if it passed the filter before."""
    earlier, _ = both(*first, filter) if isinstance(filter, Filter) else both(*first)
    if mapping is not None:
        try:
            earlier = mapping.offered(earlier)
        except FilterError:
            earlier = EVERYTHING
    return both(*then, earlier)[0]


class Passages:
    """All passages of one version, made when they are asked for."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.of = functools.cache(self._of)

    def _of(self, member: str, scope: str) -> Passage:
        return Passage(self._graph, self._graph.membership(member, scope))
