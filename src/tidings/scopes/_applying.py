"""How one version of a scope graph becomes the next. All of a transaction happens, or none of it.

What is wrong with a change is said before anything has happened, with the remedy.
"""

from __future__ import annotations

import msgspec

from tidings.model import ROOT_SCOPE, ScopeError

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
from ._graph import CLIENT, Graph, Membership, Placement, Scope, is_client
from ._interface import Interface

MAX_SCOPES = 10_000
"""The most scopes of one graph."""
MAX_ID = 256
"""The most characters of the id of a scope."""
MAX_SUPERSCOPES = 256
"""The most superscopes of one member."""
MAX_PATHS = 1_000
"""The most ways up from one member: each costs a copy of what it publishes."""
MAX_DEPTH = 100
"""The most scopes on one way up: a notification carries its way with it."""
MAX_ATTRIBUTES = 16_384
"""The most characters of a scope's attributes."""


def apply(graph: Graph, changes: tuple[AnyChange, ...]) -> Graph:
    """The next version, or `ScopeError`, which says which change cannot be."""
    version = graph.version + 1
    for change in changes:
        graph = _changed(graph, change, version)
    return graph.numbered(version)


def _changed(graph: Graph, change: AnyChange, version: int) -> Graph:
    match change:
        case CreateScope():
            return _create(graph, change, version)
        case DestroyScope():
            return _destroy(graph, change)
        case Join():
            return _join(graph, change, version)
        case Leave():
            graph.membership(change.member, change.scope)
            return graph.without_edge(change.member, change.scope)
        case SetDelivery():
            scope = graph.scope(change.scope)
            duplicates = scope.duplicates if change.duplicates is None else change.duplicates
            ordered = scope.ordered if change.ordered is None else change.ordered
            return graph.with_scope(
                msgspec.structs.replace(scope, duplicates=duplicates, ordered=ordered, revised=version)
            )
        case SetAttributes() | SetAdministration() | SetInterface():
            return graph.with_scope(_described(graph.scope(change.scope), change, version))
        case Impose(member=None):
            scope = graph.scope(change.scope)
            return graph.with_scope(msgspec.structs.replace(scope, imposed=change.interface, revised=version))
        case Anchor(stay=True) | Unanchor(stay=True):
            return graph.with_scope(_extended(graph.scope(change.scope), change))
        case Anchor():
            scope = graph.scope(change.scope)
            return graph.with_anchors(scope.id, graph.anchors.get(scope.id, frozenset()) | {change.broker})
        case Unanchor():
            return graph.with_anchors(change.scope, graph.anchors.get(change.scope, frozenset()) - {change.broker})
        case Impose() | SetSelective() | SetMapping() | SetPlacement():
            return graph.with_edge(_edge(graph, change, version))


def _create(graph: Graph, change: CreateScope, version: int) -> Graph:
    id = change.id
    if id in graph.scopes:
        raise ScopeError(f"a scope '{id}' exists already; choose another name, or change that one")
    if not id or len(id) > MAX_ID or id.startswith(CLIENT) or "" in id.split("/") or not id.isprintable():
        raise ScopeError(
            f"'{id:.60}' cannot name a scope: up to {MAX_ID} printable characters, names joined by '/', "
            f"none of them empty, not beginning with '{CLIENT}'"
        )
    if len(graph.scopes) >= MAX_SCOPES:
        raise ScopeError(f"there are {MAX_SCOPES:,} scopes already; destroy some first")
    _check_attributes(change.attributes)
    scope = Scope(
        id,
        change.interface,
        change.imposed,
        change.abstract,
        dict(change.attributes),
        change.administrators,
        change.hidden,
        change.trusted,
        change.admission,
        version,
        duplicates=change.duplicates,
        ordered=change.ordered,
    )
    return graph.with_scope(scope)


def _check_attributes(attributes: dict[str, str]) -> None:
    if sum(len(name) + len(value) for name, value in attributes.items()) > MAX_ATTRIBUTES:
        raise ScopeError(f"the attributes of a scope have at most {MAX_ATTRIBUTES:,} characters together")


def _destroy(graph: Graph, change: DestroyScope) -> Graph:
    id = graph.scope(change.id).id
    if id == ROOT_SCOPE:
        raise ScopeError("the root scope is always there; destroy the scopes in it instead")
    edges = [(id, scope) for scope in graph.superscopes(id)] + [(member, id) for member in graph.members(id)]
    if edges and not change.cascade:
        raise ScopeError(
            f"scope '{id}' has {len(graph.members(id))} members and {len(graph.superscopes(id))} superscopes; "
            "let them leave first, or destroy it with cascade"
        )
    for member, scope in edges:
        graph = graph.without_edge(member, scope)
    return graph.without_scope(id)


def _join(graph: Graph, change: Join, version: int) -> Graph:
    member, scope = change.member, graph.scope(change.scope).id
    if not is_client(member):
        graph.scope(member)
        if member == ROOT_SCOPE:
            raise ScopeError("the root scope is a member of nothing; let the other scope join the root instead")
        if scope in graph.below(member):
            way = " in ".join(repr(one) for one in _way(graph, scope, member))
            raise ScopeError(f"'{member}' cannot join '{scope}', which is inside it already: {way}; leave one of these")
    elif len(member) == len(CLIENT):
        raise ScopeError(f"'{member}' names no client; write '{CLIENT}' and the client's name")
    if scope in graph.superscopes(member):
        raise ScopeError(f"'{member}' is a member of '{scope}' already; change the edge instead")
    if len(graph.superscopes(member)) >= MAX_SUPERSCOPES:
        raise ScopeError(f"'{member}' has {MAX_SUPERSCOPES} superscopes already; leave one first")
    edge = Membership(
        member,
        scope,
        change.selective,
        change.imposed,
        change.mapping,
        change.placement,
        change.gateway,
        version,
    )
    _check_placement(edge)
    joined = graph.with_edge(edge)
    _check_ways(joined, edge)
    return joined


def _way(graph: Graph, start: str, end: str) -> list[str]:
    """The nodes of one way up."""
    if start == end:
        return [start]
    return next([start, *_way(graph, scope, end)] for scope in graph.superscopes(start) if end in graph.above(scope))


def _check_ways(graph: Graph, edge: Membership) -> None:
    """Refuse an edge that makes the ways up from anywhere too many or too long."""
    known: dict[str, tuple[int, int]] = {}
    # A client has nobody below it, and asking would make the graph list all members of everything.
    for node in [edge.member] if is_client(edge.member) else graph.below(edge.member):
        ways, depth = _ways(graph, node, known)
        if ways > MAX_PATHS:
            raise ScopeError(
                f"if '{edge.member}' joins '{edge.scope}', '{node}' has {ways:,} paths upwards, at most "
                f"{MAX_PATHS:,} are allowed; use fewer superscopes at each level"
            )
        if depth > MAX_DEPTH:
            raise ScopeError(
                f"if '{edge.member}' joins '{edge.scope}', '{node}' is inside {depth} scopes, at most "
                f"{MAX_DEPTH} are allowed; use fewer levels"
            )


def _ways(graph: Graph, node: str, known: dict[str, tuple[int, int]]) -> tuple[int, int]:
    """How many ways up there are from a node, and how many scopes are on the longest. Abstract scopes count, too."""
    found = known.get(node)
    if found is None:
        ways, depth = 1, 0
        for scope in graph.superscopes(node):
            more, above = _ways(graph, scope, known)
            ways, depth = ways + more, max(depth, above + 1)
        found = known[node] = ways, depth
    return found


def _extended(scope: Scope, change: Anchor | Unanchor) -> Scope:
    if scope.id == ROOT_SCOPE:
        raise ScopeError("every broker carries the root scope; extend a scope in it instead")
    changed = {change.broker}
    brokers = scope.brokers | changed if isinstance(change, Anchor) else scope.brokers - changed
    return msgspec.structs.replace(scope, brokers=brokers)


def _check_placement(edge: Membership) -> None:
    if edge.placement is Placement.GATEWAY and not edge.gateway:
        raise ScopeError(f"'{edge.member}' in '{edge.scope}' crosses at a gateway: name the broker that is the gateway")
    if edge.placement is not Placement.GATEWAY and edge.gateway:
        raise ScopeError(f"'{edge.gateway}' is a gateway only if the placement is 'gateway'; set both, or neither")
    if is_client(edge.member) and edge.placement is not Placement.ONCE:
        raise ScopeError(
            f"'{edge.member}' is a client: what it sees crosses at its own broker; leave the placement out"
        )


def _described(scope: Scope, change: SetAttributes | SetAdministration | SetInterface, version: int) -> Scope:
    replace = msgspec.structs.replace
    if isinstance(change, SetInterface):
        if scope.id == ROOT_SCOPE:
            raise ScopeError("the root scope has no superscope, so nothing passes its interface; impose one instead")
        return replace(scope, interface=change.interface, revised=version)
    if isinstance(change, SetAdministration):
        administrators = scope.administrators if change.administrators is None else change.administrators
        admission = scope.admission if change.admission is None else change.admission
        trusted = scope.trusted if change.trusted is None else change.trusted
        return replace(scope, administrators=administrators, admission=admission, trusted=trusted)
    merged = {**scope.attributes, **change.attributes}
    attributes = {name: value for name, value in merged.items() if value is not None}
    _check_attributes(attributes)
    return replace(scope, attributes=attributes)


def _edge(graph: Graph, change: Impose | SetSelective | SetMapping | SetPlacement, version: int) -> Membership:
    assert change.member is not None
    edge = graph.membership(change.member, change.scope)
    replace = msgspec.structs.replace
    match change:
        case Impose():
            return replace(edge, imposed=change.interface, since=version)
        case SetSelective():
            return replace(edge, selective=change.interface, since=version)
        case SetMapping():
            return replace(edge, mapping=change.mapping, since=version)
        case SetPlacement():
            moved = replace(edge, placement=change.placement, gateway=change.gateway, since=version)
            _check_placement(moved)
            return moved


def check_places(changes: tuple[AnyChange, ...]) -> None:
    """Raise `ScopeError` for an interface that speaks of `myloc`: a border has no place, so nothing would ever pass."""
    for change in changes:
        for field in msgspec.structs.fields(change):
            value = getattr(change, field.name)
            if isinstance(value, Interface):
                for side in (value.input, value.output):
                    if side.has_marker:
                        raise ScopeError(f"'{side}' uses myloc, but a border has no place; name the place")


def check_turn(old: Graph, new: Graph) -> None:
    """Raise `ScopeError` if a change turns an edge round: while it takes effect, both graphs count, and must agree."""
    edges = (edge for scope in new.scopes for edge in new.superscopes(scope).values())
    for edge in edges:
        if edge.scope in old.superscopes(edge.member):
            continue
        if edge.scope in old.scopes and edge.member in old.scopes and edge.scope in old.below(edge.member):
            raise ScopeError(
                f"'{edge.member}' cannot join '{edge.scope}' in the same change in which '{edge.scope}' leaves it; "
                "make it two changes, one after the other"
            )
