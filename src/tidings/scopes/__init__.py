"""Scopes: who sees what. The scope graph, interfaces, mappings, and the service that keeps them."""

from tidings.model import AuthorityUnreachable, FrozenGraph, NoAuthority, NotAllowed, NotTrusted, guard_log

from ._applying import apply
from ._audit import AuditEntry, Sight
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
    SetDelivery,
    SetInterface,
    SetMapping,
    SetPlacement,
    SetSelective,
    Unanchor,
)
from ._comparison import Comparison, Difference, Effect, Pair, compare
from ._constant import dec_hook, enc_hook
from ._effective import Direction, EffectiveInterface, Terms, effective_interface, inward_terms, outward_terms
from ._explain import Crossing, Explanation, Way, explain
from ._graph import Graph, Membership, Placement, Scope, client_node, is_client
from ._interface import CLOSED, OPEN, Interface
from ._mapping import EdgeMapping, Mapping, edge_mapping, mapping
from ._mapping_file import read_mapping
from ._messages import (
    Answer,
    Ask,
    Look,
    Mode,
    Review,
    Reviewed,
    ScopeEnded,
    Seen,
    Snapshot,
    Transaction,
    decode,
    decode_snapshot,
    decode_transaction,
    encode,
)
from ._names import resolve
from ._oracle import delivery_paths, reach, sightings, visibility_roots, visible
from ._passage import Passage
from ._refusals import refusal_in
from ._rights import Admission, Decision, credential, shown_to
from ._service import Scopes
from ._shelf import TABLE as GRAPH_TABLE
from ._step import MappingFailed
from ._versions import Versions
from ._view import Plan, View
from ._warnings import warnings

__all__ = [
    "CLOSED",
    "GRAPH_TABLE",
    "OPEN",
    "Admission",
    "Anchor",
    "Answer",
    "AnyChange",
    "Ask",
    "AuditEntry",
    "AuthorityUnreachable",
    "Comparison",
    "CreateScope",
    "Crossing",
    "Decision",
    "DestroyScope",
    "Difference",
    "Direction",
    "EdgeMapping",
    "Effect",
    "EffectiveInterface",
    "Explanation",
    "FrozenGraph",
    "Graph",
    "Impose",
    "Interface",
    "Join",
    "Leave",
    "Look",
    "Mapping",
    "MappingFailed",
    "Membership",
    "Mode",
    "NoAuthority",
    "NotAllowed",
    "NotTrusted",
    "Pair",
    "Passage",
    "Placement",
    "Plan",
    "Review",
    "Reviewed",
    "Scope",
    "ScopeEnded",
    "Scopes",
    "Seen",
    "SetAdministration",
    "SetAttributes",
    "SetDelivery",
    "SetInterface",
    "SetMapping",
    "SetPlacement",
    "SetSelective",
    "Sight",
    "Snapshot",
    "Terms",
    "Transaction",
    "Unanchor",
    "Versions",
    "View",
    "Way",
    "apply",
    "client_node",
    "compare",
    "credential",
    "dec_hook",
    "decode",
    "decode_snapshot",
    "decode_transaction",
    "delivery_paths",
    "edge_mapping",
    "effective_interface",
    "enc_hook",
    "encode",
    "explain",
    "inward_terms",
    "is_client",
    "mapping",
    "outward_terms",
    "reach",
    "read_mapping",
    "refusal_in",
    "resolve",
    "shown_to",
    "sightings",
    "visibility_roots",
    "visible",
    "warnings",
]

guard_log("tidings.scopes")
