"""Explanations: why somebody sees a publication, or why not. Every way it could take, as far as it gets on it."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from tidings.model import Notification

from ._effective import Rule, Stage, Terms, inward_terms, outward_terms
from ._graph import Graph, is_client
from ._oracle import ancestors, delivery_paths
from .mappings._mapping import Mapping
from .mappings._step import MappingFailed
from .policies._policy import PUBLISHING

MAX_SHOWN = 20
"""The most ways that the text of an explanation shows."""


class Crossing(NamedTuple):
    """What happens to a notification on one edge."""

    member: str
    scope: str
    outward: bool
    """Whether it climbs from the member to the scope, or comes down to the member."""
    before: Notification
    after: Notification | None
    """What has come through; None: nothing."""
    blocked_by: Stage | Mapping | None = None
    failure: str = ""
    """Why the mapping cannot map it, if it is the mapping and does not block it on purpose."""
    policy: str = ""
    """The policy that chooses then, if there is one. What it chooses depends on the publication, so it is not asked."""

    def __str__(self) -> str:
        start, end = (self.member, self.scope) if self.outward else (self.scope, self.member)
        way = f"{_shown(start)} to {_shown(end)}"
        if self.after is None:
            return f"{way}: blocked by {self._cause()}"
        then = f", if the {self.policy} chooses it" if self.policy else ""
        return (f"{way}: passes" if self.after is self.before else f"{way}: becomes {self.after!r}") + then

    def _cause(self) -> str:
        if not isinstance(self.blocked_by, Stage):
            return f"the mapping: {self.failure}" if self.failure else f"the mapping {self.blocked_by!r:.200}"
        member, scope = _shown(self.member), _shown(self.scope)
        side = "output" if self.outward else "input"
        whose = {
            Rule.BASE: f"the {side} interface of {member}",
            Rule.SELECTIVE: f"the selective {side} interface of {member} in {scope}",
            Rule.IMPOSED_ON_ONE: f"the {side} interface that {scope} imposes on {member}",
            Rule.IMPOSED_ON_ALL: f"the {side} interface that {scope} imposes on all members",
        }
        return f"{whose[self.blocked_by.rule]}: {self.blocked_by.filter!s:.200}"


class Way(NamedTuple):
    """One path from publisher to reader, and what happens on it, up to where it ends."""

    path: tuple[str, ...]
    crossings: tuple[Crossing, ...]

    @property
    def seen(self) -> Notification | None:
        """What the reader sees on this way."""
        return self.crossings[-1].after

    def __str__(self) -> str:
        verdict = "visible" if self.seen is not None else "blocked"
        lines = [f"{verdict} by {' > '.join(map(_shown, self.path))}", *(f"  {one}" for one in self.crossings)]
        return "\n".join(lines)


class Explanation(NamedTuple):
    """Why a reader sees a publication, or why not. Whether it also subscribes to it is its own business."""

    publisher: str
    notification: Notification
    reader: str
    ways: tuple[Way, ...]
    apart: str = ""
    """Why there is no way at all."""
    partial: bool = False
    """Whether it was worked out on a part of the graph: in the whole there may be more ways."""

    @property
    def visible(self) -> bool:
        """Whether the reader may see it."""
        return any(way.seen is not None for way in self.ways)

    def __str__(self) -> str:
        verdict = "sees" if self.visible else "does not see"
        head = f"{_shown(self.reader)} {verdict} {self.notification!r} of {_shown(self.publisher)}"
        if self.partial:
            head = f"as far as you may see the graph, {head}"
        if not self.ways:
            return f"{head}: {self.apart}"
        # What is visible first: one way is enough.
        ways = sorted(self.ways, key=lambda way: way.seen is None)
        more = [f"... and {len(ways) - MAX_SHOWN} more paths"] if len(ways) > MAX_SHOWN else []
        return "\n".join([head, *map(str, ways[:MAX_SHOWN]), *more])


def explain(graph: Graph, publisher: str, notification: Notification, reader: str) -> Explanation:
    """Why a node sees what a client publishes, or why not: each way that there is, and what happens on it.

    >>> from tidings.scopes import OPEN, CreateScope, Impose, Interface, Join
    >>> from tidings.scopes import apply as applied
    >>> rule = Impose("market", Interface.parse(input="price > 10"))
    >>> market = applied(Graph(), (CreateScope("market"), Join("@a", "market"), Join("@b", "market"), rule))
    >>> print(explain(market, "@a", Notification(price=5), "@b"))
    @b does not see Notification(price=5) of @a
    blocked by @a > market > @b
      @a to market: passes
      market to @b: blocked by the input interface that market imposes on all members: price > 10
    """
    if publisher == reader:
        # No way leads back to where it came from: a client sees what it publishes if one of its scopes would show it.
        paths: list[tuple[str, ...]] = [(publisher, scope, publisher) for scope in graph.upward(publisher)]
    else:
        paths = delivery_paths(graph, publisher, reader)
    ways = tuple(Way(path, _crossings(graph, path, notification)) for path in paths)
    apart = "" if ways else _apart(graph, publisher, reader)
    return Explanation(publisher, notification, reader, ways, apart, graph.partial)


def _crossings(graph: Graph, path: tuple[str, ...], notification: Notification) -> tuple[Crossing, ...]:
    crossings: list[Crossing] = []
    top = False
    for start, end in itertools.pairwise(path):
        top = top or end not in graph.upward(start)
        crossing = (
            _crossing(graph, end, start, False, notification)
            if top
            else _crossing(graph, start, end, True, notification)
        )
        crossings.append(crossing)
        if crossing.after is None:
            break
        notification = crossing.after
    return tuple(crossings)


def _crossing(graph: Graph, member: str, scope: str, outward: bool, before: Notification) -> Crossing:
    edge = graph.upward(member)[scope]
    terms = outward_terms(graph, edge) if outward else inward_terms(graph, edge)
    after, blocked_by, failure = _tested(terms, before)
    return Crossing(member, scope, outward, before, after, blocked_by, failure, _policy(graph, member, scope, outward))


def _policy(graph: Graph, member: str, scope: str, outward: bool) -> str:
    """The policies that have a say on an edge, for people."""
    if outward:
        use = graph.publishing(member)
        return f"publishing policy {use} of {_shown(member)}" if use is not None else ""
    uses = [f"{kind} policy {use}" for kind, use in sorted(graph.scopes[scope].policies.items()) if kind != PUBLISHING]
    return f"{' or '.join(uses)} of {_shown(scope)}" if uses else ""


def _tested(terms: Terms, notification: Notification) -> tuple[Notification | None, Stage | Mapping | None, str]:
    """What comes through, what blocks it, and why a mapping cannot map it."""
    for stage in terms.before:
        if not stage.filter.matches(notification):
            return None, stage, ""
    if terms.mapping is not None:
        try:
            mapped = terms.mapping.run(notification)
        except MappingFailed as error:
            return None, terms.mapping, str(error)
        if mapped is None:
            return None, terms.mapping, ""
        notification = mapped
    for stage in terms.after:
        if not stage.filter.matches(notification):
            return None, stage, ""
    return notification, None, ""


def _apart(graph: Graph, publisher: str, reader: str) -> str:
    common = graph.above(publisher) & graph.above(reader)
    abstract = sorted(id for id in common if not is_client(id) and graph.scopes[id].abstract)
    if abstract:
        return f"they meet only in {', '.join(abstract)}, and nothing is ever published in an abstract scope"
    inside = (", ".join(_shown(id) for id in sorted(ancestors(graph, one) - {one})) for one in (publisher, reader))
    return "they have no scope in common: {} is in {}; {} is in {}".format(
        _shown(publisher), next(inside) or "none", _shown(reader), next(inside) or "none"
    )


def _shown(node: str) -> str:
    return node or "the root scope"
