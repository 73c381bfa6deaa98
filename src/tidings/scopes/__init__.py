"""Scopes: who sees what. The scope graph, interfaces, mappings, and the service that keeps them."""

from ._changes import (
    Anchor,
    AnyChange,
    CreateScope,
    DestroyScope,
    Impose,
    Join,
    Leave,
    SetAdministration,
    SetAttributes,
    SetInterface,
    SetMapping,
    SetPlacement,
    SetSelective,
    Unanchor,
    apply,
    warnings,
)
from ._graph import Graph, Membership, Placement, Scope, client_node, is_client
from ._interface import CLOSED, OPEN, Interface
from ._mapping import EdgeMapping, Mapping, edge_mapping, mapping
from ._messages import Answer, Ask, Look, Mode, Seen, Snapshot, Transaction
from ._oracle import delivery_paths, reach, sightings, visibility_roots, visible
from ._passage import Passage
from ._rights import Decision, NotAllowed, credential
from ._service import Scopes
from ._versions import Versions
from ._view import Plan, View

__all__ = [
    "CLOSED",
    "OPEN",
    "Anchor",
    "Answer",
    "AnyChange",
    "Ask",
    "CreateScope",
    "Decision",
    "DestroyScope",
    "EdgeMapping",
    "Graph",
    "Impose",
    "Interface",
    "Join",
    "Leave",
    "Look",
    "Mapping",
    "Membership",
    "Mode",
    "NotAllowed",
    "Passage",
    "Placement",
    "Plan",
    "Scope",
    "Scopes",
    "Seen",
    "SetAdministration",
    "SetAttributes",
    "SetInterface",
    "SetMapping",
    "SetPlacement",
    "SetSelective",
    "Snapshot",
    "Transaction",
    "Unanchor",
    "Versions",
    "View",
    "apply",
    "client_node",
    "credential",
    "delivery_paths",
    "edge_mapping",
    "is_client",
    "mapping",
    "reach",
    "sightings",
    "visibility_roots",
    "visible",
    "warnings",
]
