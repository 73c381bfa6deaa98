"""What administrators give, as changes need it; what is wrong with it is said here, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from tidings import scopes
from tidings.model import Duplicates, Filter, ScopeError, UnsupportedFilter
from tidings.scopes import Attributes, EdgeMapping, Interface, Placement, PolicyKind, edge_mapping

from ._arguments import choice_of, filter_of, shown

AnyFilter: TypeAlias = Filter | str
AnyInterface: TypeAlias = Interface | Mapping[str, AnyFilter]
"""An interface, or what it lets pass by direction: `{"output": "type = 'quote'"}`. A direction left out is open."""
AnyMapping: TypeAlias = EdgeMapping | scopes.Mapping
"""A mapping of an edge, or of its outward direction; then the inward one is the inverse."""


def interface_of(given: AnyInterface | Mapping[str, AnyFilter | None] | None, default: Interface) -> Interface:
    """An interface from what an administrator gives; a direction that is left out is as in the default."""
    if isinstance(given, Interface):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise ScopeError(f"an interface is a mapping like {{'output': \"type = 'quote'\"}}, not {shown(given)}")
    sides = {"input": default.input, "output": default.output}
    for side, filter in (given or {}).items():
        if side not in sides:
            raise ScopeError(f"an interface has 'input' and 'output', not '{side}'; rename it")
        if filter is not None:
            sides[side] = content_filter(filter, f"the {side} of an interface")
    return Interface(**sides)


def content_filter(given: AnyFilter, what: str) -> Filter:
    wanted = filter_of(given)
    if not isinstance(wanted, Filter):
        raise UnsupportedFilter(f"{what} is a content filter, not {shown(given)}")
    return wanted


def texts_of(given: Iterable[str], name: str) -> tuple[str, ...]:
    """Several texts. One alone would be taken for its letters."""
    texts = None if isinstance(given, str) or not hasattr(given, "__iter__") else tuple(given)
    if texts is None or set(map(type, texts)) - {str}:
        raise ScopeError(f'{name} is no list of texts; write ["..."]')  # it may be a secret, so it is not shown
    return texts


def attributes_of(given: Mapping[str, object]) -> Attributes:
    if not isinstance(given, Mapping):
        raise ScopeError(f"attributes are a mapping like {{'city': 'Berlin'}}, not {shown(given)}")
    return Attributes(given)


def rule_of(given: Duplicates | str) -> Duplicates:
    return choice_of(Duplicates, given, "rule for second copies", ScopeError)


def placement_of(given: Placement | str) -> Placement:
    return choice_of(Placement, given, "placement", ScopeError)


def kind_of(given: PolicyKind | str) -> PolicyKind:
    return choice_of(PolicyKind, given, "kind of policy", ScopeError)


def mapping_of(given: AnyMapping | None) -> EdgeMapping | None:
    return edge_mapping(given) if isinstance(given, scopes.Mapping) else given
