"""Who sees what, from the definition: the checker's own, which shares nothing with what brokers call.

Brokers work out what they owe with `tidings.broker.owed`, which follows a notification through the graph
(`tidings.scopes._oracle`), over edges that are made ready for speed. If the checker did the same, it would take every
mistake of theirs for the truth. So it goes the other way round: first the ways, then the notification.

    edges   what an administrator has joined, unless one end is abstract. A client that was never joined to anything
            else is a member of the root scope, on its terms. One that has left its last scope is a member of nothing.
    way     a chain of edges up from the publisher, and one up from the reader, that end in the same scope. What comes
            down enters no node that it has climbed through.
    form    what is left of the notification when it has crossed every edge of a way, up and then down:
                up     base, selective, mapping, imposed on this member, imposed on all members
                down   imposed on all members, imposed on this member, mapping, selective, base
            INPUT is towards the member, OUTPUT away from it. A client has no base interface but its subscriptions.

    choice  on each edge, once it lets something pass: the publishing policy of the lower end on the way up; on the way
            down that of the scope, for what a member published where the way turns, for what came from above below it
    delay   the longest of the delays of these policies

A publisher sees its own publication as it published it, if one of its edges lets it out and what came out in again.

Of the graph only its data is used: scopes, memberships, filters and mappings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from tidings.model import ROOT_SCOPE, Filter, Notification
from tidings.scopes import OPEN, Graph, Membership, PolicyUse, is_client

from ._choosing import Question, compares, delay_of, gives_to_one, says_yes, takes_turns

Chain: TypeAlias = tuple[Membership, ...]
"""Edges that lead up, each from the scope in which the one before it ends."""


class Way(NamedTuple):
    """How a notification may come from one node to another."""

    up: Chain
    down: Chain
    """From the reader up; it is crossed the other way."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """What lies on it, the publisher first."""
        return tuple([edge.member for edge in self.up] + [edge.scope for edge in self.down[::-1]] + [self._end])

    @property
    def _end(self) -> str:
        return self.down[0].member


class _Form(NamedTuple):
    """What is left of a notification at the end of a way, and how long it was kept back."""

    notification: Notification
    delay: int
    inside: Notification
    """In the scope from which the reader gets it."""


class Choice(NamedTuple):
    """What a policy that compares readers decides about, and what one of them sees of it."""

    scope: str
    inside: Notification
    """As it is in the scope: each of these is given to one of them."""
    form: Notification
    in_turn: bool
    to_one: bool
    """Whether it gives it to one of them; else to some, or to nobody."""


class Definition:
    """One version of a scope graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._scopes = graph.scopes
        self._isolated = set(graph.isolated)
        self._edges: dict[str, list[Membership]] = {}
        for edge in graph.memberships():
            self._edges.setdefault(edge.member, []).append(edge)
        self._ways: dict[tuple[str, str], list[Way]] = {}

    def forms(
        self,
        publisher: str,
        notification: Notification,
        reader: str,
        climbs: Callable[[Chain], bool] = lambda chain: True,
        *,
        sure: bool = False,
    ) -> dict[tuple[str, ...], Notification]:
        """In which form a reader sees a publication, by the nodes on its way; both are nodes of the graph.

        `climbs`: up which chains of edges it goes, interfaces aside. `sure`: whoever else might be chosen.
        """
        if publisher == reader:
            back = any(climbs((edge,)) for edge in self.returning(publisher, notification))
            return {(publisher,): notification} if back else {}
        ways = [way for way in self.ways(publisher, reader) if climbs(way.up) and not (sure and self._chooses(way))]
        seen = {way.nodes: self._along(way, notification) for way in ways}
        return {nodes: form.notification for nodes, form in seen.items() if form is not None}

    def choices(self, publisher: str, notification: Notification, reader: str) -> frozenset[Choice]:
        """What may be given to a reader, as one of several that might get it; it is another one than the publisher."""
        found: set[Choice] = set()
        for way in self.ways(publisher, reader) if publisher != reader else ():
            if self._chooses(way) and (form := self._along(way, notification)) is not None:
                use, scope = self._last_policy(way), way.down[0].scope
                found.add(Choice(scope, form.inside, form.notification, takes_turns(use), gives_to_one(use)))
        return frozenset(found)

    def deciding(self, path: tuple[str, ...]) -> tuple[str, PolicyUse | None]:
        """Of which kind the policy is that decides about what came into the last scope of a path, and which it is."""
        above = {edge.scope for edge in self._edges.get(path[-1], ())}
        kind = "delivery" if len(path) > 1 and path[-2] in above else "internal"
        scope = self._scopes.get(path[-1])
        return kind, None if scope is None else scope.policies.get(kind)

    def _chooses(self, way: Way) -> bool:
        return compares(self._last_policy(way))

    def _last_policy(self, way: Way) -> PolicyUse | None:
        """The policy that the scope has from which the reader gets something."""
        kind = "internal" if len(way.down) == 1 else "delivery"
        return self._scopes[way.down[0].scope].policies.get(kind)

    def climbing_to(self, publisher: str, notification: Notification, scope: str) -> list[Notification]:
        """In which forms a publication climbs into a scope, one for each way."""
        found = []
        for chain in self._chains(publisher):
            if chain[-1].scope == scope:
                form = self._climbed(chain, notification)
                found += [] if form is None else [form.notification]
        return found

    def delays(self, publisher: str, notification: Notification, reader: str) -> dict[Notification, int]:
        """For each form that a reader sees, how long after its publication, in microseconds, at the earliest."""
        found: dict[Notification, int] = {}
        for way in self.ways(publisher, reader) if publisher != reader else ():
            if (form := self._along(way, notification)) is not None:
                found[form.notification] = min(form.delay, found.get(form.notification, form.delay))
        return found

    def held_back(self, publisher: str, notification: Notification, reader: str) -> set[Notification]:
        """The forms that some way to a reader keeps back for a while, though another may not."""
        ways = self.ways(publisher, reader) if publisher != reader else ()
        forms = [self._along(way, notification) for way in ways]
        return {form.notification for form in forms if form is not None and form.delay}

    def ways(self, publisher: str, reader: str) -> list[Way]:
        """Every way from one node to another, whatever may go there."""
        known = self._ways.get((publisher, reader))
        if known is None:
            downs = list(self._chains(reader))
            known = [
                Way(up, down)
                for up in self._chains(publisher)
                for down in downs
                if up[-1].scope == down[-1].scope
                and {edge.member for edge in down}.isdisjoint(edge.member for edge in up)
            ]
            self._ways[publisher, reader] = known
        return known

    def _chains(self, node: str) -> Iterator[Chain]:
        for edge in self.above(node):
            yield (edge,)
            for chain in self._chains(edge.scope):
                yield (edge, *chain)

    def above(self, node: str) -> list[Membership]:
        """The edges that lead up from a node and carry notifications."""
        joined = self._edges.get(node, [])
        if not is_client(node) and self._scopes[node].abstract:
            return []
        carrying = [edge for edge in joined if not self._scopes[edge.scope].abstract]
        if is_client(node) and not carrying and node not in self._isolated:
            return [Membership(node, ROOT_SCOPE)]
        return carrying

    # --- one edge -------------------------------------------------------------------------------------

    def returning(self, publisher: str, notification: Notification) -> list[Membership]:
        """The edges by which a publisher gets its own publication back."""
        outside = ((edge, self._up(edge, notification)) for edge in self.above(publisher))
        return [edge for edge, shown in outside if shown is not None and self._down(edge, shown) is not None]

    def along(self, way: Way, notification: Notification) -> Notification | None:
        """What is left of a notification at the end of a way; None: nothing."""
        form = self._along(way, notification)
        return None if form is None else form.notification

    def _climbed(self, chain: Chain, notification: Notification) -> _Form | None:
        delay = 0
        nodes: tuple[str, ...] = (chain[0].member,)
        for edge in chain:
            shown = self._up(edge, notification)
            use = self._graph.publishing(edge.member)
            if shown is None or not self._chosen(use, notification, edge.scope, nodes):
                return None
            delay = max(delay, delay_of(use, notification))
            notification, nodes = shown, (*nodes, edge.scope)
        return _Form(notification, delay, notification)

    def _along(self, way: Way, notification: Notification) -> _Form | None:
        climbed = self._climbed(way.up, notification)
        if climbed is None:
            return None
        notification, delay, _ = climbed
        nodes = (way.up[0].member, *(edge.scope for edge in way.up))
        kind, inside = "internal", notification
        for edge in reversed(way.down):
            inside = notification
            shown = self._down(edge, notification)
            use = self._scopes[edge.scope].policies.get(kind)
            if shown is None or not self._chosen(use, notification, edge.member, nodes):
                return None
            delay = max(delay, delay_of(use, notification))
            notification, nodes, kind = shown, (*nodes, edge.member), "delivery"
        return _Form(notification, delay, inside)

    def _chosen(self, use: PolicyUse | None, notification: Notification, candidate: str, way: tuple[str, ...]) -> bool:
        return says_yes(self._graph, use, Question(notification, candidate, way[0], way))

    def _up(self, edge: Membership, notification: Notification) -> Notification | None:
        base = OPEN if is_client(edge.member) else self._scopes[edge.member].interface
        if not _pass((base.output, edge.selective.output), notification):
            return None
        outside = notification if edge.mapping is None else edge.mapping.outward.apply(notification)
        on_all = self._scopes[edge.scope].imposed.output
        return outside if outside is not None and _pass((edge.imposed.output, on_all), outside) else None

    def _down(self, edge: Membership, notification: Notification) -> Notification | None:
        base = OPEN if is_client(edge.member) else self._scopes[edge.member].interface
        if not _pass((self._scopes[edge.scope].imposed.input, edge.imposed.input), notification):
            return None
        inside = notification if edge.mapping is None else edge.mapping.inward.apply(notification)
        return inside if inside is not None and _pass((edge.selective.input, base.input), inside) else None


def _pass(filters: Iterable[Filter], notification: Notification) -> bool:
    return all(filter.matches(notification) for filter in filters)
