"""Selections: which components are picked.

Two steps, once, when a scope is deployed or altered: the base set after FROM; then WHERE, on each candidate alone. What
a candidate demands of its own in turn, its open coupling points, this scope must provide. At last the qualifier says
how many, and which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tidings.model import (
    ROOT_SCOPE,
    Filter,
    Notification,
    TidingsError,
    UnknownName,
    UnresolvedDependency,
    attr,
    kind_of,
)
from tidings.scopes._components import Component
from tidings.scopes._graph import Graph, is_client

from ._extensions import Extensions
from ._filters import OPERATORS, Reading
from ._mistakes import Misfit
from ._patterns import Pattern, pattern
from ._syntax import (
    WORLD,
    All,
    And,
    AnyRef,
    Call,
    Cardinality,
    Comparison,
    Condition,
    InterfaceTest,
    Likeness,
    Members,
    Name,
    Not,
    Or,
    Path,
    Quoted,
    RoleTest,
    Selection,
    Top,
)
from ._world import World, resolved


@dataclass(frozen=True)
class Place:
    """From where a selection looks: the scope that it is for, and the scopes that are near to it."""

    world: World
    graph: Graph
    scope: str
    """The scope that is deployed or altered; it need not be in the graph yet."""
    superscopes: tuple[str, ...]
    extensions: Extensions
    lenient: bool = False
    """Whether names that cannot be resolved are passed over: nothing is known of the graph."""
    agrees: Callable[[str], bool] = lambda node: True
    """Whether this scope provides what a candidate demands."""

    def above(self) -> set[str]:
        """The scope itself and all scopes that it is inside of."""
        found = {self.scope}
        if self.scope in self.graph.scopes:
            found |= self.graph.above(self.scope)
        for scope in self.superscopes:
            found |= self.graph.above(scope)
        return found


def picked(selection: Selection, place: Place) -> list[str]:
    """The nodes that a selection picks, in the order of their ids, TOP by value; raises `Misfit`."""
    named, found = _base(selection, place)
    candidates = [node for node in sorted(found) if node in named or place.agrees(node)]
    if selection.where is not None:
        where = selection.where
        candidates = [node for node in candidates if holds(where, node, place.world, place.graph, place.extensions)]
    return _qualified(selection, candidates, place)


def _base(selection: Selection, place: Place) -> tuple[set[str], set[str]]:
    """The components that are named one by one, and all that come into question."""
    named: set[str] = set()
    found: set[str] = set()
    if selection.sources is None:
        found |= _visible(selection, place)
    for ref in selection.sources or ():
        try:
            if isinstance(ref, Members):
                found |= _members(ref, place) - place.above()
            elif _is_world(ref, place.graph):
                found |= _everything(place) - place.above()
            else:
                named.add(resolved(place.world, place.graph, ref, place.superscopes, place.scope))
        except Misfit as misfit:
            if misfit.kind is not UnknownName or not place.lenient:
                raise
        clients = [node for node in named if is_client(node)]
        if selection.superscope and clients:
            raise Misfit(f"'{clients[0]}' is a client, and only scopes have members", ref.at, "Name a scope.")
    if selection.superscope:
        found = {node for node in found if not is_client(node)}
    return named, found | named


def _visible(selection: Selection, place: Place) -> set[str]:
    """What `*` stands for: the superscopes of the place, or for members all that these have."""
    if selection.superscope:
        return set(place.superscopes)
    siblings = {member for scope in place.superscopes or (ROOT_SCOPE,) for member in _of(scope, place)}
    return siblings - place.above()


def _is_world(ref: AnyRef, graph: Graph) -> bool:
    return isinstance(ref, Name) and ref.name == WORLD and WORLD not in graph.scopes


def _everything(place: Place) -> set[str]:
    return {*place.graph.scopes, *place.world.clients(place.graph)} - {ROOT_SCOPE}


def _members(ref: Members, place: Place) -> set[str]:
    if _is_world(ref.of, place.graph):
        return _everything(place)
    scopes = (
        _members(ref.of, place)
        if isinstance(ref.of, Members)
        else {resolved(place.world, place.graph, ref.of, place.superscopes, place.scope)}
    )
    return {member for scope in scopes if not is_client(scope) for member in _of(scope, place)}


def _of(scope: str, place: Place) -> set[str]:
    members = set(place.graph.members(scope))
    if scope == ROOT_SCOPE:
        members |= {node for node in place.world.clients(place.graph) if ROOT_SCOPE in place.graph.upward(node)}
    return members


# --- which, and how many --------------------------------------------------------------------------------


def _qualified(selection: Selection, candidates: list[str], place: Place) -> list[str]:
    match selection.qualifier:
        case All():
            return candidates
        case Top() as top:
            return _top(top, candidates, place)
        case Cardinality(least=least, most=most):
            if len(candidates) < (least or 0) and not place.lenient:
                shown = f": {', '.join(candidates[:5])}" if candidates else ""
                raise Misfit(
                    f"at least {least} components are needed here, and {len(candidates)} fit{shown}",
                    selection.at,
                    "Ask for fewer, or provide what the selection demands.",
                    UnresolvedDependency,
                )
            return candidates if most is None else candidates[:most]
        case Call() as call:
            choose = place.extensions.qualifiers.get(call.name)
            if choose is None:
                raise Misfit(f"no qualifier '{call.name}' is known", call.at, "Write ALL, TOP(a, n) or [n..m].")
            components = [place.world.component(place.graph, node) for node in candidates]
            return [one.node for one in _tried(lambda: choose(components, call.arguments), call.at)]


def _top(top: Top, candidates: list[str], place: Place) -> list[str]:
    valued = []
    for node in candidates:
        value = place.world.component(place.graph, node).attributes.get(top.attribute)
        if value is not None and not isinstance(value, tuple):
            valued.append((kind_of(value).value, value, node))
    kinds = sorted({kind for kind, _, _ in valued})
    ordered: list[str] = []
    for kind in kinds:  # values of different kinds do not compare; ties stay in the order of ids
        of_kind = [one for one in valued if one[0] == kind]
        of_kind.sort(key=lambda one: _sortable(one[1]), reverse=not top.ascending)
        ordered += [node for _, _, node in of_kind]
    return ordered[: top.count]


def _sortable(value: Any) -> Any:
    return getattr(value, "parts", value)  # a location sorts by its path


# --- conditions -----------------------------------------------------------------------------------------


def holds(condition: Condition, node: str, world: World, graph: Graph, extensions: Extensions) -> bool:
    """Whether a condition is true of a component; an attribute that it does not have makes a test false."""
    component = world.component(graph, node)

    def covers(one: InterfaceTest) -> bool:
        filter = Reading(extensions, component.attributes.get("filter-model")).side(one.side)
        return world.covers(graph, node, filter, output=one.side.output)

    return satisfies(condition, component, covers, extensions)


def satisfies(
    condition: Condition, component: Component, covers: Callable[[InterfaceTest], bool], extensions: Extensions
) -> bool:
    """Whether a condition is true of something that has these attributes and roles."""

    def test(one: Condition) -> bool:
        match one:
            case And():
                return all(map(test, one.parts))
            case Or():
                return any(map(test, one.parts))
            case Not():
                return not test(one.part)
            case RoleTest():
                return one.role in component.roles
            case InterfaceTest():
                return covers(one)
            case Comparison():
                return compared(one, component)
            case Likeness():
                return _alike(one, component)
            case Call():
                function = extensions.tests.get(one.name)
                if function is None:
                    raise Misfit(
                        f"no test '{one.name}' is known", one.at, "Compare an attribute, or register the test."
                    )
                return bool(_tried(lambda: function(component, one.arguments), one.at))

    return test(condition)


def compared(one: Comparison, component: Component) -> bool:
    """Whether an attribute compares so with a value, or with another attribute of the same component."""
    value = component.attributes.get(str(one.path))
    operand: Any = one.operand
    if isinstance(operand, Path | Quoted):
        operand = component.attributes.get(str(operand))
    if value is None or operand is None:
        return False
    if isinstance(operand, tuple):
        return (value == operand) == (one.operator == "=") and one.operator in ("=", "<>")
    try:
        filter = OPERATORS[one.operator](attr["x"], operand)
    except TidingsError as error:
        raise Misfit(str(error), one.at) from None
    return bool(filter.matches(Notification(x=value)))


def _alike(one: Likeness, component: Component) -> bool:
    value = component.attributes.get(str(one.path))
    values = value if isinstance(value, tuple) else (value,)
    texts = [text for text in values if isinstance(text, str)]
    if one.operator == "MATCHES":
        known = pattern_of(one)
        return _tried(lambda: any(map(known.matches, texts)), one.at)
    return any(like_of(one).matches(Notification(x=text)) for text in texts)


def like_of(one: Likeness) -> Filter:
    """The pattern after LIKE, as a filter on `x`; raises `Misfit`."""
    return _tried(lambda: attr["x"].like(one.pattern), one.at)


def pattern_of(one: Likeness) -> Pattern:
    """The pattern after MATCHES; raises `Misfit`."""
    return _tried(lambda: pattern(one.pattern), one.at)


_T = TypeVar("_T")


def _tried(work: Callable[[], _T], at: int) -> _T:
    try:
        return work()
    except TidingsError as error:
        problem, _, remedy = str(error).rpartition("; ")
        raise Misfit(problem or remedy, at, f"{remedy[:1].upper()}{remedy[1:]}." if problem else "") from None
