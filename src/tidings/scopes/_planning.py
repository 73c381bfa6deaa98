"""Planning: what a change of the graph would do, before it is made. Pure, and in portions.

Theory of operation
-------------------
The change is applied to the graph, and the two graphs are compared: for each source and target, what is published in
the source and seen in the target is one exposure in either graph (see `_flow`), and three questions are asked of the
two (see `_sights`): what is gained, what is lost, what is seen in another form. Each answer has a witness, tried in
both. A pair for which a question is neither answered by a witness nor by a proof is listed as *perhaps*, with the
reason; a source that the effort did not suffice for is listed as unexamined. Nothing else is different.

Sources and targets are the scopes, and the clients of which an edge of their own differs; on request also all clients
that the change can touch. Clients with the same memberships on the same terms see and show the same, so each such class
is looked at once, and its clients are listed together. What a client gets of its own publications is left out.

The answers are as many as there are pairs, so those to a large change are more than anybody reads, or waits for. The
ends of the edges that differ are compared first: they are no more than the changes, and whatever becomes different
anywhere does so on such an edge. Then the sources are followed everywhere, until the effort ends. That suffices for a
change of a dozen or two scopes that all differ, and for one edge in any graph; to see all of a larger one, give more.

`Planning` looks at one source with each step, so whoever has other things to do can do them in between.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from tidings.model import ROOT_SCOPE, Duplicates, Notification

from ._applying import apply, check_places, check_size, check_turn
from ._changes import Anchor, AnyChange
from ._classes import client_classes
from ._comparison import different_edges
from ._digest import digest
from ._excess import UNDECIDED, Excess
from ._exposure import NO_EXPOSURE, Exposure, size
from ._flow import Effort, Flow, OutOfEffort
from ._graph import Graph, is_client
from ._outlook import Carried, Doubt, Outcome, Outlook, Redelivered, SightChange, doubt, sight_change
from ._overlay import span
from ._sights import sights
from ._warnings import warnings
from ._written_names import check_names

PLAN_EFFORT = 300_000
"""The most edges that are crossed in both graphs together, unless the caller says otherwise: some two seconds."""
PLAN_EFFORT_PER_NODE = 100
"""How many more for each scope, and each client that is a member of one, as the graph is now."""
NEW_FILTERS = 80
"""What two filters cost that were not joined before, in edges: here it is counted as exactly as it can be."""
NEW_PAIR = 40
"""What two exposures cost that were not compared before."""
THOROUGH_EFFORT = 20_000_000
"""The most edges for those who would rather wait: minutes."""


def plan_change(
    graph: Graph,
    changes: tuple[AnyChange, ...],
    *,
    by_client: bool = False,
    parents: Mapping[str, str | None] | None = None,
    places: Mapping[str, str] | None = None,
    effort: int | None = None,
) -> Outlook:
    """What these changes, made as one, would do to the graph; or the `ScopeError` with which they would be refused.

    With `by_client`, it is also worked out what each client gains and loses. `effort` is the most edges that are
    crossed; what it does not suffice for is `unexamined`. `parents` is the tree of brokers, each
    with the next one towards the root, and `places` the brokers of connected clients, by node: with these, the brokers
    are told that would come to carry a scope.

    >>> from tidings.scopes import OPEN, CreateScope, Join
    >>> market = apply(Graph(), (CreateScope("market", OPEN), CreateScope("bank", OPEN), Join("@a", "bank")))
    >>> outlook = plan_change(market, (Join("bank", "market"), Join("@b", "market")))
    >>> [(one.source, one.outcome.value, one.after) for one in outlook.sights if one.target == "market"]
    [('@b', 'gained', 'TRUE'), ('bank', 'gained', 'TRUE')]
    >>> outlook.leave_root
    ('@b',)
    """
    return Planning(graph, changes, by_client=by_client, parents=parents, places=places, effort=effort).result()


class Planning:
    """A plan on its way: each step takes a few milliseconds in an ordinary graph."""

    def __init__(
        self,
        graph: Graph,
        changes: tuple[AnyChange, ...],
        *,
        by_client: bool = False,
        parents: Mapping[str, str | None] | None = None,
        places: Mapping[str, str] | None = None,
        effort: int | None = None,
    ) -> None:
        check_size(changes)
        check_places(changes)
        check_names(changes)
        self._before, self._after = graph, apply(graph, changes)
        check_turn(graph, self._after)
        self._changes = changes
        self._parents, self._places = parents or {}, places or {}
        most = PLAN_EFFORT + PLAN_EFFORT_PER_NODE * len(graph.nodes()) if effort is None else effort
        self._effort = Effort(most, new=NEW_FILTERS)
        kinds = (False, True) if by_client else (False,)
        self._looks = [_Look(self._before, self._after, self._effort, by_client=kind) for kind in kinds]
        self._work = self._steps()

    def step(self) -> bool:
        """Look at one more source; False: all have been looked at."""
        return next(self._work, None) is not None

    def _steps(self) -> Iterator[bool]:
        for look in self._looks:
            for _ in look.steps():
                yield True

    def result(self) -> Outlook:
        """The plan; what is left to do is done first."""
        while self.step():
            pass
        scopes, *clients = self._looks
        before, after = self._before, self._after
        return Outlook(
            version=before.version,
            digest=digest(before),
            changes=self._changes,
            sights=tuple(scopes.found),
            perhaps=tuple(scopes.doubts),
            clients=tuple(one for look in clients for one in look.found),
            clients_perhaps=tuple(one for look in clients for one in look.doubts),
            unexamined=tuple(dict.fromkeys(node for look in self._looks for node in look.left)),
            leave_root=tuple(_leave_root(before, after)),
            isolated=tuple(sorted({*after.isolated} - {*before.isolated})),
            carried=tuple(_carried(before, after, self._parents, self._places)),
            warnings=tuple(warnings(after, since=after.version)),
            by_client=bool(clients),
            redelivered=tuple(_redelivered(before, after)),
            partial=before.partial,
        )


_Place: TypeAlias = tuple[int, int]
"""Where an entry stands in the list: by its source, then by its target."""


class _Look:
    """Two graphs, looked at from scopes and from the clients whose memberships differ, or from all clients."""

    def __init__(self, before: Graph, after: Graph, effort: Effort, *, by_client: bool) -> None:
        self._effort = effort
        self._flows = Flow(before, effort), Flow(after, effort)
        edges = list(different_edges(before, after))
        members = list(dict.fromkeys(member for member, _ in edges))
        touched = self._flows[0].below(members) | self._flows[1].below(members)
        classes = [one for one in client_classes(before, after) if by_client or one.one in touched]
        self._classes = {node: one for one in classes for node in (one.one, one.other) if node is not None}
        near = [] if by_client else [node for edge in edges for node in edge if not is_client(node)]
        far = [] if by_client else [*before.scopes, *after.scopes]
        self._nodes = [*(one.one for one in classes), *dict.fromkeys((*near, *far))]  # the nearest first
        self._inside = {
            node
            for node in self._nodes
            if node in touched
            or (is_client(node) and any(not touched.isdisjoint(graph.upward(node)) for graph in (before, after)))
        }
        """Those below an edge that differs, or at it."""
        self._toward = self._flows[0].above(self._inside), self._flows[1].above(self._inside)
        self._verdicts: dict[tuple[int, int], tuple[list[SightChange], list[Doubt]]] = {}
        """By the identities of two exposures: equal ones are one object as long as the effort remembers them."""
        self._left = self._nodes if edges else []
        self._at = {node: number for number, node in enumerate(self._nodes)}
        self._near = self._ends(edges)
        self._found: list[tuple[_Place, SightChange]] = []
        self._doubts: list[tuple[_Place, Doubt]] = []

    def _ends(self, edges: Iterable[tuple[str, str]]) -> dict[str, dict[str, None]]:
        """The two ends of each edge that differs, by source."""
        found: dict[str, dict[str, None]] = {}
        for pair in edges:
            one, other = (self._classes[node].one if node in self._classes else node for node in pair)
            if one in self._at and other in self._at:
                found.setdefault(one, {})[other] = None
                found.setdefault(other, {})[one] = None
        return found

    @property
    def found(self) -> list[SightChange]:
        """What is seen that was not, or no longer, or in another form, in the order of sources and targets."""
        return [one for _, one in sorted(self._found, key=operator.itemgetter(0))]

    @property
    def doubts(self) -> list[Doubt]:
        return [one for _, one in sorted(self._doubts, key=operator.itemgetter(0))]

    def steps(self) -> Iterator[None]:
        """One step for each source and what is next to it, one for each source and all else, until the effort ends."""
        try:
            for source, targets in self._near.items():
                near = list(targets)
                self._from(source, near, (self._flows[0].above(near), self._flows[1].above(near)))
                yield
            while self._left:
                self._everywhere(self._left[0])
                self._left = self._left[1:]
                yield
        except OutOfEffort:
            pass

    @property
    def left(self) -> list[str]:
        """The sources that were not looked at."""
        return [member for node in self._left for member in self._members(node)]

    def _members(self, node: str) -> tuple[str, ...]:
        """All nodes that one stands for."""
        return self._classes[node].members if node in self._classes else (node,)

    def _everywhere(self, source: str) -> None:
        """Ask what became of what a source publishes, for each target that a different edge can touch."""
        inside = source in self._inside
        near = self._near.get(source, {})
        targets = [
            node for node in self._nodes if node != source and (inside or node in self._inside) and node not in near
        ]
        if inside and source in self._classes and (other := self._classes[source].other) is not None:
            targets.append(other)
        self._from(source, targets, (None, None) if inside else self._toward)

    def _from(self, source: str, targets: list[str], toward: tuple[set[str] | None, set[str] | None]) -> None:
        """Ask what became of what a source publishes, for some targets; `toward` is all that is above these."""
        early = self._flows[0].exposures(source, targets, toward[0])
        late = self._flows[1].exposures(source, targets, toward[1])
        sources = self._members(source)
        for target in targets:
            before, after = early.get(target, NO_EXPOSURE), late.get(target, NO_EXPOSURE)
            if before is not after or not before.whole:
                found, doubts = self._judged(before, after)
                readers = self._members(target)
                place = self._at[source], self._at.get(target, len(self._at))
                self._effort.spend(len(found))
                self._found += [(place, one.between(sources, readers)) for one in found]
                self._doubts += [(place, one.between(sources, readers)) for one in doubts]

    def _judged(self, before: Exposure, after: Exposure) -> tuple[list[SightChange], list[Doubt]]:
        """What becomes of a reader, whoever it is: many see the same, so it is remembered."""
        known = self._verdicts.get((id(before), id(after)))
        if known is None:
            self._effort.spend(NEW_PAIR + size(before) * size(after))
            answers: dict[Outcome, Excess] = dict(zip(Outcome, sights(before, after), strict=True))
            open = tuple(outcome for outcome, answer in answers.items() if answer is UNDECIDED)
            known = self._verdicts[id(before), id(after)] = (
                [
                    sight_change(outcome, before, after, answer)
                    for outcome, answer in answers.items()
                    if isinstance(answer, Notification)
                ],
                [doubt(open, before, after)] if open else [],
            )
        return known


# --- what else it does ----------------------------------------------------------------------------------


def _leave_root(before: Graph, after: Graph) -> Iterator[str]:
    """The clients that were in the root scope because nobody had put them elsewhere, and are no longer."""
    for client in sorted({edge.member for edge in after.memberships() if is_client(edge.member)}):
        if ROOT_SCOPE in before.upward(client) and ROOT_SCOPE not in after.upward(client):
            yield client


def _redelivered(before: Graph, after: Graph) -> Iterator[Redelivered]:
    """The scopes with another rule for copies and order, and the clients that come under another one elsewhere."""
    scopes = [id for id in sorted(after.scopes) if id in before.scopes and _rule(before, id) != _rule(after, id)]
    for id in scopes:
        yield Redelivered(id, (_rule(before, id),), (_rule(after, id),))
    moved = {member for member, _ in different_edges(before, after) if is_client(member)}
    for client in sorted(moved):
        old, new = ({_rule(graph, id) for id in graph.upward(client)} for graph in (before, after))
        if old and new and old != new and not {*scopes} & {*after.upward(client)}:
            yield Redelivered(client, tuple(sorted(old)), tuple(sorted(new)))


def _rule(graph: Graph, id: str) -> str:
    scope = graph.scopes[id]
    rule = (scope.duplicates or Duplicates.SUPPRESS).name.lower()
    policies = [f"{kind} {use}" for kind, use in sorted(scope.policies.items())]
    return ", ".join([rule, *(["ordered"] if scope.ordered else []), *policies])


def _carried(
    before: Graph, after: Graph, parents: Mapping[str, str | None], places: Mapping[str, str]
) -> Iterator[Carried]:
    """The brokers that would come to carry a scope on this tree."""
    if not parents:
        return
    missing = [
        Anchor(scope, broker)
        for client, broker in places.items()
        for scope in sorted(after.superscopes(client))
        if scope and not after.scopes[scope].abstract and broker not in after.anchors.get(scope, ())
    ]
    anchored = apply(after, tuple(missing))
    for id, scope in sorted(anchored.scopes.items()):
        if id == ROOT_SCOPE or scope.abstract:
            continue
        was = span(parents, before.anchored(id)) if id in before.scopes else frozenset()
        for broker in sorted(span(parents, anchored.anchored(id)) - was):
            yield Carried(id, broker, not scope.trusted or broker in scope.trusted)
