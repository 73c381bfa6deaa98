"""Retention: the oldest publications go when they are too old or too many.

A slice at a time, within an ordinary commit, so that nobody waits long behind it. The file does not shrink; its free
pages are used again. What was forgotten is a hole in the numbers, which recovery reports as lost to those who ask.

Where there is an archive, only what it holds is forgotten: a limit that is passed costs space, never a publication.
"""

from __future__ import annotations

import sqlite3

from ._position import Forgotten
from ._queue import Retain

SLICE = 500
"""The most batches that one commit forgets."""


def forget(connection: sqlite3.Connection, limits: Retain) -> bool:
    """Forget at most a slice of what is beyond the limits. Whether there may be more of it."""
    if limits.max_bytes is None and limits.older_than is None:
        return False
    oldest = connection.execute(
        "SELECT id, latest, length(batch), epoch, last FROM publications ORDER BY id LIMIT ?", (SLICE,)
    )
    excess = 0 if limits.max_bytes is None else used_bytes(connection) - limits.max_bytes
    last = position = None
    count = 0
    for number, latest, size, *where in oldest:
        if excess <= 0 and (limits.older_than is None or latest >= limits.older_than):
            break
        if limits.archived is not None and tuple(where) > limits.archived:
            break
        last, position = number, Forgotten(*where)
        excess -= size
        count += 1
    if position is not None:
        kept = (Forgotten.TABLE, Forgotten.KEY, position.encoded())
        connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?, ?)", kept)
        connection.execute("DELETE FROM publications WHERE id <= ?", (last,))
        connection.execute("DELETE FROM segments WHERE id <= ?", (last,))
    return count == SLICE


def used_bytes(connection: sqlite3.Connection) -> int:
    """The bytes of the file that hold something."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    used: int = (pages - free) * size
    return used
