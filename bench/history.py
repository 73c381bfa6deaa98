"""The past on disk: queries of the store, rolling it into an archive, queries of the archive.

The peer is a naive scan in the same run: every publication of the log is read, decoded and asked. `--full` does it with
10 million publications, which takes some minutes and 700 MB.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb

from tidings.model import ROOT_ROUTE, Filter, Identity, Notification
from tidings.store import Store, StoreReader
from tidings.store.archive import ArchiveReader, Promoted, roll
from tidings.wire import Envelope, Quality, encode_body

from . import Report, median_seconds
from ._quotes import quotes

COUNT, FULL_COUNT = 300_000, 10_000_000
BODIES = 50_000
"""Different bodies; they are used again and again."""
RARE = 10
"""How many publications have the rare symbol."""
START = 1_760_000_000_000_000
EVERY = 10_000
"""Microseconds between two publications: 100 a second, so that the archive has some hours."""
PROMOTED = ("type", "symbol", "price:float")


def run(report: Report) -> None:
    """Measure a store and its archive in a temporary directory."""
    count = FULL_COUNT if report.full else COUNT
    with tempfile.TemporaryDirectory() as directory:
        data, archive = Path(directory, "data"), Path(directory, "archive")
        raw = _fill(data, count)
        with StoreReader(data) as reader:
            frequent = reader.query(limit=1).__next__().notification["symbol"]
            naive = _naive(reader, Filter.parse("price < 0"), count)
            _store(report, reader, str(frequent), naive, count)
        _roll(report, data, archive, raw=raw, naive=naive, count=count)
        _archive(report, archive, str(frequent), naive, count)
        asyncio.run(_loop(report, data, Path(directory, "again")))


def _publications(count: int, epoch: int) -> Iterator[Envelope]:
    bodies = [envelope.body for envelope in quotes(BODIES)]
    rare = encode_body(Notification(type="quote", symbol="RARE", exchange="X05", price=1.0))
    step = count // RARE
    for seq in range(1, count + 1):
        body = rare if seq % step == step // 2 else bodies[seq % BODIES]
        identity = Identity("b1", epoch, seq, f"client-{seq % 50}", seq // 50, START + EVERY * seq)
        yield Envelope(identity, (ROOT_ROUTE,), body, Quality.STORED)


def _fill(data: Path, count: int) -> int:
    """A log of so many publications; the bytes of their bodies."""
    raw = 0
    with Store.open(data, post=lambda call: call(), owner="b1", promoted=("type", "symbol")) as store:
        for envelope in _publications(count, store.epoch):
            raw += len(envelope.body)
            while store.full:
                time.sleep(0.001)
            store.append(envelope, lambda: None)
    return raw


def _naive(reader: StoreReader, filter: Filter, count: int) -> float:
    """Seconds that it takes to decode and ask everything, by what a tenth takes."""
    asked = max(count // 10, 30_000)
    start = time.perf_counter()
    for seen, envelope in enumerate(reader.query()):
        filter.matches(envelope.notification)
        if seen == asked:
            break
    return (time.perf_counter() - start) * count / asked


def _store(report: Report, reader: StoreReader, frequent: str, naive: float, count: int) -> None:
    report.figure(f"naive scan of {count:,}", count / naive, "/s")
    scan = median_seconds(lambda: sum(1 for _ in reader.query(Filter.parse("price < 0"))), repeats=3)
    report.ratio("store: filtered scan against naive", naive / scan, at_least=1.5)
    report.limit("store: filtered scan, each (300,000/s)", scan / count * 1e6, "µs", at_most=3.33)
    for what, symbol, least in (("a frequent", frequent, 100), ("a rare", "RARE", 20), ("an absent", "NONE", 100)):
        seconds = _last_ten(reader, symbol)
        report.ratio(f"store: last 10 of {what} symbol against naive", naive / seconds, at_least=least)
        report.limit(f"store: last 10 of {what} symbol", seconds * 1e3, "ms", at_most=50)
    hour = median_seconds(lambda: sum(1 for _ in reader.query(since=START + EVERY * (count - 1_000))), repeats=5)
    report.ratio("store: the last 1,000 by time against naive", naive / hour, at_least=20)


def _last_ten(reader: StoreReader | ArchiveReader, symbol: str) -> float:
    asked = Filter.parse(f"type = 'quote' AND symbol = '{symbol}'")
    return median_seconds(lambda: list(reader.query(asked, limit=10, newest_first=True)), repeats=5)


def _roll(report: Report, data: Path, archive: Path, *, raw: int, naive: float, count: int) -> None:
    cpu, start = time.process_time(), time.perf_counter()
    rolled = roll(data, archive, [Promoted.parse(text) for text in PROMOTED])
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    assert rolled.count == count
    size = sum(path.stat().st_size for path in rolled.files)
    report.figure("archive: roll", count / wall, "/s")
    report.limit("archive: roll, processor time each (200,000/s)", cpu / count * 1e6, "µs", at_most=5)
    report.ratio("archive: roll against naive scan", naive / wall, at_least=0.25)
    report.limit("archive: share of the raw bytes", size / raw * 100, "%", at_most=25)
    report.figure("archive: bytes each", size / count, "bytes")


def _archive(report: Report, archive: Path, frequent: str, naive: float, count: int) -> None:
    reader = ArchiveReader(archive)
    for what, symbol, least in (("a frequent", frequent, 10), ("a rare", "RARE", 2), ("an absent", "NONE", 20)):
        seconds = _last_ten(reader, symbol)
        report.ratio(f"archive: last 10 of {what} symbol against naive", naive / seconds, at_least=least)
        report.figure(f"archive: last 10 of {what} symbol", seconds * 1e3, "ms")
    _duckdb(report, reader)
    nowhere = median_seconds(lambda: list(reader.query(Filter.parse("price < 0"))), repeats=3)
    report.ratio("archive: a price that is nowhere against naive", naive / nowhere, at_least=50)
    start = time.perf_counter()
    found = sum(1 for _ in reader.query(Filter.parse("price > 100"), limit=50_000))
    report.figure("archive: publications found", found / (time.perf_counter() - start), "/s")


def _duckdb(report: Report, reader: ArchiveReader) -> None:
    """The rare symbol once more, in processor time, and what DuckDB needs for the same files in one thread."""
    ask = duckdb.connect().execute
    ask("SET threads = 1")
    files = f"read_parquet('{reader.directory}/date=*/hour=*/*.parquet', hive_partitioning = true)"
    order = "ORDER BY published_at DESC LIMIT 10"
    for what, symbol in (("a rare", "RARE"), ("an absent", "NONE")):
        query = f"SELECT * FROM {files} WHERE type = 'quote' AND symbol = '{symbol}' {order}"
        filter = Filter.parse(f"type = 'quote' AND symbol = '{symbol}'")
        ours, theirs = [], []
        for _ in range(7):
            start = time.process_time()
            found = list(ArchiveReader(reader.directory).query(filter, limit=10, newest_first=True))
            ours.append(time.process_time() - start)
            start = time.process_time()
            rows = ask(query).fetchall()
            theirs.append(time.process_time() - start)
            assert len(rows) == len(found)
        mine, other = statistics.median(ours), statistics.median(theirs)
        report.figure(f"archive: last 10 of {what} symbol, processor time", mine * 1e3, "ms")
        report.figure(f"archive: last 10 of {what} symbol, DuckDB's", other * 1e3, "ms")
        report.limit(f"archive: last 10 of {what} symbol, times DuckDB's", mine / other, "x", at_most=2)


async def _loop(report: Report, data: Path, archive: Path) -> None:
    """How late a loop is that sleeps for a millisecond, alone and while a roll goes on beside it."""
    alone = await _lateness(2.0)
    command = [sys.executable, "-m", "tidings.store.archive", str(data), str(archive), "-", *PROMOTED]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    rolling = await _lateness(2.0)
    if process.returncode is None:
        process.kill()
    await process.wait()
    report.figure("loop late by, alone, p99", alone * 1e3, "ms")
    report.figure("loop late by, during a roll, p99", rolling * 1e3, "ms")


async def _lateness(seconds: float) -> float:
    times, end = [], time.perf_counter() + seconds
    while (before := time.perf_counter()) < end:
        await asyncio.sleep(0.001)
        times.append(time.perf_counter() - before - 0.001)
    return statistics.quantiles(times, n=100)[98]
