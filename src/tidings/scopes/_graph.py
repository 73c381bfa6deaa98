"""The scope graph: who is a member of what, and what may cross each edge.

A graph is a value: it never changes; a change makes the next version (see `_changes`). Its nodes are scopes, named by
their ids, and clients, written with a leading "@". An edge leads from a member to a scope. The root scope, "", is there
always: a client that nobody has made a member of anything is a member of it.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tidings.model import ROOT_SCOPE, Duplicates, ScopeError

from ._attributes import NO_ATTRIBUTES, AnyAttributes
from ._interface import CLOSED, OPEN, Interface
from ._rules import Rule
from .mappings._mapping import EdgeMapping
from .policies._policy import PUBLISHING, PolicyUse

CLIENT = "@"
"""What the name of a client begins with, in a graph."""


def client_node(name: str) -> str:
    """A client as a node of the graph."""
    return CLIENT + name


def is_client(node: str) -> bool:
    return node.startswith(CLIENT)


class Placement(enum.Enum):
    """Where notifications cross an edge between two scopes."""

    ONCE = "once"
    """At the first broker on their way that carries both."""
    GATEWAY = "gateway"
    """At one designated broker, whatever the detour."""
    EVERYWHERE = "everywhere"
    """At every broker that carries both; second copies are dropped by their readers. For tests."""


class Scope(msgspec.Struct, frozen=True):
    """One scope, as its administrators have defined it."""

    id: str
    interface: Interface = CLOSED
    """What may come in from superscopes and go out to them: the base interface."""
    imposed: Interface = OPEN
    """What every member may get and publish here."""
    abstract: bool = False
    """It groups its members for people; nothing is ever published in it."""
    attributes: AnyAttributes = NO_ATTRIBUTES
    administrators: tuple[str, ...] = ()
    """The clients that may change it, besides those that may change everything."""
    hidden: bool = False
    """Only its administrators and members may know of it."""
    trusted: tuple[str, ...] = ()
    """The only brokers that may carry it; none named: any. Where the tree needs another one, it is carried nowhere."""
    admission: tuple[str, ...] = ()
    """The credentials of which a new member must present one; none: everybody may be made a member."""
    revised: int = 0
    """The version in which an interface of it changed last."""
    brokers: frozenset[str] = frozenset()
    """The brokers that carry it whether they have members of it or not, because an administrator said so."""
    duplicates: Duplicates = Duplicates.DEFAULT
    """What counts as a second copy for its members, unless they say otherwise."""
    ordered: bool = False
    """Whether its members get what one publisher publishes in its order, also where that takes detours by gateways."""
    roles: tuple[str, ...] = ()
    """The functions that it is agreed to have, for those who look for one."""
    definition: str = ""
    """The definition that it was deployed from; "": none."""
    labels: dict[str, tuple[str, ...]] = {}
    """Which members or superscopes the labels in that definition have picked."""
    policies: dict[str, PolicyUse] = {}
    """Its transmission policies, by the value of their kind."""
    rules: tuple[Rule, ...] = ()
    """What changes the graph when something happens in it, in this order."""

    @property
    def confidential(self) -> bool:
        """Whether its traffic must not pass brokers that are not trusted."""
        return bool(self.trusted)

    @property
    def name(self) -> str:
        """The name that it has among its siblings."""
        return self.id.rpartition("/")[2]


class Client(msgspec.Struct, frozen=True):
    """What administrators say about a client. It is in the graph, whether the client is connected or not."""

    attributes: AnyAttributes = NO_ATTRIBUTES
    roles: tuple[str, ...] = ()
    publishing: PolicyUse | None = None
    """The policy that says into which of its scopes it publishes."""


class Membership(msgspec.Struct, frozen=True):
    """An edge: a member of a scope, and what may pass between them."""

    member: str
    scope: str
    selective: Interface = OPEN
    """Set by the administrators of the member, for this edge only."""
    imposed: Interface = OPEN
    """Set by the administrators of the scope, for this member only."""
    mapping: EdgeMapping | None = None
    placement: Placement = Placement.ONCE
    gateway: str = ""
    """The broker where everything crosses, if the placement says so."""
    since: int = 0
    """The version in which this edge became what it is."""


_NONE: Mapping[str, Membership] = {}
NOTHING_SAID = Client()
"""What is said about most clients."""
_ROOT = Scope(ROOT_SCOPE)


_WORKED_OUT = ("_members", "_anchored", "_upward")
"""What a graph remembers of itself, apart from its version."""


class Graph:
    """One version of a scope graph."""

    def __init__(
        self,
        version: int = 0,
        scopes: Mapping[str, Scope] | None = None,
        memberships: Mapping[str, Mapping[str, Membership]] | None = None,
        anchors: Mapping[str, frozenset[str]] | None = None,
        clients: Mapping[str, Client] | None = None,
        *,
        definitions: Mapping[str, str] | None = None,
        partial: bool = False,
    ) -> None:
        self.version = version
        self.scopes: Mapping[str, Scope] = scopes if scopes is not None else {ROOT_SCOPE: _ROOT}
        self._supers = memberships if memberships is not None else {}
        self.anchors: Mapping[str, frozenset[str]] = anchors if anchors is not None else {}
        """For each scope, the brokers that have been admitted to carry it for members of their own."""
        self.clients: Mapping[str, Client] = clients if clients is not None else {}
        """What is said about clients, by node; those of which nothing is said are left out."""
        self.definitions: Mapping[str, str] = definitions if definitions is not None else {}
        """The texts from which scopes are deployed, by name: the descriptive graph."""
        self.partial = partial
        """Whether it is what somebody may see who may not see everything: there may be more, and nothing says what."""

    # --- structure ------------------------------------------------------------------------------------

    def scope(self, id: str) -> Scope:
        """One scope."""
        try:
            return self.scopes[id]
        except KeyError:
            client = f"; the client of that name is written '{CLIENT}{id}'" if CLIENT + id in self._supers else ""
            raise ScopeError(f"there is no scope '{id}'{client}; known scopes: {self._known()}") from None

    def _known(self) -> str:
        names = sorted(id for id, scope in self.scopes.items() if id and not scope.hidden)
        return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") or "none yet"

    def superscopes(self, node: str) -> Mapping[str, Membership]:
        """The edges from a node to its superscopes, by scope."""
        return self._supers.get(node, _NONE)

    def is_stranger(self, node: str) -> bool:
        """Whether a node is a client that nobody ever made a member of anything."""
        return is_client(node) and node not in self._supers

    def upward(self, node: str) -> Mapping[str, Membership]:
        """The edges by which notifications climb from a node and come down to it, by scope.

        Nothing passes an abstract scope. A client that nobody ever made a member of anything else is a member of the
        root scope, on the root scope's terms: so grouping clients for people never changes what they see. One that has
        left its last scope is a member of nothing, until an administrator decides: it must not be heard by everybody
        just because it is no longer heard by some.
        """
        edges = self._upward.get(node)
        if edges is None:
            if self.is_stranger(node):
                return {ROOT_SCOPE: Membership(node, ROOT_SCOPE)}  # not remembered: strangers come and go
            edges = self._upward[node] = self._climbable(node)
        return edges

    @functools.cached_property
    def _upward(self) -> dict[str, Mapping[str, Membership]]:
        return {}

    def _climbable(self, node: str) -> Mapping[str, Membership]:
        if not is_client(node) and self.scope(node).abstract:
            return _NONE
        edges = {id: edge for id, edge in self.superscopes(node).items() if not self.scopes[id].abstract}
        grouped = bool(self.superscopes(node)) and not edges
        return {ROOT_SCOPE: Membership(node, ROOT_SCOPE)} if is_client(node) and grouped else edges

    def members(self, scope: str) -> Mapping[str, Membership]:
        """The edges from the members of a scope, by member. Clients that are members of nothing are not listed."""
        return self._members.get(scope, _NONE)

    @functools.cached_property
    def _members(self) -> dict[str, dict[str, Membership]]:
        members: dict[str, dict[str, Membership]] = {}
        for edge in self.memberships():
            members.setdefault(edge.scope, {})[edge.member] = edge
        return members

    def subscopes(self, scope: str) -> list[str]:
        return [member for member in self.members(scope) if not is_client(member)]

    def siblings(self, node: str) -> set[str]:
        """The other members of a node's superscopes."""
        return {other for scope in self.superscopes(node) for other in self.members(scope)} - {node}

    def membership(self, member: str, scope: str) -> Membership:
        """One edge."""
        try:
            return self._supers[member][scope]
        except KeyError:
            raise ScopeError(f"'{member}' is not a member of '{scope}'") from None

    def revised(self, edge: Membership) -> int:
        """The version since which what may pass an edge is what it is."""
        inner = self.scopes.get(edge.member)
        return max(edge.since, self.scopes[edge.scope].revised, inner.revised if inner is not None else 0)

    def memberships(self) -> Iterator[Membership]:
        """All edges."""
        for edges in self._supers.values():
            yield from edges.values()

    def nodes(self) -> set[str]:
        """All scopes, and the clients that are members of one."""
        return {*self.scopes, *self._supers}

    def leaves(self) -> list[str]:
        """The clients that are members of a scope, and the scopes without members."""
        return [node for node in sorted(self.nodes()) if not self.members(node)]

    def roots(self) -> list[str]:
        """The scopes without a superscope."""
        return [id for id in self.scopes if not self.superscopes(id)]

    def above(self, node: str) -> set[str]:
        """A node and everything above it, abstract or not."""
        return _reached(node, self.superscopes)

    def below(self, scope: str) -> set[str]:
        """A scope and everything below it, abstract or not."""
        return _reached(scope, self.members)

    # --- what is said about components ----------------------------------------------------------------

    def described(self, node: str) -> Scope | Client:
        """What is said about a scope or a client; of most clients nothing is, so they have neither."""
        return self.clients.get(node, NOTHING_SAID) if is_client(node) else self.scope(node)

    def attributes(self, node: str) -> AnyAttributes:
        """The attributes of a scope, or those that the graph gives to a client."""
        return self.described(node).attributes

    def roles(self, node: str) -> tuple[str, ...]:
        """The roles of a scope or a client."""
        return self.described(node).roles

    @functools.cached_property
    def policies(self) -> tuple[PolicyUse, ...]:
        """The policies of all components."""
        of_scopes = [use for one in self.scopes.values() for use in one.policies.values()]
        return (*of_scopes, *(one.publishing for one in self.clients.values() if one.publishing is not None))

    @property
    def policed(self) -> bool:
        """Whether any component has a policy."""
        return bool(self.policies)

    @functools.cached_property
    def ruled(self) -> tuple[Scope, ...]:
        """The scopes that have rules."""
        return tuple(scope for _, scope in sorted(self.scopes.items()) if scope.rules)

    def publishing(self, node: str) -> PolicyUse | None:
        """The policy that says into which superscopes a component publishes, if it has one."""
        if is_client(node):
            return self.clients[node].publishing if node in self.clients else None
        return self.scopes[node].policies.get(PUBLISHING)

    # --- where it is ----------------------------------------------------------------------------------

    @functools.cached_property
    def _anchored(self) -> dict[str, frozenset[str]]:
        return {}

    def anchored(self, scope: str) -> frozenset[str]:
        """The brokers that must carry a scope: where members of it, or of a scope inside it, are."""
        known = self._anchored.get(scope)
        if known is None:
            found = {*self.anchors.get(scope, ()), *self.scopes[scope].brokers}
            for member, edge in self.members(scope).items():
                if not is_client(member) and not self.scopes[member].abstract:
                    found |= {edge.gateway} if edge.placement is Placement.GATEWAY else self.anchored(member)
            found |= {edge.gateway for edge in self.upward(scope).values() if edge.placement is Placement.GATEWAY}
            known = self._anchored[scope] = frozenset(found)
        return known

    # --- how the next version is made -----------------------------------------------------------------

    def with_scope(self, scope: Scope) -> Graph:
        """The same with one scope added or replaced."""
        return self._with_members(scopes={**self.scopes, scope.id: scope})

    def without_scope(self, id: str) -> Graph:
        """The same without one scope, which must have no edges."""
        scopes = {known: scope for known, scope in self.scopes.items() if known != id}
        anchors = {known: brokers for known, brokers in self.anchors.items() if known != id}
        return self._with_members(scopes=scopes, anchors=anchors)

    def with_client(self, node: str, client: Client) -> Graph:
        """The same with something else said about a client."""
        clients = {**self.clients}
        clients.pop(node, None)
        if client != NOTHING_SAID:
            clients[node] = client
        return self.with_clients(clients)

    def with_clients(self, clients: Mapping[str, Client]) -> Graph:
        """The same with this said about clients, and nothing else."""
        changed = self._with(clients=clients)
        vars(changed).update(self._worked_out())
        return changed

    def with_definitions(self, definitions: Mapping[str, str]) -> Graph:
        """The same with these definitions, and no others."""
        changed = self._with(definitions=definitions)
        vars(changed).update(self._worked_out())
        return changed

    def as_part(self) -> Graph:
        """The same as what somebody may see who may not see everything."""
        part = self._with(partial=True)
        vars(part).update(self._worked_out())
        return part

    def with_edge(self, edge: Membership) -> Graph:
        """The same with one edge added or replaced."""
        edges = {**self.superscopes(edge.member), edge.scope: edge}
        changed = self._with(memberships={**self._supers, edge.member: edges})
        changed._inherit(self, edge.member, edge.scope)
        return changed

    def without_edge(self, member: str, scope: str) -> Graph:
        edges = {known: edge for known, edge in self.superscopes(member).items() if known != scope}
        supers = {node: known for node, known in self._supers.items() if node != member}
        if edges or is_client(member):
            supers[member] = edges
        changed = self._with(memberships=supers)
        changed._inherit(self, member, scope)
        return changed

    def without_client(self, client: str) -> Graph:
        """The same without a client that is a member of nothing: it was never a member of anything."""
        changed = self._with(memberships={node: edges for node, edges in self._supers.items() if node != client})
        vars(changed).update({name: known for name, known in self._worked_out().items() if name != "_upward"})
        return changed

    def _inherit(self, before: Graph, member: str, scope: str) -> None:
        """Take over what was worked out for a graph that differs in one edge."""
        known = vars(before)
        if "_anchored" in known and is_client(member):
            vars(self)["_anchored"] = before._anchored  # clients are not anchors
        if "_members" in known:
            members = {**before._members.get(scope, {})}
            members.pop(member, None)
            if (edge := self.superscopes(member).get(scope)) is not None:
                members[member] = edge
            vars(self)["_members"] = {**before._members, scope: members}

    def clients_known(self) -> Iterator[str]:
        """The clients that are members of a scope, or were."""
        return filter(is_client, self._supers)

    @property
    def isolated(self) -> list[str]:
        """The clients that have left their last scope."""
        return [node for node, edges in self._supers.items() if not edges]

    def with_anchors(self, scope: str, brokers: frozenset[str]) -> Graph:
        """The same with other brokers admitted to carry a scope."""
        anchors = {known: kept for known, kept in self.anchors.items() if known != scope}
        if brokers:
            anchors[scope] = brokers
        return self._with(anchors=anchors)

    def numbered(self, version: int) -> Graph:
        """The same as another version."""
        same = self._with()
        same.version = version
        vars(same).update(self._worked_out())
        return same

    def _with(self, **parts: Any) -> Graph:
        """The same with other parts, of which nothing is worked out yet."""
        same = {"scopes": self.scopes, "memberships": self._supers, "anchors": self.anchors, "clients": self.clients}
        return Graph(self.version, **{**same, "definitions": self.definitions, "partial": self.partial, **parts})

    def _with_members(self, **parts: Any) -> Graph:
        """The same with other parts and the same edges."""
        same = self._with(**parts)
        if "_members" in vars(self):
            vars(same)["_members"] = self._members
        return same

    def _worked_out(self) -> dict[str, Any]:
        return {name: known for name, known in vars(self).items() if name in _WORKED_OUT}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self._parts() == other._parts()

    def _parts(self) -> tuple[object, ...]:
        return self.version, self.scopes, self._supers, self.anchors, self.clients, self.definitions

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        edges = ", ".join(f"{edge.member} < {edge.scope or 'root'}" for edge in self.memberships())
        return f"Graph({self.version}: {edges})"


def _reached(node: str, neighbours: Callable[[str], Iterable[str]]) -> set[str]:
    """A node and everything to which steps lead from it."""
    found = {node}
    stack = [node]
    while stack:
        new = [one for one in neighbours(stack.pop()) if one not in found]
        found.update(new)
        stack += new
    return found
