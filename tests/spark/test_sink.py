"""`.write` and `.writeStream`: rows become notifications, each once, however often Spark tries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from archive_world import START
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from serving import serving
from spark_world import archive_of, archived, source

from tidings import sync
from tidings.model import Location, Notification
from tidings.net import Access, AccessEntry, Options
from tidings.spark import SparkError, TidingsSource, explained
from tidings.wire import Envelope, Quality

END = (2**62, 0)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with serving(Options(name="hub", port=0, data=tmp_path / "hub")) as address:
        yield address


def log_of(url: str) -> list[Envelope]:
    with sync.connect(url) as client:
        return [envelope for page in client.read_log((0, 0), END) for envelope in page.envelopes]


def published(url: str) -> list[Notification]:
    return [envelope.notification for envelope in log_of(url)]


def write(table: DataFrame, url: str, **options: str) -> None:
    with explained():
        table.write.format("tidings").mode("append").option("broker", url).options(**options).save()


def test_columns_become_attributes_and_null_means_missing(spark: SparkSession, url: str) -> None:
    when = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
    rows = [("SAP", 182.4, 5, True, when, bytearray(b"\xff"), ["a", "b"], ("Frankfurt",)), (None,) * 8]
    schema = (
        "symbol string, price double, n int, ok boolean, at timestamp, raw binary, tags array<string>, "
        "venue struct<city string>"
    )
    write(spark.createDataFrame(rows, schema).where("symbol IS NOT NULL"), url)
    (found,) = log_of(url)
    assert found.quality is Quality.STORED
    assert dict(found.notification) == {
        "symbol": "SAP",
        "price": 182.4,
        "n": 5,
        "ok": True,
        "at": when,
        "raw": b"\xff",
        "tags": ("a", "b"),
        "venue.city": "Frankfurt",
    }


def test_what_was_read_is_published_as_it_was(spark: SparkSession, url: str, tmp_path: Path) -> None:
    content = [Notification(n=n, p=Location("/a"), mixed=[1, "x", 2.5], empty=[], big=2**62) for n in range(20)]
    archive = archive_of(tmp_path, [(START + at, one) for at, one in enumerate(content)])
    write(spark.read.format("tidings").load(str(archive)), url, attributes="only")
    assert sorted(published(url), key=lambda one: one["n"]) == content


def test_a_writer_has_a_name_of_its_identity(spark: SparkSession, tmp_path: Path) -> None:
    access = Access(tokens={(token := "token-of-the-nightly-job"): AccessEntry("nightly")})
    table = spark.range(0, 20, numPartitions=1).select(F.col("id").alias("n"))
    with serving(Options(name="hub", port=0, data=tmp_path / "hub", access=access)) as url:
        with pytest.raises(SparkError) as caught:
            write(table, url, id="one", token=token, clientName="weekly")
        assert "'weekly/one/0' does not belong to 'nightly'" in str(caught.value)
        assert "'nightly/*'" in str(caught.value)
        assert '.option("clientName"' in str(caught.value)
        for _ in range(2):
            write(table, url, id="one", token=token)  # the same name again, so nothing comes twice
            write(table, url, id="two", token=token, clientName="nightly")
        with sync.connect(url, token=token) as client:
            found = [one for page in client.read_log((0, 0), END) for one in page.envelopes]
        assert Counter(one.identity.publisher for one in found) == {"nightly/spark/one/0": 20, "nightly/two/0": 20}


def test_a_writer_with_a_token_at_a_broker_without_identities_is_called_as_one_without(
    spark: SparkSession, url: str
) -> None:
    table = spark.range(0, 5, numPartitions=1).select(F.col("id").alias("n"))
    write(table, url, id="one", token="a-token-that-nobody-knows")
    write(table, url, id="one")
    with sync.connect(url) as client:
        found = [one for page in client.read_log((0, 0), END) for one in page.envelopes]
    assert Counter(one.identity.publisher for one in found) == {"spark/one/0": 5}


def test_a_write_with_an_id_can_be_repeated(spark: SparkSession, url: str) -> None:
    table = spark.range(0, 500, numPartitions=3).select(F.col("id").alias("n"))
    for _ in range(3):
        write(table, url, id="nightly-2026-11-16")
    write(table, url)
    assert Counter(one["n"] for one in published(url)) == dict.fromkeys(range(500), 2)


def test_a_task_that_fails_half_way_is_finished_by_the_next_attempt(spark: SparkSession, url: str) -> None:
    """The rows come in another order the second time, as after a shuffle."""
    rows = [{"n": n} for n in range(100)]
    writer = TidingsSource({"broker": url, "id": "x"}).writer(spark.createDataFrame(rows).schema, False)
    first, again = _batches(rows[:100]), _batches(rows[::-1])
    with sync.connect(url, name="spark/x/0", own_numbers=True) as client:  # as far as the first attempt came
        bodies = sorted(body for one in first for body in writer._rows._bodies(one))
        from tidings.wire import decode_body

        client.publish_many(map(decode_body, bodies[:37]), quality="stored", first=1)
    assert writer.write(iter(again)).count == 100
    assert sorted(one["n"] for one in published(url)) == list(range(100))


def _batches(rows: list[dict[str, Any]]) -> list[Any]:
    import pyarrow as pa

    return pa.Table.from_pylist(rows).to_batches(max_chunksize=30)


def test_a_micro_batch_that_is_tried_again_publishes_nothing_twice(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    """The commit of the last micro-batch is lost, as by a crash: Spark runs it again."""
    archive = archived(tmp_path, 300)
    checkpoint = tmp_path / "checkpoint"

    def stream(checkpoint: Path = checkpoint) -> None:
        table = source(spark, maxRowsPerTrigger="140").load(str(archive)).select("symbol", "price", "seq")
        writing = table.withColumnRenamed("seq", "number").repartition(3, "symbol").writeStream.format("tidings")
        query = writing.option("broker", url).option("checkpointLocation", str(checkpoint))
        with explained():
            query.trigger(availableNow=True).start().awaitTermination()

    stream()
    once = Counter(one["number"] for one in published(url))
    assert once == dict.fromkeys(range(2, 601, 2), 1)
    newest = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    (checkpoint / "commits" / f".{newest.name}.crc").unlink(missing_ok=True)
    stream()
    assert Counter(one["number"] for one in published(url)) == once
    stream(tmp_path / "another query")
    assert Counter(one["number"] for one in published(url)) == dict.fromkeys(once, 2)


@pytest.mark.parametrize(
    ("columns", "options", "complaint"),
    [
        ({"n": 1.5}, {"broker": "a, b"}, "rows are published at exactly one broker"),
        ({"n": Decimal(5)}, {}, "column 'n' is decimal(38,18), which no notification can hold; cast it to one of"),
        ({"seq": 5}, {}, "no column is left to publish: all of them belong to the archive"),
        ({"n": 5}, {"attributes": "only"}, "there is no column 'attributes'"),
        ({"n": 5}, {"quality": "fire"}, "option quality: 'fire' is not known; use default, stored or accepted"),
    ],
)
def test_what_cannot_be_published_is_explained_before_anything_is(
    spark: SparkSession, columns: dict[str, Any], options: dict[str, str], complaint: str
) -> None:
    schema = spark.createDataFrame([columns]).schema
    with pytest.raises(SparkError) as caught:
        TidingsSource({"broker": "tidings://localhost", **options}).writer(schema, False)
    assert complaint in str(caught.value)


def test_a_value_that_no_notification_can_hold_is_named(spark: SparkSession, url: str) -> None:
    table = spark.createDataFrame([(1.0,), (float("nan"),)], "price double")
    with pytest.raises(SparkError, match="a row cannot be published: attribute 'price': nan cannot be compared"):
        write(table, url)


def test_what_was_published_is_not_overwritten(spark: SparkSession, url: str) -> None:
    table = spark.createDataFrame([(1,)], "n int")
    with pytest.raises(SparkError, match="what was published cannot be taken back"), explained():
        table.write.format("tidings").mode("overwrite").option("broker", url).save()
