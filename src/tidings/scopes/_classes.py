"""Classes of clients: those with the same memberships on the same terms see the same, and show the same.

So what is worked out for one of them is true of all, however many there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ._comparison import STRANGER
from ._graph import Graph, is_client

OTHER_STRANGER = STRANGER + "\0"
"""A second client that nobody ever made a member of anything: what the first one publishes may reach it."""


class ClientClass(NamedTuple):
    """Clients that are alike in some graphs; two of them stand for all."""

    members: tuple[str, ...]
    one: str
    other: str | None
    """None: there is only one."""


def client_classes(*graphs: Graph) -> Iterator[ClientClass]:
    """The clients that these graphs name, class by class; last, all that none of them names, as `STRANGER`."""
    groups: dict[object, list[str]] = {}
    known: dict[str, None] = {}
    for graph in graphs:
        known.update(dict.fromkeys((*(edge.member for edge in graph.memberships()), *graph.isolated)))
    for node in filter(is_client, known):
        groups.setdefault(tuple(_terms(graph, node) for graph in graphs), []).append(node)
    for members in groups.values():
        yield ClientClass(tuple(members), members[0], members[1] if len(members) > 1 else None)
    yield ClientClass((STRANGER,), STRANGER, OTHER_STRANGER)


def _terms(graph: Graph, client: str) -> object:
    edges = graph.upward(client).values()
    return frozenset((edge.scope, edge.selective, edge.imposed, edge.mapping) for edge in edges)


def publishing_terms(graph: Graph, client: str) -> object:
    """The terms on which a client publishes: those with equal ones show the same, whatever they see."""
    edges = graph.upward(client).values()
    return frozenset(
        (edge.scope, edge.selective.output, edge.imposed.output, edge.mapping and edge.mapping.outward)
        for edge in edges
    )
