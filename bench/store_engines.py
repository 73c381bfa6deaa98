"""`python -m bench.store_engines`: which embedded engine should hold a broker's log?

Every engine does the same: keep quotes in batches, sync each batch, read on from a mark, come back after kill -9.
An engine that is not installed is reported as missing. The decision is docs/decisions/0030-storage-engine.md.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tidings.wire import Envelope

from . import number
from ._quotes import disk_sync_milliseconds, quotes

_encoder = msgspec.msgpack.Encoder()
_one = msgspec.msgpack.Decoder(Envelope)
_many = msgspec.msgpack.Decoder(list[Envelope])


class Engine(Protocol):
    """What the measurement needs of a candidate."""

    def __init__(self, directory: Path, sync: bool) -> None: ...

    def write(self, batch: list[Envelope]) -> None: ...

    def since(self, mark: int) -> Iterator[Envelope]: ...

    def close(self) -> None: ...


class _Sqlite:
    schema: str

    def __init__(self, directory: Path, sync: bool) -> None:
        self._db = sqlite3.connect(directory / "log.sqlite", isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute(f"PRAGMA synchronous={'FULL' if sync else 'OFF'}")
        self._db.execute(self.schema)

    def close(self) -> None:
        self._db.close()


class SqliteBatches(_Sqlite):
    """SQLite, one row per batch."""

    schema = "CREATE TABLE IF NOT EXISTS log (last INTEGER PRIMARY KEY, crc INTEGER, body BLOB)"
    level = 0

    def write(self, batch: list[Envelope]) -> None:
        body = zlib.compress(_encoder.encode(batch), self.level) if self.level else _encoder.encode(batch)
        self._db.execute("INSERT INTO log VALUES (?, ?, ?)", (batch[-1].identity.seq, zlib.crc32(body), body))

    def since(self, mark: int) -> Iterator[Envelope]:
        for (body,) in self._db.execute("SELECT body FROM log WHERE last > ? ORDER BY last", (mark,)):
            envelopes = _many.decode(zlib.decompress(body) if self.level else body)
            yield from (envelope for envelope in envelopes if envelope.identity.seq > mark)


class SqliteCompressed(SqliteBatches):
    """SQLite, one compressed row per batch."""

    level = 1


class SqliteRows(_Sqlite):
    """SQLite, one row per notification."""

    schema = "CREATE TABLE IF NOT EXISTS log (seq INTEGER PRIMARY KEY, body BLOB)"

    def write(self, batch: list[Envelope]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany("INSERT INTO log VALUES (?, ?)", [(e.identity.seq, _encoder.encode(e)) for e in batch])
        self._db.execute("COMMIT")

    def since(self, mark: int) -> Iterator[Envelope]:
        for (body,) in self._db.execute("SELECT body FROM log WHERE seq > ? ORDER BY seq", (mark,)):
            yield _one.decode(body)


class Rocks:
    """RocksDB (rocksdict), one key per notification."""

    def __init__(self, directory: Path, sync: bool) -> None:
        self._rocks = rocks = importlib.import_module("rocksdict")
        self._db: Any = rocks.Rdict(str(directory / "rocks"), rocks.Options(raw_mode=True))
        self._options = rocks.WriteOptions()
        self._options.sync = sync

    def write(self, batch: list[Envelope]) -> None:
        writes = self._rocks.WriteBatch(raw_mode=True)
        for envelope in batch:
            writes.put(struct.pack(">Q", envelope.identity.seq), _encoder.encode(envelope))
        self._db.write(writes, self._options)

    def since(self, mark: int) -> Iterator[Envelope]:
        for body in self._db.values(from_key=struct.pack(">Q", mark + 1)):
            yield _one.decode(body)

    def close(self) -> None:
        self._db.flush()
        self._db.close()


class Lmdb:
    """LMDB, one key per notification."""

    def __init__(self, directory: Path, sync: bool) -> None:
        lmdb = importlib.import_module("lmdb")
        self._db: Any = lmdb.open(str(directory / "lmdb"), map_size=4 << 30, sync=sync)

    def write(self, batch: list[Envelope]) -> None:
        with self._db.begin(write=True) as transaction:
            for envelope in batch:
                key = struct.pack(">Q", envelope.identity.seq)
                transaction.put(key, _encoder.encode(envelope), append=True)

    def since(self, mark: int) -> Iterator[Envelope]:
        with self._db.begin() as transaction, transaction.cursor() as cursor:
            if cursor.set_range(struct.pack(">Q", mark + 1)):
                for body in cursor.iternext(keys=False, values=True):
                    yield _one.decode(body)

    def close(self) -> None:
        self._db.close()


class Segments:
    """A plain file of checked, length-prefixed batches; no index, so a mark is found by reading headers."""

    _header = struct.Struct(">QII")

    def __init__(self, directory: Path, sync: bool) -> None:
        self._path = directory / "segment"
        self._sync = sync
        self._file = self._path.open("ab", buffering=0)

    def write(self, batch: list[Envelope]) -> None:
        body = _encoder.encode(batch)
        self._file.write(self._header.pack(batch[-1].identity.seq, len(body), zlib.crc32(body)) + body)
        if self._sync:
            os.fdatasync(self._file.fileno())

    def since(self, mark: int) -> Iterator[Envelope]:
        with self._path.open("rb") as file:
            while len(header := file.read(self._header.size)) == self._header.size:
                last, size, crc = self._header.unpack(header)
                if last <= mark:
                    file.seek(size, os.SEEK_CUR)
                    continue
                body = file.read(size)
                if len(body) < size or zlib.crc32(body) != crc:
                    return
                yield from (envelope for envelope in _many.decode(body) if envelope.identity.seq > mark)

    def close(self) -> None:
        self._file.close()


ENGINES: dict[str, tuple[type[Engine], str]] = {
    "sqlite-batches": (SqliteBatches, "sqlite3"),
    "sqlite-compressed": (SqliteCompressed, "sqlite3"),
    "sqlite-rows": (SqliteRows, "sqlite3"),
    "rocksdict": (Rocks, "rocksdict"),
    "lmdb": (Lmdb, "lmdb"),
    "segments": (Segments, "zlib"),
}


def append_rate(engine: type[Engine], events: list[Envelope], size: int, sync: bool, keep: Path) -> float:
    """Notifications a second, in batches of `size`."""
    log = engine(keep, sync)
    start = time.perf_counter()
    for at in range(0, len(events), size):
        log.write(events[at : at + size])
    taken = time.perf_counter() - start
    log.close()
    return len(events) / taken


def fetch_rate(engine: type[Engine], directory: Path, mark: int) -> tuple[float, float]:
    """Milliseconds to the first notification after a mark, and notifications a second from there."""
    log = engine(directory, True)
    start = time.perf_counter()
    found = log.since(mark)
    next(found)
    first = time.perf_counter() - start
    count = 1 + sum(1 for _ in found)
    rate = count / (time.perf_counter() - start)
    log.close()
    return first * 1e3, rate


def survive_kill(name: str, seconds: float = 0.7) -> tuple[float, int, bool]:
    """Kill a writer with SIGKILL: milliseconds to open again, notifications found, whether all acknowledged ones."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "bench.store_engines", "--write", name, directory]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(seconds)
            child.kill()
            acknowledged = [int(line) for line in child.stdout.read().splitlines(keepends=True) if line.endswith(b"\n")]
        start = time.perf_counter()
        log = ENGINES[name][0](Path(directory), True)
        taken = time.perf_counter() - start
        found = [envelope.identity.seq for envelope in log.since(0)]
        log.close()
        whole = found == list(range(1, len(found) + 1)) and len(found) >= max(acknowledged, default=0)
        return taken * 1e3, len(found), whole


def write_for_ever(name: str, directory: Path) -> None:
    """The child that is killed: acknowledges each synced batch on its standard output."""
    events = quotes(200_000)
    log = ENGINES[name][0](directory, True)
    print("ready", flush=True)
    for at in range(0, len(events), 100):
        log.write(events[at : at + 100])
        print(at + 100, flush=True)
    time.sleep(60)


COLUMNS = ["append", "sync/100", "sync/1", "fsync", "first", "fetch", "bytes", "reopen", "found"]
UNITS = ["k/s", "k/s", "k/s", "ms", "ms", "k/s", "each", "ms", ""]


def measure(name: str, events: list[Envelope]) -> list[float]:
    """One row of the table, or SystemExit if kill -9 has lost anything."""
    engine, _ = ENGINES[name]
    with tempfile.TemporaryDirectory() as scratch:
        unsynced, singly, synced = (Path(scratch) / run for run in ("unsynced", "singly", "synced"))
        for directory in (unsynced, singly, synced):
            directory.mkdir()
        loose = append_rate(engine, events, 1_000, False, unsynced)
        single = append_rate(engine, events[:500], 1, True, singly)
        disk = disk_sync_milliseconds(Path(scratch))
        tight = append_rate(engine, events, 100, True, synced)
        used = sum(path.stat().st_blocks * 512 for path in synced.rglob("*") if path.is_file())
        first, fetch = fetch_rate(engine, synced, len(events) // 2)
    reopen, found, whole = survive_kill(name)
    if not whole:
        raise SystemExit(f"{name} has lost something that it had synced")
    return [loose / 1e3, tight / 1e3, single / 1e3, disk, first, fetch / 1e3, used / len(events), reopen, found]


def installed(name: str) -> bool:
    """Whether an engine is there to be measured."""
    try:
        importlib.import_module(ENGINES[name][1])
    except ImportError:
        print(f"{name:18} missing: pip install {ENGINES[name][1]}")
        return False
    return True


def main() -> None:
    """Measure all, or be the child that is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", nargs=2, metavar=("ENGINE", "DIRECTORY"), help=argparse.SUPPRESS)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5, help="the table shows medians")
    parser.add_argument("names", nargs="*", metavar="engine", help=f"of: {', '.join(ENGINES)}")
    arguments = parser.parse_args()
    if arguments.write:
        write_for_ever(arguments.write[0], Path(arguments.write[1]))
        return
    events = quotes(arguments.events)
    raw = sum(len(_encoder.encode(envelope)) for envelope in events) / len(events)
    names = [name for name in arguments.names or ENGINES if installed(name)]
    rounds = [{name: measure(name, events) for name in names} for _ in range(arguments.rounds)]
    print(f"{len(events):,} quotes, {raw:.0f} bytes each as encoded envelopes; medians of {arguments.rounds} rounds")
    for head, cells in (("engine", COLUMNS), ("", UNITS)):
        print(f"{head:18}" + "".join(f"{cell:>10}" for cell in cells))
    for name in names:
        medians = (statistics.median(column) for column in zip(*(row[name] for row in rounds), strict=True))
        print(f"{name:18}" + "".join(f"{number(value):>10}" for value in medians))


if __name__ == "__main__":
    main()
