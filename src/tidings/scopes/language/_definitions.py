"""Definitions: how they are kept, and what a DEPLOY or an ALTER makes of them."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tidings.model import ScopeError

from ._mistakes import Misfit, Source
from ._parser import parsed
from ._printing import print_statement, without_comments
from ._syntax import (
    AlterScope,
    Block,
    Change,
    CodeClause,
    DefineScope,
    Feature,
    Id,
    Interfaces,
    MapClause,
    Name,
    Node,
    PolicyClause,
    Property,
    Roles,
    Selection,
    Settings,
    Update,
)

MAX_REMEMBERED = 10_000
"""How many definitions are remembered by the words and the names in them."""
_WORD = re.compile(r"[\w/-]+")


def text_of(definition: DefineScope) -> str:
    """A definition as the graph keeps it."""
    return print_statement(without_comments(definition))


def definition_of(text: str) -> DefineScope:
    """The definition that the graph keeps as this text; `ScopeError` if it is none."""
    script, mistakes = parsed(Source(text))
    if mistakes or len(script.statements) != 1 or not isinstance(script.statements[0], DefineScope):
        reason = f": {mistakes[0].problem}" if mistakes else ""
        raise ScopeError(f"'{text:.60}' is no definition{reason}; write DEFINE SCOPE name AS ...")
    return script.statements[0]


def mentions(text: str, names: frozenset[str]) -> bool:
    """Whether a definition speaks of components of these names. It is read only if one of their words is in it."""
    return not _words_of(names).isdisjoint(_words_in(text)) and not names.isdisjoint(_names_in(text))


@functools.lru_cache(maxsize=1)
def _words_of(names: frozenset[str]) -> frozenset[str]:
    """The same names are looked for in one definition after the other."""
    return frozenset(word for name in names for word in _WORD.findall(name))


@functools.lru_cache(maxsize=MAX_REMEMBERED)
def _words_in(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))


def may_mean(text: str, name: str) -> bool:
    """Whether a text may speak of a component of this name, or of one that is called so in some scope.

    It is not read: a word may stand for something else.
    """
    words = {part for word in _words_in(text) for part in (word, word.rpartition("/")[2])}
    return all(word in words for word in _WORD.findall(name.rpartition("/")[2]))


@functools.lru_cache(maxsize=MAX_REMEMBERED)
def _names_in(text: str) -> frozenset[str]:
    try:
        return frozenset(_names(definition_of(text)))
    except ScopeError:  # one of another version of the language: each word may be a name
        return frozenset(_WORD.findall(text))


def _names(node: object) -> Iterator[str]:
    match node:
        case Name():
            yield node.name
        case Id():
            yield node.id
        case tuple():
            for one in node:
                yield from _names(one)
        case Node():
            for field in dataclasses.fields(node):
                yield from _names(getattr(node, field.name))


def check_definition(name: str, text: str) -> None:
    """Raise `ScopeError` unless this is how the graph keeps a definition of this name."""
    definition = definition_of(text)
    if definition.name != name or text_of(definition) != text:
        raise ScopeError(
            f"this text is not how the definition '{name}' is printed; let `tidings.scopes.language` print it"
        )


def merged(
    base: tuple[tuple[Selection, ...], tuple[Feature, ...]],
    selections: Iterable[Selection],
    features: Iterable[Feature],
) -> tuple[tuple[Selection, ...], tuple[Feature, ...]]:
    """A definition with what a DEPLOY says: selections are added, those of a known label replace it; features replace
    those of the same kind, direction and name."""
    chosen = list(base[0])
    for one in selections:
        labels = [known.label for known in chosen]
        if one.label and one.label in labels:
            chosen[labels.index(one.label)] = one
        else:
            chosen.append(one)
    return tuple(chosen), tuple(_overridden(base[1], tuple(features)))


def _overridden(base: tuple[Feature, ...], features: tuple[Feature, ...]) -> Iterable[Feature]:
    taken = {key for feature in features for key in _keys(feature)}
    for feature in base:
        kept = _kept(feature, taken)
        if kept is not None:
            yield kept
    yield from features


def _keys(feature: Feature | Property) -> Iterable[tuple[object, ...]]:
    """What a feature speaks of."""
    match feature:
        case Interfaces():
            yield from (("interface", side.output) for side in feature.sides)
        case Settings():
            yield from (("setting", type(one.path), str(one.path)) for one in feature.settings)
        case MapClause():
            yield "map", feature.outward
        case PolicyClause():
            yield "policy", feature.kind
        case Roles():
            yield ("roles",)
        case Block():
            yield from ((feature.label, *key) for one in feature.properties for key in _keys(one))


def _kept(feature: Any, taken: set[tuple[object, ...]], *prefix: str) -> Any:
    """What is left of a feature if others speak of some things; None: nothing."""

    def free(*key: object) -> bool:
        return (*prefix, *key) not in taken

    match feature:
        case Interfaces():
            sides = tuple(side for side in feature.sides if free("interface", side.output))
            return dataclasses.replace(feature, sides=sides) if sides else None
        case Settings():
            left = tuple(one for one in feature.settings if free("setting", type(one.path), str(one.path)))
            return dataclasses.replace(feature, settings=left) if left else None
        case MapClause():
            return feature if free("map", feature.outward) else None
        case PolicyClause():
            return feature if free("policy", feature.kind) else None
        case Roles():
            return feature if free("roles") else None
        case Block():
            others = (_kept(one, taken, feature.label) for one in feature.properties)
            properties = tuple(one for one in others if one is not None)
            return dataclasses.replace(feature, properties=properties) if properties else None
    return feature


def altered(definition: DefineScope, alter: AlterScope) -> DefineScope:
    """A definition as an ALTER leaves it; raises `Misfit`."""
    match alter.change:
        case Change.ADD:
            selections, _ = merged((definition.selections, ()), alter.selections, ())
            features = [*definition.features, *alter.features]
            return dataclasses.replace(definition, selections=selections, features=tuple(_united(features)))
        case Change.REPLACE:
            return _replaced(definition, alter)
        case Change.DEL:
            return _deleted(definition, alter)


def _united(features: list[Feature]) -> Iterable[Feature]:
    """Interfaces and roles of several clauses are a union; of settings and mappings the last one counts."""
    seen: set[tuple[object, ...]] = set()
    kept: list[Feature] = []
    for feature in reversed(features):
        if isinstance(feature, Settings | MapClause | PolicyClause):
            left = _kept(feature, seen)
            seen.update(_keys(feature))
            if left is None:
                continue
            feature = left
        kept.append(feature)
    return reversed(kept)


def _replaced(definition: DefineScope, alter: AlterScope) -> DefineScope:
    selections = list(definition.selections)
    for kind in {one.superscope for one in alter.selections if not one.label}:
        selections = [one for one in selections if one.superscope != kind]
    labels = {one.label for one in alter.selections if one.label}
    selections = [one for one in selections if one.label not in labels]
    features = tuple(_overridden(definition.features, alter.features))
    return dataclasses.replace(definition, selections=(*selections, *alter.selections), features=features)


def _deleted(definition: DefineScope, alter: AlterScope) -> DefineScope:
    selections = list(definition.selections)
    for one in alter.selections:
        others = (_without(known, one) if known.superscope == one.superscope else known for known in selections)
        left = [known for known in others if known is not None]
        if left == selections:
            raise Misfit(
                f"'{definition.name}' has no such selection", one.at, "Name one of its components, or a label."
            )
        selections = left
    features = definition.features
    taken = {key for feature in alter.features for key in _keys(feature)}
    for feature in alter.features:
        if isinstance(feature, Update | CodeClause):
            features = tuple(one for one in features if one != feature)
    kept = [rest for feature in features if (rest := _removed(feature, taken, alter.features)) is not None]
    return dataclasses.replace(definition, selections=tuple(selections), features=tuple(kept))


def _removed(feature: Feature, taken: set[tuple[object, ...]], named: tuple[Feature, ...]) -> Feature | None:
    if isinstance(feature, Roles):
        gone = {role for one in named if isinstance(one, Roles) for role in one.roles}
        left = tuple(role for role in feature.roles if role not in gone)
        return dataclasses.replace(feature, roles=left) if left else None
    if isinstance(feature, Interfaces):
        gone_sides = [side for one in named if isinstance(one, Interfaces) for side in one.sides]
        sides = tuple(side for side in feature.sides if side not in gone_sides)
        return dataclasses.replace(feature, sides=sides) if sides else None
    return _kept(feature, taken)  # type: ignore[no-any-return]


def _without(known: Selection, gone: Selection) -> Selection | None:
    """What is left of a selection without what another one names."""
    if gone.label:
        return None if known.label == gone.label else known
    if known.sources is None or gone.sources is None:
        return None if known.sources == gone.sources else known
    left = tuple(ref for ref in known.sources if ref not in gone.sources)
    return None if not left else known if left == known.sources else dataclasses.replace(known, sources=left)
