"""Where an archive keeps what: the names of its directories and files, which carry the identity of what is inside.

    ARCHIVE/date=2026-11-16/hour=03/berlin-1763263000000000-000000000001-000000250000.parquet
            by published_at, in UTC  origin epoch           first number of the last one

A file holds everything of one log between two numbers of one epoch that was published in one hour. Files of one origin
never overlap: the next one begins where the last one ended. So the names tell how far a log has been archived, and no
manifest could disagree with them. docs/archive.md is the description for everybody else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

HOUR = 3_600_000_000
"""Microseconds."""
MAX_ORIGIN = 100
"""The most characters of an origin in a file name; a longer one is cut and ends in its digest."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PARTITION = re.compile(r"date=(\d{4}-\d\d-\d\d)/hour=(\d\d)/")
_NAME = re.compile(r"(.+)-(\d{16,19})-(\d{12,19})-(\d{12,19})\.parquet")


class ArchiveFile(NamedTuple):
    """One file: what its path tells. Sorting gives the order of the log for each origin."""

    origin: str
    """As it stands in the name: long names are cut."""
    epoch: int
    first: int
    last: int
    hour: int
    """Hours since 1970 UTC."""
    path: Path

    def written_by(self, origin: str) -> bool:
        return self.origin == unquote(origin_in_names(origin))

    @property
    def place(self) -> tuple[str, int, int, int]:
        """Sorts files by origin, epoch and number; of those that begin alike, the one that holds more comes first."""
        return self.origin, self.epoch, self.first, -self.last

    @property
    def since(self) -> int:
        """The beginning of its hour, in microseconds."""
        return self.hour * HOUR

    @property
    def until(self) -> int:
        """The end of its hour."""
        return (self.hour + 1) * HOUR


def hour_of(published_at: int) -> int:
    """The hour of an instant, counted from 1970 UTC."""
    return published_at // HOUR


def origin_in_names(origin: str) -> str:
    """An origin as it stands in file names: no character that a file system or a reader of Parquet minds."""
    name = quote(origin, safe="")
    if name[:1] in ("_", ".", ""):  # readers pass over files whose names begin like this
        name = f"%{ord(name[0]):02X}{name[1:]}" if name else "%"
    if len(name) > MAX_ORIGIN:
        digest = hashlib.blake2b(origin.encode(), digest_size=8).hexdigest()
        name = f"{name[: MAX_ORIGIN - 17].rstrip('%')}~{digest}"
    return name


def path_of(origin: str, epoch: int, first: int, last: int, hour: int) -> Path:
    """The path of a file within the archive."""
    begins = _EPOCH + timedelta(hours=hour)
    name = f"{origin_in_names(origin)}-{epoch:016d}-{first:012d}-{last:012d}.parquet"
    return Path(f"date={begins.date().isoformat()}", f"hour={begins:%H}", name)


def file_at(root: Path, path: Path) -> ArchiveFile | None:
    """What a path tells; None if it is not that of a file of an archive."""
    directory, _, name = path.relative_to(root).as_posix().rpartition("/")
    place, named = _PARTITION.fullmatch(f"{directory}/"), _NAME.fullmatch(name)
    if place is None or named is None:
        return None
    begins = datetime.fromisoformat(f"{place[1]}T{place[2]}:00:00+00:00")
    hour = (begins - _EPOCH) // timedelta(hours=1)
    return ArchiveFile(unquote(named[1]), int(named[2]), int(named[3]), int(named[4]), hour, path)


def archive_bytes(root: Path, origin: str) -> int:
    """What the files of one origin take on disk."""
    return sum(size_of(file.path) for file in files_in(root) if file.written_by(origin))


def size_of(path: Path) -> int:
    """The size of a file; 0 if it has gone."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def files_in(root: Path) -> Iterator[ArchiveFile]:
    """Every file of an archive, as it is now. Whatever else lies there is passed over."""
    for path in root.glob("date=*/hour=*/*.parquet"):
        if not path.name.startswith((".", "_")) and (file := file_at(root, path)) is not None:
            yield file
