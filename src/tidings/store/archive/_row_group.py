"""Row groups: a stretch of publications as columns, and back to envelopes.

Row groups follow one another in the order of the log, so that times prune them. Within one, rows are sorted by the
promoted attributes, so that pages of it can be skipped and like values compress together; `seq` gives the order back.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidings.model import ROOT_ROUTE, Identity, Route
from tidings.store._promoted import Promoted
from tidings.wire import Envelope, Quality, encode_body

from ._attributes import column_of, notifications_in
from ._blocks import blocks
from ._promoted import column_of as promoted_column
from ._schema import schema_of

_fields = attrgetter(*Identity.__struct_fields__)
_ROOT = (ROOT_ROUTE,)
_encode_routes = msgspec.msgpack.Encoder().encode
_routes_in = msgspec.msgpack.Decoder(tuple[Route, ...]).decode


def columns_of(
    envelopes: Sequence[Envelope], promoted: Sequence[Promoted], *, with_body: bool
) -> tuple[pa.Table, set[str]]:
    """Some envelopes as columns, in any order, and the promoted columns that could not hold every value."""
    schema, incomplete = schema_of(promoted, with_body=with_body), set()
    tables = []
    for block in blocks(envelopes):
        columns = _identity_columns(block.envelopes)
        for one in promoted:
            columns[one.name], complete = promoted_column(one, block.values(one.name))
            if not complete:
                incomplete.add(one.name)
        columns["attributes"] = column_of(block)
        if with_body:
            columns["body"] = [envelope.body for envelope in block.envelopes]
        tables.append(pa.Table.from_pydict(columns, schema))
    return pa.concat_tables(tables), incomplete


def row_group(parts: Sequence[pa.Table], promoted: Sequence[Promoted]) -> pa.Table:
    """The parts as one, in the order in which a row group is written."""
    table = pa.concat_tables(parts)
    keys = [*(one.name for one in promoted), "seq"]
    order = pc.sort_indices(table.select(keys), [(name, "ascending") for name in keys])
    return table.combine_chunks().take(order)


def _identity_columns(envelopes: Sequence[Envelope]) -> dict[str, Any]:
    identities = [_fields(envelope.identity) for envelope in envelopes]
    columns: dict[str, Any] = dict(zip(Identity.__struct_fields__, zip(*identities, strict=True), strict=True))
    routes = [envelope.routes for envelope in envelopes]
    columns["quality"] = [envelope.quality for envelope in envelopes]
    columns["scope"] = list(map(_scope, routes))
    columns["routes"] = list(map(_encoded, routes))
    return columns


def _is_plain(routes: tuple[Route, ...]) -> bool:
    """Whether the scope tells everything about where the publication was."""
    if routes == _ROOT:
        return True
    return len(routes) == 1 and routes[0] == Route(routes[0].scope)


def routes_of(encoded: pa.BinaryArray) -> tuple[pa.Array, pa.Array]:
    """The columns `scope` and `routes`, from all routes as they are in the log: most are alike."""
    each = encoded.dictionary_encode()
    some = [_routes_in(one) for one in each.dictionary.to_pylist()]
    scopes = pa.array([_scope(one) for one in some], pa.string())
    routes = pa.array([_encoded(one) for one in some], pa.binary())
    return scopes.take(each.indices), routes.take(each.indices)


def _scope(routes: tuple[Route, ...]) -> str:
    return routes[0].scope if routes else ""


def _encoded(routes: tuple[Route, ...]) -> bytes | None:
    return None if _is_plain(routes) else _encode_routes(routes)


def envelopes_in(table: pa.Table) -> list[Envelope]:
    """The envelopes in some rows, in their order."""
    names = [name for name in IDENTITY_NAMES if name != "published_at"]
    columns = {name: table.column(name).to_pylist() for name in names}
    columns["published_at"] = table.column("published_at").cast(pa.int64()).to_pylist()
    identities = map(Identity, *(columns[name] for name in Identity.__struct_fields__))
    routes = [
        (Route(scope),) if encoded is None else _routes_in(encoded)
        for scope, encoded in zip(columns["scope"], columns["routes"], strict=True)
    ]
    notifications = [one for chunk in table.column("attributes").chunks for one in notifications_in(chunk)]
    has_body = "body" in table.column_names
    bodies = table.column("body").to_pylist() if has_body else [encode_body(one) for one in notifications]
    qualities = map(Quality, columns["quality"])
    return list(map(Envelope.of, identities, routes, bodies, qualities, notifications))


IDENTITY_NAMES = tuple(field.name for field in schema_of(()) if field.name != "attributes")
