"""Retention: the oldest publications go when they are too old or too many.

A slice at a time, within an ordinary commit, so that nobody waits long behind it. What was forgotten is a hole in the
numbers, which recovery reports as lost to those who ask.

A limit of bytes is about the disk: the file and the write-ahead log beside it. So the log gets a share, and what is in
the file may have the rest; the writer copies the log before it is longer. Pages of the file that become free are used
again, so it stays at its largest size, which is within the limit; one that is larger, because the limit was lowered or
a commit was too large for it, is cut (`_shrinking`).

The journal has at most half of what is in the file. Beyond that its oldest records go, however young they are;
otherwise a journal that is as large as the limit would leave no room for publications.

Where there is an archive, only what it holds is forgotten: a limit that is passed costs space, never a publication.
"""

from __future__ import annotations

import sqlite3

from tidings.model import Position

from ._position import FORGOTTEN
from ._queue import Retain

SLICE = 500
"""The most batches that one commit forgets."""
CHECKPOINT_BYTES = 8_388_608
"""The most bytes of write-ahead log before it is copied into the main file."""
LOG_PART = 8
"""The log is copied when it has this part of the limit, if that is less; it may have four times that meanwhile."""
SPARE_PART = 16
"""This part of what may be in the file is forgotten at once, so that not every commit has to forget."""


def log_bytes(max_bytes: int | None) -> int:
    """The length of the write-ahead log at which it is copied."""
    return CHECKPOINT_BYTES if max_bytes is None else min(CHECKPOINT_BYTES, max_bytes // LOG_PART)


def content_bytes(max_bytes: int) -> int:
    """How much may be in the file, so that there is room for the log beside it."""
    return max_bytes - 4 * log_bytes(max_bytes)


def limit_for(content: int) -> int:
    """A limit under which nothing is forgotten of a file with so many bytes."""
    return content + min(content, 4 * CHECKPOINT_BYTES)


def journal_is_too_long(connection: sqlite3.Connection, max_bytes: int | None) -> bool:
    """Whether the journal takes more than its half, and there is no room."""
    if max_bytes is None or used_bytes(connection) <= content_bytes(max_bytes):
        return False
    return _journal_bytes(connection) > content_bytes(max_bytes) // 2


def forget(connection: sqlite3.Connection, limits: Retain) -> bool:
    """Forget at most a slice of what is beyond the limits. Whether there may be more of it."""
    if limits.max_bytes is None and limits.older_than is None:
        return False
    oldest = connection.execute(
        "SELECT id, latest, length(batch), epoch, last FROM publications ORDER BY id LIMIT ?", (SLICE,)
    )
    excess = 0 if limits.max_bytes is None else _excess(connection, limits.max_bytes)
    last = position = None
    count = 0
    for number, latest, size, *where in oldest:
        if excess <= 0 and (limits.older_than is None or latest >= limits.older_than):
            break
        if limits.archived is not None and tuple(where) > limits.archived:
            break
        last, position = number, Position(*where)
        excess -= size
        count += 1
    if position is not None:
        kept = (*FORGOTTEN, FORGOTTEN.written(position))
        connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?, ?)", kept)
        connection.execute("DELETE FROM publications WHERE id <= ?", (last,))
        connection.execute("DELETE FROM segments WHERE id <= ?", (last,))
    return count == SLICE


def _excess(connection: sqlite3.Connection, max_bytes: int) -> int:
    """The bytes of publications that must go."""
    room = content_bytes(max_bytes)
    excess = used_bytes(connection) - room
    if excess > 0:
        excess -= max(0, _journal_bytes(connection) - room // 2)  # that goes by itself
    return excess + room // SPARE_PART if excess > 0 else 0


def _journal_bytes(connection: sqlite3.Connection) -> int:
    (size,) = connection.execute("SELECT coalesce(sum(length(batch)), 0) FROM journal").fetchone()
    return int(size)


def used_bytes(connection: sqlite3.Connection) -> int:
    """The bytes of the file that hold something."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    used: int = (pages - free) * size
    return used
