"""The world that a script is worked out in: a graph, and the components that are connected.

Names are local: from a scope one sees, level by level, its members and itself, then its superscopes and their members,
and so on. The first level on which a name is found decides. What is found on none is an id; if there is no scope of it,
something that is a member of nothing. A plain name may mean a scope or a client; `@name` is a client, whether it is
there or not. Ids come before what is outermost, because clients choose their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidings.model import ROOT_SCOPE, AmbiguousName, Filter, UnknownName
from tidings.scopes._components import Component
from tidings.scopes._graph import CLIENT, Graph, is_client

from ._mistakes import Misfit
from ._syntax import ROOT, SELF, WORLD, Id, Name


class Asked(NamedTuple):
    """What a script wants to know of the components that are connected."""

    inputs: tuple[Filter, ...] = ()
    outputs: tuple[Filter, ...] = ()
    attributes: tuple[str, ...] | None = ()
    """The attributes that are looked at; None: perhaps any."""


_NOTHING = Asked()


@dataclass(frozen=True)
class World:
    """What a script is worked out in."""

    graph: Graph
    connected: Mapping[str, Component] = field(default_factory=dict)
    """The clients that are connected, by node."""
    asked: Asked = _NOTHING
    """The filters that their answers speak of."""

    @classmethod
    def of(cls, graph: Graph, connected: Iterable[Component] = (), asked: Asked | None = None) -> World:
        """A world of this graph, with these clients connected."""
        return cls(graph, {one.node: one for one in connected}, asked or _NOTHING)

    def after(self, graph: Graph) -> World:
        """The same with another graph: what that says of clients, they are known to have."""
        return World(graph, {node: self.component(graph, node) for node in self.connected}, self.asked)

    def clients(self, graph: Graph) -> set[str]:
        """All clients that a graph knows or that are connected."""
        members = {edge.member for edge in graph.memberships() if is_client(edge.member)}
        return members | {*graph.clients, *graph.isolated, *self.connected}

    def component(self, graph: Graph, node: str) -> Component:
        """A component, as a graph and its connection describe it."""
        if not is_client(node):
            known = graph.scope(node)
            return Component(node, attributes=known.attributes, roles=known.roles)
        here = self.connected.get(node)
        if here is None:
            return Component(node, "", graph.attributes(node), graph.roles(node))
        if graph is self.graph:
            return here
        # The script has said more about it than its broker knows.
        attributes = {**here.attributes, **graph.attributes(node)}
        return Component(node, here.broker, attributes, graph.roles(node), here.inputs, here.outputs)

    def covers(self, graph: Graph, node: str, filter: Filter, *, output: bool) -> bool:
        """Whether the interface of a component covers a filter; False of a client that is not connected."""
        if not is_client(node):
            interface = graph.scope(node).interface
            return (interface.output if output else interface.input).covers(filter)
        here = self.connected.get(node)
        listed = self.asked.outputs if output else self.asked.inputs
        if here is None or filter not in listed:
            return False
        answers = here.outputs if output else here.inputs
        at = listed.index(filter)
        return at < len(answers) and answers[at]


def resolved(world: World, graph: Graph, ref: Name | Id, above: Iterable[str] = (), self: str = "") -> str:
    """The node that a name or an id stands for; raises `Misfit`.

    It is looked for from the scope `self` on, whose superscopes are, or are to be, those `above`.
    """
    if isinstance(ref, Id):
        if is_client(ref.id) and not ref.id.isprintable():
            raise Misfit(f"{ref.id!r} cannot name a client", ref.at, "Leave out what cannot be printed.")
        if ref.id in graph.scopes or is_client(ref.id):
            return ref.id
        raise Misfit(f"there is no scope of the id '{ref.id}'", ref.at, _known(graph, self), UnknownName)
    name = ref.name
    if is_client(name):
        return name
    if name == SELF and self:
        return self
    if name == ROOT and ROOT not in graph.scopes:
        return ROOT_SCOPE
    for level in _levels(graph, self, above):
        if (node := _found(graph, level, ref)) is not None:
            return node
    if name in graph.scopes:
        return name
    outermost = {*graph.roots(), *graph.members(ROOT_SCOPE), *world.clients(graph)} - {ROOT_SCOPE}
    if (node := _found(graph, outermost, ref)) is not None:
        return node
    raise Misfit(f"no scope or client '{name}' can be seen here", ref.at, _remedy(graph, name, self), UnknownName)


def _found(graph: Graph, level: set[str], ref: Name) -> str | None:
    """The node of a name on one level; None if there is none, `Misfit` if there are several."""
    found = sorted(node for node in level if _called(graph, node, ref.name))
    if len(found) > 1:
        listed = " or ".join(repr(one) for one in found[:5])
        raise Misfit(f"'{ref.name}' may be {listed}", ref.at, "Write the one you mean as a string.", AmbiguousName)
    return found[0] if found else None


def _called(graph: Graph, node: str, name: str) -> bool:
    if is_client(node):
        return node == CLIENT + name
    return graph.scopes[node].name == name or node.endswith("/" + name)


def _levels(graph: Graph, self: str, above: Iterable[str]) -> Iterator[set[str]]:
    """What can be seen from a scope, the nearest first, without what is outermost."""
    level, seen = {self} & graph.scopes.keys() - {ROOT_SCOPE}, {ROOT_SCOPE}
    more = set(above)
    while level or more:
        yield level | {member for scope in level for member in graph.members(scope)}
        seen |= level
        level = ({over for scope in level for over in graph.superscopes(scope)} | more) - seen
        more = set()


def _remedy(graph: Graph, name: str, self: str) -> str:
    elsewhere = sorted(id for id, scope in graph.scopes.items() if scope.name == name)
    if elsewhere:
        return f'There is "{elsewhere[0]}" elsewhere: write its id as a string.'
    if name in graph.definitions:
        return f"'{name}' is a definition: deploy it first."
    if name == WORLD:
        return "Write MEMBERS(world) for all components."
    return f"Write @{name} for a client that is not connected yet. {_known(graph, self)}"


def _known(graph: Graph, self: str) -> str:
    names = sorted(id for id, scope in graph.scopes.items() if id not in ("", self) and not scope.hidden)
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"Known scopes: {', '.join(names[:8])}{more}." if names else "There are no scopes yet."


Resolve = Callable[[Name | Id], str]
