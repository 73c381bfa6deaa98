"""`spark.readStream.format("tidings")`: the archive, then the log, as one stream; every row once, whatever stops it."""

from __future__ import annotations

import random
import shutil
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from archive_world import HOUR, START, quotes
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from serving import serving
from spark_world import archive_of, archived, places, run, source

from tidings import sync
from tidings.net import Options
from tidings.spark import GapInStream, SourceError, SparkError, TidingsSource, explained
from tidings.spark._stream import StreamReader, from_offset, to_offset
from tidings.store import Promoted, Store
from tidings.store.archive import ArchiveReader, roll


def broker(data: Path) -> Options:
    return Options(name="berlin", port=0, data=data)


def reader(spark: SparkSession, **options: str) -> StreamReader:
    """The reader of a stream, in this process."""
    made = TidingsSource(options)
    found = made.streamReader(made.schema())
    assert isinstance(found, StreamReader)
    return found


def rows_between(stream: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    parts = stream.partitions(start, end)
    return [row for part in parts for batch in stream.read(part) for row in batch.to_pylist()]


def test_archive_then_log_are_one_stream_that_goes_on_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[Any] = []
    with serving(broker(tmp_path / "data")) as url:
        with sync.connect(url) as client:
            client.publish_many([{"n": n} for n in range(300)], quality="stored")
            roll(tmp_path / "data", tmp_path / "archive", [Promoted.parse("n:integer")])
            client.publish_many([{"n": n} for n in range(300, 500)], quality="stored")
        stream = source(spark, broker=url, maxRowsPerTrigger="150", promote="n:integer").load(str(tmp_path / "archive"))
        reported = run(stream, tmp_path, seen.extend)
        assert sorted(row["n"] for row in seen) == list(range(500))
        assert max(one["numInputRows"] for one in reported) <= 150
    with serving(broker(tmp_path / "data")) as url:  # another epoch, another port
        with sync.connect(url) as client:
            client.publish_many([{"n": n} for n in range(500, 600)], quality="stored")
        roll(tmp_path / "data", tmp_path / "archive", [Promoted.parse("n:integer")])
        stream = source(spark, broker=url, promote="n:integer").load(str(tmp_path / "archive"))
        run(stream, tmp_path, seen.extend)
    assert sorted(row["n"] for row in seen) == list(range(600))


def test_a_stretch_gives_the_same_rows_wherever_they_are_by_then(spark: SparkSession, tmp_path: Path) -> None:
    with serving(broker(tmp_path / "data")) as url:
        with sync.connect(url) as client:
            client.publish_many([{"n": n} for n in range(900)], quality="stored")
        options = {"broker": url, "path": str(tmp_path / "archive"), "promote": "n:integer"}
        (tmp_path / "archive").mkdir()
        stream = reader(spark, **options)
        cuts = [stream.initialOffset()]
        while cuts[-1] != (after := stream.latestOffset(cuts[-1], ReadMaxRows(170))):
            cuts.append(after)
        assert len(cuts) > 5
        before = [rows_between(stream, start, end) for start, end in pairwise(cuts)]
        assert [row["n"] for rows in before for row in rows] == list(range(900))
        assert all(len(rows) <= 170 for rows in before)
        roll(tmp_path / "data", tmp_path / "archive", [Promoted.parse("n:integer")])
        archived_now = [rows_between(stream, start, end) for start, end in pairwise(cuts)]
        assert archived_now == before
        stream.stop()


def test_limits_hold_for_several_origins_and_nothing_stands_still(spark: SparkSession, tmp_path: Path) -> None:
    archived(tmp_path, 400, "berlin")
    archive = archived(tmp_path, 300, "a b/ü")
    archive_of(tmp_path, quotes(200, start=START + HOUR), "berlin")
    expected = sorted((e.identity.origin, e.identity.epoch, e.identity.seq) for e in ArchiveReader(archive).query())
    for limit in (ReadMaxRows(70), ReadMaxBytes(1_000), ReadAllAvailable()):
        stream = reader(spark, path=str(archive))
        at, found, steps = stream.initialOffset(), [], 0
        while at != (after := stream.latestOffset(at, limit)):
            rows = rows_between(stream, at, after)
            assert not isinstance(limit, ReadMaxRows) or len(rows) <= limit.max_rows
            found += places(rows)
            at, steps = after, steps + 1
        assert sorted(found) == expected
        assert steps == 1 if isinstance(limit, ReadAllAvailable) else steps > 2


def test_limits_come_from_options_and_hold_for_a_log_too(spark: SparkSession, tmp_path: Path) -> None:
    with serving(broker(tmp_path)) as url, sync.connect(url) as client:
        noise = random.Random(1)  # what is alike takes no room on the disk, and what comes together stays together
        for ten in range(0, 100, 10):
            some = [{"n": n, "text": noise.randbytes(50).hex()} for n in range(ten, ten + 10)]
            client.publish_many(some, quality="stored")
        for more, limit, most in (
            ({"maxRowsPerTrigger": "30"}, ReadMaxRows(30), 30),
            ({"maxBytesPerTrigger": "3000"}, ReadMaxBytes(3_000), 40),
            ({"maxRowsPerTrigger": "50", "maxBytesPerTrigger": "3000"}, ReadMaxRows(50), 40),
        ):
            stream = reader(spark, broker=url, promote="n:integer", **more)
            assert stream.getDefaultReadLimit() == limit
            at, found = stream.initialOffset(), []
            while at != (after := stream.latestOffset(at, limit)):
                rows = rows_between(stream, at, after)
                assert 0 < len(rows) <= most
                at, found = after, [*found, *(row["n"] for row in rows)]
            assert found == list(range(100))
            stream.stop()


def test_a_stream_may_begin_with_what_comes(spark: SparkSession, tmp_path: Path) -> None:
    with serving(broker(tmp_path)) as url, sync.connect(url) as client:
        client.publish_many([{"n": n} for n in range(20)], quality="stored")
        stream = reader(spark, broker=url, start="latest", promote="n:integer", filter="n <> 21")
        start = stream.initialOffset()
        assert stream.latestOffset(start, ReadAllAvailable()) == start
        client.publish_many([{"n": n} for n in range(20, 25)], quality="stored")
        end = stream.latestOffset(start, ReadAllAvailable())
        assert [row["n"] for row in rows_between(stream, start, end)] == [20, 22, 23, 24]
        assert stream.reportLatestOffset() == end
        stream.stop()


def test_available_now_ends_with_what_was_there(spark: SparkSession, tmp_path: Path) -> None:
    with serving(broker(tmp_path)) as url, sync.connect(url) as client:
        client.publish_many([{"n": n} for n in range(20)], quality="stored")
        stream = reader(spark, broker=url, promote="n:integer")
        stream.prepareForTriggerAvailableNow()
        client.publish_many([{"n": n} for n in range(20, 25)], quality="stored")
        end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
        assert len(rows_between(stream, {}, end)) == 20
        assert stream.latestOffset(end, ReadAllAvailable()) == end
        stream.stop()


def forget_everything(store_directory: Path) -> None:
    with Store.open(store_directory, post=lambda call: call(), owner="berlin") as store:
        store.retain(older_than=time.time_ns())


def test_what_was_forgotten_is_an_error_or_a_row(spark: SparkSession, tmp_path: Path) -> None:
    with serving(broker(tmp_path)) as url, sync.connect(url) as client:
        client.publish_many([{"n": n} for n in range(10)], quality="stored")
        stream = reader(spark, broker=url, promote="n:integer")
        half = {"berlin": {"epoch": next(iter(from_offset(stream.reportLatestOffset()).values()))[0], "seq": 4}}
        stream.stop()
    forget_everything(tmp_path)
    with serving(broker(tmp_path)) as url, sync.connect(url) as client:
        client.publish_many([{"n": n} for n in range(10, 13)], quality="stored")
        strict = reader(spark, broker=url, promote="n:integer")
        end = strict.latestOffset(half, ReadAllAvailable())
        with pytest.raises(GapInStream, match=r"numbers 5 to 10 of broker 'berlin', epoch \d+, were forgotten"):
            strict.partitions(half, end)
        fresh = [row["n"] for row in rows_between(strict, {}, end)]
        assert fresh == [10, 11, 12]  # who begins now is owed nothing of it
        tolerant = reader(spark, broker=url, promote="n:integer", gaps="row")
        rows = rows_between(tolerant, half, end)
        assert [(row["seq"], row["lost_to"], row["n"]) for row in rows[:1]] == [(5, 10, None)]
        assert [row["n"] for row in rows[1:]] == [10, 11, 12]
        strict.stop()
        tolerant.stop()


def test_a_gap_reaches_a_query_as_an_error_or_as_a_row(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[Any] = []
    data = tmp_path / "data"
    with serving(broker(data)) as url, sync.connect(url) as client:
        client.publish_many([{"n": n} for n in range(10)], quality="stored")
        run(source(spark, broker=url, promote="n:integer").load(), tmp_path, seen.extend)
        client.publish_many([{"n": n} for n in range(10, 20)], quality="stored")
    assert [row["n"] for row in seen] == list(range(10))
    forget_everything(data)
    with serving(broker(data)) as url, sync.connect(url) as client:
        client.publish_many([{"n": n} for n in range(20, 23)], quality="stored")
        with pytest.raises(SparkError, match=r"numbers 11 to 20 of broker 'berlin', epoch \d+, were forgotten"):
            run(source(spark, broker=url, promote="n:integer").load(), tmp_path, seen.extend)
        assert len(seen) == 10
        run(source(spark, broker=url, promote="n:integer", gaps="row").load(), tmp_path, seen.extend)
    told, *rest = sorted(seen[10:], key=lambda row: row["lost_to"] is None)
    assert (told["origin"], told["seq"], told["lost_to"], told["n"]) == ("berlin", 11, 20, None)
    assert sorted((row["n"], row["lost_to"]) for row in rest) == [(n, None) for n in range(20, 23)]


def test_what_a_broker_archives_and_forgets_after_planning_is_not_lost(spark: SparkSession, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    with serving(broker(tmp_path / "data")) as url, sync.connect(url) as client:
        client.publish_many([{"n": n} for n in range(400)], quality="stored")
        stream = reader(spark, broker=url, path=str(archive), promote="n:integer")
        end = stream.latestOffset({}, ReadAllAvailable())
        parts = stream.partitions({}, end)  # all of it is to be read at the broker
        stream.stop()
    roll(tmp_path / "data", archive, [Promoted.parse("n:integer")])
    forget_everything(tmp_path / "data")
    port = int(url.rpartition(":")[2])
    with serving(Options(name="berlin", port=port, data=tmp_path / "data")):
        rows = [row["n"] for part in parts for batch in stream.read(part) for row in batch.to_pylist()]
        assert rows == list(range(400))
        for path in archive.rglob("*.parquet"):
            path.unlink()
        with pytest.raises(GapInStream):
            [row for part in parts for batch in stream.read(part) for row in batch.to_pylist()]


def test_what_was_removed_from_an_archive_before_it_was_read_is_told(spark: SparkSession, tmp_path: Path) -> None:
    archive = archive_of(tmp_path, quotes(30, step=HOUR // 10))
    first, second, _ = sorted(archive.glob("date=*/hour=*"))
    stream = reader(spark, path=str(archive))
    at = stream.latestOffset({}, ReadMaxRows(5))
    end = stream.latestOffset(at, ReadAllAvailable())
    shutil.rmtree(first)
    with pytest.raises(GapInStream, match="were forgotten or damaged before they were read"):
        stream.partitions(at, end)
    shutil.rmtree(second)
    tolerant = reader(spark, path=str(archive), gaps="row")
    rows = rows_between(tolerant, at, end)
    assert [row["lost_to"] is not None for row in rows].count(True) == 1
    assert len(rows) == 11


def test_a_broker_that_is_down_is_waited_for_and_then_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with serving(broker(tmp_path)) as url, sync.connect(url) as client:
        client.publish_many([{"n": 1}], quality="stored")
        stream = reader(spark, broker=url, patience="0.7")
        stream.reportLatestOffset()
    began = time.monotonic()
    with pytest.raises(SourceError, match=r"the broker at .* is gone: .*has not answered for 0.7 seconds"):
        stream.reportLatestOffset()
    assert time.monotonic() - began >= 0.7
    with pytest.raises(SourceError, match=r"could not be reached for 0.7 seconds"):
        stream.reportLatestOffset()


def test_a_broker_that_comes_back_in_time_costs_nothing(spark: SparkSession, tmp_path: Path) -> None:
    with serving(broker(tmp_path)) as url, sync.connect(url) as client:
        client.publish_many([{"n": n} for n in range(5)], quality="stored")
        stream = reader(spark, broker=url, promote="n:integer", patience="60")
        end = stream.reportLatestOffset()
    later = threading.Event()

    def come_back() -> None:
        time.sleep(1)
        with serving(Options(name="berlin", port=int(url.rpartition(":")[2]), data=tmp_path)):
            later.wait(60)

    thread = threading.Thread(target=come_back)
    thread.start()
    try:
        assert stream.reportLatestOffset() == end  # a connection that there was
        fresh = reader(spark, broker=url, promote="n:integer", patience="60")
        assert [row["n"] for row in rows_between(fresh, {}, end)] == list(range(5))
    finally:
        stream.stop()
        fresh.stop()
        later.set()
        thread.join()


def test_the_checkpoint_of_another_query_is_recognised(spark: SparkSession, tmp_path: Path) -> None:
    archive = archived(tmp_path, 10)
    stream = reader(spark, path=str(archive))
    other = to_offset({"paris": (1, 5)})
    with pytest.raises(
        SourceError, match=r"at \(1, 5\) of broker 'paris', and this source knows berlin: it belongs to"
    ):
        stream.latestOffset(other, ReadAllAvailable())
    with pytest.raises(SourceError, match=r"instead of positions: it belongs to another query; use a new checkpoint"):
        stream.latestOffset({"logOffset": 3}, ReadAllAvailable())
    rate = spark.readStream.format("rate").load()
    query = rate.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert list((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
    with pytest.raises(SparkError, match="belongs to another query"), explained():
        run(source(spark).load(str(archive)), tmp_path, lambda rows: None)


def test_a_stream_has_no_time_to_begin_at(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="option since is for tables"):
        reader(spark, path=str(archived(tmp_path, 3)), since="2026-01-01")
