"""The passage: an edge of the graph, ready to be crossed by notifications, and by filters the other way.

What it does, and in which order, is the edge's effective interface (see `_effective`).
"""

from __future__ import annotations

from tidings.broker import MAX_COST
from tidings.model import EVERYTHING, NOTHING, Filter, Identity, Matches, Notification, Route

from ._effective import Stage, inward_terms, offered, outward_terms, wanted
from ._graph import Graph, Membership
from ._interface import both
from .mappings._mapping import Mapping
from .policies._policy import PolicyKind, PolicyUse
from .policies._running import Running, running


class Passage:
    """One edge of one version of a graph."""

    __slots__ = (
        "_delivery",
        "_graph",
        "_in_mapping",
        "_inside_in",
        "_inside_out",
        "_internal",
        "_out_mapping",
        "_outside_in",
        "_outside_out",
        "_publishing",
        "_shut_out",
        "_unchanged_in",
        "chooses",
        "decides",
        "duplicates",
        "edge",
        "exact",
        "member",
        "open_out",
        "ordered",
        "route",
        "scope",
        "since",
    )

    def __init__(self, graph: Graph, edge: Membership) -> None:
        self.edge = edge
        self.member, self.scope = edge.member, edge.scope
        self.since = graph.revised(edge)
        self.duplicates, self.ordered = graph.scopes[edge.scope].duplicates, graph.scopes[edge.scope].ordered
        self.route = Route(edge.scope, source=edge.member, path=(edge.scope,))
        out, back = outward_terms(graph, edge), inward_terms(graph, edge)
        self._out_mapping, self._in_mapping = out.mapping, back.mapping
        self._inside_out, self._outside_out = _filters(out.before), _filters(out.after)
        self._outside_in, self._inside_in = _filters(back.before), _filters(back.after)
        self.open_out = self._out_mapping is None and not self._inside_out and not self._outside_out
        self._shut_out = not all(one.conjunctions for one in (*self._inside_out, *self._outside_out))
        # Nothing is tested inward: what passes a filter in the scope is just what the member gets.
        self._unchanged_in = self._in_mapping is None and not self._inside_in and not self._outside_in
        self._graph = graph
        policies = graph.scopes[edge.scope].policies
        self._publishing = _bound(graph.publishing(edge.member), PolicyKind.PUBLISHING, edge.member)
        self._delivery, self._internal = (
            _bound(policies.get(kind.value), kind, edge.scope) for kind in (PolicyKind.DELIVERY, PolicyKind.INTERNAL)
        )
        inward = self._delivery is not None or self._internal is not None
        self.chooses = inward or self._publishing is not None
        self.decides = False
        self.exact = self._unchanged_in and not inward

    def outward(self, notification: Notification) -> Notification | None:
        """What the scope gets of a notification of the member; the same object if it is not changed."""
        if self.open_out:
            return notification
        if self._shut_out:
            return None
        return _pass(self._inside_out, self._out_mapping, self._outside_out, notification)

    @property
    def outward_filters(self) -> tuple[Filter, ...] | None:
        """What the scope gets of the member: all that passes each of these, as it is; None: it may be changed."""
        return None if self._out_mapping is not None else (*self._inside_out, *self._outside_out)

    def inward(self, notification: Notification) -> Notification | None:
        """What the member gets of a notification in the scope; the same object if it is not changed."""
        if self._unchanged_in:
            return notification
        return _pass(self._outside_in, self._in_mapping, self._inside_in, notification)

    def sends(self, notification: Notification, identity: Identity, path: tuple[str, ...]) -> int | None:
        """When the member's policy lets the scope have what the member would show it: a time, 0 for at once, None for
        not at all. `notification` is as the member has it, `path` are the scopes it came through, the member last."""
        if self._publishing is None:
            return 0
        return self._publishing.due(notification, self.scope, self._graph, identity, path)

    def compares(self, *, incoming: bool) -> bool:
        """Whether the deciding point of the scope says whether the member gets what the scope would show it."""
        policy = self._delivery if incoming else self._internal
        return policy is not None and policy.compares

    def takes(
        self, notification: Notification, identity: Identity, path: tuple[str, ...], *, incoming: bool
    ) -> int | None:
        """When the scope's policy lets the member have what the scope would show it, as `sends` does. `incoming`: it
        came into the scope from a superscope."""
        policy = self._delivery if incoming else self._internal
        if policy is None:
            return 0
        if policy.compares:
            return None  # its deciding point says who gets it, and hands it over
        return policy.due(notification, self.member, self._graph, identity, path)

    def wanted(self, filter: Matches) -> Matches:
        """What must be asked for in the scope so that the member gets all that the filter accepts."""
        if self._unchanged_in:
            return filter
        return _before(self._outside_in, self._in_mapping, self._inside_in, filter)

    def offered(self, filter: Matches) -> Matches:
        """What may appear in the scope if the member publishes what the filter accepts."""
        if self.open_out:
            return filter
        return _after(self._inside_out, self._out_mapping, self._outside_out, filter)

    def __repr__(self) -> str:
        return f"Passage({self.member!r} in {self.scope!r}, since {self.since})"


def _bound(use: PolicyUse | None, kind: PolicyKind, component: str) -> Running | None:
    return None if use is None else running(use, kind, component)


def _filters(stages: tuple[Stage, ...]) -> tuple[Filter, ...]:
    return tuple(stage.filter for stage in stages)


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
    factors = (*then, filter) if isinstance(filter, Filter) else then
    later, _ = both(*factors, most=MAX_COST)
    if mapping is not None:
        later = wanted(mapping, later)
    return both(*first, later, most=MAX_COST)[0]


def _after(first: tuple[Filter, ...], mapping: Mapping | None, then: tuple[Filter, ...], filter: Matches) -> Matches:
    """What a notification passes after, if it passed the filter before.

    An advertisement speaks for every element of a list, an interface for some element, so the two cannot be joined into
    one filter: what is offered is what was offered inside, unless nothing can pass at all.
    """
    if not all(one.conjunctions for one in (*first, *then)):
        return NOTHING
    if mapping is None:
        return filter
    return both(offered(mapping, filter), most=MAX_COST)[0] if isinstance(filter, Filter) else EVERYTHING
