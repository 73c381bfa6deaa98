"""The effective interface: everything that decides what may cross an edge of the graph, in the order of its definition.

    outward (member to scope)   base output, selective output, mapping, imposed on this member, imposed on all
    inward  (scope to member)   imposed on all, imposed on this member, mapping, selective input, base input

Base and selective filters see the member's data model, imposed ones the scope's. The first that blocks ends it. The
base interface of a client is what it subscribes to and advertises, and is not part of an edge.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from tidings.model import EVERYTHING, Filter, FilterError

from ._graph import Graph, Membership, is_client
from ._interface import OPEN, Interface, both
from .mappings._mapping import Mapping


class Rule(enum.Enum):
    """Which interface of an edge it is."""

    BASE = "base"
    SELECTIVE = "selective"
    IMPOSED_ON_ONE = "imposed on this member"
    IMPOSED_ON_ALL = "imposed on all members"


class Stage(NamedTuple):
    """One filter that everything must pass."""

    rule: Rule
    filter: Filter


class Terms(NamedTuple):
    """What one direction of an edge does, in this order."""

    before: tuple[Stage, ...]
    mapping: Mapping | None
    """None: nothing is changed."""
    after: tuple[Stage, ...]


def outward_terms(graph: Graph, edge: Membership) -> Terms:
    """What decides between the member and its scope, on the way up."""
    base, imposed = _base(graph, edge), graph.scopes[edge.scope].imposed
    inside = _stages((Rule.BASE, base.output), (Rule.SELECTIVE, edge.selective.output))
    outside = _stages((Rule.IMPOSED_ON_ONE, edge.imposed.output), (Rule.IMPOSED_ON_ALL, imposed.output))
    return Terms(inside, _changing(edge.mapping.outward if edge.mapping is not None else None), outside)


def inward_terms(graph: Graph, edge: Membership) -> Terms:
    """What decides between the scope and its member, on the way down."""
    base, imposed = _base(graph, edge), graph.scopes[edge.scope].imposed
    outside = _stages((Rule.IMPOSED_ON_ALL, imposed.input), (Rule.IMPOSED_ON_ONE, edge.imposed.input))
    inside = _stages((Rule.SELECTIVE, edge.selective.input), (Rule.BASE, base.input))
    return Terms(outside, _changing(edge.mapping.inward if edge.mapping is not None else None), inside)


def _base(graph: Graph, edge: Membership) -> Interface:
    return OPEN if is_client(edge.member) else graph.scopes[edge.member].interface


def _stages(*stages: tuple[Rule, Filter]) -> tuple[Stage, ...]:
    return tuple(Stage(rule, filter) for rule, filter in stages if filter != EVERYTHING)


def _changing(mapping: Mapping | None) -> Mapping | None:
    return None if mapping is None or mapping.is_identity else mapping


class Direction(NamedTuple):
    """What may cross an edge in one direction, its filters folded into one for each side of the mapping."""

    before: Filter
    mapping: Mapping | None
    """None: nothing is changed, and `before` says everything."""
    after: Filter
    exact: bool
    """Otherwise the filters do not fit into one, and what is shown here lets more through than the edge does."""

    @property
    def is_closed(self) -> bool:
        """Whether nothing can ever cross. False may also mean that nobody can tell."""
        crossing = self.before if self.mapping is None else offered(self.mapping, self.before)
        return not both(crossing, self.after)[0].canonical().conjunctions


def offered(mapping: Mapping, filter: Filter) -> Filter:
    """What may come out of a mapping; everything, where the filter that says it cannot be built."""
    try:
        return mapping.offered(filter)
    except FilterError:
        return EVERYTHING


def wanted(mapping: Mapping, filter: Filter) -> Filter:
    """What must go into a mapping; everything, where the filter that says it cannot be built."""
    try:
        return mapping.wanted(filter)
    except FilterError:
        return EVERYTHING


class EffectiveInterface(NamedTuple):
    """What may cross an edge."""

    output: Direction
    """From the member to the scope."""
    input: Direction
    """Towards the member."""


def effective_interface(graph: Graph, member: str, scope: str) -> EffectiveInterface:
    """What may cross the edge between a member and its scope, all interfaces and the mapping taken together."""
    edge = graph.upward(member).get(scope) or graph.membership(member, scope)
    return EffectiveInterface(folded(outward_terms(graph, edge)), folded(inward_terms(graph, edge)))


def folded(terms: Terms) -> Direction:
    """Terms with one filter on each side; without a mapping, filters can be tested in any order."""
    if terms.mapping is None:
        joined, exact = both(*(stage.filter for stage in terms.before + terms.after))
        return Direction(joined, None, EVERYTHING, exact)
    before, exact_before = both(*(stage.filter for stage in terms.before))
    after, exact_after = both(*(stage.filter for stage in terms.after))
    return Direction(before, terms.mapping, after, exact_before and exact_after)
