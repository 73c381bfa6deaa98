"""The difference of two graphs as changes: what makes the one of the other, and nothing else.

A script is worked out as the graph that it asks for, so that a file which is applied twice changes nothing the second
time, whatever it says in between; what undoes a version is worked out as the graph without it. Leaving comes before
joining: so no cycle is closed on the way, and no limit passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidings.model import ROOT_SCOPE, ScopeError

from ._attributes import attributes_of
from ._changes import (
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
from ._graph import Graph, Membership, Scope, is_client
from .policies._policy import PolicyKind, PolicyUse


def difference(before: Graph, after: Graph) -> tuple[AnyChange, ...]:
    """The changes that make `after` of `before`, where brokers anchor a scope aside; () if there are none."""
    return tuple(_changes(before, after))


def _changes(before: Graph, after: Graph) -> Iterator[AnyChange]:
    yield from _defined(before, after)
    ended = [id for id in before.scopes if id not in after.scopes]
    for edge in before.memberships():
        kept = after.superscopes(edge.member).get(edge.scope)
        if kept is None:
            yield Leave(edge.member, edge.scope)
    for client in before.clients_known():
        if after.is_stranger(client):
            yield Forget(client)
    for id in ended:
        yield DestroyScope(id)
    for scope in after.scopes.values():
        known = before.scopes.get(scope.id)
        yield from _created(scope) if known is None else _changed(known, scope)
    for node in sorted({*before.clients, *after.clients}):
        yield from _said(before, after, node)
    for edge in after.memberships():
        old = before.superscopes(edge.member).get(edge.scope)
        yield from [_joined(edge)] if old is None else _edge(old, edge)
    for client in sorted(set(after.isolated) - set(before.isolated)):
        if not before.superscopes(client):  # it is known to nobody yet, and to be a member of nothing
            yield Join(client, ROOT_SCOPE)
            yield Leave(client, ROOT_SCOPE)
    for scope in after.scopes.values():
        yield from _origin(before, scope)
    for scope in after.scopes.values():  # a rule may speak of what the other changes make
        if before.scopes.get(scope.id, Scope(scope.id)).rules != scope.rules:
            yield SetRules(scope.id, scope.rules)


def _defined(before: Graph, after: Graph) -> Iterator[AnyChange]:
    for name in before.definitions:
        if name not in after.definitions:
            yield Undefine(name)
    for name, text in after.definitions.items():
        known = before.definitions.get(name)
        if known is None:
            yield Define(name, text)
        elif known != text:
            yield Redefine(name, text)


def _created(scope: Scope) -> Iterator[AnyChange]:
    yield CreateScope(
        scope.id,
        scope.interface,
        scope.imposed,
        scope.abstract,
        scope.attributes,
        scope.administrators,
        scope.hidden,
        scope.trusted,
        scope.admission,
        scope.duplicates,
        scope.ordered,
        scope.roles,
    )
    yield from _policies(scope.id, {}, scope.policies)
    yield from _extended(frozenset(), scope)


def _policies(node: str, old: Mapping[str, PolicyUse], new: Mapping[str, PolicyUse]) -> Iterator[AnyChange]:
    for kind in PolicyKind:
        if old.get(kind.value) != new.get(kind.value):
            yield SetPolicy(node, kind, new.get(kind.value))


def _extended(brokers: frozenset[str], scope: Scope) -> Iterator[AnyChange]:
    for broker in sorted(scope.brokers - brokers):
        yield Anchor(scope.id, broker, stay=True)
    for broker in sorted(brokers - scope.brokers):
        yield Unanchor(scope.id, broker, stay=True)


def _changed(old: Scope, new: Scope) -> Iterator[AnyChange]:
    for word in ("abstract", "hidden"):
        if getattr(old, word) != getattr(new, word):
            raise ScopeError(f"'{new.id}' cannot become {word} or cease to be; destroy it and deploy it anew")
    if old.interface != new.interface:
        yield SetInterface(new.id, new.interface)
    if old.imposed != new.imposed:
        yield Impose(new.id, new.imposed)
    attributes = _differing(old, new)
    if attributes:
        yield SetAttributes(new.id, attributes)
    if old.roles != new.roles:
        yield SetRoles(new.id, new.roles)
    rights = [
        None if getattr(old, word) == getattr(new, word) else getattr(new, word)
        for word in ("administrators", "admission", "trusted")
    ]
    if any(right is not None for right in rights):
        yield SetAdministration(new.id, *rights)
    if (old.duplicates, old.ordered) != (new.duplicates, new.ordered):
        yield SetDelivery(new.id, new.duplicates, new.ordered)
    yield from _policies(new.id, old.policies, new.policies)
    yield from _extended(old.brokers, new)


def _origin(before: Graph, scope: Scope) -> Iterator[AnyChange]:
    """Where a scope comes from. It is said last: labels stand for members that are there."""
    old = before.scopes.get(scope.id, Scope(scope.id))
    if (old.definition, old.labels) != (scope.definition, scope.labels):
        yield SetOrigin(scope.id, scope.definition, scope.labels)


def _differing(old: object, new: object) -> dict[str, object]:
    """The attributes that differ, with None for those that are no more."""
    before, after = attributes_of(old.attributes), attributes_of(new.attributes)  # type: ignore[attr-defined]
    gone: dict[str, object] = {name: None for name in before if name not in after}
    changed = {
        name: value
        for name, value in after.items()
        if name not in before or attributes_of({"x": before[name]}) != attributes_of({"x": value})
    }
    return {**gone, **changed}


def _said(before: Graph, after: Graph, node: str) -> Iterator[AnyChange]:
    attributes = _differing(before.described(node), after.described(node))
    if attributes:
        yield SetAttributes(node, attributes)
    if before.roles(node) != after.roles(node):
        yield SetRoles(node, after.roles(node))
    if before.publishing(node) != after.publishing(node):
        yield SetPolicy(node, PolicyKind.PUBLISHING, after.publishing(node))


def _joined(edge: Membership) -> Join:
    return Join(edge.member, edge.scope, edge.selective, edge.imposed, edge.mapping, edge.placement, edge.gateway)


def _edge(old: Membership, new: Membership) -> Iterator[AnyChange]:
    member, scope = new.member, new.scope
    if old.selective != new.selective:
        yield SetSelective(member, scope, new.selective)
    if old.imposed != new.imposed:
        yield Impose(scope, new.imposed, member)
    if old.mapping != new.mapping:
        yield SetMapping(member, scope, new.mapping)
    if not is_client(member) and (old.placement, old.gateway) != (new.placement, new.gateway):
        yield SetPlacement(member, scope, new.placement, new.gateway)
