"""What the write-ahead log tells when a store is opened: whether something that was stored is missing.

Theory of operation
-------------------
SQLite reads its log up to the first frame whose checksum is wrong, and takes what is behind that for the rest of a
write that was torn. That is right for the last transaction, which nobody was told of. But a frame that is damaged later
hides everything behind it, and SQLite says nothing. So we look further. A frame carries the salts of the log, which
are drawn anew whenever the log begins from its start, and says whether a transaction ends with it. Of transactions that
end behind the damage the last one may never have been synced, because the machine lost power; those before it were.

A log without its file is deleted by SQLite; here it is refused, so that the file can be put back. A file without its
log is recognised by a mark that stands in it while the store is open: a store that did not end in order has a log.

Before SQLite writes over a damaged log, a copy is kept beside it, for those who want to look into it.
"""

from __future__ import annotations

import shutil
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ._errors import StoreCorrupt
from ._rights import private_file

HEADER_BYTES, FRAME_BYTES = 32, 24
"""Of the log, and before each page in it."""
SAVED = "damaged"
"""What the name of the copy of a damaged log ends in."""
TABLE, KEY = "file", "open"
"""Where it stands in the small state that the store is open."""
_MAGIC = (0x377F0682, 0x377F0683)


class Frame(NamedTuple):
    """What the beginning of a frame says."""

    salts: bytes
    ends: bool
    """Whether a transaction ends with it."""


def log_of(path: Path) -> Path:
    """The write-ahead log beside a file."""
    return path.with_name(f"{path.name}-wal")


def refuse_orphan(path: Path) -> None:
    """Refuse a directory that has a log and no file for it: SQLite would delete the log."""
    log = log_of(path)
    if not _has_bytes(path) and _has_bytes(log) and log.stat().st_size > HEADER_BYTES:
        commits = sum(frame.ends for frame in _frames(log, 0))
        raise StoreCorrupt(
            f"'{path}' is missing or empty, but its write-ahead log '{log.name}' is there, with the last "
            f"{commits:,} commits that were stored; put the file back beside it, or move the log away to "
            "start with an empty store"
        )


def is_log_missing(connection: sqlite3.Connection, had_log: bool) -> bool:
    """Whether the store did not end in order, and the log that it must have left has gone."""
    marked = connection.execute("SELECT 1 FROM state WHERE name = ? AND key = ?", (TABLE, KEY)).fetchone()
    return marked is not None and not had_log


def mark_open(connection: sqlite3.Connection) -> None:
    """Note in the file itself, not only in its log, that the store is open."""
    connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?, x'')", (TABLE, KEY))
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def mark_closed(connection: sqlite3.Connection) -> None:
    """Note that it ended in order."""
    connection.execute("DELETE FROM state WHERE name = ? AND key = ?", (TABLE, KEY))


def look_behind(connection: sqlite3.Connection, path: Path) -> str:
    """What is wrong with the log, if anything; to be called before something is written."""
    log = log_of(path)
    if not _has_bytes(log) or log.stat().st_size <= HEADER_BYTES:
        return ""
    _, whole, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    lost = sum(frame.ends for frame in _frames(log, max(whole, 0)))
    if not lost:
        return ""
    saved = log.with_name(f"{log.name}.{SAVED}")
    private_file(saved)
    shutil.copyfile(log, saved)
    many = f"{lost - 1:,} or {lost:,} commits that were stored are"
    return (
        f"the write-ahead log of '{path}' is damaged after frame {max(whole, 0):,}: "
        f"{many if lost > 1 else 'a commit that may have been stored is'} lost, which is everything after "
        f"{_end_of(connection)}; check the disk. A copy of the log is kept as '{saved.name}'"
    )


def log_is_gone(connection: sqlite3.Connection, path: Path) -> str:
    """What to say of a file whose log has gone."""
    return (
        f"'{path}' was not closed cleanly, and its write-ahead log '{log_of(path).name}' is missing: unless an SQLite "
        f"tool has opened the file since, everything stored after {_end_of(connection)} is lost; restore both files "
        "from a backup if there is one"
    )


def _end_of(connection: sqlite3.Connection) -> str:
    found = connection.execute("SELECT epoch, last FROM publications ORDER BY id DESC LIMIT 1").fetchone()
    return "the beginning" if found is None else f"publication {found[1]:,} of epoch {found[0]}"


def _frames(log: Path, after: int) -> Iterator[Frame]:
    """The frames behind so many, as far as they belong to the log as it is now."""
    with log.open("rb") as file:
        header = file.read(HEADER_BYTES)
        if len(header) < HEADER_BYTES:
            return
        size = int.from_bytes(header[8:12], "big")
        salts: bytes | None = header[16:24]
        if not _is_sound(header):
            size, salts = _page_size(size), None  # then whatever the first frame has
        step = FRAME_BYTES + size
        for at in range(HEADER_BYTES + after * step, log.stat().st_size - step + 1, step):
            file.seek(at)
            _, pages, found = struct.unpack(">II8s", file.read(16))
            salts = salts or found
            if found == salts:
                yield Frame(found, pages > 0)


def _page_size(told: int) -> int:
    """The page size that a damaged header tells, or SQLite's own choice."""
    return told if 512 <= told <= 65_536 and told & (told - 1) == 0 else 4_096


def _is_sound(header: bytes) -> bool:
    """Whether the checksum of the header is right, as SQLite computes it."""
    (magic,) = struct.unpack_from(">I", header)
    if magic not in _MAGIC:
        return False
    words = struct.unpack_from(">6I" if magic & 1 else "<6I", header)
    one = two = 0
    for at in range(0, 6, 2):
        one = (one + words[at] + two) & 0xFFFFFFFF
        two = (two + words[at + 1] + one) & 0xFFFFFFFF
    return struct.unpack_from(">2I", header, 24) == (one, two)


def _has_bytes(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0
