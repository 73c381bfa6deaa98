"""The digest of a graph: equal for graphs that say the same, whatever their versions, and wherever they are carried."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from ._graph import Graph, Membership, Scope
from ._messages import Snapshot
from .mappings._constant import enc_hook

_LEFT_OUT = ("version", "anchors")
"""What brokers say about a graph, and not administrators."""
_encoder = msgspec.msgpack.Encoder(enc_hook=enc_hook, order="deterministic")


def digest(graph: Graph) -> str:
    """A short name of what a graph says: scopes, memberships and what is said about components.

    Versions are left out, and brokers that carry a scope because clients of theirs are members of it.
    """
    snapshot = Snapshot.of(graph)
    whole = hashlib.blake2b(digest_size=16, person=b"tidings-graph")
    for field in snapshot.__struct_fields__:
        if field not in _LEFT_OUT:
            value = getattr(snapshot, field)
            parts = sorted(map(_encoded, value)) if isinstance(value, tuple) else [_encoded(value)]
            whole.update(_encoder.encode([field, parts]))
    return whole.hexdigest()


def _encoded(value: Any) -> bytes:
    if isinstance(value, Scope):
        value = msgspec.structs.replace(value, revised=0)
    elif isinstance(value, Membership):
        value = msgspec.structs.replace(value, since=0)
    return _encoder.encode(value)
