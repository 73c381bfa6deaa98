"""The file of a store: found or made, checked, locked; and the next incarnation of its broker.

    DIRECTORY/store.sqlite   everything; SQLite keeps -wal and -shm files beside it while the store is open
    DIRECTORY/store.lock     an empty database whose exclusive lock says that a broker is at work here

The lock is SQLite's own: it works on every platform, ends with the process, and is not inherited by a fork.

Every opening starts a new epoch. It is larger than all before, and not smaller than the clock's microseconds: a broker
that has lost its disk still comes back as a later incarnation of itself, and keys of events are never used twice.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path

from ._errors import StoreCorrupt, StoreError, StoreFailed, StoreForeign, StoreLocked
from ._position import FORGOTTEN
from ._recovery import is_log_missing, log_is_gone, log_of, look_behind, mark_open, refuse_orphan
from ._rights import open_to_others, private_directory, private_file

APPLICATION = 0x54444E47
"""Marks the file as a store of Tidings (SQLite's application_id)."""
FORMAT = 2
"""The version of the tables below (SQLite's user_version)."""
CHECK_SECONDS = 1.0
"""The longest time that opening spends on looking for structural damage."""
COMPLETE = "complete"
"""The small state that names the current epoch for as long as every number that it has given is in the log."""
CACHE_KIB = 8_192
"""SQLite's page cache, of the writer and of the reader."""

_SCHEMA = """
CREATE TABLE owner (name TEXT NOT NULL);
CREATE TABLE epochs (
    epoch     INTEGER PRIMARY KEY,
    opened_at INTEGER NOT NULL,             -- microseconds
    ended     INTEGER                       -- the last number, if it is known
);
CREATE TABLE publications (                 -- one row per batch
    id       INTEGER PRIMARY KEY,           -- grows with (epoch, first)
    epoch    INTEGER NOT NULL,
    first    INTEGER NOT NULL,
    last     INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    earliest INTEGER NOT NULL,              -- published_at
    latest   INTEGER NOT NULL,
    summary  BLOB,                          -- what the batch may hold (_summary.py); NULL: unknown
    checksum INTEGER NOT NULL,              -- crc32 of batch
    batch    BLOB NOT NULL
);
CREATE INDEX publications_by_number ON publications (epoch, last, first);
CREATE TABLE segments (                     -- one row per many batches in a row
    id       INTEGER PRIMARY KEY,           -- that of its last batch
    first    INTEGER NOT NULL,              -- that of its first batch
    earliest INTEGER NOT NULL,
    latest   INTEGER NOT NULL,
    summary  BLOB NOT NULL                  -- what its batches may hold
);
CREATE TABLE journal (                      -- one row per batch
    id       INTEGER PRIMARY KEY,
    earliest INTEGER NOT NULL,
    latest   INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    batch    BLOB NOT NULL
);
CREATE INDEX journal_by_time ON journal (latest, earliest);
CREATE TABLE state (
    name  TEXT NOT NULL,
    key   TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (name, key)
) WITHOUT ROWID;
"""
_TABLES = {"owner", "epochs", "publications", "segments", "journal", "state"}
_FROM_1 = """
ALTER TABLE publications ADD COLUMN summary BLOB;
CREATE TABLE segments (
    id INTEGER PRIMARY KEY, first INTEGER NOT NULL, earliest INTEGER NOT NULL, latest INTEGER NOT NULL,
    summary BLOB NOT NULL
);
PRAGMA user_version=2;
"""
"""What turns format 1, which had no summaries, into format 2."""


def connect(path: Path, *, reader: bool = False) -> sqlite3.Connection:
    """A connection that commits only when told; the store decides which thread uses it."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
    connection.execute("PRAGMA synchronous=FULL")  # a commit returns when the disk has it
    connection.execute("PRAGMA wal_autocheckpoint=0")  # the writer decides when
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
    if reader:
        connection.execute("PRAGMA query_only=ON")
    return connection


def lock(directory: Path, name: str = "store.lock", *, wait: float = 0.0, shared: bool = False) -> sqlite3.Connection:
    """Take the directory for this store alone; closing the connection gives it back.

    Whoever holds it is waited for, for so many seconds. In a `shared` directory, those who may use it may lock it.
    """
    try:
        private_directory(directory)
        private_file(directory / name, directory if shared else None)
        connection = sqlite3.connect(directory / name, isolation_level=None, check_same_thread=False, timeout=wait)
    except (OSError, sqlite3.Error) as error:
        why = (isinstance(error, OSError) and error.strerror) or error
        raise StoreFailed(
            f"the directory '{directory}' cannot be used: {why}; choose one that can be written"
        ) from None
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        connection.close()
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            raise StoreLocked(
                f"another broker uses the store in '{directory}'; stop it, or give this broker a directory of its own"
            ) from None
        raise StoreFailed(f"the directory '{directory}' cannot be locked: {error}") from None
    return connection


def open_file(path: Path, owner: str, now: int) -> tuple[sqlite3.Connection, int, tuple[str, ...]]:
    """Open or create the file and start the next epoch, synced; and what was wrong with what there was."""
    connection = None
    refuse_orphan(path)
    had_log = log_of(path).exists()
    try:
        private_file(path)
        connection = connect(path)
        _check(connection, path, owner)
        damage = look_behind(connection, path)
        gone = log_is_gone(connection, path) if is_log_missing(connection, had_log) else ""
        epoch = _next_epoch(connection, now, intact=not damage and not gone)
        mark_open(connection)
        return connection, epoch, tuple(filter(None, (damage, gone, open_to_others(path.parent, path))))
    except BaseException as error:
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        if isinstance(error, sqlite3.Error | OSError):
            raise explain(error, path) from None
        raise


def explain(error: Exception, path: Path) -> StoreError:
    """An error of the engine as one of the store, with its remedy."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return StoreForeign(f"'{path}' is not a store of Tidings; choose another directory, or move the file away")
    if code == sqlite3.SQLITE_CORRUPT:
        return _corrupt(path, str(error))
    if code == sqlite3.SQLITE_FULL:
        return StoreFailed(f"the disk of '{path}' is full; free some space, then publish again")
    return StoreFailed(f"'{path}' cannot be written or read: {error}; check the disk and its permissions")


def _corrupt(path: Path, problem: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"'{path}' is damaged: {problem}; restore it from a backup, save what is readable with "
        f"sqlite3 {path.name} .recover, or move the file away to start with an empty store"
    )


def _check(connection: sqlite3.Connection, path: Path, owner: str) -> None:
    """Make a new file, or refuse one that is not a sound store of this owner."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not application and not tables:
        _create(connection, path, owner)
        return
    if application != APPLICATION:
        raise StoreForeign(f"'{path}' belongs to another program; choose another directory")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 1 and owner_of(connection) == owner:
        _execute_all(connection, _FROM_1)
        tables.add("segments")
    elif version != FORMAT:
        raise StoreForeign(
            f"'{path}' has format {version}, this Tidings reads format {FORMAT}; "
            "use the version of Tidings that wrote it, or choose another directory"
        )
    if missing := _TABLES - tables:
        raise _corrupt(path, f"the tables {', '.join(sorted(missing))} are missing")
    if (found := owner_of(connection)) != owner:
        raise StoreForeign(
            f"'{path}' is the store of broker '{found}', not of '{owner}'; "
            "choose another directory, or give the broker its old name"
        )
    _look_for_damage(connection, path)


def is_store(connection: sqlite3.Connection) -> bool:
    """Whether it is a store of the present format."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return bool(application == APPLICATION and version == FORMAT)


def owner_of(connection: sqlite3.Connection) -> str:
    """The broker whose store it is."""
    (name,) = connection.execute("SELECT name FROM owner").fetchone() or ("",)
    return str(name)


def _execute_all(connection: sqlite3.Connection, statements: str) -> None:
    connection.execute("BEGIN IMMEDIATE")  # all or nothing
    for statement in statements.split(";\n"):
        connection.execute(statement)
    connection.execute("COMMIT")


def _create(connection: sqlite3.Connection, path: Path, owner: str) -> None:
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # so that it can be cut when it is too large
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("BEGIN IMMEDIATE")  # all or nothing: a crash in here leaves an empty file
    for statement in _SCHEMA.split(";\n"):
        connection.execute(statement)
    connection.execute("INSERT INTO owner VALUES (?)", (owner,))
    connection.execute(f"PRAGMA application_id={APPLICATION}")
    connection.execute(f"PRAGMA user_version={FORMAT}")
    connection.execute("COMMIT")
    if hasattr(os, "O_DIRECTORY"):  # make the new names durable as well
        for directory in (path.parent, path.parent.parent):
            handle = os.open(directory, os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def _look_for_damage(connection: sqlite3.Connection, path: Path) -> None:
    """Check the structure as far as the time allows; batches have checksums of their own."""
    deadline = time.monotonic() + CHECK_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
    try:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        verdict = "ok"
    finally:
        connection.set_progress_handler(None, 0)
    if verdict != "ok":
        raise _corrupt(path, verdict.strip().replace("\n", " "))


def _next_epoch(connection: sqlite3.Connection, now: int, *, intact: bool) -> int:
    (latest,) = connection.execute("SELECT max(epoch) FROM epochs").fetchone()
    epoch: int = max((latest or 0) + 1, now)
    connection.execute("BEGIN IMMEDIATE")
    if intact:  # else something that was acknowledged may be lost
        _end_complete(connection)
    connection.execute("DELETE FROM state WHERE name = ?", (COMPLETE,))
    connection.execute("INSERT INTO epochs VALUES (?, ?, NULL)", (epoch, now))
    connection.execute("INSERT INTO state VALUES (?, ?, ?)", (COMPLETE, str(epoch), b""))
    connection.execute("COMMIT")
    return epoch


def _end_complete(connection: sqlite3.Connection) -> None:
    """Epochs that crashed, and gave numbers to nothing but what is here, ended with the last number that is or was."""
    forgotten = FORGOTTEN.read(
        dict(connection.execute("SELECT key, value FROM state WHERE name = ?", (FORGOTTEN.table,)))
    )
    for (name,) in connection.execute("SELECT key FROM state WHERE name = ?", (COMPLETE,)).fetchall():
        (last,) = connection.execute("SELECT max(last) FROM publications WHERE epoch = ?", (int(name),)).fetchone()
        seen = forgotten.seq if forgotten.epoch == int(name) else 0
        ended = (max(last or 0, seen), int(name))
        connection.execute("UPDATE epochs SET ended = ? WHERE epoch = ? AND ended IS NULL", ended)
