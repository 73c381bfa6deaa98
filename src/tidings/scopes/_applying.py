"""How one version of a scope graph becomes the next. All of a transaction happens, or none of it.

What is wrong with a change is said before anything has happened, with the remedy.
"""

from __future__ import annotations

import msgspec

from tidings.model import ROOT_SCOPE, AlreadyDefined, ScopeError, UnknownName

from ._attributes import attributes_of, check_attributes
from ._borders import check_border, check_gateways
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
from ._draft import Draft
from ._graph import CLIENT, NOTHING_SAID, Graph, Membership, Placement, Scope, is_client
from ._interface import Interface
from ._rules import check_rules
from ._sessions import check_session
from .policies._policy import PolicyKind, PolicyUse
from .policies._registry import check_use, compares

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
MAX_CLIENTS = 100_000
"""The most clients about which something is said."""
MAX_DEFINITIONS = 10_000
"""The most definitions of one graph."""
MAX_DEFINITION = 8_192
"""The most characters of one definition: reading them takes about 20 ms."""
MAX_DEFINED = 1_000
"""The most definitions that one transaction makes or changes."""
MAX_DEFINED_TEXT = 262_144
"""The most characters of them together."""
MAX_CHANGES = 10_000
"""The most changes of one transaction. A client that leaves and is forgotten counts once, so that as many joins as were
made at once can be undone at once."""
MAX_LABELLED = 10_000
"""The most components that the labels of one scope stand for, together."""
MAX_ROLES = 64
"""The most roles of one component."""
MAX_ROLE = 256
"""The most characters of a role."""


def apply(graph: Graph, changes: tuple[AnyChange, ...]) -> Graph:
    """The next version, or `ScopeError`, which says which change cannot be."""
    version = graph.version + 1
    if len(changes) > 1:
        graph = Draft(graph)
    for change in changes:
        graph = _changed(graph, change, version)
    check_gateways(graph, changes)
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
            return _unlabelled(graph.without_edge(change.member, change.scope), change.member, change.scope)
        case Forget():
            return _forget(graph, change.client)
        case SetDelivery():
            scope = graph.scope(change.scope)
            duplicates = scope.duplicates if change.duplicates is None else change.duplicates
            ordered = scope.ordered if change.ordered is None else change.ordered
            return graph.with_scope(
                msgspec.structs.replace(scope, duplicates=duplicates, ordered=ordered, revised=version)
            )
        case SetAttributes() | SetRoles():
            return _said(graph, change)
        case SetPolicy():
            return _policed(graph, change, version)
        case SetRules():
            scope = graph.scope(change.scope)
            check_rules(scope.id, change.rules)
            return graph.with_scope(msgspec.structs.replace(scope, rules=change.rules))
        case SetOrigin():
            return graph.with_scope(_deployed(graph, graph.scope(change.scope), change))
        case Define() | Redefine() | Undefine():
            return graph.with_definitions(_defined(graph, change))
        case SetAdministration() | SetInterface():
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
    check_attributes(change.attributes)
    _check_roles(id, change.roles)
    attributes = attributes_of({}).merged(change.attributes)
    check_session(graph, id, attributes)
    check_border(id, attributes)
    scope = Scope(
        id,
        change.interface,
        change.imposed,
        change.abstract,
        attributes,
        change.administrators,
        change.hidden,
        change.trusted,
        change.admission,
        version,
        duplicates=change.duplicates,
        ordered=change.ordered,
        roles=change.roles,
    )
    return graph.with_scope(scope)


def _deployed(graph: Graph, scope: Scope, change: SetOrigin) -> Scope:
    """A scope with what it was deployed from; labels stand for members and superscopes that it has."""
    definition = scope.definition if change.definition is None else change.definition
    labels = scope.labels if change.labels is None else change.labels
    if len(labels) + sum(map(len, labels.values())) > MAX_LABELLED:
        raise ScopeError(
            f"the labels of '{scope.id}' stand for more than {MAX_LABELLED:,} components; label fewer selections"
        )
    said = msgspec.structs.replace(scope, definition=definition, labels=labels)
    return msgspec.structs.replace(said, labels=kept_labels(graph, said))


def _unlabelled(graph: Graph, *ends: str) -> Graph:
    """The graph after an edge has gone: no label stands for its other end any longer."""
    for end in ends:
        scope = graph.scopes.get(end)
        if scope is not None and scope.labels:
            graph = graph.with_scope(msgspec.structs.replace(scope, labels=kept_labels(graph, scope)))
    return graph


def kept_labels(graph: Graph, scope: Scope) -> dict[str, tuple[str, ...]]:
    """The labels of a scope, as far as they stand for members or superscopes that it has."""
    others = graph.members(scope.id).keys() | graph.superscopes(scope.id).keys()
    kept = {label: tuple(sorted(others & {*nodes})) for label, nodes in scope.labels.items()}
    return {label: nodes for label, nodes in kept.items() if nodes}


def _defined(graph: Graph, change: Define | Redefine | Undefine) -> dict[str, str]:
    name = change.name
    if isinstance(change, Define) and name in graph.definitions:
        raise AlreadyDefined(f"a definition '{name}' exists already; choose another name, or ALTER SCOPE DEFINITION it")
    if not isinstance(change, Define) and name not in graph.definitions:
        raise UnknownName(f"there is no definition '{name}'; define it first")
    others = {**graph.definitions}
    others.pop(name, None)
    if isinstance(change, Undefine):
        return others
    if not name or len(name) > MAX_ID or name.startswith(CLIENT) or not name.isprintable():
        raise ScopeError(
            f"'{name:.60}' cannot name a definition: up to {MAX_ID} printable characters, without @; choose another"
        )
    _check_length(change)
    if len(others) >= MAX_DEFINITIONS:
        raise ScopeError(f"there are {MAX_DEFINITIONS:,} definitions already; take some back first")
    return {**others, name: change.text}


def _check_length(change: Define | Redefine) -> None:
    if len(change.text) > MAX_DEFINITION:
        raise ScopeError(
            f"the definition '{change.name:.60}' has {len(change.text):,} characters, at most {MAX_DEFINITION:,} are "
            "allowed; divide it"
        )


def _said(graph: Graph, change: SetAttributes | SetRoles) -> Graph:
    """The graph with other attributes or roles of a scope or client.

    Nobody sees anything else by it, unless a session begins or ends, or a border is guarded.
    """
    known = graph.described(change.node)
    if isinstance(change, SetRoles):
        _check_roles(change.node, change.roles)
        said = msgspec.structs.replace(known, roles=change.roles)
    else:
        attributes = attributes_of(known.attributes).merged(change.attributes)
        check_attributes(attributes)
        if isinstance(known, Scope):
            check_session(graph, change.node, attributes)
            check_border(change.node, attributes)
        said = msgspec.structs.replace(known, attributes=attributes)
    if isinstance(said, Scope):
        return graph.with_scope(said)
    _check_client(change.node)
    if change.node not in graph.clients and len(graph.clients) >= MAX_CLIENTS:
        raise ScopeError(f"something is said about {MAX_CLIENTS:,} clients already; take it back for some of them")
    return graph.with_client(change.node, said)


def _check_comparable(graph: Graph, scope: str, policy: PolicyUse) -> None:
    """Raise `ScopeError` if there is a subscope among those that a policy compares."""
    for member in graph.members(scope):
        if not is_client(member):
            raise ScopeError(
                f"'{scope}' cannot have the policy '{policy.name}' and the subscope '{member}': it chooses among "
                "clients; let the subscope leave, or make its clients members"
            )


def _policed(graph: Graph, change: SetPolicy, version: int) -> Graph:
    """The graph with another policy of a component, or with one less."""
    node, kind, policy = change.node, change.kind, change.policy
    client = is_client(node)
    if client:
        _check_client(node)
        if kind is not PolicyKind.PUBLISHING:
            raise ScopeError(f"'{node}' is a client, and has no members; give the {kind.value} policy to a scope")
    else:
        scope = graph.scope(node)
    if policy is not None:
        check_attributes(policy.parameters)
        check_use(policy, kind, f"'{node}'" if node else "the root scope", node)
    if client:
        known = graph.clients.get(node, NOTHING_SAID)
        if policy is not None and node not in graph.clients and len(graph.clients) >= MAX_CLIENTS:
            raise ScopeError(f"something is said about {MAX_CLIENTS:,} clients already; take it back for some of them")
        return graph.with_client(node, msgspec.structs.replace(known, publishing=policy))
    policies = {known: use for known, use in scope.policies.items() if known != kind.value}
    if policy is not None and compares(policy):
        if not node:
            raise ScopeError(
                f"the root scope cannot have the policy '{policy.name}', because everybody is its member; "
                "make a scope for those who share the work"
            )
        _check_comparable(graph, node, policy)
    if policy is not None:
        policies[kind.value] = policy
    return graph.with_scope(msgspec.structs.replace(scope, policies=policies, revised=version))


def _check_roles(node: str, roles: tuple[str, ...]) -> None:
    if len(roles) > MAX_ROLES or len({*roles}) < len(roles):
        raise ScopeError(f"'{node}' has at most {MAX_ROLES} roles, each once; these are {len(roles)}: leave some out")
    for role in roles:
        if not role or len(role) > MAX_ROLE or not role.isprintable():
            raise ScopeError(f"'{role:.60}' cannot be a role of '{node}': use up to {MAX_ROLE} printable characters")


def _check_client(node: str) -> None:
    if len(node) == len(CLIENT):
        raise ScopeError(f"'{node}' names no client; write '{CLIENT}' and the client's name")


def _destroy(graph: Graph, change: DestroyScope) -> Graph:
    id = graph.scope(change.id).id
    if id == ROOT_SCOPE:
        raise ScopeError("the root scope is always there; destroy the scopes in it instead")
    edges = [(id, scope) for scope in graph.superscopes(id)] + [(member, id) for member in graph.members(id)]
    if edges and not change.cascade:
        counts = ((len(graph.members(id)), "member"), (len(graph.superscopes(id)), "superscope"))
        has = " and ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts if count)
        raise ScopeError(
            f"scope '{id}' has {has}; end these memberships first, or destroy it with cascade=True (on the command "
            "line: --cascade)"
        )
    for member, scope in edges:
        graph = _unlabelled(graph.without_edge(member, scope), member, scope)
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
        for policy in graph.scopes[scope].policies.values():
            if compares(policy):
                raise ScopeError(
                    f"'{member}' cannot join '{scope}', whose policy '{policy.name}' chooses among clients; make its "
                    "clients members, or take the policy away"
                )
    else:
        _check_client(member)
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


def _forget(graph: Graph, client: str) -> Graph:
    if graph.superscopes(client):
        raise ScopeError(f"'{client}' is a member of {len(graph.superscopes(client))} scopes; let it leave them first")
    if not is_client(client) or graph.is_stranger(client):
        raise ScopeError(f"'{client}' is no client that has left its last scope; there is nothing to forget")
    return graph.without_client(client)


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


def _described(scope: Scope, change: SetAdministration | SetInterface, version: int) -> Scope:
    replace = msgspec.structs.replace
    if isinstance(change, SetInterface):
        if scope.id == ROOT_SCOPE:
            raise ScopeError("the root scope has no superscope, so nothing passes its interface; impose one instead")
        return replace(scope, interface=change.interface, revised=version)
    administrators = scope.administrators if change.administrators is None else change.administrators
    admission = scope.admission if change.admission is None else change.admission
    trusted = scope.trusted if change.trusted is None else change.trusted
    return replace(scope, administrators=administrators, admission=admission, trusted=trusted)


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
        for field in change.__struct_fields__:
            value = getattr(change, field)
            if isinstance(value, Interface):
                for side in (value.input, value.output):
                    if side.has_marker:
                        raise ScopeError(f"'{side}' uses myloc, but a border has no place; name the place")


def check_size(changes: tuple[AnyChange, ...]) -> None:
    """Raise `ScopeError` for a transaction that takes too long to check. Nothing in it is read for that."""
    left = {change.member for change in changes if isinstance(change, Leave)}
    forgotten = sum(isinstance(change, Forget) and change.client in left for change in changes)
    if (count := len(changes) - forgotten) > MAX_CHANGES:
        raise ScopeError(f"{count:,} changes at once, at most {MAX_CHANGES:,} are allowed; make them in parts")
    defined = [change for change in changes if isinstance(change, Define | Redefine)]
    for change in defined:
        _check_length(change)
    size = sum(len(change.text) for change in defined)
    if len(defined) > MAX_DEFINED or size > MAX_DEFINED_TEXT:
        raise ScopeError(
            f"{len(defined):,} definitions of {size:,} characters at once, at most {MAX_DEFINED:,} of "
            f"{MAX_DEFINED_TEXT:,} are allowed; make them in parts"
        )


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
