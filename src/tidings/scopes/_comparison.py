"""The comparison of two graphs by what they mean: whose publications are seen where, and in which form.

Theory of operation
-------------------
For each pair of a source and a target, what is published in the source and seen in the target is one exposure in either
graph (see `_flow`). What it has in excess over the other graph's makes a difference, and each difference has its
witness (see `_excess`): a publication that is seen in one graph in a form in which it is not in the other. A pair for
which neither a witness nor the absence of one is certain is undecided; a source for which the effort did not suffice is
unexamined. Of these no more is claimed than has a witness. Of every other pair all is told: what has no difference is
the same.

The nodes are the scopes, and the clients of which an edge of their own differs. What any other client sees or shows
differs by what its scopes see or show, on the terms of its own edges. What a client gets of its own publications is
left out.

Only what a different edge can touch is looked at: what is published below it, and what is seen below it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tidings.model import ROOT_SCOPE, Notification

from ._effective import Terms, inward_terms, outward_terms
from ._excess import UNDECIDED, excess
from ._exposure import NO_EXPOSURE, Exposure, size
from ._flow import Effort, Flow, OutOfEffort
from ._graph import CLIENT, Graph, Membership, is_client

EFFORT = 3_000
"""The most edges that are crossed in both graphs together, unless the caller says otherwise."""
PAIR_EFFORT = 3
"""What it takes to find out how two exposures differ, in edges."""
STRANGER = CLIENT
"""A node for every client that nobody ever made a member of anything: all of them are in the root scope alike."""


class Effect(enum.Enum):
    """What became of a pair of nodes."""

    GAINED = "gained"
    """Something is seen where nothing was."""
    WIDER = "wider"
    """Something is seen that was not, where something was. If something else is no longer seen, it is narrower, too."""
    NARROWER = "narrower"
    """Something is no longer seen, where something still is."""
    LOST = "lost"
    """Nothing is seen where something was."""


class Pair(NamedTuple):
    """Where it is published, and where it is seen."""

    source: str
    target: str


class Difference(NamedTuple):
    """What became of one pair, and a publication that shows it."""

    pair: Pair
    effect: Effect
    before: Exposure
    after: Exposure
    witness: Notification
    """As it is published: seen after and not before in this form, or, if narrower or lost, before and not after."""


class Comparison(NamedTuple):
    """Everything that differs between two graphs, and of what that cannot be said."""

    differences: tuple[Difference, ...] = ()
    undecided: tuple[Pair, ...] = ()
    """The pairs that may differ in more than was said of them."""
    unexamined: tuple[str, ...] = ()
    """The sources for which the effort did not suffice; of their pairs more may differ than was said."""

    @property
    def complete(self) -> bool:
        """Whether all that differs was said."""
        return not self.undecided and not self.unexamined

    def of(self, effect: Effect) -> list[Difference]:
        """The differences of one kind."""
        return [one for one in self.differences if one.effect is effect]


def compare(before: Graph, after: Graph, *, effort: int = EFFORT) -> Comparison:
    """How two graphs differ in what is seen of what is published; with bounded effort."""
    edges = list(different_edges(before, after))
    if not edges:
        return Comparison()
    return _Look(before, after, edges, Effort(effort)).result()


class _Look:
    def __init__(self, before: Graph, after: Graph, edges: list[tuple[str, str]], effort: Effort) -> None:
        self._effort = effort
        self._differences: list[Difference] = []
        self._undecided: list[Pair] = []
        self._before, self._after = Flow(before, effort), Flow(after, effort)
        members = list(dict.fromkeys(member for member, _ in edges))
        near = dict.fromkeys([*members, *(scope for _, scope in edges)])
        self._nodes = list(near | dict.fromkeys([*before.scopes, *after.scopes]))  # the nearest first
        touched = self._before.below(members) | self._after.below(members)
        self._touched = [node for node in self._nodes if node in touched]

    def result(self) -> Comparison:
        """All differences, or as many as the effort allows."""
        touched = set(self._touched)
        toward = self._before.above(touched), self._after.above(touched)
        left = self._nodes
        try:
            while left:
                inside = left[0] in touched
                self._from(left[0], self._nodes if inside else self._touched, (None, None) if inside else toward)
                left = left[1:]
        except OutOfEffort:
            pass
        return Comparison(tuple(self._differences), tuple(self._undecided), tuple(left))

    def _from(self, source: str, targets: list[str], toward: tuple[set[str] | None, set[str] | None]) -> None:
        early = self._before.exposures(source, targets, toward[0])
        late = self._after.exposures(source, targets, toward[1])
        for target in targets:
            before, after = early.get(target, NO_EXPOSURE), late.get(target, NO_EXPOSURE)
            if before != after or not before.whole:
                self._effort.spend(PAIR_EFFORT + size(before) * size(after))
                self._judge(Pair(source, target), before, after)

    def _judge(self, pair: Pair, before: Exposure, after: Exposure) -> None:
        """Say what became of a pair; and that it is undecided if that may not be all."""
        certain = True
        for one, other, alone, beside in (
            (after, before, Effect.GAINED, Effect.WIDER),
            (before, after, Effect.LOST, Effect.NARROWER),
        ):
            witness = excess(one, other)
            effect = _effect(other, alone, beside)
            if witness is UNDECIDED or (witness is not None and effect is None):
                certain = False
            elif witness is not None and effect is not None:
                self._differences.append(Difference(pair, effect, before, after, witness))
        if not certain:
            self._undecided.append(pair)


def _effect(other: Exposure, alone: Effect, beside: Effect) -> Effect | None:
    """How an excess is called: the other graph shows nothing, or something; None if that is not certain."""
    if not other.strands:
        return alone
    return beside if isinstance(excess(other, NO_EXPOSURE), Notification) else None


def different_edges(before: Graph, after: Graph) -> Iterator[tuple[str, str]]:
    """The edges, by member and scope, that may let something else pass in one graph than in the other.

    Versions share what they have in common, so most of it is told by looking at which object it is.
    """
    for node in dict.fromkeys((*_moved(before, after), *_revised(before, after))):
        early, late = _upward(before, node), _upward(after, node)
        for scope in dict.fromkeys((*late, *early)):
            if _terms(before, early.get(scope)) != _terms(after, late.get(scope)):
                yield node, scope


def _moved(before: Graph, after: Graph) -> Iterator[str]:
    """The nodes whose memberships are not the same objects in both."""
    for graph in (after, before):
        for node in (*dict.fromkeys(edge.member for edge in graph.memberships()), *graph.isolated):
            if before.superscopes(node) is not after.superscopes(node):
                yield node


def _revised(before: Graph, after: Graph) -> Iterator[str]:
    """The nodes on whose edges a scope with another interface decides."""
    for id in dict.fromkeys((*after.scopes, *before.scopes)):
        early, late = before.scopes.get(id), after.scopes.get(id)
        if early is None or late is None or early is late:
            continue  # the edges of a scope that is in one graph alone are moved
        if early.interface != late.interface:
            yield id
        if early.imposed != late.imposed:
            yield from (*after.members(id), *before.members(id))
            if id == ROOT_SCOPE:
                yield STRANGER


def _upward(graph: Graph, node: str) -> Mapping[str, Membership]:
    return graph.upward(node) if is_client(node) or node in graph.scopes else {}


def _terms(graph: Graph, edge: Membership | None) -> tuple[Terms, Terms] | None:
    return None if edge is None else (outward_terms(graph, edge), inward_terms(graph, edge))
