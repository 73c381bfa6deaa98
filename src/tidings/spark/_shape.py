"""The shape of the rows that Spark gets: which columns, and how to make them of files and of envelopes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidings.store import Promoted, PromotedKind
from tidings.store.archive import RESERVED, columns_of, promoted_of, schema_of
from tidings.wire import Envelope

from ._errors import SourceError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

LOST_TO = "lost_to"
"""In a row that stands for a gap: its last number, while `seq` is the first. Null in all other rows."""
_KINDS = {
    "string": PromotedKind.TEXT,
    "bigint": PromotedKind.INTEGER,
    "double": PromotedKind.FLOAT,
    "boolean": PromotedKind.BOOLEAN,
    "timestamp": PromotedKind.TIME,
    "binary": PromotedKind.BYTES,
}
OWN = frozenset(schema_of((), with_body=True).names)
"""The columns that are no attributes."""


@dataclass(frozen=True)
class TableShape:
    """The columns, in order. It travels to the workers."""

    names: tuple[str, ...]
    promoted: dict[str, Promoted] = field(default_factory=dict)
    """Those that are attributes."""
    schema: Any = None
    """As Arrow has it: a `pa.Schema`."""

    @classmethod
    def of(cls, schema: StructType) -> TableShape:
        """From the schema that Spark wants, its own or a user's; `SourceError` names a column that cannot be."""
        from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - an extra, and slow to load

        from ._columns import promoted_in  # noqa: PLC0415
        from ._columns import schema_of as table_of  # noqa: PLC0415

        own = {one.name: one.dataType for one in table_of((), with_body=True)}
        known = promoted_in(schema)
        promoted: dict[str, Promoted] = {}
        for column in schema:
            name, kind = column.name, column.dataType.simpleString()
            if name in own:
                if own[name].simpleString() != kind:
                    raise SourceError(f"column '{name}' is {own[name].simpleString()}, not {kind}; change the schema")
            elif name in known:
                promoted[name] = known[name].promoted
            elif name == LOST_TO and kind == "bigint":
                continue
            elif kind not in _KINDS:
                raise SourceError(
                    f"column '{name}' cannot be {kind}; an attribute has one of the types {', '.join(_KINDS)}"
                )
            elif name.lower() in RESERVED:
                raise SourceError(f"column '{name}' would be one of the archive's own; write it as '{name.lower()}'")
            else:
                promoted[name] = Promoted(name, _KINDS[kind])
        return cls(tuple(schema.fieldNames()), promoted, to_arrow_schema(schema, timezone="UTC"))

    def needs(self, present: Sequence[Promoted]) -> set[str]:
        """The columns of a file that are needed, if it has these promoted ones."""
        needed = {name for name in self.names if name in OWN}
        for one in self.promoted.values():
            needed.add(one.name if one in present else "attributes")
        return needed

    def batches(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """The rows of a table with the columns of a file, as Spark gets them."""
        table = table.combine_chunks()
        columns = [self._column(name, table) for name in self.names]
        made = pa.table(columns, schema=self.schema)
        yield from made.to_batches(max_chunksize=10_000)

    def _column(self, name: str, table: pa.Table) -> pa.Array:
        wanted = self.schema.field(name).type
        if name in self.promoted and not _has(table, name, wanted):
            made, _ = promoted_of(_array(table.column("attributes")), self.promoted[name])
            return _flat(made, wanted)
        if name not in table.column_names:
            return pa.nulls(len(table), wanted)
        found = _array(table.column(name))
        return entries_as(found, wanted) if name == "attributes" else _flat(found, wanted)

    def gap(self, origin: str, epoch: int, first: int, last: int) -> pa.RecordBatch:
        """A row that stands for what is lost."""
        told = {"origin": origin, "epoch": epoch, "seq": first, LOST_TO: last}
        arrays = [pa.array([told.get(name)], self.schema.field(name).type) for name in self.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def of_envelopes(self, envelopes: Sequence[Envelope]) -> Iterator[pa.RecordBatch]:
        """Some envelopes as rows, in their order."""
        table, _ = columns_of(envelopes, tuple(self.promoted.values()), with_body="body" in self.names)
        yield from self.batches(table.sort_by("seq"))


def _has(table: pa.Table, name: str, wanted: pa.DataType) -> bool:
    return name in table.column_names and table.schema.field(name).type == wanted


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def _flat(found: pa.Array, wanted: pa.DataType) -> pa.Array:
    return found if found.type == wanted else found.cast(wanted)


def entries_as(found: pa.ListArray, wanted: pa.ListType) -> pa.ListArray:
    """The list of all attributes: the same values, with the nullability that Spark wants to see."""
    if found.type == wanted:
        return found
    entries, kind = found.flatten(), wanted.value_type
    fields = [kind.field(at) for at in range(kind.num_fields)]
    inner = pa.StructArray.from_arrays([_flat(entries.field(one.name), one.type) for one in fields], fields=fields)
    offsets = pc.subtract(found.offsets, found.offsets[0])
    return pa.ListArray.from_arrays(offsets, inner, type=wanted)
