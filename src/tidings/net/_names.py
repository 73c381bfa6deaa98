"""Names: a client is who it says it is, wherever the scope graph speaks of it.

Memberships and administrators are names of clients, and clients choose their names. So where identities are configured,
a name that the graph mentions belongs to the identity of that name: `alice` may connect as `alice`, `alice/pc` or
`alice/phone`, and nobody else may. Other names are free, as they always were. A name may come into the graph while
somebody else uses it; that client is cut off in the turn that makes the tables, before anything is judged by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tidings.broker import Advice, Feature, Joinpoint
from tidings.scopes import Graph, client_node

from ._access import Identity

if TYPE_CHECKING:
    from ._host import Host


class Names(Feature):
    """Watches over the names of attached clients."""

    name = "names"
    priority = 50

    def __init__(self, host: Host) -> None:
        self._host = host

    def advice(self) -> Mapping[Joinpoint, Advice]:
        """Look at everybody when the graph changes."""
        return {Joinpoint.GRAPH: self._graph_changed}

    def _graph_changed(self, proceed: Callable[[], Any], old: int, new: int) -> Any:
        result = proceed()
        graph = self._host.governance.scopes.graph
        administrators = _administrators(graph)
        for peer in self._host.peers:
            guard = peer.link.guard
            if isinstance(guard, Identity) and _taken(graph, administrators, peer.link.name, guard):
                self._host.cut_off(peer, "name", _reason(peer.link.name, guard))
        return result

    def objection_to(self, client: str, identity: Identity) -> str:
        """Why somebody may not be called so; "": it may. Without identities nobody can be somebody else."""
        if self._host.options.access.open:
            return ""
        graph = self._host.governance.scopes.graph
        return _reason(client, identity) if _taken(graph, _administrators(graph), client, identity) else ""


def _administrators(graph: Graph) -> set[str]:
    return {client for scope in graph.scopes.values() for client in scope.administrators}


def _taken(graph: Graph, administrators: set[str], client: str, identity: Identity) -> bool:
    if client == identity.name or client.startswith(f"{identity.name}/"):
        return False
    return client in administrators or bool(graph.superscopes(client_node(client)))


def _reason(client: str, identity: Identity) -> str:
    return (
        f"the scope graph speaks of '{client}', and '{identity.name}' is somebody else; "
        f"choose '{identity.name}', '{identity.name}/...' or a name that is free"
    )
