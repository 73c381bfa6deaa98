"""Rights: who may change what, who is admitted to which scope, and who may know of it."""

from __future__ import annotations

import hashlib
from typing import NamedTuple, Protocol

import msgspec

from tidings.model import ROOT_SCOPE, NotAllowed

from ._changes import (
    Anchor,
    AnyChange,
    CreateScope,
    DestroyScope,
    Impose,
    Join,
    Leave,
    SetAdministration,
    SetAttributes,
    SetDelivery,
    SetInterface,
    SetMapping,
    SetPlacement,
    SetSelective,
    Unanchor,
)
from ._graph import Graph, client_node, is_client
from ._interface import Interface
from ._messages import Ask


class Decision(NamedTuple):
    """What an admission hook says."""

    allow: bool
    imposed: Interface | None = None
    """What the scope lets the member get and publish, if that is less than was asked for."""
    selective: Interface | None = None
    reason: str = ""


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
        if not ask.who or not _may(graph, ask.who, change):
            raise NotAllowed(
                f"'{ask.who}' may not {type(change).__name__} here: it is not an administrator of "
                f"{' and '.join(repr(scope) for scope in _guarded(change))}; ask one to do it, or to make you one"
            )


def _may(graph: Graph, who: str, change: AnyChange) -> bool:
    guarded = [_administers(graph, who, scope) for scope in _guarded(change)]
    if isinstance(change, Join) and is_client(change.member) and change.member != client_node(who):
        # A scope sees what its members publish: who makes others members must administer all that they are in.
        guarded += [_administers(graph, who, scope) for scope in graph.superscopes(change.member) or (ROOT_SCOPE,)]
    return any(guarded) if isinstance(change, Leave) else all(guarded)


def _guarded(change: AnyChange) -> list[str]:
    """The scopes whose administrators a change needs."""
    match change:
        case CreateScope():
            return [change.id.rpartition("/")[0]]
        case DestroyScope():
            return [change.id]
        case Join() | Leave() | SetMapping() | SetPlacement():
            return [change.scope] if is_client(change.member) else [change.member, change.scope]
        case SetSelective():
            return [change.scope] if is_client(change.member) else [change.member]
        case Impose() | SetInterface() | SetDelivery() | SetAttributes() | SetAdministration() | Anchor() | Unanchor():
            return [change.scope]


def _administers(graph: Graph, who: str, scope: str) -> bool:
    """Whether a client administers a scope, or the scope that it was made in."""
    while True:
        known = graph.scopes.get(scope)
        if known is not None and who in known.administrators:
            return True
        if scope == ROOT_SCOPE:
            return False
        scope = scope.rpartition("/")[0]


def admitted(graph: Graph, change: AnyChange, ask: Ask, hook: object) -> AnyChange:
    """The change as those who admit members grant it, or `NotAllowed`."""
    if not isinstance(change, Join | Impose | SetSelective | SetMapping | SetPlacement) or change.member is None:
        return change  # no edge comes to be or changes
    scope = graph.scopes.get(change.scope)
    if isinstance(change, Join) and scope is not None and scope.admission:
        presented = {credential(secret) for secret in ask.credentials}
        if presented.isdisjoint(scope.admission):
            raise NotAllowed(
                f"'{change.member}' is not admitted to '{change.scope}': none of the {len(ask.credentials)} "
                "credentials presented is one that this scope knows"
            )
    if hook is None:
        return change
    decision = hook(change.member, change.scope, ask.credentials, type(change).__name__)  # type: ignore[operator]
    if not decision.allow:
        reason = decision.reason or "the admission rule of this network refuses it"
        raise NotAllowed(f"'{change.member}' is not admitted to '{change.scope}': {reason}")
    if isinstance(change, Join):
        if decision.imposed is not None:
            change = msgspec.structs.replace(change, imposed=decision.imposed)
        if decision.selective is not None:
            change = msgspec.structs.replace(change, selective=decision.selective)
    elif isinstance(change, Impose) and decision.imposed is not None:
        change = msgspec.structs.replace(change, interface=decision.imposed)
    elif isinstance(change, SetSelective) and decision.selective is not None:
        change = msgspec.structs.replace(change, interface=decision.selective)
    return change


def shown_to(graph: Graph, client: str, administrator: bool) -> Graph:
    """The graph as far as a client may know it: hidden scopes are for their administrators and members."""
    if administrator:
        return graph
    mine = graph.above(client_node(client))
    for scope in list(graph.scopes.values()):
        if scope.hidden and scope.id not in mine and not _administers(graph, client, scope.id):
            for member in list(graph.members(scope.id)):
                graph = graph.without_edge(member, scope.id)
            for above in list(graph.superscopes(scope.id)):
                graph = graph.without_edge(scope.id, above)
            graph = graph.without_scope(scope.id)
    return graph
