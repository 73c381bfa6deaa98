"""Coupling points: what a scope demands of those that it is to be joined with, as long as nobody provides it.

A selection with a WHERE demands; attributes, roles and interfaces provide. A demand of a definition that has picked
nothing when its scope was deployed stays open, and whoever joins the scope later must satisfy it: matching is mutual.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidings.model import ScopeError
from tidings.scopes._graph import Graph, is_client

from ._definitions import definition_of
from ._extensions import Extensions
from ._mistakes import Misfit
from ._printing import selection as selection_text
from ._selections import holds
from ._syntax import Selection
from ._world import World


@dataclass(frozen=True)
class OpenPoint:
    """A demand that nobody satisfies yet."""

    scope: str
    superscope: bool
    """Whether a superscope is demanded, or a member."""
    demand: str
    """The selection, as it is written."""

    def __str__(self) -> str:
        kind = "superscope" if self.superscope else "member"
        return f"'{self.scope}' still looks for a {kind}: {self.demand}"


def open_points(graph: Graph, world: World, extensions: Extensions) -> Iterator[OpenPoint]:
    """The demands in a graph that nobody satisfies."""
    for id in graph.scopes:
        for demand in _demands(graph, world, extensions, id):
            yield OpenPoint(id, demand.superscope, selection_text(demand))


def agrees(graph: Graph, world: World, extensions: Extensions, candidate: str, scope: str) -> bool:
    """Whether a scope provides what a candidate for membership in it demands of its superscopes."""
    if is_client(candidate):
        return True
    return all(
        demand.where is None or holds(demand.where, scope, world, graph, extensions)
        for demand in _demands(graph, world, extensions, candidate)
        if demand.superscope
    )


def _demands(graph: Graph, world: World, extensions: Extensions, id: str) -> Iterator[Selection]:
    text = graph.definitions.get(graph.scopes[id].definition)
    if text is None:
        return
    try:
        definition = definition_of(text)
    except ScopeError:  # one of another version of the language: it demands nothing that is known here
        return
    for demand in definition.selections:
        if demand.where is not None and not _satisfied(demand, graph, world, extensions, id):
            yield demand


def _satisfied(demand: Selection, graph: Graph, world: World, extensions: Extensions, id: str) -> bool:
    assert demand.where is not None
    others = graph.superscopes(id) if demand.superscope else graph.members(id)
    try:
        return any(holds(demand.where, node, world, graph, extensions) for node in others)
    except Misfit:
        return False
