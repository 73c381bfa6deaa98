"""Rights: who may change what, who is admitted to which scope, and who may know of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import msgspec

from tidings.model import ROOT_SCOPE, NotAllowed, UnknownName
from tidings.scopes._applying import kept_labels
from tidings.scopes._changes import (
    Anchor,
    AnyChange,
    CreateScope,
    Define,
    DestroyScope,
    Forget,
    Impose,
    Join,
    Leave,
    Redefine,
    SetAdministration,
    SetAttributes,
    SetDelivery,
    SetInterface,
    SetMapping,
    SetOrigin,
    SetPlacement,
    SetPolicy,
    SetRoles,
    SetRules,
    SetSelective,
    Unanchor,
    Undefine,
)
from tidings.scopes._draft import Draft
from tidings.scopes._graph import Graph, Placement, client_node, is_client
from tidings.scopes._interface import Interface
from tidings.scopes._messages import Ask
from tidings.scopes.language import may_mean, mentions
from tidings.scopes.policies._policy import PolicyKind, PolicyUse


class Decision(NamedTuple):
    """What an admission hook says."""

    allow: bool
    imposed: Interface | None = None
    """What the scope lets the member get and publish, if that is less than was asked for."""
    selective: Interface | None = None
    reason: str = ""
    gateway: str = ""
    """The broker where everything has to cross between the two, which are scopes: the edge gets this placement."""
    publishing: PolicyUse | None = None
    """The publishing policy that the member has to have."""


class Admission(Protocol):
    """An operator's own rule, asked at the authority whenever an edge comes to be or changes."""

    def __call__(self, member: str, scope: str, credentials: tuple[str, ...], action: str) -> Decision:
        """May this be?"""
        ...


def credential(secret: str) -> str:
    """How a scope remembers a credential: nobody who reads the graph learns the secret."""
    return hashlib.blake2b(secret.encode(), digest_size=16, person=b"tidings-admit").hexdigest()


def check_rights(graph: Graph, ask: Ask) -> None:
    """Raise `NotAllowed` unless whoever asks may make all these changes."""
    if ask.administrator:
        return
    for change in ask.changes:
        if isinstance(change, Anchor | Unanchor) and not change.stay:
            if ask.who:
                raise NotAllowed("only brokers are admitted to carry scopes; a client need not ask")
            continue
        if lacking := _lacking(graph, ask.who, change):
            raise NotAllowed(
                f"'{ask.who}' may not {type(change).__name__} here: it is not an administrator of "
                f"{' and '.join(lacking)}; ask one to do it, or to make you one"
            )
        if isinstance(change, Define | Redefine | Undefine):
            _check_unarmed(graph, ask.who, change)


def _check_unarmed(graph: Graph, who: str, change: Define | Redefine | Undefine) -> None:
    """Raise `NotAllowed` if a rule creates scopes by a definition with the rights of somebody else.

    Whoever changes such a definition would act with these rights. The rule may speak of it by way of others.
    """
    for scope in graph.ruled:
        for rule in scope.rules:
            if rule.deploys and (rule.everything or rule.who != who) and _leads_to(graph, rule.deploys, change.name):
                owner = f"'{rule.who}'" if rule.who else "an operator"
                raise NotAllowed(
                    f"'{who}' may not {type(change).__name__} '{change.name}': a rule of {_place(scope.id)} creates "
                    f"scopes by it in the name of {owner}; ask for it there, or have the rule taken away"
                )


def _leads_to(graph: Graph, text: str, name: str) -> bool:
    """Whether a text may speak of a definition of this name, itself or by way of other definitions."""
    known, texts = set[str](), [text]
    while texts:
        text = texts.pop()
        if may_mean(text, name):
            return True
        more = [one for one in graph.definitions if one not in known and may_mean(text, one)]
        known.update(more)
        texts += [graph.definitions[one] for one in more]
    return False


def _place(scope: str) -> str:
    return f"'{scope}'" if scope else "the root scope"


def _lacking(graph: Graph, who: str, change: AnyChange) -> list[str]:
    """What somebody would have to administer to make a change, and does not; empty: it may.

    The scopes that a client is in may be hidden from whoever asks, so they are never named, nor whether there are any.
    """
    guarded = _guarded(graph, change)
    if isinstance(change, SetAttributes | SetRoles) and is_client(change.node):
        may = all(administers(graph, who, scope) for scope in guarded)
        return [] if may else [f"every scope that '{change.node}' is in"]
    lacking = [f"'{scope}'" if scope else "the root scope" for scope in guarded if not administers(graph, who, scope)]
    if isinstance(change, Leave) and len(lacking) < len(guarded):
        return []
    if isinstance(change, Join) and is_client(change.member) and change.member != client_node(who):
        # A scope sees what its members publish: who makes others members must administer all that they are in.
        known = graph.superscopes(change.member) or (ROOT_SCOPE,)
        if not all(administers(graph, who, scope) for scope in known):
            lacking.append(f"every scope that '{change.member}' is in")
    return lacking


def _guarded(graph: Graph, change: AnyChange) -> list[str]:
    """The scopes whose administrators a change needs."""
    match change:
        case CreateScope():
            return [change.id.rpartition("/")[0]]
        case Define() | Redefine() | Undefine():
            return [change.name.rpartition("/")[0]]
        case DestroyScope():
            return [change.id]
        case Join() | Leave() | SetMapping() | SetPlacement():
            return [change.scope] if is_client(change.member) else [change.member, change.scope]
        case SetSelective():
            return [change.scope] if is_client(change.member) else [change.member]
        case Forget():
            return [ROOT_SCOPE]
        case SetAttributes() | SetRoles() | SetPolicy() if is_client(change.node):
            # Clients are chosen for scopes by what is said about them, so they do not say it themselves.
            return list(graph.superscopes(change.node) or (ROOT_SCOPE,))
        case SetAttributes() | SetRoles() | SetPolicy():
            return [change.node]
        case (
            Impose()
            | SetInterface()
            | SetRules()
            | SetOrigin()
            | SetDelivery()
            | SetAdministration()
            | Anchor()
            | Unanchor()
        ):
            return [change.scope]


def administers(graph: Graph, who: str, scope: str) -> bool:
    """Whether a client administers a scope, or the scope that it was made in."""
    while who:
        known = graph.scopes.get(scope)
        if known is not None and who in known.administrators:
            return True
        if scope == ROOT_SCOPE:
            break
        scope = scope.rpartition("/")[0]
    return False  # also for a broker that asks for itself


def administers_some_of(graph: Graph, who: str, node: str) -> bool:
    """Whether a client administers a scope that a node is a member of."""
    return any(administers(graph, who, scope) for scope in graph.superscopes(node))


def check_origins(seen: Graph, changes: tuple[AnyChange, ...]) -> None:
    """Raise `UnknownName` for a scope that is said to be deployed from a definition which whoever asks does not see:
    those who see the scope would see the definition."""
    known = {"", *seen.definitions, *(change.name for change in changes if isinstance(change, Define))}
    for change in changes:
        if isinstance(change, SetOrigin) and change.definition is not None and change.definition not in known:
            scope = seen.scopes.get(change.scope)
            if scope is None or scope.definition != change.definition:
                raise UnknownName(f"there is no definition '{change.definition}'; define it first")


def admitted(graph: Graph, ask: Ask, hook: Admission | None) -> tuple[AnyChange, ...]:
    """The changes as those who admit members grant them, or `NotAllowed`.

    Policies that a rule asks for come last, so that no change of the same transaction takes them away.
    """
    granting = _Granting(graph, ask, hook)
    changes = tuple([granting.granted(change) for change in ask.changes])
    demanded = granting.policies.items()
    return (*changes, *(SetPolicy(node, PolicyKind.PUBLISHING, policy) for node, policy in demanded))


class _Granting:
    """What those who admit members say to the changes that somebody asks for."""

    def __init__(self, graph: Graph, ask: Ask, hook: Admission | None) -> None:
        self._graph = graph
        self._credentials = ask.credentials
        self._hook = hook
        self.policies: dict[str, PolicyUse] = {}
        """The publishing policies that members have to have."""

    def granted(self, change: AnyChange) -> AnyChange:
        """One change, as it is granted."""
        if isinstance(change, SetPolicy) and change.kind is PolicyKind.PUBLISHING:
            for above in self._graph.superscopes(change.node):
                self._decided("SetPolicy", change.node, above)
            return change
        if not isinstance(change, Join | Impose | SetSelective | SetMapping | SetPlacement) or change.member is None:
            return change  # no edge comes to be or changes
        if isinstance(change, Join):
            self._check_credentials(change)
        decision = self._decided(type(change).__name__, change.member, change.scope)
        if isinstance(change, Join):
            if decision.imposed is not None:
                change = msgspec.structs.replace(change, imposed=decision.imposed)
            if decision.selective is not None:
                change = msgspec.structs.replace(change, selective=decision.selective)
        elif isinstance(change, Impose) and decision.imposed is not None:
            change = msgspec.structs.replace(change, interface=decision.imposed)
        elif isinstance(change, SetSelective) and decision.selective is not None:
            change = msgspec.structs.replace(change, interface=decision.selective)
        if isinstance(change, Join | SetPlacement) and decision.gateway:
            change = msgspec.structs.replace(change, placement=Placement.GATEWAY, gateway=decision.gateway)
        return change

    def _check_credentials(self, change: Join) -> None:
        scope = self._graph.scopes.get(change.scope)
        if scope is None or not scope.admission:
            return
        if {credential(secret) for secret in self._credentials}.isdisjoint(scope.admission):
            raise NotAllowed(
                f"'{change.member}' is not admitted to '{change.scope}': none of the {len(self._credentials)} "
                "credentials presented is one that this scope knows"
            )

    def _decided(self, action: str, member: str, scope: str) -> Decision:
        """What the operator's rule says of one edge, if it allows it."""
        if self._hook is None:
            return Decision(allow=True)
        decision = self._hook(member, scope, self._credentials, action)
        if not decision.allow:
            reason = decision.reason or "the admission rule of this network refuses it"
            raise NotAllowed(f"'{member}' is not admitted to '{scope}': {reason}")
        if decision.gateway and is_client(member):
            raise NotAllowed(
                f"'{member}' is not admitted to '{scope}': the admission rule wants it to cross at "
                f"'{decision.gateway}', but a client crosses where it is connected; let the rule ask that of scopes"
            )
        if decision.publishing is not None:
            self.policies[member] = decision.publishing
        return decision


def shown_to(graph: Graph, client: str, administrator: bool) -> Graph:
    """The graph as far as a client may know it: hidden scopes are for their administrators and members, and what is
    said about other clients for those who see where these are members.

    A client of which all memberships are hidden is left out, and not shown as a member of nothing.
    """
    if administrator:
        return graph
    mine, whole, graph = graph.above(client_node(client)), graph, Draft(graph)
    for scope in whole.scopes.values():
        if scope.hidden and scope.id not in mine and not administers(whole, client, scope.id):
            for member in list(graph.members(scope.id)):
                graph = graph.without_edge(member, scope.id)
            for above in list(graph.superscopes(scope.id)):
                graph = graph.without_edge(scope.id, above)
            graph = graph.without_scope(scope.id)
    for node in graph.isolated:
        if whole.superscopes(node):
            graph = graph.without_client(node)
    for scope in list(graph.scopes.values()):
        if scope.labels and (labels := kept_labels(graph, scope)) != scope.labels:
            graph = graph.with_scope(msgspec.structs.replace(scope, labels=labels))
    for scope in list(graph.scopes.values()):
        if scope.rules and not administers(whole, client, scope.id):  # they may speak of what is hidden
            graph = graph.with_scope(msgspec.structs.replace(scope, rules=()))
    known = client_node(client)
    said = {node: said for node, said in graph.clients.items() if node == known or graph.superscopes(node)}
    graph = graph.with_clients(said).with_definitions(_definitions_shown_to(whole, graph, client))
    return graph.numbered(whole.version).as_part()


def _definitions_shown_to(whole: Graph, shown: Graph, client: str) -> dict[str, str]:
    """The definitions that a client may know, if `shown` is all it may know of the scopes: those that it may change,
    and those of scopes that it sees. Administrators deploy scopes, so they see the others, too, except those in hidden
    scopes, or of them. A definition that mentions a hidden scope is for those who may know of that scope, and for the
    administrators of the scope that it is in: if it vanished when they write it, that would tell them of the name."""
    hidden = whole.scopes.keys() - shown.scopes.keys()
    names = frozenset({*hidden, *(id.rpartition("/")[2] for id in hidden)})
    deployed = {scope.definition for scope in shown.scopes.values()}
    secret = {scope.definition for id, scope in whole.scopes.items() if id not in shown.scopes}
    deploys = any(client in scope.administrators for scope in whole.scopes.values())

    def may_know(name: str) -> bool:
        place = name.rpartition("/")[0]
        if administers(whole, client, place):
            return True
        if name not in deployed and not (deploys and hidden.isdisjoint(_places(place)) and name not in secret):
            return False
        return not names or not mentions(whole.definitions[name], names)

    return {name: text for name, text in whole.definitions.items() if may_know(name)}


def _places(scope: str) -> Iterator[str]:
    """A scope, and those that it was made in."""
    while scope:
        yield scope
        scope = scope.rpartition("/")[0]
