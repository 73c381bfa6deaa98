"""Flow: what published in one node of a graph is seen in all others.

Theory of operation
-------------------
A publication climbs any number of edges, then descends any number, and enters no node twice. So its filters flow
through the graph in the order of its edges: a scope is looked at when everything below it has been, on the way up, and
when everything above it has been, on the way down. Ways that meet in a scope are united there, each edge is crossed
once, and the work is linear in the edges.

"No node twice" needs no care where no mapping is: a way that comes back to a node has passed more filters than when
it was there first, so it adds nothing. Where it crosses a mapping in between, it would come back in another form. So
of the nodes that a way has climbed, those below a mapped edge (*bent*) are remembered, ways that differ in them are
kept apart, and none of them is entered again. The number of ways may grow then, and `Effort` bounds it.
"""

from __future__ import annotations

import graphlib
import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from tidings.model import EVERYTHING, NOTHING, Filter, FilterTooLarge

from ._effective import Stage, Terms, inward_terms, outward_terms
from ._exposure import Crossing, Exposure, Strand, constraints, united
from ._graph import Graph, Membership, is_client

NEW = 2
"""What two filters cost that were not joined before, in edges."""
SMALL = 32
"""How many comparisons of constraints take about as long as an edge."""

_Climbed: TypeAlias = frozenset[str]
"""The bent nodes that a way has climbed."""


_OPEN = Terms((), None, ())
"""An edge on which nothing decides."""


class OutOfEffort(Exception):
    """The bound is reached; it never leaves a comparison."""


class Effort:
    """How many edges may still be crossed; what was worked out before is remembered, as many sources share it."""

    def __init__(self, left: int, *, new: int = NEW) -> None:
        self.left = left
        self._new = new
        self._meets: dict[tuple[Filter, Filter], Filter | None] = {}
        self._unions: dict[tuple[Filter, Filter], Filter | None] = {}
        self._exposures: dict[tuple[tuple[Strand, ...], bool], Exposure] = {}

    def spend(self, steps: int) -> None:
        """Take steps from what is left, or end it all."""
        self.left -= steps
        if self.left < 0:
            raise OutOfEffort

    def _compare(self, one: Filter, other: Filter) -> None:
        """Large filters take longer: every constraint is compared with every other one."""
        self.spend(self._new + (constraints(one) + constraints(other)) ** 2 // SMALL)

    def both(self, one: Filter, other: Filter) -> Filter | None:
        """What passes both, in canonical form; None if that would be too large."""
        known = (one, other)
        if known not in self._meets:
            self._compare(one, other)
            try:
                self._meets[known] = one.meet(other)
            except FilterTooLarge:
                self._meets[known] = None
        return self._meets[known]

    def either(self, one: Filter, other: Filter) -> Filter | None:
        """What passes one of them, in canonical form; None if that would be too large."""
        known = (one, other)
        if known not in self._unions:
            self._compare(one, other)
            self._unions[known] = one.union(other)
        return self._unions[known]

    def united(self, strands: Iterable[Strand], whole: bool) -> Exposure:
        """The exposure of these strands; the same object for the same ones, so that they are quickly compared."""
        known = tuple(strands), whole
        found = self._exposures.get(known)
        if found is None:
            found = united(*known)
            found = self._exposures[known] = self._exposures.setdefault((found.strands, found.whole), found)
        return found


class _State:
    """What has arrived in one node."""

    def __init__(self, whole: bool = True) -> None:
        self.strands: dict[tuple[_Climbed, tuple[Crossing, ...]], Filter] = {}
        self.whole = whole
        self.all_by: str | None = None
        """The member from which all of it climbed; None if there are several, or none."""

    def __bool__(self) -> bool:
        return bool(self.strands) or not self.whole

    def add(self, climbed: _Climbed, crossings: tuple[Crossing, ...], last: Filter, effort: Effort) -> None:
        known = self.strands.get((climbed, crossings))
        joint = last if known is None else effort.either(known, last)
        if joint is None:
            self.whole = False
        else:
            self.strands[climbed, crossings] = joint


class Flow:
    """One graph, ready for notifications to flow through it."""

    def __init__(self, graph: Graph, effort: Effort) -> None:
        self.graph = graph
        self._effort = effort
        upward = {id: graph.upward(id) for id in graph.scopes}
        order = graphlib.TopologicalSorter(upward).static_order()
        self._rank = {id: rank for rank, id in enumerate(order)}
        """Superscopes have lower ranks than their members."""
        self._inside: dict[str, list[Membership]] = {id: [] for id in graph.scopes}
        for edges in upward.values():
            for edge in edges.values():
                self._inside[edge.scope].append(edge)
        self._terms: dict[tuple[str, str, bool], Terms | None] = {}
        mapped = (edge for edges in upward.values() for edge in edges.values() if edge.mapping is not None)
        self._bent = self.below(edge.member for edge in mapped)

    def below(self, nodes: Iterable[str]) -> set[str]:
        """These nodes, as far as they are here, and all scopes below them that carry notifications."""
        return self._reached(nodes, lambda node: (edge.member for edge in self._inside.get(node, ())))

    def above(self, nodes: Iterable[str]) -> set[str]:
        """These nodes, as far as they are here, and all scopes above them that carry notifications."""
        return self._reached(nodes, self.graph.upward)

    def _reached(self, nodes: Iterable[str], further: Callable[[str], Iterable[str]]) -> set[str]:
        found: set[str] = set()
        stack = [node for node in nodes if is_client(node) or node in self.graph.scopes]
        while stack:
            node = stack.pop()
            if node not in found:
                found.add(node)
                stack += further(node)
        return found

    def exposures(
        self,
        source: str,
        targets: Iterable[str],
        toward: set[str] | None = None,
        published: Filter = EVERYTHING,
    ) -> dict[str, Exposure]:
        """What published in the source is seen in each of the targets; those that see nothing are left out.

        What is published in a scope is what is visible there. `toward` are all nodes above the targets, where not all
        nodes are targets. Only what passes `published` is looked at.
        """
        if not is_client(source) and (source not in self.graph.scopes or self.graph.scopes[source].abstract):
            return {}
        arrived = self._descended(self._climbed([source], published), toward)
        return self._shown((target for target in targets if target != source), arrived)

    def joint_exposures(
        self, clients: Iterable[str], targets: Iterable[str], published: Filter = EVERYTHING
    ) -> dict[str, Exposure]:
        """What published by any of these clients is seen in each of the targets.

        A client that is among both stands for two with the same memberships.
        """
        return self._shown(targets, self._descended(self._climbed(clients, published), None))

    def united(self, exposures: Iterable[Exposure]) -> Exposure:
        """What is seen if all these are."""
        some = list(exposures)
        strands = dict.fromkeys(strand for one in some for strand in one.strands)
        return self._effort.united(strands, all(one.whole for one in some))

    def _shown(self, targets: Iterable[str], arrived: Mapping[str, _State]) -> dict[str, Exposure]:
        found: dict[str, Exposure] = {}
        for target in targets:
            state = self._into(target, arrived) if is_client(target) else arrived.get(target)
            if state:
                strands = (Strand(crossings, last) for (_, crossings), last in state.strands.items())
                exposure = self._effort.united(strands, state.whole)
                if exposure.strands or not exposure.whole:
                    found[target] = exposure
        return found

    def _climbed(self, sources: Iterable[str], published: Filter) -> dict[str, _State]:
        states: dict[str, _State] = {}
        for source in sources:
            states[source] = _State()
            states[source].add(frozenset({source} & self._bent), (), published, self._effort)
        queue = [(-self._rank.get(source, len(self._rank)), source) for source in states]
        heapq.heapify(queue)
        while queue:
            _, node = heapq.heappop(queue)
            for scope, edge in self.graph.upward(node).items():
                crossed = self._crossed(edge, states[node], outward=True)
                if crossed:
                    if scope not in states:
                        heapq.heappush(queue, (-self._rank[scope], scope))
                        states[scope] = _State()
                        states[scope].all_by = node
                    else:
                        states[scope].all_by = None
                    self._arrive(states[scope], crossed, {scope} & self._bent)
        return states

    def _descended(self, states: Mapping[str, _State], toward: set[str] | None) -> dict[str, _State]:
        states = dict(states)
        queue = [(self._rank[node], node) for node in states if not is_client(node)]
        heapq.heapify(queue)
        while queue:
            _, node = heapq.heappop(queue)
            for edge in self._inside[node]:
                member = edge.member
                if (toward is not None and member not in toward) or member == states[node].all_by:
                    continue  # nobody asks for it, or it would come back to where all of it has been
                crossed = self._crossed(edge, states[node], outward=False)
                if crossed:
                    if member not in states:
                        heapq.heappush(queue, (self._rank[member], member))
                        states[member] = _State()
                    states[member].all_by = None
                    self._arrive(states[member], crossed, set())
        return states

    def _into(self, client: str, states: Mapping[str, _State]) -> _State:
        crossed = [
            self._crossed(edge, states[scope], outward=False)
            for scope, edge in self.graph.upward(client).items()
            if scope in states
        ]
        if len(crossed) == 1:
            return crossed[0]  # as most often
        found = _State()
        for one in crossed:
            self._arrive(found, one, set())
        return found

    def _arrive(self, state: _State, new: _State, bent: set[str]) -> None:
        for (climbed, crossings), last in new.strands.items():
            state.add(climbed | bent, crossings, last, self._effort)
        state.whole = state.whole and new.whole

    def _crossed(self, edge: Membership, state: _State, *, outward: bool) -> _State:
        """What of a state is on the other side of an edge."""
        terms = self._terms_of(edge, outward)
        if terms is None:
            return _State()
        self._effort.spend(1 + len(state.strands))
        if terms == _OPEN and (outward or edge.member not in self._bent):
            return state
        found = _State(state.whole)
        for (climbed, crossings), last in state.strands.items():
            if outward or edge.member not in climbed:
                strand = self._strand(Strand(crossings, last), terms)
                if strand is None:
                    found.whole = False
                elif strand.last.conjunctions:
                    found.add(climbed, strand.crossings, strand.last, self._effort)
        return found

    def _strand(self, strand: Strand, terms: Terms) -> Strand | None:
        """What becomes of a strand on an edge; None if it cannot be told."""
        crossings, last = strand.crossings, self._passed(strand.last, terms.before)
        if last is not None and last.conjunctions and terms.mapping is not None:
            crossings = (*crossings, Crossing(last, terms.mapping))
            last = NOTHING if terms.mapping.is_blocked else EVERYTHING
        last = None if last is None else self._passed(last, terms.after)
        return None if last is None else Strand(crossings, last)

    def _passed(self, filter: Filter, stages: Iterable[Stage]) -> Filter | None:
        for stage in stages:
            joint = self._effort.both(filter, stage.filter)
            if joint is None:
                return None
            filter = joint
        return filter

    def _terms_of(self, edge: Membership, outward: bool) -> Terms | None:
        """What decides on an edge; None if it is closed."""
        known = (edge.member, edge.scope, outward)
        if known not in self._terms:
            terms = (outward_terms if outward else inward_terms)(self.graph, edge)
            closed = not all(stage.filter.conjunctions for stage in (*terms.before, *terms.after))
            self._terms[known] = None if closed else terms
        return self._terms[known]
