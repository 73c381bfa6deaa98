"""The oracle: who may see what, straight from the definitions, with no network at all.

Everything else is tested against this module, so it is written to be read, not to be fast.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

from tidings.broker import Climbing
from tidings.model import ROOT_SCOPE, Identity, Notification

from ._graph import Graph, is_client
from ._passage import Passage


class Sighting(NamedTuple):
    """A notification as a node of the graph sees it, and the nodes it came by, the publisher first."""

    node: str
    notification: Notification
    path: tuple[str, ...]
    due: int = 0
    """The time before which a policy does not let it be seen; 0: at once."""


def superscopes(graph: Graph, node: str) -> list[str]:
    """The superscopes in which something can be published; a client that is a member of none is in the root scope."""
    return list(graph.upward(node))


def members(graph: Graph, scope: str) -> list[str]:
    """The members that can get something: an abstract scope has none, and is none."""
    return [member for member in graph.members(scope) if scope in graph.upward(member)]


def ancestors(graph: Graph, node: str) -> set[str]:
    """A node and every scope above it that carries notifications."""
    found = {node}
    for scope in superscopes(graph, node):
        found |= ancestors(graph, scope)
    return found


def visibility_roots(graph: Graph, node: str) -> set[str]:
    """The scopes above a node that have no superscope; the node itself, if it has none."""
    return {scope for scope in ancestors(graph, node) if not superscopes(graph, scope)}


def visible(graph: Graph, one: str, other: str) -> bool:
    """Whether two nodes may see each other, interfaces aside: they have a scope above them in common."""
    return not ancestors(graph, one).isdisjoint(ancestors(graph, other))


def delivery_paths(graph: Graph, one: str, other: str) -> list[tuple[str, ...]]:
    """Every way from one node to another: up any number of times, then down, entering no node twice."""
    ups = _climbs(graph, (one,))
    downs = list(_climbs(graph, (other,)))
    paths = {
        up + down[-2::-1] for up in ups for down in downs if down[-1] == up[-1] and not set(up[:-1]) & set(down[:-1])
    }
    return sorted(paths)


def _climbs(graph: Graph, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    for scope in superscopes(graph, path[-1]):
        yield from _climbs(graph, (*path, scope))


def reach(
    graph: Graph,
    publisher: str,
    notification: Notification,
    *,
    clients: bool = True,
    climbing: Climbing | None = None,
    identity: Identity | None = None,
    possible: bool = False,
) -> list[Sighting]:
    """Everywhere that a publication becomes visible, once for each path; the publisher's own sight of it first.

    Without `clients`, only scopes are looked into. `climbing`: where it may climb, interfaces aside. Without an
    `identity`, it is everywhere that interfaces let it come; with one, policies choose from that. If it is `possible`
    that a deciding point gives it to a client, it counts as given.
    """
    found: list[Sighting] = []
    if own(graph, publisher, notification, climbing):
        found.append(Sighting(publisher, notification, (publisher,)))
    for scope in superscopes(graph, publisher):
        if climbing is not None and not climbing((), scope):
            continue
        start = Sighting(publisher, notification, (publisher,))
        if (seen := _climbed(graph, start, scope, identity)) is not None:
            _arrive(graph, seen, found, climbing, upward=True, clients=clients, identity=identity, possible=possible)
    return found


def _arrive(
    graph: Graph,
    at: Sighting,
    found: list[Sighting],
    climbing: Climbing | None,
    *,
    upward: bool,
    clients: bool,
    identity: Identity | None,
    possible: bool,
) -> None:
    found.append(at)
    further = functools.partial(
        _arrive, graph, found=found, climbing=climbing, clients=clients, identity=identity, possible=possible
    )
    for member in members(graph, at.node) if clients else graph.subscopes(at.node):
        if member not in at.path and at.node in graph.upward(member):
            seen = _descended(graph, at, member, upward, identity, possible=possible)
            if seen is None:
                continue
            if is_client(member):
                found.append(seen)
            else:
                further(seen, upward=False)
    if upward:
        for scope in superscopes(graph, at.node):
            if scope in at.path or (climbing is not None and not climbing(at.path[1:], scope)):
                continue
            if (seen := _climbed(graph, at, scope, identity)) is not None:
                further(seen, upward=True)


def _climbed(graph: Graph, at: Sighting, scope: str, identity: Identity | None) -> Sighting | None:
    """What a superscope gets of a notification: interfaces first, then the publishing policy of where it is."""
    passage = Passage(graph, graph.upward(at.node)[scope])
    shown = passage.outward(at.notification)
    due = 0 if shown is None or identity is None else passage.sends(at.notification, identity, _scopes(at.path))
    if shown is None or due is None:
        return None
    return Sighting(scope, shown, (*at.path, scope), max(at.due, due))


def _descended(
    graph: Graph, at: Sighting, member: str, upward: bool, identity: Identity | None, *, possible: bool = False
) -> Sighting | None:
    """What a member gets of a notification: interfaces first, then the policy of the scope for what came from above,
    or for what was published inside."""
    passage = Passage(graph, graph.upward(member)[at.node])
    shown = passage.inward(at.notification)
    due: int | None = 0
    if possible and passage.compares(incoming=not upward):
        due = 0
    elif shown is not None and identity is not None:
        due = passage.takes(at.notification, identity, _scopes(at.path), incoming=not upward)
    if shown is None or due is None:
        return None
    return Sighting(member, shown, (*at.path, member), max(at.due, due))


def _scopes(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(node for node in path if not is_client(node))


def sightings(
    graph: Graph,
    publisher: str,
    notification: Notification,
    client: str,
    climbing: Climbing | None = None,
    *,
    identity: Identity | None = None,
    possible: bool = False,
) -> list[Sighting]:
    """Every form in which one client may see a publication, once for each path; as `reach` for the rest."""
    found = reach(graph, publisher, notification, climbing=climbing, identity=identity, possible=possible)
    if client == publisher or client in graph.members(ROOT_SCOPE) or ROOT_SCOPE not in graph.upward(client):
        return [at for at in found if at.node == client]
    # Nobody has made it a member of anything, so `reach`, which knows the graph alone, has not come by. What is in the
    # root scope has climbed there: it has no superscope.
    at_root = (at for at in found if at.node == ROOT_SCOPE)
    seen = (_descended(graph, at, client, True, identity, possible=possible) for at in at_root)
    return [one for one in seen if one is not None]


def own(graph: Graph, publisher: str, notification: Notification, climbing: Climbing | None = None) -> bool:
    """Whether a publisher gets its own publication back: some passage lets it out and would let it in again."""
    for scope in superscopes(graph, publisher):
        if climbing is not None and not climbing((), scope):
            continue
        shown = _outward(graph, publisher, scope, notification)
        if shown is not None and _inward(graph, publisher, scope, shown) is not None:
            return True
    return False


def _outward(graph: Graph, member: str, scope: str, notification: Notification) -> Notification | None:
    return Passage(graph, graph.upward(member)[scope]).outward(notification)


def _inward(graph: Graph, member: str, scope: str, notification: Notification) -> Notification | None:
    return Passage(graph, graph.upward(member)[scope]).inward(notification)
