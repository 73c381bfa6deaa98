"""Rolling: what a log has grown by since the last time becomes files of the archive.

Theory of operation
-------------------
A roll goes through the log in order, from the position where the archive ends, and writes one file after the other. A
file ends where the hour, the epoch or the limit of rows does, and is committed before the next one begins. So at every
moment the files of one origin are a prefix of its log, cut into pieces that do not overlap, and the end of the last
piece is the position. Whoever kills a roll, or the machine, loses a file that nobody has seen; the next roll starts at
the position and writes it again. Nothing is lost, nothing is there twice.

The position is read from the names of the files. The store keeps a copy of it, for two reasons: retention must not
forget what is not archived, and files that have been deleted from the archive must not come back. Files of epochs that
this log does not know are those of a namesake, or of a disk that was lost, and say nothing about it.

Only one roll of an origin runs at a time: it holds a lock, which ends with its process.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidings.model import Position
from tidings.store._errors import StoreLocked
from tidings.store._file import lock
from tidings.store._layout import files_in, origin_in_names
from tidings.store._position import ARCHIVED
from tidings.store._promoted import Promoted
from tidings.store._records import Damage
from tidings.store._store_reader import StoreReader

from ._file_writer import FileWriter
from ._manifest import complete
from ._stretch import Kind, stretches

FILE_ROWS = 1_048_576
"""The most rows of a file."""


@dataclass(frozen=True, slots=True)
class Rolled:
    """What a roll has done."""

    position: Position
    """How far the archive reaches now."""
    count: int
    files: tuple[Path, ...]
    damage: tuple[Damage, ...] = ()
    """Batches of the log that could not be read, and are not in the archive."""


def roll(
    data: str | Path,
    archive: str | Path,
    promoted: Sequence[Promoted] = (Promoted("type"),),
    *,
    with_body: bool = False,
    file_bytes: float = math.inf,
    progress: Callable[[int], None] = lambda count: None,
) -> Rolled:
    """Archive what the store in `data` holds beyond the archive's end. `progress` hears the number of rows so far.

    A file ends after `file_bytes` of bodies, too: what is to be removed by size should not be one large file.

    Takes as long as it takes, and a core: run it in a process or thread of its own. Raises `StoreLocked` if another
    roll of the same origin is at work.
    """
    root = Path(archive)
    with StoreReader(data) as log, contextlib.closing(_locked(root, log.owner)):
        temporary = root / f".{origin_in_names(log.owner)}.rolling"
        temporary.unlink(missing_ok=True)
        complete(root)
        position = archived(log, root)
        files: list[Path] = []
        count = 0
        writer: FileWriter | None = None
        kind: Kind | None = None
        try:
            for stretch in stretches(log, position):
                full = writer is not None and (writer.size.rows >= FILE_ROWS or writer.size.bytes >= file_bytes)
                if writer is not None and writer.size.rows and (full or kind != stretch.kind):
                    files.append(writer.commit())
                    writer = None
                if writer is None:
                    writer = FileWriter(root, temporary, log.owner, promoted, with_body=with_body)
                kind = stretch.kind
                if added := writer.add(stretch):
                    position = Position(stretch.kind.epoch, stretch.last)
                    count += added
                    progress(count)
            if writer is not None and not writer.size.rows:
                writer.abandon()
                writer = None
            if writer is not None:
                files.append(writer.commit())
                writer = None
        finally:
            if writer is not None:
                writer.abandon()
        return Rolled(position, count, tuple(files), log.damage)


def _locked(root: Path, origin: str) -> sqlite3.Connection:
    try:
        return lock(root, f".{origin_in_names(origin)}.lock", shared=True)
    except StoreLocked:
        raise StoreLocked(
            f"another process is archiving broker '{origin}' into '{root}'; wait until it has finished"
        ) from None


def archived(log: StoreReader, root: Path) -> Position:
    """How far a log has been archived: by the names of the files, and by what the store remembers."""
    origin, epochs = log.owner, set(log.epochs())
    ours = (file for file in files_in(root) if file.epoch in epochs and file.written_by(origin))
    return max([ARCHIVED.read(log.items(ARCHIVED.table)), *(Position(file.epoch, file.last) for file in ours)])
