"""Two definitions over the same archive: what a new version would have said, beside what the old one says."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.aggregation.definitions import Aggregate
from tidings.aggregation.workers import Code

from ._errors import explained
from ._historic import historic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def backtest(
    spark: SparkSession,
    old: str | Code | Aggregate[Any],
    new: str | Code | Aggregate[Any],
    directory: str | Path,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """The windows of two definitions: `key`, `ends_at`, `old`, `new` as JSON, and whether they are the `same`.

    A window or key that only one of them has is null for the other. Raises `AggregateError` as `historic` does.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra, and slow to load

    def values(definition: str | Code | Aggregate[Any], name: str) -> DataFrame:
        found = historic(spark, definition, directory, since=since, until=until)
        return found.where("complete").select("key", "ends_at", f.col("value").alias(name))

    with explained():
        both = values(old, "old").join(values(new, "new"), ["key", "ends_at"], "full_outer")
        return both.withColumn("same", f.col("old").eqNullSafe(f.col("new"))).orderBy("ends_at", "key")
