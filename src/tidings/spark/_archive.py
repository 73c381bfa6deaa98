"""An archive as a table, read by Spark's own Parquet reader: the fastest way to ask about the past."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from tidings.model import EVERYTHING, Filter

from ._columns import column, schema_of
from ._errors import SourceError
from ._snapshot import taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_VERIFIED = "parquet.page.verify-checksum.enabled"
"""Else a bit that has fallen over may be read as a number."""


def read_archive(
    spark: SparkSession,
    directory: str | Path,
    filter: Filter | str = EVERYTHING,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """Return the archive as it is now, as a table: what passes `filter` with `since <= published_at < until`.

    The columns are those of docs/archive.md. Further conditions on promoted columns and on `published_at` skip files,
    row groups and pages. Files that are rolled later are not in the table. If some of its files are merged or removed
    before they are read, reading fails; make a new table then.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra, and slow to load

    wanted = Filter.parse(filter) if isinstance(filter, str) else filter
    begin, end = microseconds("since", since), microseconds("until", until)
    snapshot = taken(directory, since=begin, until=end)
    schema = schema_of(snapshot.columns.values(), with_body=snapshot.with_body)
    reader = spark.read.schema(schema).option("datetimeRebaseMode", "CORRECTED").option(_VERIFIED, "true")
    whole = [piece.path for piece in snapshot.pieces if piece.whole]
    tables = [reader.parquet(*map(_escaped, whole))] if whole else []
    tables += [
        reader.parquet(_escaped(piece.path)).where(f.col("seq") >= piece.start)
        for piece in snapshot.pieces
        if not piece.whole
    ]
    table = reduce(lambda one, two: one.union(two), tables) if tables else spark.createDataFrame([], schema)
    if begin is not None:
        table = table.where(f"published_at >= timestamp_micros({begin}L)")
    if end is not None:
        table = table.where(f"published_at < timestamp_micros({end}L)")
    return table if wanted == EVERYTHING else table.where(column(wanted, table))


def microseconds(name: str, instant: datetime | None) -> int | None:
    """Since 1970."""
    if instant is None:
        return None
    if instant.tzinfo is None:
        raise SourceError(f"{name}: {instant!r} has no time zone; use datetime.now(UTC) or .astimezone()")
    return (instant - _EPOCH) // timedelta(microseconds=1)


def _escaped(path: str) -> str:
    """A path that Spark takes for what it is, and not for a pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)
