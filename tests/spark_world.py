"""What the tests of Spark share: archives of quotes, and streams that run until there is nothing more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from archive_world import fill, quotes
from pyspark.sql import DataFrame, SparkSession

from tidings.model import Notification
from tidings.spark import explained
from tidings.store import Promoted
from tidings.store.archive import roll

PROMOTED = [Promoted.parse(text) for text in ("type", "symbol", "price:float")]


def archived(home: Path, count: int = 500, origin: str = "berlin", promoted: Sequence[Promoted] = PROMOTED) -> Path:
    """An archive of quotes, one each second, in the store of one broker."""
    return archive_of(home, quotes(count), origin, promoted)


def archive_of(
    home: Path,
    content: Sequence[tuple[int, Notification]],
    origin: str = "berlin",
    promoted: Sequence[Promoted] = PROMOTED,
) -> Path:
    fill(home / f"data-{origin}", content, origin)
    roll(home / f"data-{origin}", home / "archive", promoted)
    return home / "archive"


def run(stream: DataFrame, home: Path, seen: Callable[[list[Any]], None]) -> list[dict[str, Any]]:
    """Run a stream until there is nothing more; `seen` gets the rows of each micro-batch. What Spark reports of it."""

    def take(batch: DataFrame, number: int) -> None:
        seen(batch.collect())

    query = (
        stream.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(home / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    with explained():
        query.awaitTermination()
    return [progress for progress in query.recentProgress if progress["numInputRows"]]


def places(rows: Sequence[Any]) -> list[tuple[str, int, int]]:
    return sorted((row["origin"], row["epoch"], row["seq"]) for row in rows)


def source(spark: SparkSession, **options: str) -> Any:
    reader = spark.readStream.format("tidings")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader
