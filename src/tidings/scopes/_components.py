"""Components: what is connected now, and what is known of it; the stock from which members are chosen.

What a component says about itself comes from two places. What administrators said is in the graph: it is there whether
the client is or not, and it wins. What the client brought when it connected is at its broker alone, and ends with its
connection. Roles are in the graph alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tidings.model import EVERYTHING, ROOT_SCOPE, Filter, Matches

from ._attributes import NO_ATTRIBUTES, AnyAttributes
from ._graph import Graph, is_client

MAX_UNITED = 64
"""The most filters of a component that are united to see whether they cover something together."""


class Component(msgspec.Struct, frozen=True):
    """One client or scope, and what was asked of it."""

    node: str
    """A client is written "@name"."""
    broker: str = ""
    """Where it is connected; "" for a scope, and for a client that is not connected."""
    attributes: AnyAttributes = NO_ATTRIBUTES
    roles: tuple[str, ...] = ()
    inputs: tuple[bool, ...] = ()
    """For each filter that was asked for: whether its input interface, what it subscribes to, covers it."""
    outputs: tuple[bool, ...] = ()
    """For each filter that was asked for: whether its output interface, what it may publish, covers it."""


def scope_component(
    graph: Graph, scope: str, inputs: Iterable[Filter] = (), outputs: Iterable[Filter] = ()
) -> Component:
    """A scope as a component: its interfaces are those that its administrators gave it."""
    known = graph.scope(scope)
    return Component(
        scope,
        attributes=known.attributes,
        roles=known.roles,
        inputs=tuple(known.interface.input.covers(one) for one in inputs),
        outputs=tuple(known.interface.output.covers(one) for one in outputs),
    )


def members_of(graph: Graph, scope: str, connected: Iterable[Component]) -> list[Component]:
    """The members of a scope, by name: those that are connected, as they are, and those that the graph names.

    A client that nobody ever made a member of anything is a member of the root scope for as long as it is connected.
    """
    here = {one.node: one for one in connected}
    found = set(graph.members(scope))
    if scope == ROOT_SCOPE:
        found |= {node for node in here if ROOT_SCOPE in graph.upward(node)}
    return [
        here.get(node, Component(node, "", graph.attributes(node), graph.roles(node)))
        if is_client(node)
        else scope_component(graph, node)
        for node in sorted(found)
    ]


def covered(asked: Filter, filters: list[Matches]) -> Iterator[bool | None]:
    """Whether filters cover another one together: the last answer counts, each None before it is a bit of work done.

    False where nobody can tell.
    """
    known = [one for one in filters if isinstance(one, Filter)]
    if any(one == EVERYTHING for one in known):
        yield True
        return
    for conjunction in asked.canonical().conjunctions:
        verdict = False
        for step in _part_covered(Filter((conjunction,)), known):
            verdict = bool(step)
            yield None
        if not verdict:
            yield False
            return
    yield True


def _part_covered(part: Filter, filters: list[Filter]) -> Iterator[bool | None]:
    sample, near = part.witness(), False
    for one in filters:
        yield None
        if sample is None or one.matches(sample):  # whatever covers it accepts its witness
            near = True
            if one.covers(part):
                yield True
                return
    if near:
        yield from _united_covers(part, filters)


def _united_covers(part: Filter, filters: list[Filter]) -> Iterator[bool | None]:
    union: Filter | None = None
    count = 0
    for one in filters:
        yield None
        if one.overlaps(part):
            union, count = one if union is None else union.union(one), count + 1
            if union is None or count > MAX_UNITED:
                return  # too large
    yield union is not None and count > 1 and union.covers(part)
