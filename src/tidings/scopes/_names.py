"""Names: which scope somebody means. A name is local to the scope in which it is used.

A scope's id says where it was made, once and for ever: "market/floor". Its name, "floor", is enough wherever no other
scope of that name is nearer. From a scope one sees, level by level, the scope itself and its members; its superscopes
and their members; and so on up to what is a member of nothing. The first level on which the name is found decides.
Abstract scopes are there to be found.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidings.model import ROOT_SCOPE, AmbiguousName, UnknownName

from ._graph import Graph, is_client


def resolve(graph: Graph, name: str, within: str = ROOT_SCOPE) -> str:
    """The id of the scope that a name means inside a scope, or to a client. An id means itself everywhere.

    >>> from tidings.scopes import CreateScope, Graph, Join, apply
    >>> market = apply(Graph(), (CreateScope("market"), CreateScope("market/floor"), Join("market/floor", "market")))
    >>> resolve(market, "floor", within="market")
    'market/floor'
    """
    if name in graph.scopes:
        return name
    for level in _levels(graph, within):
        found = sorted(id for id in level if graph.scopes[id].name == name)
        if len(found) > 1:
            raise AmbiguousName(
                f"'{name}' may be {_listed(found)}, seen from {_place(within)}; write the id of the one you mean"
            )
        if found:
            return found[0]
    elsewhere = sorted(id for id, scope in graph.scopes.items() if scope.name == name)
    remedy = f"there is {_listed(elsewhere)} elsewhere: write the id" if elsewhere else "`tidings scope tree` shows all"
    raise UnknownName(f"no scope '{name}' can be seen from {_place(within)}; {remedy}")


def _levels(graph: Graph, within: str) -> Iterator[set[str]]:
    """What can be seen, the nearest first. The last level is what is a member of nothing, the root scope among it."""
    level = set(graph.superscopes(within) or [ROOT_SCOPE]) if is_client(within) else {graph.scope(within).id}
    seen: set[str] = set()
    while level:
        yield level | {member for scope in level for member in graph.subscopes(scope)}
        seen |= level
        level = {above for scope in level for above in graph.superscopes(scope)} - seen
    yield {*graph.roots(), *graph.subscopes(ROOT_SCOPE)}


def _place(within: str) -> str:
    return f"'{within}'" if within else "the root scope"


def _listed(ids: list[str]) -> str:
    shown = " or ".join(repr(id) for id in ids[:5])
    return shown + (f" or {len(ids) - 5} more" if len(ids) > 5 else "")
