"""The columns of an archive file. docs/archive.md describes them for readers in any language."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pyarrow as pa

from tidings.store._errors import StoreError
from tidings.store._promoted import Promoted, PromotedKind

from ._promoted import TIME, type_of

FORMAT = 1
"""The version of the columns and of their meaning, in the metadata of each file."""
META_FORMAT = b"tidings.format"
META_PROMOTED = b"tidings.promoted"
"""The kind of each promoted column. A JSON object."""
META_COMPLETE = b"tidings.complete"
"""The promoted columns in which null means that the attribute is missing, and nothing else. A JSON list."""

ATTRIBUTE = pa.struct(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("index", pa.int16()),  # null: a scalar; from 0: an element of a list; -1: an empty list
        pa.field("as_bool", pa.bool_()),
        pa.field("as_int", pa.int64()),
        pa.field("as_float", pa.float64()),
        pa.field("as_text", pa.string()),
        pa.field("as_bytes", pa.binary()),
        pa.field("as_time", TIME),
        pa.field("as_place", pa.string()),
    ]
)
"""One attribute, or one element of a list; exactly one of the values is not null, none for an empty list."""

IDENTITY = [
    pa.field("origin", pa.string(), nullable=False),
    pa.field("epoch", pa.int64(), nullable=False),
    pa.field("seq", pa.int64(), nullable=False),
    pa.field("publisher", pa.string(), nullable=False),
    pa.field("publisher_seq", pa.int64(), nullable=False),
    pa.field("published_at", TIME, nullable=False),
    pa.field("graph_epoch", pa.int64(), nullable=False),
    pa.field("ttl", pa.int64()),
    pa.field("quality", pa.int8(), nullable=False),
    pa.field("scope", pa.string(), nullable=False),
    pa.field("routes", pa.binary()),
]
REST = [pa.field("attributes", pa.list_(pa.field("element", ATTRIBUTE, nullable=False)), nullable=False)]
BODY = pa.field("body", pa.binary(), nullable=False)


def schema_of(promoted: Iterable[Promoted], *, with_body: bool = False) -> pa.Schema:
    """The columns of a file."""
    chosen = list(promoted)
    names = [one.name for one in chosen]
    if twice := {name for name in names if names.count(name) > 1}:
        raise StoreError(f"'{min(twice)}' is promoted twice; name each attribute once")
    own = [pa.field(one.name, type_of(one)) for one in chosen]
    kinds = json.dumps({one.name: one.kind.value for one in chosen})
    metadata = {META_FORMAT: str(FORMAT).encode(), META_PROMOTED: kinds.encode()}
    return pa.schema([*IDENTITY, *own, *REST, *([BODY] if with_body else [])], metadata)


def promoted_in(metadata: dict[bytes, bytes]) -> tuple[list[Promoted], frozenset[str]]:
    """The promoted columns of a file, and those of them in which null means that the attribute is missing."""
    version = metadata.get(META_FORMAT, b"none").decode(errors="replace")
    if version != str(FORMAT):
        raise StoreError(f"it has format {version}, this Tidings reads format {FORMAT}")
    kinds = json.loads(metadata.get(META_PROMOTED, b"{}"))
    complete = json.loads(metadata.get(META_COMPLETE, b"[]"))
    return [Promoted(name, PromotedKind(kind)) for name, kind in kinds.items()], frozenset(complete)
