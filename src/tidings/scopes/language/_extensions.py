"""Extensions: what a network adds to the language, by name. Nothing that arrives is ever executed: a script names, and
whoever runs it has registered what the name stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tidings.model import Filter, Location, ScopeError, Value
from tidings.scopes._components import Component
from tidings.scopes._graph import Placement

from ._syntax import Argument, CodeClause, Path, PolicyClause

Arguments: TypeAlias = tuple[Argument, ...]


@dataclass(frozen=True)
class Carrying:
    """What an architecture says about a scope: where notifications cross to its superscopes."""

    placement: Placement | None = None
    gateway: str = ""


NOWHERE = Carrying()
"""Nothing is said."""


def _within(candidate: Component, arguments: Arguments) -> bool:
    """`within(position, "/berlin")`: whether a location among the candidate's attributes lies inside another."""
    match arguments:
        case (Argument(value=Path() as path), Argument(value=(str() | Location()) as place)):
            found = candidate.attributes.get(str(path))
            return isinstance(found, Location) and found.within(Location(str(place)))
    raise ScopeError('within takes an attribute and a place; write within(position, "/berlin/campus")')


def _integrated(arguments: Arguments) -> Carrying:
    """`INTEGRATED_ROUTING(gateway = "b1")`, `INTEGRATED_ROUTING(placement = "everywhere")`."""
    given = {one.name: one.value for one in arguments}
    unknown = given.keys() - {"gateway", "placement"}
    if unknown or len(given) < len(arguments):
        raise ScopeError('INTEGRATED_ROUTING takes gateway = "BROKER" or placement = "once"; leave out the rest')
    return carrying(given)


def carrying(given: Mapping[str, object]) -> Carrying:
    """Where notifications cross, from the attributes `gateway` and `placement`, if they say so."""
    gateway, placement = given.get("gateway", ""), given.get("placement")
    words = [one.value for one in Placement]
    if not isinstance(gateway, str) or placement not in (None, *words):
        raise ScopeError(f"gateway is the name of a broker, placement one of {', '.join(words)}; correct them")
    if placement is None:
        return Carrying(Placement.GATEWAY if gateway else None, gateway)
    return Carrying(Placement(placement), gateway)


@dataclass(frozen=True)
class Extensions:
    """What names stand for. The defaults are what the language has without any extension."""

    tests: Mapping[str, Callable[[Component, Arguments], bool]] = field(default_factory=dict)
    """Conditions on a candidate: `WHERE within(position, "/berlin")`."""
    qualifiers: Mapping[str, Callable[[Sequence[Component], Arguments], Sequence[Component]]] = field(
        default_factory=dict
    )
    """Which of the candidates are picked: `nearest(3) FROM ...`."""
    interfaces: Mapping[str, Callable[[Arguments], Filter]] = field(default_factory=dict)
    """Kinds of interfaces: `INPUT(below(5))`."""
    events: frozenset[str] = frozenset()
    """Events of rules beyond those of the language: `UPDATE ON timer("1h")`."""
    policies: Mapping[str, Callable[[PolicyClause], Mapping[str, Value]]] = field(default_factory=dict)
    """Policies, and the attributes of a scope by which whoever carries them out knows that it has one."""
    code: Mapping[str, Callable[[CodeClause], Mapping[str, Value]]] = field(default_factory=dict)
    """What DO may run, and the attributes of a scope by which whoever runs it knows."""
    architectures: Mapping[str, Callable[[Arguments], Carrying]] = field(default_factory=dict)
    """How scopes can be carried."""

    def with_defaults(self) -> Extensions:
        """These, and what is always there."""
        return Extensions(
            {"within": _within, **self.tests},
            self.qualifiers,
            self.interfaces,
            self.events,
            self.policies,
            self.code,
            {"INTEGRATED_ROUTING": _integrated, **self.architectures},
        )
