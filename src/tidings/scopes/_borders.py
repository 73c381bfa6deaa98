"""Borders that are guarded: what leaves a scope is signed, and what comes in must be, by keys that gateways have.

The names of the keys are attributes of the scope, so its administrators guard it as they say everything else of it; the
keys themselves are in the configuration of the brokers that are its gateways, and there stands for which scopes each of
them vouches. `tidings.broker.forwarding._borders` says what is signed and checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from tidings.model import ROOT_SCOPE, ScopeError

from ._attributes import AnyAttributes
from ._changes import AnyChange, CreateScope, Join, SetAttributes, SetPlacement
from ._graph import Graph, Placement, Scope

BORDER_SIGN = "border-sign"
"""The attribute that names the key by which what leaves a scope is signed."""
BORDER_CHECK = "border-check"
"""The attribute that names the key by which what comes into a scope must be signed."""
MAX_KEY_NAME = 64
"""The most characters of the name of a key."""
_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{MAX_KEY_NAME}}}")


class KeyNames(NamedTuple):
    """By which keys a scope guards its border; "": not in this direction."""

    sign: str
    check: str


def is_key_name(name: object) -> bool:
    """Whether a key may have this name."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def check_border(scope: str, attributes: AnyAttributes) -> None:
    """Raise `ScopeError` if the attributes of a scope name a key that cannot be."""
    for attribute in (BORDER_SIGN, BORDER_CHECK):
        name = attributes.get(attribute)
        if name is None:
            continue
        if scope == ROOT_SCOPE:
            raise ScopeError(f"the root scope has no border, so it cannot have {attribute}; guard a scope in it")
        if not is_key_name(name):
            raise ScopeError(
                f"{attribute}={name!r:.60} of scope '{scope}' cannot name a key; use up to {MAX_KEY_NAME} letters, "
                "digits, '.', '_' and '-'"
            )


def check_gateways(graph: Graph, changes: Iterable[AnyChange]) -> None:
    """Raise `ScopeError` if what crosses a guarded border would cross elsewhere than at one broker that has the key."""
    for change in changes:
        match change:
            case CreateScope():
                node = change.id
            case SetAttributes():
                node = change.node
            case Join() | SetPlacement():
                node = change.member
            case _:
                continue
        scope = graph.scopes.get(node)
        if scope is None or _border(scope) is None:
            continue
        for above, edge in graph.superscopes(node).items():
            if edge.placement is not Placement.GATEWAY and not graph.scopes[above].abstract:
                raise ScopeError(
                    f"scope '{node}' guards its border, but what passes between it and '{above}' crosses at no "
                    'designated broker; set placement="gateway" and the gateway that has its key'
                )


def borders_of(graph: Graph) -> dict[str, KeyNames]:
    """The scopes of a graph that guard their borders, each with the names of its keys."""
    found = ((scope.id, _border(scope)) for scope in graph.scopes.values() if not scope.abstract)
    return {id: names for id, names in found if names is not None}


def _border(scope: Scope) -> KeyNames | None:
    sign, check = (scope.attributes.get(attribute) for attribute in (BORDER_SIGN, BORDER_CHECK))
    return None if sign is None and check is None else KeyNames(str(sign or ""), str(check or ""))
