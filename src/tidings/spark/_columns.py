"""The columns of a table of notifications in Spark, and filters as conditions on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidings.model import Filter
from tidings.store import Promoted, PromotedKind

from ._sql import Column, sql

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

_KIND, _COMPLETE = "tidings.kind", "tidings.complete"
"""In the metadata of a promoted column: its kind, and whether null means that the attribute is missing."""


def column(filter: Filter | str, frame: DataFrame | None = None) -> SparkColumn:
    """Turn a filter into a condition on the rows of a table with the column `attributes`.

    It is true where a broker would match. If you pass the table, its promoted columns are used, which is much faster
    and lets Spark skip files.

    >>> from tidings.spark import column, session
    >>> quotes = spark.sql("SELECT array(named_struct('name', 'price', 'index', CAST(NULL AS SMALLINT), "
    ...     "'as_bool', CAST(NULL AS BOOLEAN), 'as_int', 5L, 'as_float', CAST(NULL AS DOUBLE), "
    ...     "'as_text', CAST(NULL AS STRING))) AS attributes")  # doctest: +SKIP
    >>> quotes.where(column("price > 4")).count()  # doctest: +SKIP
    1
    """
    from pyspark.sql import functions  # noqa: PLC0415 - an extra, and slow to load

    wanted = Filter.parse(filter) if isinstance(filter, str) else filter
    return functions.expr(sql(wanted, promoted_in(frame.schema) if frame is not None else None))


def promoted_in(schema: StructType) -> dict[str, Column]:
    """The promoted columns of a table that say so."""
    return {
        field.name: Column(Promoted(field.name, PromotedKind(field.metadata[_KIND])), bool(field.metadata[_COMPLETE]))
        for field in schema
        if _KIND in field.metadata
    }


def without_completeness(metadata: dict[str, object]) -> dict[str, object]:
    """The metadata of a promoted column in which null may also hide a value of another kind."""
    return {**metadata, _COMPLETE: False}


def schema_of(columns: Iterable[Column], *, with_body: bool = False) -> StructType:
    """The columns of a table of notifications; docs/archive.md tells what they mean."""
    from pyspark.sql import types as t  # noqa: PLC0415

    long, text, binary, instant = t.LongType(), t.StringType(), t.BinaryType(), t.TimestampType()
    identity: list[tuple[str, DataType]] = [
        ("origin", text),
        ("epoch", long),
        ("seq", long),
        ("publisher", text),
        ("publisher_seq", long),
        ("published_at", instant),
        ("graph_epoch", long),
        ("ttl", long),
        ("quality", t.ByteType()),
        ("scope", text),
        ("routes", binary),
    ]
    fields = [t.StructField(name, kind) for name, kind in identity]
    for one in columns:
        metadata = {_KIND: one.promoted.kind.value, _COMPLETE: one.complete}
        fields.append(t.StructField(one.promoted.name, type_of(one.promoted.kind), metadata=metadata))
    entry = t.StructType(
        [
            t.StructField("name", text),
            t.StructField("index", t.ShortType()),
            t.StructField("as_bool", t.BooleanType()),
            t.StructField("as_int", long),
            t.StructField("as_float", t.DoubleType()),
            t.StructField("as_text", text),
            t.StructField("as_bytes", binary),
            t.StructField("as_time", instant),
            t.StructField("as_place", text),
        ]
    )
    fields.append(t.StructField("attributes", t.ArrayType(entry)))
    if with_body:
        fields.append(t.StructField("body", binary))
    return t.StructType(fields)


def type_of(kind: PromotedKind) -> DataType:
    """The type of a promoted column."""
    from pyspark.sql import types as t  # noqa: PLC0415

    types: dict[PromotedKind, DataType] = {
        PromotedKind.TEXT: t.StringType(),
        PromotedKind.INTEGER: t.LongType(),
        PromotedKind.FLOAT: t.DoubleType(),
        PromotedKind.BOOLEAN: t.BooleanType(),
        PromotedKind.TIME: t.TimestampType(),
        PromotedKind.PLACE: t.StringType(),
        PromotedKind.BYTES: t.BinaryType(),
    }
    return types[kind]
