"""Warnings: what a scope graph may be, and hardly anybody can want."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tidings.model import Filter

from ._effective import Terms, inward_terms, offered, outward_terms
from ._graph import Graph
from ._interface import both


def warnings(graph: Graph, since: int = 0) -> Iterator[str]:
    """What is allowed and makes no sense: edges that nothing can ever cross, though nobody has closed them.

    With `since`, only the edges that are as they are since that version.
    """
    recent = {id for id, scope in graph.scopes.items() if scope.revised >= since}
    for edge in graph.memberships():
        revised = edge.since >= since or edge.scope in recent or edge.member in recent
        if revised and edge.scope in graph.upward(edge.member):
            if _contradicts(outward_terms(graph, edge)):
                yield f"nothing can pass from '{edge.member}' to '{edge.scope}': {_CONTRADICTION}"
            if _contradicts(inward_terms(graph, edge)):
                yield f"nothing can pass from '{edge.scope}' to '{edge.member}': {_CONTRADICTION}"


_CONTRADICTION = "its interfaces exclude each other, and only lists could satisfy them all"


def _contradicts(terms: Terms) -> bool:
    """Whether no value can be on both sides, lists understood element by element."""
    before, after = ([stage.filter for stage in side] for side in (terms.before, terms.after))
    if not all(filter.conjunctions for filter in before + after):
        return False  # closed on purpose
    if terms.mapping is None:
        return _exclude_each_other(before + after)
    if terms.mapping.is_blocked or terms.mapping.unknown:
        return False
    return _exclude_each_other(before) or _exclude_each_other([offered(terms.mapping, both(*before)[0]), *after])


def _exclude_each_other(filters: list[Filter]) -> bool:
    pairs = itertools.combinations_with_replacement(filters, 2)  # a filter may contradict itself
    return any(not one.overlaps(other) for one, other in pairs)
