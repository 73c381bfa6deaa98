"""A draft: a graph on its way to the next version, changed in place.

Graphs are values: each change makes a new one, which shares with the old one what they have in common, but for the
tables themselves, which are copied. That is little work for one change, and for thousands at once it is work by the
square. So a transaction of several changes copies the tables once, into a draft that nobody else has; what would return
another graph changes the draft, and returns it. A transaction that is refused leaves a draft behind that nobody reads.
"""

from __future__ import annotations

from collections.abc import Mapping

from ._graph import NOTHING_SAID, Client, Graph, Membership, Scope, is_client


class Draft(Graph):
    """A graph that is changed in place. Whoever has it when it is changed has it changed."""

    scopes: dict[str, Scope]
    anchors: dict[str, frozenset[str]]
    clients: dict[str, Client]
    _supers: dict[str, Mapping[str, Membership]]

    def __init__(self, graph: Graph) -> None:
        super().__init__(
            graph.version,
            {**graph.scopes},
            {**graph._supers},
            {**graph.anchors},
            {**graph.clients},
            definitions=graph.definitions,
            partial=graph.partial,
        )
        known = graph._worked_out()
        vars(self).update({name: known[name] for name in known if name != "_members"})
        if "_members" in known:
            vars(self)["_members"] = {**known["_members"]}
        self._copied: set[str] = set()
        """The scopes whose members are listed in a table of this draft's own."""

    def with_scope(self, scope: Scope) -> Graph:
        self.scopes[scope.id] = scope
        return self._forgetting("_anchored", "_upward")

    def without_scope(self, id: str) -> Graph:
        self.scopes.pop(id, None)
        self.anchors.pop(id, None)
        return self._forgetting("_anchored", "_upward")

    def with_client(self, node: str, client: Client) -> Graph:
        self.clients.pop(node, None)
        if client != NOTHING_SAID:
            self.clients[node] = client
        return self

    def with_clients(self, clients: Mapping[str, Client]) -> Graph:
        self.clients = {**clients}
        return self

    def with_definitions(self, definitions: Mapping[str, str]) -> Graph:
        self.definitions = definitions
        return self

    def with_edge(self, edge: Membership) -> Graph:
        self._supers[edge.member] = {**self.superscopes(edge.member), edge.scope: edge}
        return self._revised(edge.member, edge.scope)

    def without_edge(self, member: str, scope: str) -> Graph:
        edges = {known: edge for known, edge in self.superscopes(member).items() if known != scope}
        self._supers.pop(member, None)
        if edges or is_client(member):
            self._supers[member] = edges
        return self._revised(member, scope)

    def without_client(self, client: str) -> Graph:
        self._supers.pop(client, None)
        return self._forgetting("_upward")

    def with_anchors(self, scope: str, brokers: frozenset[str]) -> Graph:
        self.anchors.pop(scope, None)
        if brokers:
            self.anchors[scope] = brokers
        return self._forgetting("_anchored", "_upward")

    def _revised(self, member: str, scope: str) -> Graph:
        """Bring what was worked out to what an edge is now."""
        if "_members" in vars(self):
            if scope not in self._copied:
                self._members[scope] = {**self._members.get(scope, {})}
                self._copied.add(scope)
            members = self._members[scope]
            members.pop(member, None)
            if (edge := self.superscopes(member).get(scope)) is not None:
                members[member] = edge
        return self._forgetting("_upward") if is_client(member) else self._forgetting("_anchored", "_upward")

    def _forgetting(self, *names: str) -> Graph:
        for name in names:
            vars(self).pop(name, None)
        return self
