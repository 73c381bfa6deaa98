"""Columns that the compiled engine makes of batches of a log, as a table: its buffers are those of Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import TypeAlias

import pyarrow as pa

from tidings.store._promoted import Promoted, PromotedKind

from ._promoted import type_of
from ._row_group import routes_of
from ._schema import ATTRIBUTE, BODY, IDENTITY, REST, schema_of

Buffers: TypeAlias = tuple[int, bytes | None, bytes, bytes | None] | None
"""How many are null, which are not, values or where each text begins, texts. None: all are null."""

_FORMS = {
    PromotedKind.BOOLEAN: 0,
    PromotedKind.INTEGER: 1,
    PromotedKind.FLOAT: 2,
    PromotedKind.TEXT: 3,
    PromotedKind.BYTES: 4,
    PromotedKind.TIME: 5,
    PromotedKind.PLACE: 6,
}
"""As the engine numbers them, in the order of the fields of `ATTRIBUTE`."""


class CompiledColumns:
    """Rows that the engine holds until they are taken as a table."""

    def __init__(self, engine: ModuleType, origin: str, promoted: Sequence[Promoted], *, with_body: bool) -> None:
        self._promoted = promoted
        self._with_body = with_body
        wanted = tuple((one.name, _FORMS[one.kind]) for one in promoted)
        self._columns = engine.Columns(origin, wanted, with_body)
        self.add = self._columns.add
        """A batch: how many rows it had, the bytes of their bodies and names; None: it is odd, and was not added."""

    def table(self) -> tuple[pa.Table, set[str]]:
        """All rows, in the order of a row group, and the promoted columns that could not hold every value."""
        rows, columns, incomplete = self._columns.take()
        schema = schema_of(self._promoted, with_body=self._with_body)
        return self._table(iter(columns), rows, schema), {self._promoted[at].name for at in incomplete}

    def _table(self, columns: Iterator[Buffers], rows: int, schema: pa.Schema) -> pa.Table:
        made = {
            field.name: _array(field.type, rows, next(columns))
            for field in IDENTITY
            if field.name not in ("scope", "routes")
        }
        made["scope"], made["routes"] = routes_of(_array(pa.binary(), rows, next(columns)))
        for one in self._promoted:
            made[one.name] = _array(type_of(one), rows, next(columns))
        made["attributes"] = _lists(columns, rows)
        if self._with_body:
            made["body"] = _array(BODY.type, rows, next(columns))
        return pa.Table.from_arrays([made[name] for name in schema.names], schema=schema)


def _lists(columns: Iterator[Buffers], rows: int) -> pa.Array:
    starts = _array(pa.int32(), rows + 1, next(columns))
    count = starts[rows].as_py()
    entries = pa.StructArray.from_arrays(
        [_array(field.type, count, next(columns)) for field in ATTRIBUTE], fields=list(ATTRIBUTE)
    )
    return pa.ListArray.from_arrays(starts, entries, type=REST[0].type)


def _array(kind: pa.DataType, length: int, buffers: Buffers) -> pa.Array:
    if buffers is None:
        return pa.nulls(length, kind)
    nulls, valid, values, texts = buffers
    parts = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(values)]
    return pa.Array.from_buffers(kind, length, parts if texts is None else [*parts, pa.py_buffer(texts)], nulls)
