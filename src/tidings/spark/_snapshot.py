"""An archive as it is at one moment: which files are read, which numbers of each, and which promoted columns they have.

Files appear whole and never change, so a list of them is a snapshot. Where files overlap, because some have been merged
or copied, each number is taken from one of them. The ends of the files tell their promoted columns; a table has those
that have one kind in all files.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.store import Promoted, PromotedKind, StoreError
from tidings.store.archive import FORMAT, RESERVED, ArchiveReader

from ._errors import ArchiveChanged, SourceError
from ._sql import Column

THREADS = 8
"""Files whose ends are read at the same time."""


class Piece(NamedTuple):
    """A file, and the numbers that are needed of it."""

    path: str
    origin: str
    """As it stands in the name of the file: long names are cut."""
    epoch: int
    start: int
    end: int
    whole: bool
    """Whether all of its numbers are needed."""
    since: int
    """The beginning of its hour, in microseconds."""
    until: int


@dataclass(frozen=True)
class Snapshot:
    """What there is to read."""

    pieces: tuple[Piece, ...]
    columns: dict[str, Column]
    """The promoted columns, by name."""
    uncertain: frozenset[str] = frozenset()
    """Attributes that are promoted, but not with one kind and one name for all: they are in `attributes` only."""
    with_body: bool = False


def local_path(path: str | Path) -> Path:
    """The directory that a path or a `file:` address names."""
    text = str(path)
    address = urlparse(text)
    if address.scheme == "file":
        return Path(unquote(address.path))
    if len(address.scheme) > 1:
        raise SourceError(
            f"'{text}' is not in a file system of this machine; mount it, or read it with Spark's own Parquet reader"
        )
    return Path(text)


def pieces(directory: Path, *, since: int | None = None, until: int | None = None) -> list[Piece]:
    """The files of a range of time, sorted by origin, epoch and number, without overlaps."""
    try:
        files = ArchiveReader(directory).files(since=since, until=until)
    except StoreError as error:
        raise SourceError(str(error)) from None
    return list(_without_overlaps(sorted(files, key=lambda file: (file.origin, file.epoch, file.first, -file.last))))


def _without_overlaps(files: Iterable[Any]) -> Iterator[Piece]:
    for _, some in groupby(files, lambda file: (file.origin, file.epoch)):
        reached = 0
        for file in some:
            if file.last > reached:
                start = max(file.first, reached + 1)
                whole = start == file.first
                yield Piece(str(file.path), file.origin, file.epoch, start, file.last, whole, file.since, file.until)
                reached = file.last


ATTEMPTS = 10
"""How often files are listed anew if some of them went away before their ends were read."""


def taken(directory: str | Path, *, since: int | None = None, until: int | None = None) -> Snapshot:
    """The archive in a directory, now."""
    root = local_path(directory)
    for _ in range(ATTEMPTS):
        found = pieces(root, since=since, until=until)
        try:
            with ThreadPoolExecutor(THREADS) as threads:
                ends = list(threads.map(_end, [piece.path for piece in found]))
        except FileNotFoundError:
            continue  # files have been merged or removed
        columns, uncertain = _common(ends)
        return Snapshot(tuple(found), columns, uncertain, any(end.with_body for end in ends))
    raise ArchiveChanged(f"the archive in '{root}' changes faster than it can be listed; try again")


def _common(ends: Sequence[_End]) -> tuple[dict[str, Column], frozenset[str]]:
    """The promoted columns that mean the same in all files, and the names of the others."""
    kinds: dict[str, set[PromotedKind]] = {}
    for end in ends:
        for name, kind in end.promoted.items():
            kinds.setdefault(name, set()).add(kind)
    lower = Counter([*map(str.lower, kinds), *(name for name in RESERVED)])  # Spark does not tell A from a
    certain = {name: some for name, some in kinds.items() if len(some) == 1 and lower[name.lower()] == 1}
    columns = {
        name: Column(Promoted(name, min(some, key=str)), all(name in end.complete for end in ends))
        for name, some in certain.items()
    }
    return columns, frozenset(kinds.keys() - certain.keys())


class _End(NamedTuple):
    promoted: dict[str, PromotedKind]
    complete: frozenset[str]
    with_body: bool


def _end(path: str) -> _End:
    try:
        metadata = pq.read_metadata(path)
        own = metadata.metadata or {}
        version = own.get(b"tidings.format", b"none").decode(errors="replace")
        if version != str(FORMAT):
            raise SourceError(f"'{path}' has format {version}, this Tidings reads format {FORMAT}; install a newer one")
        kinds = json.loads(own.get(b"tidings.promoted", b"{}"))
        complete = json.loads(own.get(b"tidings.complete", b"[]"))
    except FileNotFoundError:
        raise  # whoever took the list takes it again
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged(path, error) from None
    promoted = {name: PromotedKind(kind) for name, kind in kinds.items()}
    return _End(promoted, frozenset(complete), "body" in metadata.schema.names)


def damaged(path: str, error: Exception) -> SourceError:
    """What to say of a file that cannot be read."""
    problem = str(error).partition("\n")[0]
    return SourceError(f"'{path}' cannot be read: {problem}; restore it from a copy, or move it out of the archive")
