"""Verification: whether every file of an archive is what docs/archive.md says, read to its last byte.

Pages have checksums; what they do not cover, the end of the file and its name, is compared with the rows themselves.
Files that the manifest lists and that are not there have been deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.store._errors import StoreForeign
from tidings.store._layout import HOUR, ArchiveFile, file_at, files_in, size_of

from ._attributes import microseconds
from ._directories import STAGE
from ._manifest import listed
from ._promoted import promoted_of
from ._reader import UNREADABLE, ArchiveDamage
from ._rewriting import header_of
from ._schema import promoted_in, schema_of


@dataclass(frozen=True, slots=True)
class Verified:
    """What was looked at, and everything that is not as it should be."""

    files: int
    rows: int
    bytes: int
    problems: tuple[ArchiveDamage, ...]
    remarks: tuple[str, ...] = ()
    """What is no damage, and somebody may want to know."""


def verify(archive: str | Path, *, progress: Callable[[int, int], None] = lambda done, total: None) -> Verified:
    """Read everything and compare it with what names, statistics and columns say; `progress` hears bytes."""
    root = Path(archive)
    if not root.is_dir():
        raise StoreForeign(f"there is no archive in '{root}'; name the directory that a broker archives to")
    files = sorted(files_in(root), key=lambda file: file.place)
    sizes = {file.path: size_of(file.path) for file in files}
    total, done, rows = sum(sizes.values()), 0, 0
    problems: list[ArchiveDamage] = []
    for file in files:
        try:
            rows += header_of(file.path).rows
            problems += [ArchiveDamage(file.path, problem) for problem in _problems(file)]
        except FileNotFoundError:
            pass  # it was merged with others, or removed, while this one was on its way
        except UNREADABLE as error:
            problems.append(ArchiveDamage(file.path, f"it cannot be read: {str(error).partition(chr(10))[0]}"))
        done += sizes[file.path]
        progress(done, total)
    for one, two in pairwise(files):
        if (one.origin, one.epoch) == (two.origin, two.epoch) and two.first <= one.last and two.path.exists():
            problems.append(ArchiveDamage(two.path, f"it overlaps with {one.path.name}, so rows are there twice"))
    problems += [ArchiveDamage(file.path, _deleted(file)) for file in missing_in(root)]
    return Verified(len(files), rows, total, tuple(problems), tuple(_remarks(root)))


def missing_in(root: Path) -> list[ArchiveFile]:
    """The files that should be there and are not, in the order of the log."""
    gone = [path for path in listed(root) or {} if not path.exists()]
    still = listed(root) or {}  # whoever merges or removes files strikes them out before
    return sorted((still[path] for path in gone if path in still), key=lambda file: file.place)


def _deleted(file: ArchiveFile) -> str:
    return (
        f"it is in the manifest but is missing, with what {file.origin} had published from number {file.first} to "
        f"{file.last} of epoch {file.epoch}; restore it from a backup, or let `tidings archive retain` forget that time"
    )


def _remarks(root: Path) -> Iterator[str]:
    if listed(root) is None:
        yield f"{root} has no manifest, so deleted files go unnoticed; the next roll of a broker writes one"
    if (root / STAGE).exists():
        yield f"{root / STAGE} is left from maintenance that was interrupted or still runs; the next run removes it"
    for path in root.glob("date=*/hour=*/*"):
        if not path.name.startswith((".", "_")) and file_at(root, path) is None:
            yield f"{path} is not a file of an archive and is ignored; remove it"


def _problems(file: ArchiveFile) -> Iterator[str]:
    """What is wrong with a file that can be read."""
    with pq.ParquetFile(file.path, page_checksum_verification=True) as source:
        promoted, complete = promoted_in(source.metadata.metadata or {})
        wanted = schema_of(promoted, with_body="body" in source.schema_arrow.names)
        if not source.schema_arrow.equals(wanted):
            yield "its columns are not those of an archive"
            return
        reached = file.first - 1
        for at in range(source.num_row_groups):
            table = source.read_row_group(at, use_threads=False)
            for origin in pc.unique(table.column("origin")).to_pylist():
                if not file.written_by(origin):
                    yield f"row group {at} has rows of origin {origin}, its name says {file.origin}"
            for epoch in pc.unique(table.column("epoch")).to_pylist():
                if epoch != file.epoch:
                    yield f"row group {at} has rows of epoch {epoch}, its name says {file.epoch}"
            numbers = table.column("seq")
            low, high = pc.min_max(numbers).as_py().values()
            if low <= reached or high > file.last:
                yield f"row group {at} has numbers {low} to {high}, where {reached + 1} to {file.last} are expected"
            if pc.count_distinct(numbers).as_py() != len(table):
                yield f"row group {at} has a number twice"
            reached = max(reached, high)
            earliest, latest = (microseconds(one) for one in pc.min_max(table.column("published_at")).as_py().values())
            if earliest // HOUR != file.hour or latest // HOUR != file.hour:
                yield f"row group {at} has rows of another hour than its directory says"
            yield from _statistics(source, at, table)
            keys = [*(one.name for one in promoted), "seq"]
            order = pc.sort_indices(table.select(keys), [(name, "ascending") for name in keys])
            if order.to_pylist() != list(range(len(table))):
                yield f"row group {at} is not sorted by {', '.join(keys)}; `tidings archive sort` sorts it"
            attributes = table.column("attributes").combine_chunks()
            for one in promoted:
                column, whole = promoted_of(attributes, one)
                if not column.equals(table.column(one.name).combine_chunks()):
                    yield f"row group {at} has other values in column '{one.name}' than in its attributes"
                if one.name in complete and not whole:
                    yield f"row group {at} has values of '{one.name}' that its column cannot hold, and does not say so"


def _statistics(source: pq.ParquetFile, at: int, table: pa.Table) -> Iterator[str]:
    """By these, readers pass over row groups: a wrong one hides rows."""
    group = source.metadata.row_group(at)
    for place in range(group.num_columns):
        chunk = group.column(place)
        name, known = chunk.path_in_schema, chunk.statistics
        if name not in table.column_names or known is None or not known.has_min_max:
            continue
        low, high = pc.min_max(table.column(name)).as_py().values()
        if (known.min, known.max) != (low, high) and isinstance(low, int):
            yield f"row group {at} has {name} from {low} to {high}, its statistics say {known.min} to {known.max}"
