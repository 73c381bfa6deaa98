"""Undoing: the changes that take back one transaction on the graph as it is now, or what stands in the way.

Theory of operation
-------------------
The transaction is made again on the graph that it was made on, and its changes are taken back one by one, the last one
first. Each takes back what it set to what was there before, and only if what it set is still there: what somebody has
changed since then is not overwritten, but named. So what comes out undoes this transaction and nothing else; if nothing
was changed since, it leads to the graph before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tidings.model import ScopeError

from ._applying import apply
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
    SetRoles,
    SetSelective,
    Unanchor,
    Undefine,
)
from ._graph import Graph, Membership, Scope, is_client
from ._messages import Transaction


def inverse(before: Graph, transaction: Transaction, now: Graph) -> tuple[AnyChange, ...]:
    """The changes that undo a transaction, made on the graph `before`, on the graph as it is `now`.

    `ScopeError` says what stands in the way: what it set has been changed since, or what it took away cannot come back.
    """
    graphs = [before]
    for change in transaction.changes:
        graphs.append(apply(graphs[-1], (change,)))
    undone: list[AnyChange] = []
    steps = [*zip(transaction.changes, graphs[:-1], graphs[1:], strict=True)]
    for change, old, new in reversed(steps):
        for opposite in _opposites(change, old, new, now):
            try:
                now = apply(now, (opposite,))
            except ScopeError as error:
                raise ScopeError(f"version {transaction.version} cannot be undone: {error}") from None
            undone.append(opposite)
    return tuple(undone)


def _opposites(change: AnyChange, old: Graph, new: Graph, now: Graph) -> Iterator[AnyChange]:
    """What takes one change back that made `new` of `old`; on the way, `now` is what the others have left."""
    match change:
        case CreateScope():
            _check_same(_plain_scope(new.scopes[change.id]), _plain_scope(_scope(now, change.id)), f"'{change.id}'")
            yield DestroyScope(change.id)
        case DestroyScope():
            yield from _created(old, now, change.id)
        case Join():
            yield from _left(change, old, new, now)
        case Leave():
            yield _joined(old.membership(change.member, change.scope))
            yield from _labelled(old, now, change.member, change.scope)
        case Define() | Redefine() | Undefine():
            yield from _defined(change, old, new, now)
        case SetOrigin():
            became, stands = new.scopes[change.scope], _scope(now, change.scope)
            _check_same((became.definition, became.labels), (stands.definition, stands.labels), f"'{change.scope}'")
            yield SetOrigin(change.scope, old.scopes[change.scope].definition, old.scopes[change.scope].labels)
        case Forget():
            raise ScopeError(
                f"'{change.client}' was a member of nothing before, and is in the root scope since then; "
                "make it a member of a scope instead"
            )
        case Impose() | SetSelective() | SetMapping() | SetPlacement() if change.member is not None:
            yield from _edge(change, old, new, now)
        case Anchor() | Unanchor():
            yield from _carried(change, old, now)
        case SetAttributes():
            yield from _attributes(change, old, new, now)
        case SetRoles():
            _check_same(new.roles(change.node), now.roles(change.node), f"the roles of '{change.node}'")
            yield SetRoles(change.node, old.roles(change.node))
        case SetInterface() | Impose() | SetDelivery() | SetAdministration():
            yield from _scope_fields(change, old, new, now)
        case _:
            raise ScopeError(f"{type(change).__name__} cannot be undone; make the opposite change by hand")


def _scope(graph: Graph, id: str) -> Scope:
    try:
        return graph.scopes[id]
    except KeyError:
        raise ScopeError(f"the scope '{id}' is gone since then, so nothing of it can be undone") from None


def _edge_of(graph: Graph, member: str, scope: str) -> Membership:
    try:
        return graph.superscopes(member)[scope]
    except KeyError:
        raise ScopeError(f"'{member}' has left '{scope}' since then; let it join again first") from None


def _check_same(then: object, now: object, what: str) -> None:
    if then != now:
        raise ScopeError(f"{what} changed again since then; undo that first, or change it by hand")


def _plain_scope(scope: Scope) -> Scope:
    return msgspec.structs.replace(scope, revised=0)


def _plain_edge(edge: Membership) -> Membership:
    return msgspec.structs.replace(edge, since=0)


def _created(old: Graph, now: Graph, id: str) -> Iterator[AnyChange]:
    """A scope as it was, and everything that ended with it."""
    scope = old.scopes[id]
    fields = {field: getattr(scope, field) for field in CreateScope.__struct_fields__}
    yield CreateScope(**fields)
    for broker in sorted(scope.brokers):
        yield Anchor(id, broker, stay=True)
    for edge in (*old.superscopes(id).values(), *old.members(id).values()):
        yield _joined(edge)
        yield from _labelled(old, now, edge.member, edge.scope)
    if scope.definition or scope.labels:
        yield SetOrigin(id, scope.definition, scope.labels)


def _labelled(old: Graph, now: Graph, *ends: str) -> Iterator[AnyChange]:
    """What the labels at the ends of an edge stood for that comes back."""
    for end, other in (ends, ends[::-1]):
        if end in old.scopes and end in now.scopes:
            had, has = old.scopes[end].labels, now.scopes[end].labels
            back = {label: (*has.get(label, ()), other) for label, nodes in had.items() if other in nodes}
            if back:
                yield SetOrigin(end, labels={**has, **{label: tuple(sorted({*all})) for label, all in back.items()}})


def _defined(change: Define | Redefine | Undefine, old: Graph, new: Graph, now: Graph) -> Iterator[AnyChange]:
    was, became, stands = (graph.definitions.get(change.name) for graph in (old, new, now))
    _check_same(became, stands, f"the definition '{change.name}'")
    if was is None:
        yield Undefine(change.name)
    else:
        yield Define(change.name, was) if stands is None else Redefine(change.name, was)


def _joined(edge: Membership) -> Join:
    return Join(**{field: getattr(edge, field) for field in Join.__struct_fields__})


def _left(change: Join, old: Graph, new: Graph, now: Graph) -> Iterator[AnyChange]:
    then = _plain_edge(new.membership(change.member, change.scope))
    _check_same(then, _plain_edge(_edge_of(now, change.member, change.scope)), _edge_name(change))
    yield Leave(change.member, change.scope)
    if is_client(change.member) and old.is_stranger(change.member) and len(now.superscopes(change.member)) == 1:
        yield Forget(change.member)


def _edge_name(change: Any) -> str:
    return f"the membership of '{change.member}' in {_place(change.scope)}"


def _place(scope: str) -> str:
    return f"'{scope}'" if scope else "the root scope"


_EDGE_FIELDS: dict[type, tuple[str, ...]] = {
    Impose: ("imposed",),
    SetSelective: ("selective",),
    SetMapping: ("mapping",),
    SetPlacement: ("placement", "gateway"),
}


def _edge(change: Any, old: Graph, new: Graph, now: Graph) -> Iterator[AnyChange]:
    was, became, stands = (_edge_of(graph, change.member, change.scope) for graph in (old, new, now))
    fields = _EDGE_FIELDS[type(change)]
    for field in fields:
        _check_same(getattr(became, field), getattr(stands, field), f"{_edge_name(change)}: its {field}")
    values = [getattr(was, field) for field in fields]
    if isinstance(change, Impose):
        yield Impose(change.scope, values[0], change.member)
    else:
        yield type(change)(change.member, change.scope, *values)


def _carried(change: Anchor | Unanchor, old: Graph, now: Graph) -> Iterator[AnyChange]:
    """Only what an administrator said about brokers is taken back; the rest follows from where clients are."""
    if not change.stay:
        return
    had, has = (change.broker in _scope(graph, change.scope).brokers for graph in (old, now))
    if had is not has:
        yield (Anchor if had else Unanchor)(change.scope, change.broker, stay=True)


def _attributes(change: SetAttributes, old: Graph, new: Graph, now: Graph) -> Iterator[AnyChange]:
    was, became, stands = (graph.attributes(change.node) for graph in (old, new, now))
    for name in change.attributes:
        _check_same(became.get(name), stands.get(name), f"the attribute '{name}' of '{change.node or 'root'}'")
    yield SetAttributes(change.node, {name: was.get(name) for name in change.attributes})


_SCOPE_FIELDS: dict[type, dict[str, str]] = {
    SetInterface: {"interface": "interface"},
    Impose: {"imposed": "interface"},
    SetDelivery: {"duplicates": "duplicates", "ordered": "ordered"},
    SetAdministration: {"administrators": "administrators", "admission": "admission", "trusted": "trusted"},
}
"""By change: which field of a scope which field of the change sets."""


def _scope_fields(change: Any, old: Graph, new: Graph, now: Graph) -> Iterator[AnyChange]:
    was, became, stands = (_scope(graph, change.scope) for graph in (old, new, now))
    values = {}
    for field, said in _SCOPE_FIELDS[type(change)].items():
        if getattr(change, said) is not None:
            _check_same(getattr(became, field), getattr(stands, field), f"the {field} of {_place(change.scope)}")
            values[said] = getattr(was, field)
    yield type(change)(change.scope, **values)
