"""Scope graphs to test with: written as text, drawn at random, and the ones that the documents draw.

A random `World` is plain data: sets of numbers for filters, short programs for mappings. It says what it means twice:
as changes of a real graph, and as Python that knows neither filters nor mappings. The only attribute is `a`, 0 to 5.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tidings.model import NOTHING, ROOT_SCOPE, Filter, Notification
from tidings.scopes import OPEN, CreateScope, EdgeMapping, Graph, Interface, Join, Mapping, apply, mapping
from tidings.scopes._changes import AnyChange, Impose
from tidings.scopes.mappings._convert import Convert
from tidings.scopes.mappings._steps import Add

VALUES = range(6)
ALL = frozenset(VALUES)


def graph(*edges: str, base: Interface = OPEN, **bases: Interface) -> Graph:
    """A graph from edges such as "X < S", in any order; lower-case names are clients, and scopes are open.

    >>> graph("x < S", "S < T")
    Graph(1: @x < S, S < T)
    """
    pairs = [tuple(one.split(" < ")) for one in edges]
    scopes = dict.fromkeys(name for pair in pairs for name in pair if name != name.lower())
    changes: list[AnyChange] = [CreateScope(name, bases.get(name, base)) for name in scopes]
    changes += [Join(node(member), scope) for member, scope in pairs]
    return apply(Graph(), tuple(changes))


def node(name: str) -> str:
    """The node of a graph that a name of `graph` means."""
    return name if name != name.lower() or not name else f"@{name}"


GRAPH_A = ("x < S", "y < S", "y < T", "z < T", "T < R", "u < R")
GRAPH_B = ("y < S", "S < T", "S < T'", "x < T")
CLIMBING_DIAMOND = ("c1 < T", "c1 < U", "T < S", "U < S", "c2 < S")
DESCENDING_DIAMOND = ("c1 < S", "T < S", "U < S", "c2 < T", "c2 < U")
HAZARD = ("c < S", "c < T", "S < Z", "T < Z")
FX_1 = ("T < S", "U < S", "V < U", "c1 < T", "c2 < S", "c3 < V", "c4 < U")
FX_3 = ("S < T", "S < U", "c1 < S", "c4 < S", "c2 < T", "c3 < T", "c6 < T", "c5 < U")
FX_6 = ("S < T1", "S < T2", "T1 < R", "T2 < R", "c0 < S", "c1 < S")


# --- random ones ----------------------------------------------------------------------------------------


@dataclass
class Sides:
    """What an interface lets pass, as sets of values."""

    input: frozenset[int] = ALL
    output: frozenset[int] = ALL

    def real(self) -> Interface:
        return Interface(a_filter(self.input), a_filter(self.output))


Program = tuple[tuple[str, int], ...]
"""What a mapping does: ("mirror", 0), ("set", value), ("above", value), ("block", 0)."""


@dataclass
class Edge:
    selective: Sides = field(default_factory=Sides)
    imposed: Sides = field(default_factory=Sides)
    outward: Program = ()
    inward: Program = ()


@dataclass
class World:
    """A scope graph as plain data; scopes come before the scopes that are members of them."""

    scopes: list[str] = field(default_factory=list)
    clients: list[str] = field(default_factory=list)
    edges: dict[tuple[str, str], Edge] = field(default_factory=dict)
    base: dict[str, Sides] = field(default_factory=dict)
    imposed: dict[str, Sides] = field(default_factory=dict)
    abstract: set[str] = field(default_factory=set)

    def changes(self) -> tuple[AnyChange, ...]:
        """The changes that make it."""
        return tuple(self._changes())

    def _changes(self) -> Iterator[AnyChange]:
        for scope in self.scopes:
            imposed = self.imposed.get(scope, Sides()).real()
            if scope == ROOT_SCOPE:
                yield Impose(scope, imposed)
            else:
                yield CreateScope(scope, self.base[scope].real(), imposed, scope in self.abstract)
        for (member, scope), edge in self.edges.items():
            mapped = EdgeMapping(a_mapping(edge.outward), a_mapping(edge.inward))
            yield Join(
                member, scope, edge.selective.real(), edge.imposed.real(), None if mapped.is_identity else mapped
            )

    def graph(self) -> Graph:
        """The real thing."""
        return apply(Graph(), self.changes())

    def links(self) -> dict[tuple[str, str], Edge]:
        """The edges that count: none of an abstract scope; clients that are left with none are in the root scope."""
        links = {pair: edge for pair, edge in self.edges.items() if not self.abstract & set(pair)}
        placed = {member for member, _ in links}
        return links | {(client, ROOT_SCOPE): Edge() for client in self.clients if client not in placed}

    def nodes(self) -> list[str]:
        return [*self.scopes, *self.clients]

    def up(self, member: str, scope: str, edge: Edge, a: int) -> int | None:
        """What becomes of a value on its way up, step by step as in Def. 3.10."""
        base = self.base.get(member, Sides())
        value: int | None = a if a in base.output else None
        value = value if value in edge.selective.output else None
        value = run(edge.outward, value)
        value = value if value in edge.imposed.output else None
        return value if value in self.imposed.get(scope, Sides()).output else None

    def down(self, member: str, scope: str, edge: Edge, a: int) -> int | None:
        """What becomes of a value on its way down."""
        value: int | None = a if a in self.imposed.get(scope, Sides()).input else None
        value = value if value in edge.imposed.input else None
        value = run(edge.inward, value)
        value = value if value in edge.selective.input else None
        return value if value in self.base.get(member, Sides()).input else None


def run(program: Program, value: int | None) -> int | None:
    """What a mapping makes of a value."""
    for name, operand in program:
        if value is None:
            return None
        if name == "mirror":
            value = 5 - value
        elif name == "set":
            value = operand
        elif name == "block" or value <= operand:
            value = None
    return value


def a_filter(values: Iterable[int]) -> Filter:
    values = sorted(values)
    if len(values) == len(ALL):
        return Filter.parse("TRUE")
    return Filter.parse(f"a IN ({', '.join(map(str, values))})") if values else NOTHING


def a_mapping(program: Program) -> Mapping:
    steps = {
        "mirror": lambda operand: Convert("a", -1, 5),
        "set": lambda operand: Add("a", operand),
        "above": lambda operand: Filter.parse(f"a > {operand}"),
        "block": lambda operand: NOTHING,
    }
    return mapping(*(steps[name](operand) for name, operand in program))


def note(a: int) -> Notification:
    return Notification(a=a)


def value_of(notification: Notification) -> int:
    a = notification["a"]
    assert isinstance(a, int | float)
    return int(a)


def random_world(
    seed: int | str, *, filters: bool = True, mappings: bool = True, abstract: bool = False, scopes: int = 6
) -> World:
    """A random graph of a few scopes and clients."""
    dice = random.Random(seed)
    world = World(scopes=[ROOT_SCOPE])
    for number in range(dice.randint(1, scopes)):
        _add(dice, world, f"S{number}", filters, mappings)
        if abstract and dice.random() < 0.3:
            world.abstract.add(f"S{number}")
    for number in range(dice.randint(2, 5)):
        _add(dice, world, f"@c{number}", filters, mappings)
    if filters and dice.random() < 0.3:
        world.imposed[ROOT_SCOPE] = _sides(dice)
    return world


def _add(dice: random.Random, world: World, name: str, filters: bool, mappings: bool) -> None:
    count = min(len(world.scopes), dice.choice([0, 1, 1, 1, 2, 2, 3]))
    for scope in dice.sample(world.scopes, count):
        edge = Edge(_sides(dice), _sides(dice)) if filters else Edge()
        if mappings and dice.random() < 0.5:
            edge.outward, edge.inward = _program(dice), _program(dice)
        world.edges[name, scope] = edge
    if name.startswith("@"):
        world.clients.append(name)
        return
    world.scopes.append(name)
    world.base[name] = _sides(dice) if filters else Sides()
    if filters and dice.random() < 0.3:
        world.imposed[name] = _sides(dice)


def _sides(dice: random.Random) -> Sides:
    return Sides(*(ALL if dice.random() < 0.6 else _some(dice) for _ in range(2)))


def _some(dice: random.Random) -> frozenset[int]:
    return frozenset(value for value in VALUES if dice.random() < 0.7)


def _program(dice: random.Random) -> Program:
    choices = [("mirror", 0)] * 3 + [("set", dice.choice(VALUES)), ("above", dice.choice([0, 1]))]
    choices += [("block", 0)] if dice.random() < 0.2 else []
    return tuple(dice.choice(choices) for _ in range(dice.choice([0, 1, 1, 2])))
