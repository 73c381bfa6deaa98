"""What a file speaks of, and the graph without everything else."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from tidings.model import ROOT_SCOPE
from tidings.scopes._attributes import attributes_of
from tidings.scopes._graph import Graph, Scope

SETTINGS = (
    *("abstract", "hidden", "ordered", "duplicates", "administrators", "trusted", "admission", "brokers"),
    "policies",
)
"""What is set by SET and is no attribute. Where a scope comes from is kept."""


@dataclass
class Mentioned:
    """What the statements of files name."""

    definitions: set[str] = field(default_factory=set)
    scopes: set[str] = field(default_factory=set)
    """Scopes that are deployed."""
    nodes: set[str] = field(default_factory=set)
    """Components that are picked."""
    edges: set[tuple[str, str]] = field(default_factory=set)
    attributes: dict[str, set[str]] = field(default_factory=dict)
    """For each node the attributes that are set."""
    settings: dict[str, set[str]] = field(default_factory=dict)
    """For each scope the settings of the system that are set."""
    rules: dict[str, set[str]] = field(default_factory=dict)
    """For each scope the keys of the rules that are given to it."""
    roles: set[str] = field(default_factory=set)
    """The nodes whose roles are set."""


def pruned(graph: Graph, mentioned: Mentioned) -> Graph:
    """The graph without what is not mentioned."""
    named_nodes = mentioned.scopes | mentioned.nodes | {ROOT_SCOPE}
    for edge in list(graph.memberships()):
        if (edge.member, edge.scope) not in mentioned.edges:
            graph = graph.without_edge(edge.member, edge.scope)
    for id in [id for id in graph.scopes if id not in named_nodes]:
        graph = graph.without_scope(id)
    for id in mentioned.scopes:
        named = mentioned.attributes.get(id, set())
        scope = graph.scopes[id]
        attributes = {name: value for name, value in scope.attributes.items() if name in named}
        roles = scope.roles if id in mentioned.roles else ()
        rules = tuple(rule for rule in scope.rules if rule.key in mentioned.rules.get(id, ()))
        said = msgspec.structs.replace(scope, attributes=attributes_of(attributes), roles=roles, rules=rules)
        fresh, kept = Scope(id), mentioned.settings.get(id, set())
        usual = {word: getattr(fresh, word) for word in SETTINGS if word not in kept}
        graph = graph.with_scope(msgspec.structs.replace(said, **usual))
    clients = {node: said for node, said in graph.clients.items() if node in mentioned.attributes}
    definitions = {name: text for name, text in graph.definitions.items() if name in mentioned.definitions}
    return graph.with_clients(clients).with_definitions(definitions)
