"""Terms: what clauses say about a scope or an edge, gathered; and which attributes have a meaning to the system."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tidings.model import Duplicates, Filter, ScopeError, TidingsError, Value
from tidings.scopes._written_names import DIGEST
from tidings.scopes.mappings._mapping import EdgeMapping
from tidings.scopes.policies import PolicyKind, PolicyUse
from tidings.scopes.policies._registry import CATALOGUE, check_use, is_known

from ._extensions import NOWHERE, Carrying, Extensions, carrying
from ._filters import FILTER_MODEL, Reading, interfaces_in
from ._literals import written
from ._maps import edge_mapping_of
from ._mistakes import Misfit
from ._rules import check_rule
from ._syntax import (
    Block,
    CodeClause,
    Feature,
    Interfaces,
    MapClause,
    Path,
    PolicyClause,
    Property,
    Quoted,
    Roles,
    Selection,
    Setting,
    Settings,
    Update,
)
from ._syntax import PolicyKind as PolicyWord

_TEXTS = "administrators", "trusted", "admission", "brokers"
_FLAGS = "abstract", "hidden", "ordered"
SYSTEM = frozenset({*_TEXTS, *_FLAGS, "duplicates", "definition"})
"""Attributes that SET gives a meaning to the system; in quotes, they are like any other."""


@dataclass(frozen=True)
class EdgeTerms:
    """What blocks say about edges."""

    sides: dict[bool, Filter] = field(default_factory=dict)
    """The filter of each direction that they speak of, True for OUTPUT."""
    mapping: EdgeMapping | None = None
    carrying: Carrying = NOWHERE


@dataclass(frozen=True)
class ScopeTerms:
    """What clauses say about a scope."""

    sides: dict[bool, Filter]
    attributes: dict[str, Value]
    system: dict[str, Any]
    roles: tuple[str, ...] | None
    imposed: EdgeTerms
    """What is imposed on all members."""
    maps: tuple[MapClause, ...]
    rules: tuple[Update, ...] = ()


def filter_model(features: Iterable[Feature], default: object = "type") -> object:
    """What the names in interfaces are names of."""
    for feature in features:
        if isinstance(feature, Settings):
            for one in feature.settings:
                if str(one.path) == FILTER_MODEL:
                    default = one.value
    return default


def scope_terms(features: tuple[Feature, ...], extensions: Extensions, model: object = "type") -> ScopeTerms:
    """What these features say; raises `Misfit`."""
    reading = Reading(extensions, filter_model(features, model))
    attributes: dict[str, Value] = {}
    system: dict[str, Any] = {}
    roles: list[str] = []
    for feature in features:
        refuse_unknown(feature, extensions)
        match feature:
            case Settings():
                for one in feature.settings:
                    _set(one, attributes, system)
            case Roles():
                roles += [role for role in feature.roles if role not in roles]
            case PolicyClause() if feature.code in extensions.policies:
                attributes.update(extensions.policies[feature.code](feature))
            case PolicyClause():
                kind, use = _policy(feature)
                system["policies"] = {**system.get("policies", {}), kind.value: use}
            case CodeClause():
                attributes.update(extensions.code[feature.code](feature))
    everybody = [one for one in features if isinstance(one, Block) and not one.label]
    imposed = edge_terms((one for block in everybody for one in block.properties), reading, extensions)
    if imposed.mapping is not None or imposed.carrying.placement is not None:
        raise Misfit(
            "MEMBERS: takes INTERFACES only", everybody[0].at, "Write a MAP in the block of a selection instead."
        )
    return ScopeTerms(
        reading.sides(interfaces_in(features)),
        attributes,
        system,
        tuple(roles) if any(isinstance(one, Roles) for one in features) else None,
        imposed,
        tuple(one for one in features if isinstance(one, MapClause)),
        tuple(one for one in features if isinstance(one, Update)),
    )


def refuse_unknown(feature: Feature | Property, extensions: Extensions) -> None:
    """Raise `Misfit` for what can be defined, and not deployed yet."""
    match feature:
        case PolicyClause() if feature.code not in extensions.policies:
            _policy(feature)
        case CodeClause() if feature.code not in extensions.code:
            raise Misfit("DO is reserved, and nothing carries it out", feature.at, "Leave it out to deploy the scope.")
        case Update():
            check_rule(feature, extensions)


_KINDS = {
    PolicyWord.PUBLISH: PolicyKind.PUBLISHING,
    PolicyWord.DELIVERY: PolicyKind.DELIVERY,
    PolicyWord.INTERNAL_DELIVERY: PolicyKind.INTERNAL,
    PolicyWord.TRAVERSE: PolicyKind.TRAVERSE,
}


def _policy(clause: PolicyClause) -> tuple[PolicyKind, PolicyUse]:
    """What a POLICY means; raises `Misfit` for one that cannot be carried out."""
    kind = _KINDS[clause.kind]
    parameters: dict[str, Value] = {}
    if not is_known(clause.code):
        raise Misfit(
            f"no policy '{clause.code}' is registered here",
            clause.at,
            f"A definition may hold it; to deploy it, call register_policy, or write one of {', '.join(CATALOGUE)}.",
        )
    for one in clause.parameters:
        if isinstance(one.value, Path | Quoted):
            raise Misfit(
                f"{one.value} is an attribute, and a policy is told values",
                one.value.at,
                f'Write a text in quotes: "{one.value}".',
            )
        parameters[str(one.path)] = one.value
    use = PolicyUse(clause.code, parameters)
    try:
        check_use(use, kind, "a scope")
    except TidingsError as error:
        raise misfit_of(error, clause.at) from None
    return kind, use


def _set(one: Setting, attributes: dict[str, Value], system: dict[str, Any]) -> None:
    name = str(one.path)
    if isinstance(one.value, Path | Quoted):
        raise Misfit(
            f"{one.value} is an attribute of something that a rule binds, and this is no rule",
            one.value.at,
            f'Write a text in quotes: "{one.value}".',
        )
    if isinstance(one.path, Quoted) or name not in SYSTEM:
        attributes[name] = one.value
        return
    system[name] = _system(name, one)


def check_setting(one: Setting) -> None:
    """Raise `Misfit` for a value that its attribute cannot have."""
    _set(one, {}, {})


def _system(name: str, one: Setting) -> object:
    value = one.value
    if name in _FLAGS:
        if value not in (True, False, 0, 1):
            raise Misfit(f"{name} is TRUE or FALSE, not {_shown(value)}", one.at, f"Write {name} = TRUE.")
        return bool(value)
    if name == "duplicates":
        words = [rule.name.lower() for rule in Duplicates]
        if value not in words:
            raise Misfit(
                f"there is no rule {_shown(value)} for duplicates", one.at, f"Write one of {', '.join(words)}."
            )
        return Duplicates[str(value).upper()]
    if name == "definition":
        if not isinstance(value, str):
            raise Misfit(
                f"definition is the name of one, not {_shown(value)}", one.at, 'Write a text: definition = "temp".'
            )
        return value
    texts = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(text, str) for text in texts):
        raise Misfit(f"{name} is a list of texts, not {_shown(value)}", one.at, f'Write {name} = ["a", "b"].')
    if name == "admission" and not all(DIGEST.fullmatch(str(text)) for text in texts):
        raise Misfit(
            "admission holds digests, and this is none: everybody who may read the graph would read the secret",
            one.at,
            "Let `tidings scope set --admission FILE` write it, or export the digest from a scope that has it.",
        )
    return tuple(texts)


def _shown(value: object) -> str:
    text = written(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def edge_terms(properties: Iterable[Property], reading: Reading, extensions: Extensions | None = None) -> EdgeTerms:
    """What the properties in blocks say; where several speak of one direction, the last one counts."""
    sides: dict[bool, Filter] = {}
    ways: dict[bool, MapClause] = {}
    given: dict[str, object] = {}
    at = 0
    for one in properties:
        at = at or one.at
        refuse_unknown(one, extensions or Extensions())
        match one:
            case Interfaces():
                sides.update(reading.sides([one]))
            case MapClause():
                ways[one.outward] = one
            case PolicyClause() | CodeClause():
                raise Misfit("an extension speaks of whole scopes", one.at, "Write this outside the braces.")
            case Settings():
                for setting in one.settings:
                    if str(setting.path) not in ("gateway", "placement") or isinstance(setting.value, Path | Quoted):
                        raise Misfit(
                            f"an edge has no attribute '{setting.path}'",
                            setting.at,
                            'Write gateway = "BROKER" or placement = "once" here, and others outside the braces.',
                        )
                    given[str(setting.path)] = setting.value
    try:
        crossing = carrying(given)
    except ScopeError as error:
        raise misfit_of(error, at) from None
    return EdgeTerms(sides, edge_mapping_of(ways.values(), sides), crossing)


def block_of(selection: Selection, features: Iterable[Feature]) -> list[Property]:
    """The properties of the edges that a selection makes: those of its own block, then those of its label."""
    labelled = [
        one
        for feature in features
        if isinstance(feature, Block) and feature.label and feature.label == selection.label
        for one in feature.properties
    ]
    return [*(selection.block or ()), *labelled]


def misfit_of(error: TidingsError, at: int) -> Misfit:
    """What something else refused, at a place of the script."""
    problem, _, remedy = str(error).rpartition("; ")
    kind = type(error) if isinstance(error, ScopeError) else ScopeError
    return Misfit(problem or remedy, at, f"{remedy[:1].upper()}{remedy[1:]}." if problem else "", kind)
