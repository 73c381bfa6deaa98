"""Shrinking: a file that is larger than its limit gives the disk back what it does not use.

SQLite keeps free pages for later. A store that is made now can be cut from its end, some pages at a time; the rest of
its pages moves forward first. One from before has to be written anew for that, once, which takes its writer as long as
copying what is in it. Both go through the write-ahead log, which is copied and emptied then, if nobody is reading
from it; otherwise next time.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ._layout import size_of
from ._retention import content_bytes, used_bytes

CUT_PAGES = 2_048
"""The most pages that are cut off at a time, 8 MiB: what waits for the disk waits for this as well."""
_INCREMENTAL = 2


def disk_bytes(path: Path) -> int:
    """What a store takes on disk: its file, and the write-ahead log beside it."""
    return sum(size_of(file) for file in (path, path.with_name(f"{path.name}-wal")))


def shrink(connection: sqlite3.Connection, path: Path, max_bytes: int) -> bool:
    """Have the file and its log nearer to the limit. Whether to go on soon, because that was only a part."""
    if disk_bytes(path) <= max_bytes:
        return False
    more = False
    free = connection.execute("PRAGMA freelist_count").fetchone()[0]
    if free and size_of(path) > content_bytes(max_bytes):
        more = _cut(connection, free, max_bytes)
    _empty_log(connection)
    return more and disk_bytes(path) > max_bytes


def can_be_cut(connection: sqlite3.Connection) -> bool:
    """Whether the file can be cut without writing it anew."""
    return bool(connection.execute("PRAGMA auto_vacuum").fetchone()[0] == _INCREMENTAL)


def _cut(connection: sqlite3.Connection, free: int, max_bytes: int) -> bool:
    if can_be_cut(connection):
        connection.executescript(f"PRAGMA incremental_vacuum({CUT_PAGES})")  # `execute` would stop after one page
        return free > CUT_PAGES
    if used_bytes(connection) <= max_bytes:  # not before the rest has been forgotten: it would be copied for nothing
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("VACUUM")
    return False


def _empty_log(connection: sqlite3.Connection) -> None:
    (wait,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute("PRAGMA busy_timeout=0")  # who reads is not waited for
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.execute(f"PRAGMA busy_timeout={wait}")
