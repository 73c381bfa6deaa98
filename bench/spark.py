"""Spark: one archive, asked by Spark through Tidings, by Spark over JSON lines, by DuckDB, polars and pyarrow; streams.

The question is selective: one symbol, a range of prices, a sixth of the time. `--full` takes 10 million publications.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession

from tidings.spark import column, read_archive, session, warm
from tidings.store import Store
from tidings.store.archive import Promoted, roll

from . import Report
from .history import EVERY, START, _publications

COUNT, FULL_COUNT = 1_000_000, 10_000_000
LIVE = 300_000
"""The most rows that are streamed out of a broker."""
REPEATS = 3
PROMOTED = [Promoted.parse(text) for text in ("type", "symbol", "price:float")]


def run(report: Report) -> None:
    """Measure in a temporary directory."""
    count = FULL_COUNT if report.full else COUNT
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        _fill(home / "data", count)
        roll(home / "data", home / "archive", PROMOTED)
        with _cache(home / "cache"):
            report.figure("a session and its first job, from the start of Python", _session_start(), "s")
            warm()
            report.limit("the same after `tidings warm`", _session_start(), "s", at_most=6)
        spark = session("local[2]", options={"spark.driver.memory": "4g"})
        try:
            _tables(report, spark, home, count)
            _streams(report, spark, home, count)
        finally:
            spark.stop()


def _fill(data: Path, count: int) -> None:
    with Store.open(data, post=lambda call: call(), owner="b1") as store:
        for envelope in _publications(count, store.epoch):
            while store.full:
                time.sleep(0.001)
            store.append(envelope, lambda: None)


@contextlib.contextmanager
def _cache(directory: Path) -> Iterator[None]:
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(directory)
    try:
        yield
    finally:
        os.environ.pop("XDG_CACHE_HOME")
        os.environ.update({} if before is None else {"XDG_CACHE_HOME": before})


def _session_start() -> float:
    words = [sys.executable, "-c", "from tidings.spark import session; session('local[2]').range(1).count()"]
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        subprocess.run(words, check=True)
        times.append(time.perf_counter() - began)
    return min(times)


def _tables(report: Report, spark: SparkSession, home: Path, count: int) -> None:
    archive = home / "archive"
    low = START + EVERY * count // 3
    high = low + EVERY * count // 6
    since, until = (datetime.fromtimestamp(at / 1e6, UTC) for at in (low, high))
    files = str(archive / "**" / "*.parquet")
    dear = read_archive(spark, archive, "type = 'quote' AND price > 100", since=since, until=until)
    symbol = dear.select("symbol").first()[0]  # type: ignore[index]
    wanted = f"type = 'quote' AND symbol = '{symbol}' AND price > 100"
    in_sql = f"{wanted} AND published_at >= '{since:%F %T}' AND published_at < '{until:%F %T}'"
    lines = read_archive(spark, archive).select("origin", "epoch", "seq", "published_at", "type", "symbol", "price")
    lines.write.json(str(home / "json"))
    schema = lines.schema

    def native() -> DataFrame:
        return read_archive(spark, archive, wanted, since=since, until=until)

    def source() -> DataFrame:
        reader = spark.read.format("tidings").schema("seq bigint, published_at timestamp, symbol string, price double")
        times = {"since": since.isoformat(), "until": until.isoformat()}
        return reader.option("filter", wanted).options(**times).load(str(archive))

    def arrow() -> int:
        chosen = (ds.field("symbol") == symbol) & (ds.field("type") == "quote") & (ds.field("price") > 100)
        chosen &= (ds.field("published_at") >= pa.scalar(since)) & (ds.field("published_at") < pa.scalar(until))
        table = ds.dataset(archive, format="parquet", partitioning="hive").to_table(["seq", "price"], chosen)
        return len(table)

    times = f"published_at >= '{since:%F %T}+00' AND published_at < '{until:%F %T}+00'"
    duck = f"SELECT count(seq) FROM read_parquet('{files}', hive_partitioning=false) WHERE {wanted} AND {times}"
    connection = duckdb.connect()
    connection.execute("SET threads TO 2")
    ways: dict[str, Callable[[], int]] = {
        "read_archive": lambda: native().select("seq", "price").count(),
        'format("tidings")': lambda: source().count(),
        "Spark over JSON lines": lambda: spark.read.schema(schema).json(str(home / "json")).where(in_sql).count(),
        "DuckDB": lambda: connection.execute(duck).fetchone()[0],  # type: ignore[index]
        "polars": lambda: _polars(files, symbol, since, until),
        "pyarrow": arrow,
    }
    found, seconds = {}, {}
    for name, ask in ways.items():
        found[name] = ask()
        seconds[name] = _median(ask)
        report.figure(f"selective question of {count:,}: {name}", seconds[name], "s")
    assert len(set(found.values())) == 1, found
    report.figure("publications found", found["read_archive"], "")
    own = seconds["read_archive"]
    faster = seconds["Spark over JSON lines"] / own
    if report.full:
        report.ratio("read_archive against Spark over JSON", faster, at_least=10)
    else:  # the start of a job is most of it
        report.figure("read_archive against Spark over JSON", faster, "x")
    report.figure("read_archive takes so many times what DuckDB takes", own / seconds["DuckDB"], "x")
    slower = seconds['format("tidings")'] / seconds["read_archive"]
    report.limit('format("tidings") against read_archive', slower, "x", at_most=3)
    everything = read_archive(spark, archive)
    plain = _median(lambda: everything.where(column(wanted)).count())
    report.figure("the same filter without promoted columns, all the time", plain, "s")


def _polars(files: str, symbol: str, since: datetime, until: datetime) -> int:
    c = polars.col
    asked = polars.scan_parquet(files, hive_partitioning=False).filter(
        (c("symbol") == symbol) & (c("type") == "quote") & (c("price") > 100),
        (c("published_at") >= since) & (c("published_at") < until),
    )
    return int(asked.select(polars.len()).collect().item())


def _streams(report: Report, spark: SparkSession, home: Path, count: int) -> None:
    columns = "origin string, epoch bigint, seq bigint, published_at timestamp, symbol string, price double"
    reader = spark.readStream.format("tidings").schema(columns)
    rate = _rate(reader.load(str(home / "archive")), home / "checkpoint-archive")
    report.limit("stream from the archive, each row (200,000/s)", 1e6 / rate, "µs", at_most=5)
    words = [
        sys.executable,
        "-m",
        "tidings",
        "serve",
        "--name",
        "b1",
        "--port",
        "0",
        "--json",
        "--data",
        str(home / "data"),
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            told: dict[str, Any] = json.loads(broker.stdout.readline())
            url = f"tidings://127.0.0.1:{told['port']}"
            live = reader.option("broker", url).option("maxRowsPerTrigger", str(min(count, LIVE)))
            rate = _rate(live.load(), home / "checkpoint-log", once=True)
            report.limit("stream from a broker, each row (30,000/s)", 1e6 / rate, "µs", at_most=33.3)
        finally:
            broker.terminate()


def _rate(stream: DataFrame, checkpoint: Path, *, once: bool = False) -> float:
    """Rows a second, in the micro-batches themselves: the start of the query is apart."""
    writing = stream.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writing.start() if once else writing.trigger(availableNow=True).start()
    if once:
        while not any(one["numInputRows"] for one in query.recentProgress):
            time.sleep(0.2)
        query.stop()
    else:
        query.awaitTermination()
    batches = [one for one in query.recentProgress if one["numInputRows"]][: 1 if once else None]
    rows = sum(int(one["numInputRows"]) for one in batches)
    return rows / (sum(int(one["durationMs"]["triggerExecution"]) for one in batches) / 1e3)


def _median(ask: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        ask()
        times.append(time.perf_counter() - began)
    return statistics.median(times)
