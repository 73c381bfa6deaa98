"""What the documents define, written down a second time: relations as sets of pairs, rules as fixpoints.

Nothing here asks the oracle whether the oracle is right: both start from the same plain `World`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from scopes.graph_world import VALUES, World, note, value_of

from tidings.model import ROOT_SCOPE
from tidings.scopes import Graph, reach, sightings

Fact = tuple[str, int]
"""A node, and the value that it sees."""


def saturated(facts: set, rule: Callable[[tuple], Iterator[tuple]]) -> set:
    """The least set that holds these facts and all that follows from them."""
    new = set(facts)
    while new:
        new = {result for fact in new for result in rule(fact)} - facts
        facts |= new
    return facts


def least_v(world: World) -> set[tuple[str, str]]:
    """v, the least relation of Def. 3.2, as the set of its pairs."""
    links = world.links()

    def rule(pair: tuple[str, str]) -> Iterator[tuple[str, str]]:
        one, other = pair
        yield other, one
        yield from ((member, other) for member, scope in links if scope == one)

    return saturated({(node, node) for node in world.nodes()}, rule)


def literal(world: World, publisher: str, a: int) -> set[Fact]:
    """All (n', Y) with (n, X) ~> (n', Y), as Def. 3.5 has it: what has climbed an edge may come back down it."""
    links = world.links().items()

    def climb(fact: Fact) -> Iterator[Fact]:
        for (member, scope), edge in links:
            if member == fact[0] and (shown := world.up(member, scope, edge, fact[1])) is not None:
                yield scope, shown

    def descend(fact: Fact) -> Iterator[Fact]:
        for (member, scope), edge in links:
            if scope == fact[0] and (shown := world.down(member, scope, edge, fact[1])) is not None:
                yield member, shown

    return saturated(saturated({(publisher, a)}, climb), descend)


def without_re_entry(world: World, publisher: str, a: int, *, only_return: bool = False) -> set[Fact]:
    """~> with no descent into a node that was climbed through; or, with `only_return`, not at once back down."""
    links = world.links().items()

    def climb(fact: tuple) -> Iterator[tuple]:
        node, value, trail = fact
        for (member, scope), edge in links:
            if member == node and (shown := world.up(member, scope, edge, value)) is not None:
                yield scope, shown, (*trail, scope)

    def descend(fact: tuple) -> Iterator[tuple]:
        node, value, trail = fact
        barred = trail[-2:-1] if only_return and trail[-1] == node else () if only_return else trail
        for (member, scope), edge in links:
            if scope == node and member not in barred and (shown := world.down(member, scope, edge, value)) is not None:
                yield member, shown, trail

    climbed = saturated({(publisher, a, (publisher,))}, climb)
    return {(node, value) for node, value, _ in saturated(climbed, descend)}


def by_rules(world: World, publisher: str, a: int) -> set[Fact]:
    """Eqs. 3.5-3.7: what is visible where, as an internal or as an incoming notification, by whom."""
    links = world.links().items()

    def rule(fact: tuple) -> Iterator[tuple]:
        source, value, node, internal = fact
        for (member, scope), edge in links:
            if member == node and internal and (shown := world.up(member, scope, edge, value)) is not None:
                yield node, shown, scope, True  # PP
            if scope == node and not (internal and member == source):
                shown = world.down(member, scope, edge, value)
                if shown is not None:
                    yield node, shown, member, False  # DP, iDP

    return {(node, value) for _, value, node, _ in saturated({("", a, publisher, True)}, rule)}


def seen_by(some: Graph, publisher: str, a: int, nodes: list[str]) -> set[Fact]:
    """The same from the oracle, all nodes but the publisher."""
    found = {(at.node, value_of(at.notification)) for at in reach(some, publisher, note(a))}
    for node in nodes:
        if ROOT_SCOPE in some.upward(node) and node not in some.members(ROOT_SCOPE):  # the graph does not list it there
            found |= {(node, value_of(at.notification)) for at in sightings(some, publisher, note(a), node)}
    return {fact for fact in found if fact[0] != publisher}


def others(facts: set[Fact], publisher: str) -> set[Fact]:
    return {fact for fact in facts if fact[0] != publisher}


def publications(world: World) -> Iterator[tuple[str, int]]:
    yield from itertools.product(world.clients, VALUES)
