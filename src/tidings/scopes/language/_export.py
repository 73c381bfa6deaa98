"""Export: a graph as a script that gives the same graph.

Superscopes come before their members. An edge between scopes stands with the member, which has its selective interface
and its mapping; what the scope imposes on it, or calls it, follows in an ALTER. Filters are written as filters.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from tidings.model import EVERYTHING, NOTHING, ROOT_SCOPE, Filter, Value
from tidings.scopes._graph import CLIENT, Client, Graph, Membership, Placement, Scope, is_client
from tidings.scopes._interface import CLOSED, OPEN, Interface
from tidings.scopes.policies._policy import DELIVERY, INTERNAL, PUBLISHING, PolicyUse

from ._definitions import definition_of
from ._filters import FILTER_MODEL
from ._maps import clauses_of
from ._printing import COMPONENT, NAME, print_script
from ._rules import deploys_of, update_of
from ._syntax import (
    ROOT,
    AlterScope,
    AnyPath,
    AnyRef,
    Block,
    Body,
    Cardinality,
    Change,
    DefineScope,
    DeployScope,
    Everything,
    Feature,
    FilterText,
    Id,
    Interfaces,
    Kind,
    Name,
    Node,
    Nothing,
    Path,
    PolicyClause,
    PolicyKind,
    Property,
    Quoted,
    Roles,
    Script,
    Selection,
    Setting,
    Settings,
    Side,
    Statement,
    Types,
    Update,
)
from ._terms import SYSTEM
from ._tokens import KEYWORDS, MAX_TEXT

MAX_NAMED = 1_000
"""The most components that are named in one selection, so that a statement is shorter than a file may be."""


def export(graph: Graph) -> str:
    """The text that gives this graph: definitions, scopes, memberships, and what is said about clients.

    Which brokers carry a scope for members of their own is no part of it: that follows from where these are. The text
    of a large graph may be longer than one file may be; see `export_files`.
    """
    return _note(graph) + print_script(_script(graph))


def export_files(graph: Graph, most: int = MAX_TEXT) -> list[str]:
    """The same in texts of at most so many characters, in their order; together they give this graph."""
    note = _note(graph)
    queue = [_script(graph).statements]
    texts: list[str] = []
    while queue:
        statements = queue.pop()
        text = note + print_script(Script(statements))
        if len(text) <= most or len(statements) == 1:
            texts.append(text)
        else:
            half = len(statements) // 2
            queue += [statements[half:], statements[:half]]
    return texts


_PART = """\
-- This is the part of the graph that its exporter may see, and not all of it: hidden scopes of others, their
-- definitions, and clients that are members there only, are missing.
"""


def _note(graph: Graph) -> str:
    return _PART if graph.partial else ""


def _script(graph: Graph) -> Script:
    named = any(FILTER_MODEL in scope.attributes for scope in graph.scopes.values())
    short = _short_names(graph)

    def written(node: _Node) -> _Node:
        """The same with types in place of filters that ask for nothing else, and names that mean one thing only."""
        if isinstance(node, FilterText):
            names = () if named else _types(node.text)
            return Types(names) if names else node  # type: ignore[return-value]
        if isinstance(node, Name):
            return Id(node.name) if node.name in short else node  # type: ignore[return-value]
        if isinstance(node, tuple):
            return tuple(map(written, node))  # type: ignore[return-value]
        if isinstance(node, Update | DefineScope) or (isinstance(node, DeployScope) and node.definition is not None):
            return node  # it is kept as it was written
        if isinstance(node, Node):
            changed = {field.name: written(getattr(node, field.name)) for field in dataclasses.fields(node)}
            return dataclasses.replace(node, **changed)
        return node

    return written(Script(tuple(_statements(graph))))


def _short_names(graph: Graph) -> set[str]:
    """What scopes and clients may be called where they are near, besides their ids; `root` is never meant so."""
    ends = {id[at + 1 :] for id in graph.scopes for at, letter in enumerate(id) if letter == "/"}
    clients = {edge.member[len(CLIENT) :] for edge in graph.memberships() if is_client(edge.member)}
    return (ends | clients) - {ROOT}


def _types(text: str) -> tuple[str, ...]:
    """The types that a filter asks for, if it asks for nothing else and they are plain names."""
    names = tuple(_TYPE.findall(text)) if _TYPES.fullmatch(text) else ()
    return names if all(NAME.fullmatch(name) and name not in KEYWORDS for name in names) else ()


_TYPE = re.compile(r"type = '([\w-]+)'")
_TYPES = re.compile(r"type = '[\w-]+'(?: OR type = '[\w-]+')*")
_Node = TypeVar("_Node")


def _statements(graph: Graph) -> Iterator[Statement]:
    for _, text in sorted(graph.definitions.items()):
        yield definition_of(text)
    later: list[Statement] = []
    for id in _ordered(graph):
        yield _deployed(graph, graph.scopes[id], later)
    yield from _root(graph)
    yield from later
    for node in sorted({*graph.clients, *graph.isolated}):
        features = _described(graph.described(node))
        if features:
            yield AlterScope(ref(node), Change.REPLACE, (), features)
        if node in graph.isolated:
            nothing = Selection((Name(ROOT),), qualifier=Cardinality(0, 0), superscope=True)
            yield AlterScope(ref(node), Change.REPLACE, (nothing,), note="a member of nothing")


def _ordered(graph: Graph) -> list[str]:
    """The scopes, each after its superscopes, and by id."""
    done: dict[str, None] = {ROOT_SCOPE: None}

    def place(id: str) -> None:
        for above in sorted(graph.superscopes(id)):
            if above not in done:
                place(above)
        done[id] = None

    for id in sorted(graph.scopes):
        if id not in done:
            place(id)
    return [id for id in done if id != ROOT_SCOPE]


def _deployed(graph: Graph, scope: Scope, later: list[Statement]) -> DeployScope:
    labels: set[str] = set()
    selections = [
        *_grouped(scope, graph.superscopes(scope.id).values(), labels, later, superscope=True),
        *_grouped(scope, _clients(graph, scope.id), labels, later),
    ]
    later += _remaining(graph, scope)
    features = (*_interfaces(scope.interface, CLOSED), *_imposed(scope), *_described(scope), *_rules(scope))
    later += _armed(scope)
    return DeployScope(None, scope.id, tuple(selections), features)


def _clients(graph: Graph, scope: str) -> list[Membership]:
    return [edge for member, edge in sorted(graph.members(scope).items()) if is_client(member)]


def _remaining(graph: Graph, scope: Scope) -> Iterator[Statement]:
    """What a scope imposes on scopes in it, and calls them; what clients in it let pass; and all further labels."""
    for member, edge in sorted(graph.members(scope.id).items()):
        label = _label(scope, member)
        if is_client(member):
            yield from _selective(member, edge)
        elif edge.imposed != OPEN or label:
            chosen = Selection((ref(member),), label=label, block=_block(edge.imposed, ()) or None)
            yield AlterScope(ref(scope.id), Change.ADD, (chosen,), kind=Kind.INSTANCE)
    for label, nodes in sorted(scope.labels.items()):
        further = [node for node in nodes if _label(scope, node) != label]
        for superscope in (True, False):
            named = [node for node in further if (node in graph.superscopes(scope.id)) == superscope]
            for some in _chunks(named):
                chosen = Selection(some, label=label, superscope=superscope)
                yield AlterScope(ref(scope.id), Change.ADD, (chosen,), kind=Kind.INSTANCE)


def _chunks(nodes: Iterable[str]) -> Iterator[tuple[AnyRef, ...]]:
    refs = tuple(map(ref, sorted(nodes)))
    return (refs[start : start + MAX_NAMED] for start in range(0, len(refs), MAX_NAMED))


def _selective(member: str, edge: Membership) -> Iterator[Statement]:
    if is_client(member) and edge.selective != OPEN:
        chosen = Selection((ref(edge.scope),), superscope=True, block=_block(edge.selective, ()))
        yield AlterScope(ref(member), Change.ADD, (chosen,))


def _grouped(
    scope: Scope, edges: Iterable[Membership], labels: set[str], later: list[Statement], *, superscope: bool = False
) -> Iterator[Selection]:
    """Edges of the same terms in one selection; of each label one, others of it are added afterwards.

    `labels` are those that selections of the statement have already.
    """
    groups: dict[tuple[object, ...], list[str]] = {}
    terms: dict[tuple[object, ...], Membership] = {}
    for edge in edges:
        other = edge.scope if superscope else edge.member
        interface = edge.selective if superscope else edge.imposed
        key: tuple[object, ...] = (
            _label(scope, other),
            str(interface),
            repr(edge.mapping),
            edge.placement,
            edge.gateway,
        )
        groups.setdefault(key, []).append(other)
        terms[key] = edge
    for group, others in groups.items():
        label, edge = str(group[0]), terms[group]
        block = _block(edge.selective if superscope else edge.imposed, _crossing(edge)) or None
        for number, some in enumerate(_chunks(others)):
            one = Selection(some, block=block, label=label, superscope=superscope)
            if number or (label and label in labels):
                later.append(AlterScope(ref(scope.id), Change.ADD, (one,), kind=Kind.INSTANCE))
            else:
                labels.add(label)
                yield one


def _label(scope: Scope, other: str) -> str:
    return next((label for label, nodes in sorted(scope.labels.items()) if other in nodes), "")


def _crossing(edge: Membership) -> Iterator[Property]:
    if edge.mapping is not None:
        yield from clauses_of(edge.mapping)
    if edge.placement is Placement.GATEWAY:
        yield Settings((Setting(Path(("gateway",)), edge.gateway),))
    elif edge.placement is not Placement.ONCE:
        yield Settings((Setting(Path(("placement",)), edge.placement.value),))


def _block(interface: Interface, more: Iterable[Property]) -> tuple[Property, ...]:
    return (*_interfaces(interface, OPEN), *more)


def _interfaces(interface: Interface, default: Interface) -> tuple[Interfaces, ...]:
    sides = tuple(
        Side(output, _body(filter))
        for output, filter, usual in (
            (False, interface.input, default.input),
            (True, interface.output, default.output),
        )
        if filter != usual
    )
    return (Interfaces(sides),) if sides else ()


def _body(filter: Filter) -> Body:
    return Everything() if filter == EVERYTHING else Nothing() if filter == NOTHING else FilterText(str(filter))


def _imposed(scope: Scope) -> tuple[Feature, ...]:
    properties = _interfaces(scope.imposed, OPEN)
    return (Block("", properties),) if properties else ()


def _described(one: Scope | Client) -> tuple[Feature, ...]:
    features: list[Feature] = []
    if one.roles:
        features.append(Roles(one.roles))
    settings = [Setting(Path((name,)), value) for name, value in _system(one)]
    settings += [Setting(_path(name), value) for name, value in sorted(one.attributes.items())]
    if settings:
        features.append(Settings(tuple(settings)))
    features += [_policy(kind, use) for kind, use in sorted(_uses(one).items())]
    return tuple(features)


_WORDS = {
    PUBLISHING: PolicyKind.PUBLISH,
    DELIVERY: PolicyKind.DELIVERY,
    INTERNAL: PolicyKind.INTERNAL_DELIVERY,
}


def _uses(one: Scope | Client) -> Mapping[str, PolicyUse]:
    if isinstance(one, Scope):
        return one.policies
    return {} if one.publishing is None else {PUBLISHING: one.publishing}


def _policy(kind: str, use: PolicyUse) -> PolicyClause:
    parameters = tuple(Setting(_path(name), value) for name, value in sorted(use.parameters.items()))
    return PolicyClause(_WORDS[kind], use.name, parameters)


def _system(one: Scope | Client) -> Iterator[tuple[str, Value]]:
    if isinstance(one, Client):
        return
    usual = Scope(one.id)
    for word in ("abstract", "hidden", "ordered", "definition", "administrators", "trusted", "admission"):
        if getattr(one, word) != getattr(usual, word):
            yield word, getattr(one, word)
    if one.brokers:
        yield "brokers", tuple(sorted(one.brokers))
    if one.duplicates != usual.duplicates:
        yield "duplicates", one.duplicates.name.lower()


def _path(name: str) -> AnyPath:
    parts = tuple(name.split("."))
    plain = all(NAME.fullmatch(part) and part not in KEYWORDS for part in parts)
    return Path(parts) if plain and name not in SYSTEM else Quoted(name)


def _root(graph: Graph) -> Iterator[Statement]:
    """The root scope is there always, so what is said of it is altered."""
    scope = graph.scopes[ROOT_SCOPE]
    features = (*_imposed(scope), *_described(scope), *_rules(scope))
    if features:
        yield AlterScope(Name(ROOT), Change.REPLACE, (), features, Kind.INSTANCE)
    later: list[Statement] = []
    selections = tuple(_grouped(scope, _clients(graph, ROOT_SCOPE), set(), later))
    if selections:
        yield AlterScope(Name(ROOT), Change.ADD, selections, (), Kind.INSTANCE)
    yield from later
    yield from _remaining(graph, scope)
    yield from _armed(scope)


def _rules(scope: Scope) -> tuple[Feature, ...]:
    return tuple(update_of(rule.text) for rule in scope.rules if not rule.deploys)


def _armed(scope: Scope) -> list[Statement]:
    """What lets the scope create others."""
    return [deploys_of(text) for text in dict.fromkeys(rule.deploys for rule in scope.rules if rule.deploys)]


def ref(node: str) -> AnyRef:
    """What stands for a node wherever it is used: its id, which is a name where it looks like one."""
    if node == ROOT_SCOPE:
        return Name(ROOT)
    plain = COMPONENT.fullmatch(node) and node not in KEYWORDS and node not in ("root", "world", "self", "trigger")
    return Name(node) if plain else Id(node)
