"""What a scope has of its own for all its superscopes: a mapping, and where notifications cross.

The graph keeps both with the edges, and not with the scope. So a scope that joins one more superscope takes what the
script has said of it; if the script says nothing, and what is known tells that there may be something, the script has
to say it. To forget a mapping would show the new superscope what the others must not see.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from tidings.model import ScopeError
from tidings.scopes._graph import Graph, Membership, Placement
from tidings.scopes.mappings._mapping import EdgeMapping

from ._definitions import definition_of
from ._extensions import NOWHERE, Carrying, carrying
from ._mistakes import Misfit, Source
from ._syntax import MapClause


@dataclass(frozen=True)
class Own:
    """What a statement says of all edges of a scope to its superscopes."""

    mapping: EdgeMapping | None
    crossing: Carrying
    source: Source
    at: int


class Owns:
    """What the statements of a script say so far."""

    def __init__(self) -> None:
        self._known: dict[str, Own] = {}

    def note(self, id: str, own: Own) -> None:
        """Keep what a statement says of a scope."""
        self._known[id] = own

    def note_mapping(self, id: str, mapping: EdgeMapping | None, source: Source, at: int) -> None:
        """Keep what a statement says of the mapping alone."""
        known = self._known.get(id)
        self._known[id] = Own(mapping, known.crossing if known else NOWHERE, source, at)

    def inherited(self, graph: Graph, member: str) -> dict[str, object]:
        """The terms of an edge of which its statement does not say them."""
        own = self._known.get(member)
        crossing = own.crossing if own is not None and own.crossing.placement is not None else _annotated(graph, member)
        terms: dict[str, object] = {}
        if crossing.placement is not None:
            terms |= {"placement": crossing.placement, "gateway": crossing.gateway}
        if own is not None and own.mapping is not None:
            terms["mapping"] = own.mapping
        return terms

    def check(self, graphs: Sequence[Graph], member: str, scope: str, at: int, said: Container[str]) -> None:
        """Raise `Misfit` if a new edge would lack what other edges of the member have, or had before the script."""
        if member in self._known:
            return
        others = [edge for graph in graphs for edge in graph.superscopes(member).values()]
        if "mapping" not in said:
            mapped = next((edge for edge in others if edge.mapping is not None), None)
            place = f"towards '{mapped.scope or 'root'}'" if mapped else "in its definition"
            if mapped or _maps(graphs[-1], member):
                raise Misfit(
                    f"'{member}' has a mapping {place}, and none is given here for '{scope or 'root'}'",
                    at,
                    "Write it behind the selection: : { MAP OUTWARD { ... } }, with empty braces for none.",
                )
        if "placement" not in said:
            placed = next((edge for edge in others if edge.placement is not Placement.ONCE), None)
            if placed is not None:
                raise Misfit(
                    f"'{member}' crosses to '{placed.scope or 'root'}' {_crossing(placed)}, and nothing is said here "
                    f"for '{scope or 'root'}'",
                    at,
                    'Write it behind the selection: : { SET gateway = "BROKER" }, or placement = "once" for none.',
                )

    def elsewhere(self, graph: Graph, mentioned: set[tuple[str, str]]) -> Iterator[str]:
        """A warning for each edge that no statement names, and that has not the mapping of its scope."""
        for id, own in self._known.items():
            for scope, edge in graph.superscopes(id).items():
                if own.mapping is not None and (id, scope) not in mentioned and edge.mapping != own.mapping:
                    yield (
                        f"'{id}' is a member of '{scope or 'root'}', too, which no statement says: its MAP does not "
                        "hold there; name that superscope, or let it leave"
                    )

    def lost(self, graph: Graph, mentioned: set[tuple[str, str]]) -> Iterator[tuple[Source, Misfit]]:
        """What has been said of scopes that are a member of nothing in the end: it would be forgotten."""
        for id, own in self._known.items():
            named = [scope for scope in graph.superscopes(id) if (id, scope) in mentioned]
            if named or any(edge.mapping == own.mapping for edge in graph.superscopes(id).values()):
                continue
            if own.mapping is not None and not _maps(graph, id):
                word = "MAP"
            elif own.crossing.placement is not None and _annotated(graph, id) != own.crossing:
                word = "gateway" if own.crossing.gateway else "placement"
            else:
                continue
            yield (
                own.source,
                Misfit(
                    f"the {word} of '{id}' belongs to its superscopes, and it is given none",
                    own.at,
                    "Add SUPERSCOPE ALL FROM ..., or leave it out.",
                ),
            )


def _annotated(graph: Graph, id: str) -> Carrying:
    """Where notifications cross, by the attributes of a scope."""
    try:
        return carrying(graph.attributes(id))
    except ScopeError:
        return NOWHERE


def _maps(graph: Graph, id: str) -> bool:
    """Whether the definition of a scope has a mapping."""
    text = graph.definitions.get(graph.scopes[id].definition)
    if text is None or "MAP" not in text:
        return False
    return any(isinstance(feature, MapClause) for feature in definition_of(text).features)


def _crossing(edge: Membership) -> str:
    return f"at '{edge.gateway}'" if edge.gateway else edge.placement.value
