"""Edges that a DEPLOY makes or finds: each gets the terms that the statement gives it.

The superscope side of an edge has the selective interface, and between scopes the mapping and the crossing; the member
side has the imposed interface, and of clients the mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from tidings.model import EVERYTHING, NOTHING, Filter
from tidings.scopes._changes import Join
from tidings.scopes._graph import Membership, Placement, is_client
from tidings.scopes._interface import OPEN, Interface

from ._extensions import Carrying
from ._maps import edge_mapping_of
from ._own import Own
from ._syntax import Feature, Selection
from ._terms import EdgeTerms, ScopeTerms, block_of, edge_terms

if TYPE_CHECKING:
    from ._compiling import Run


def interface_of(sides: dict[bool, Filter]) -> Interface:
    """An interface in which a direction that nothing is said of is open."""
    return Interface(sides.get(False, EVERYTHING), sides.get(True, EVERYTHING))


class Edges:
    """The edges of one scope that is deployed."""

    def __init__(
        self, run: Run, id: str, features: tuple[Feature, ...], terms: ScopeTerms, crossing: Carrying, *, at: int
    ) -> None:
        self._run = run
        self._id = id
        self._features = features
        self._terms = terms
        self._crossing = crossing
        self._mapping = edge_mapping_of(terms.maps, self._base_sides())
        run.owns.note(id, Own(self._mapping, crossing, run.ledger.source, at))

    def _given(self, selection: Selection) -> EdgeTerms:
        properties = block_of(selection, self._features)
        return edge_terms(properties, self._run.reading(self._id, self._features), self._run.extensions)

    def join_superscopes(self, selection: Selection, nodes: list[str]) -> None:
        """Make the scope a member of these."""
        given = self._given(selection)
        usual: dict[str, object] = {
            "selective": OPEN,
            "mapping": self._mapping,
            "placement": self._crossing.placement or Placement.ONCE,
            "gateway": self._crossing.gateway,
        }
        said = said_of(given, selection, self._id)
        for scope in nodes:
            put_edge(self._run, selection.at, self._id, scope, said=said, usual=usual)

    def _base_sides(self) -> dict[bool, Filter]:
        return {False: self._terms.sides.get(False, NOTHING), True: self._terms.sides.get(True, NOTHING)}

    def join_members(self, selection: Selection, nodes: list[str]) -> None:
        """Make these members of the scope."""
        given = self._given(selection)
        for member in nodes:
            usual: dict[str, object] = {"imposed": OPEN, "mapping": None} if is_client(member) else {"imposed": OPEN}
            said = said_of(given, selection, member)
            put_edge(self._run, selection.at, member, self._id, said=said, usual=usual)


def said_of(given: EdgeTerms, selection: Selection, member: str) -> dict[str, object]:
    """The terms of an edge that the block of a selection speaks of."""
    side = "selective" if selection.superscope else "imposed"
    said: dict[str, object] = {side: interface_of(given.sides)} if given.sides else {}
    if given.mapping is not None:
        said["mapping"] = given.mapping
    if given.carrying.placement is not None and not is_client(member):
        said |= {"placement": given.carrying.placement, "gateway": given.carrying.gateway}
    return said


_NO_TERMS: Mapping[str, object] = MappingProxyType({})
_WORDS = {"selective": "what passes by the block", "imposed": "the interface", "mapping": "the mapping"}


def put_edge(
    run: Run, at: int, member: str, scope: str, *, said: Mapping[str, object], usual: Mapping[str, object] = _NO_TERMS
) -> None:
    """An edge with the terms that a block has said: a new one, or the one that is there.

    The others are as they are `usual`, or as the scope has them for all its superscopes, unless a block of the script
    has said them: a selection without a block takes nothing back.
    """
    what = f"of '{member}' in '{scope or 'root'}'"
    run.ledger.claim(("edge", member, scope), True, at, f"the membership {what}")
    for word, value in said.items():
        run.ledger.claim(("term", member, scope, word), value, at, f"{_WORDS.get(word, f'the {word}')} {what}")
    run.mentioned.edges.add((member, scope))
    told = run.told.setdefault((member, scope), set())
    told.update(said)
    own = {} if is_client(member) else run.owns.inherited(run.graph, member)
    fields = {word: value for word, value in {**usual, **own}.items() if word not in told}
    fields.update(said)
    known = run.graph.superscopes(member).get(scope)
    if known is None:
        if not is_client(member):
            run.owns.check((run.world.graph, run.graph), member, scope, at, fields)
        run.apply(at, Join(member, scope, **fields))  # type: ignore[arg-type]
        return
    changed: Membership = msgspec.structs.replace(known, **fields)
    if changed != known:
        run.graph = run.graph.with_edge(changed)
