"""Scopes: who sees what. The scope graph, interfaces, mappings, and the service that keeps them."""

from tidings.model import AuthorityUnreachable, FrozenGraph, NoAuthority, NotAllowed, NotTrusted, StaleGraph, guard_log

from ._applying import apply
from ._attributes import Attributes
from ._audit import AuditEntry, Sight, described
from ._changes import (
    Anchor,
    AnyChange,
    CreateScope,
    Define,
    DestroyScope,
    Forget,
    Impose,
    Join,
    Leave,
    Redefine,
    SetAdministration,
    SetAttributes,
    SetDelivery,
    SetInterface,
    SetMapping,
    SetOrigin,
    SetPlacement,
    SetRoles,
    SetSelective,
    Unanchor,
    Undefine,
)
from ._comparison import Comparison, Difference, Effect, Pair, compare
from ._components import Component, members_of, scope_component
from ._constant import BoundedReading, dec_hook, enc_hook
from ._digest import digest
from ._effective import Direction, EffectiveInterface, Terms, effective_interface, inward_terms, outward_terms
from ._explain import Crossing, Explanation, Way, explain
from ._graph import Client, Graph, Membership, Placement, Scope, client_node, is_client
from ._interface import CLOSED, OPEN, Interface
from ._kept_graph import TABLE as GRAPH_TABLE
from ._mapping import EdgeMapping, Mapping, edge_mapping, mapping
from ._mapping_file import read_mapping
from ._messages import (
    Answer,
    Ask,
    Census,
    Counted,
    Look,
    LookBack,
    Mode,
    Review,
    Reviewed,
    Revision,
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
from ._outlook import (
    Carried,
    Doubt,
    Outcome,
    Outlook,
    Redelivered,
    SightChange,
    decode_outlook,
    encode_outlook,
)
from ._passage import Passage
from ._planning import THOROUGH_EFFORT, Planning, plan_change
from ._readers import Reading, readers_named, what_sees, who_sees
from ._refusals import refusal_in
from ._rights import Admission, Decision, credential, shown_to
from ._service import Scopes
from ._step import MappingFailed
from ._undoing import inverse
from ._versions import Versions
from ._view import Plan, View
from ._warnings import warnings

__all__ = [
    "CLOSED",
    "GRAPH_TABLE",
    "OPEN",
    "THOROUGH_EFFORT",
    "Admission",
    "Anchor",
    "Answer",
    "AnyChange",
    "Ask",
    "Attributes",
    "AuditEntry",
    "AuthorityUnreachable",
    "BoundedReading",
    "Carried",
    "Census",
    "Client",
    "Comparison",
    "Component",
    "Counted",
    "CreateScope",
    "Crossing",
    "Decision",
    "Define",
    "DestroyScope",
    "Difference",
    "Direction",
    "Doubt",
    "EdgeMapping",
    "Effect",
    "EffectiveInterface",
    "Explanation",
    "Forget",
    "FrozenGraph",
    "Graph",
    "Impose",
    "Interface",
    "Join",
    "Leave",
    "Look",
    "LookBack",
    "Mapping",
    "MappingFailed",
    "Membership",
    "Mode",
    "NoAuthority",
    "NotAllowed",
    "NotTrusted",
    "Outcome",
    "Outlook",
    "Pair",
    "Passage",
    "Placement",
    "Plan",
    "Planning",
    "Reading",
    "Redefine",
    "Redelivered",
    "Review",
    "Reviewed",
    "Revision",
    "Scope",
    "ScopeEnded",
    "Scopes",
    "Seen",
    "SetAdministration",
    "SetAttributes",
    "SetDelivery",
    "SetInterface",
    "SetMapping",
    "SetOrigin",
    "SetPlacement",
    "SetRoles",
    "SetSelective",
    "Sight",
    "SightChange",
    "Snapshot",
    "StaleGraph",
    "Terms",
    "Transaction",
    "Unanchor",
    "Undefine",
    "Versions",
    "View",
    "Way",
    "apply",
    "client_node",
    "compare",
    "credential",
    "dec_hook",
    "decode",
    "decode_outlook",
    "decode_snapshot",
    "decode_transaction",
    "delivery_paths",
    "described",
    "digest",
    "edge_mapping",
    "effective_interface",
    "enc_hook",
    "encode",
    "encode_outlook",
    "explain",
    "inverse",
    "inward_terms",
    "is_client",
    "mapping",
    "members_of",
    "outward_terms",
    "plan_change",
    "reach",
    "read_mapping",
    "readers_named",
    "refusal_in",
    "resolve",
    "scope_component",
    "shown_to",
    "sightings",
    "visibility_roots",
    "visible",
    "warnings",
    "what_sees",
    "who_sees",
]

guard_log("tidings.scopes")
