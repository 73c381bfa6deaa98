"""The graphs that can be asked for: what runs, what is defined, and both in one.

The descriptive graph has the definitions as abstract scopes. A definition that names another is its member, or has it
as one. One that demands something, by a WHERE, is joined with the one definition that provides it, if there is exactly
one; otherwise its demand is open. Nothing is ever published in an abstract scope, so the combined graph, in which each
scope is a member of its definition, is seen through in the same way as what runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidings.model import ScopeError
from tidings.scopes._applying import apply
from tidings.scopes._changes import CreateScope, Join
from tidings.scopes._graph import Graph
from tidings.scopes._interface import CLOSED

from ._coupling import OpenPoint
from ._definitions import definition_of
from ._extensions import Extensions
from ._filters import Reading, interfaces_in
from ._mistakes import Misfit
from ._printing import selection as selection_text
from ._selections import holds
from ._syntax import DefineScope, Id, Members, Name, Path, Quoted, Roles, Selection, Settings
from ._terms import filter_model
from ._world import World


class Composition(NamedTuple):
    """Definitions as a graph, and what could not be decided."""

    graph: Graph
    open: tuple[OpenPoint, ...]


def combined(graph: Graph) -> Graph:
    """The graph that runs, each scope also a member of its definition, which is an abstract scope."""
    for name in graph.definitions:
        id = definition_id(name)
        graph = apply(graph, (CreateScope(id, abstract=True),)).numbered(graph.version)
        for scope in list(graph.scopes.values()):
            if scope.definition == name:
                graph = apply(graph, (Join(scope.id, id),)).numbered(graph.version)
    return graph


def definition_id(name: str) -> str:
    """The id of a definition in a combined graph; no name of the language is like it."""
    return f"DEFINITION {name}"


def composed(graph: Graph, extensions: Extensions | None = None) -> Composition:
    """The descriptive graph: definitions, joined with each other as far as that is unambiguous."""
    known = (extensions or Extensions()).with_defaults()
    definitions = {name: definition_of(text) for name, text in sorted(graph.definitions.items())}
    described = Graph()
    for definition in definitions.values():
        described = apply(described, (_provided(definition, known),))
    open: list[OpenPoint] = []
    for name, definition in definitions.items():
        for selection in definition.selections:
            found = list(_others(name, selection, described, known))
            for other in found:
                described = _joined(described, name, other, selection)
            if not found and selection.where is not None:
                open.append(OpenPoint(name, selection.superscope, selection_text(selection)))
    return Composition(described.numbered(graph.version), tuple(open))


def _provided(definition: DefineScope, extensions: Extensions) -> CreateScope:
    """A definition with what it provides: interfaces, attributes and roles."""
    reading = Reading(extensions, filter_model(definition.features))
    settings = [one for feature in definition.features if isinstance(feature, Settings) for one in feature.settings]
    attributes = {str(one.path): one.value for one in settings if not isinstance(one.value, Path | Quoted)}
    roles = dict.fromkeys(role for one in definition.features if isinstance(one, Roles) for role in one.roles)
    try:
        interface = reading.interface(interfaces_in(definition.features), CLOSED)
    except Misfit as misfit:
        raise ScopeError(f"the definition '{definition.name}': {misfit.problem}; {misfit.remedy}") from None
    return CreateScope(definition.name, interface, abstract=True, attributes=attributes, roles=tuple(roles))


def _others(name: str, selection: Selection, graph: Graph, extensions: Extensions) -> Iterator[str]:
    """The definitions that a selection picks for sure."""
    world = World(graph)

    def fits(other: str) -> bool:
        return selection.where is None or holds(selection.where, other, world, graph, extensions)

    searched = selection.sources is None or any(isinstance(source, Members) for source in selection.sources)
    if searched and selection.where is not None:
        found = [other for other in graph.scopes if other not in ("", name) and fits(other)]
        if len(found) == 1:
            yield found[0]
    for source in selection.sources or ():
        other = source.name if isinstance(source, Name) else source.id if isinstance(source, Id) else ""
        if other and other != name and other in graph.scopes and fits(other):
            yield other


def _joined(graph: Graph, name: str, other: str, selection: Selection) -> Graph:
    member, scope = (name, other) if selection.superscope else (other, name)
    if scope in graph.superscopes(member):
        return graph
    try:
        return apply(graph, (Join(member, scope),))
    except ScopeError:  # two definitions that demand each other are joined once
        return graph
