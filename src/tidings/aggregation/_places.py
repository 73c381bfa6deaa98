"""Places: over which brokers a scope is counted, and whose registrations count in it.

Theory of operation
-------------------
A scope is counted over its overlay, a part of the tree. A broker that carries the scope asks its neighbours that carry
it, too. One that does not asks the neighbour on the way there, and contributes nothing: so a client may ask anywhere.

What members of a subscope want or offer counts in a scope as well, if the edge between them lets counts pass. Counts
pass where a notification `type = 'tidings.count'` would go out: so the interfaces that say what leaves a scope say
whether numbers do. Filters cross the edge as subscriptions and advertisements do, mappings included. The overlay of a
scope holds those of its subscopes, so each broker follows these *ways* for its own clients, and a client that is there
by two ways counts once. Where an edge is crossed at a gateway, the brokers behind it are not in the overlay: nothing is
counted across it.

What is published counts in every scope in which it is visible, whatever lets counts pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from tidings.broker import Context, Link, Passage, View
from tidings.model import Notification

COUNT = Notification({"type": "tidings.count"})
"""An edge lets counts pass if this may go out from the member to the scope."""
MAX_WAYS = 1_000
"""The most ways by which the members of subscopes count in one scope; with more, values stay incomplete."""

Way: TypeAlias = tuple[Passage, ...]
"""From a subscope up to a scope, the innermost edge first; empty: from the scope itself."""
Ways: TypeAlias = Mapping[str, tuple[Way, ...]]
"""By the scope from which they start."""


class Place(NamedTuple):
    """One scope, as it is counted at one broker."""

    known: bool
    """Whether there is such a scope, as far as this broker knows."""
    links: tuple[Link, ...]
    """The neighbours to be asked that are ready."""
    whole: bool
    """Whether these are all, and nothing is left out of `ways`."""
    brokers: int
    """How many brokers carry the scope."""
    ways: Ways
    """Whose registrations count; empty: this broker does not carry the scope."""
    paths: Ways
    """Whose publications are visible."""
    detour: str
    """A subscope from which publications take a detour over a gateway; "": there is none."""


NOWHERE = Place(False, (), False, 0, {}, {}, "")


class Places:
    """The scopes that are counted at one broker."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[str, Place] = {}

    def forget(self) -> None:
        """The tree, the graph or the neighbours are others."""
        self._known.clear()

    @property
    def lacking(self) -> bool:
        """Whether something was asked for that is not there, or is to be reached over a gateway only."""
        return any(not place.known or place.detour for place in self._known.values())

    def refresh(self) -> bool:
        """The graph is another one: work out anew what was asked for; whether anything has changed by that."""
        before, self._known = self._known, {}
        after = {scope: self.of(scope) for scope in before}
        return before != after

    def of(self, scope: str) -> Place:
        """How a scope is counted here."""
        place = self._known.get(scope)
        if place is None:
            place = self._known[scope] = self._work_out(scope)
        return place

    def _work_out(self, scope: str) -> Place:
        context = self._context
        view, tree = context.scoping.newest, context.tree
        if not view.knows(scope):
            return NOWHERE
        carriers = [name for name in tree.parents if view.carries(name, scope)]
        carried = view.carries(context.name, scope)
        # The overlay is connected: from elsewhere, all of it is behind one neighbour.
        towards = {tree.hops[name] for name in carriers if name in tree.hops}
        names = view.neighbours(scope) if carried else towards
        links = tuple(link for link in context.neighbours if link.name in names)
        ways, all_ways = _ways(view, scope, counting=True) if carried else ({}, True)
        paths, all_paths = _ways(view, scope, counting=False) if carried else ({}, True)
        whole = len(links) == len(names) and all_ways and all_paths
        return Place(True, links, whole, len(carriers), ways, paths, _detour(view, scope))


def _ways(view: View, scope: str, *, counting: bool) -> tuple[Ways, bool]:
    """All ways into a scope, and whether they are all."""
    found: dict[str, tuple[Way, ...]] = {scope: ((),)}
    stack: list[tuple[str, Way]] = [(scope, ())]
    count = 0
    while stack:
        above, way = stack.pop()
        for below, passage in view.subs(above).items():
            if view.gateway(below, above) is not None or (counting and not lets_counts_pass(passage)):
                continue
            if (count := count + 1) > MAX_WAYS:
                return found, False
            longer = (passage, *way)
            found[below] = (*found.get(below, ()), longer)
            stack.append((below, longer))
    return found, True


def lets_counts_pass(passage: Passage) -> bool:
    """Whether an edge between two scopes lets counts pass."""
    return passage.outward(COUNT) is not None


def _detour(view: View, scope: str) -> str:
    stack, seen = [scope], {scope}
    while stack:
        above = stack.pop()
        for below in view.subs(above):
            if view.gateway(below, above) is not None:
                return below
            if below not in seen:
                seen.add(below)
                stack.append(below)
    return ""
