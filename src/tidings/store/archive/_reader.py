"""Reading an archive: by time, origin and content, oldest or newest first.

Theory of operation
-------------------
Paths tell hour and origin, so files outside the range are never opened. The statistics of row groups tell times and
promoted values; those that cannot hold anything of interest are not read. What is read is filtered by Arrow as far as
columns go, then by the filter itself: so the answer is exact.

A row group is read in steps, because whoever shares a thread with a broker's loop has to wait for each: first the
columns that decide which rows are wanted, then all that are needed, some rows at a time, of which the wanted ones are
kept; these runs are merged by number, and become publications, some at a time.

Each origin is a stream of its own, in the order of its log. Streams are merged by `published_at`: between origins the
order is that of their clocks. Memory holds what is left of one row group for each origin.

Files appear whole and never change, so a reader needs no lock. It works on the files that are there when it begins.
If one of them has been merged with others meanwhile, its rows are read from the file that has taken its place; if it
has been removed, it is missing. Should files overlap, numbers that have been passed are passed over.
"""

from __future__ import annotations

import contextlib
import heapq
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from tidings.store._errors import StoreError, StoreForeign
from tidings.store._layout import ArchiveFile, files_in
from tidings.store._query import Query, Queryable
from tidings.store._records import Extent
from tidings.wire import Envelope

from ._attributes import microseconds
from ._bloom import BloomFilters
from ._pages import Pages, Part
from ._pushdown import predicate, sought
from ._row_group import envelopes_in
from ._schema import promoted_in

_DISK = LocalFileSystem()
STEP_ROWS = 1_024
"""Rows of a row group that are read at a time."""
STEP = 250
"""Publications that are made of these at a time."""
ATTEMPTS = 10
"""How often the files are listed anew if some of them have been merged before they could be opened."""
UNREADABLE = (pa.ArrowException, OSError, StoreError, ValueError, KeyError)
"""What reading a file raises that is not what it should be."""

_number = pa.Int64Scalar.as_py
_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


class ArchiveDamage(NamedTuple):
    """A file that could not be read, or not to its end."""

    path: Path
    problem: str


class _Piece(NamedTuple):
    """A file, and the numbers that are needed of it."""

    file: ArchiveFile
    start: int
    end: int

    def cut(self, first: int, last: int) -> _Piece:
        """What it has of these numbers; nothing, if it ends before it starts."""
        return self._replace(start=max(self.start, first), end=min(self.end, last))


class ArchiveReader(Queryable):
    """Reads an archive, from one thread at a time."""

    def __init__(self, directory: str | Path, *, origin: str | None = None) -> None:
        self.directory = Path(directory)
        if not self.directory.is_dir():
            raise StoreForeign(
                f"there is no archive in '{self.directory}'; name the directory that a broker archives to"
            )
        self._origin = origin
        self._damage: dict[Path, ArchiveDamage] = {}

    @property
    def damage(self) -> tuple[ArchiveDamage, ...]:
        """What this reader could not read."""
        return tuple(self._damage.values())

    def files(self, *, since: int | None = None, until: int | None = None) -> list[ArchiveFile]:
        """The files that may hold something of a range of time, sorted by origin, epoch and number."""
        chosen = (
            file
            for file in files_in(self.directory)
            if (since is None or since < file.until)
            and (until is None or file.since < until)
            and (self._origin is None or file.written_by(self._origin))
        )
        return sorted(chosen, key=lambda file: file.place)

    def origin_of(self, file: ArchiveFile) -> str:
        """The origin of a file in full, which its name may have cut."""
        if file.written_by(file.origin):
            return file.origin
        column = pq.read_table(file.path, columns=["origin"], partitioning=None).column("origin")
        return str(column[0].as_py())

    def extent(self) -> Extent:
        """How much there is, of which time. Reads the end of every file."""
        for _ in range(ATTEMPTS):
            with contextlib.suppress(FileNotFoundError):  # files have been merged while their ends were read
                return self._extent()
        raise StoreError(f"the archive in '{self.directory}' changes faster than it can be counted; try again")

    def _extent(self) -> Extent:
        count = groups = size = 0
        times: list[int] = []
        for file in self.files():
            try:
                metadata = pq.read_metadata(file.path)
                published = metadata.schema.names.index("published_at")
                for at in range(metadata.num_row_groups):
                    statistics = metadata.row_group(at).column(published).statistics
                    times += [microseconds(statistics.min), microseconds(statistics.max)]
            except FileNotFoundError:
                raise
            except (pa.ArrowException, OSError, ValueError) as error:
                self.damaged(file.path, error)
                continue
            count += metadata.num_rows
            groups += metadata.num_row_groups
            size += file.path.stat().st_size
        return Extent(count, groups, size, min(times, default=None), max(times, default=None))

    def steps(self, query: Query) -> Iterator[list[Envelope]]:
        """What is asked for, from all origins."""
        pieces = _without_overlaps(self.files(since=query.since, until=query.until))
        streams = [self._stream(list(some), query) for _, some in groupby(pieces, lambda piece: piece.file.origin)]
        if len(streams) == 1:
            yield from streams[0]
            return
        flat = [(envelope for step in stream for envelope in step) for stream in streams]
        merged = heapq.merge(*flat, key=lambda one: one.identity.published_at, reverse=query.newest_first)
        yield from ([envelope] for envelope in merged)

    def between(self, epoch: int, first: int, last: int) -> Iterator[list[Envelope]]:
        """The publications of one epoch from one number to another, of the origin that this reader is for."""
        files = (file for file in self.files() if file.epoch == epoch)
        pieces = [one.cut(first, last) for one in _without_overlaps(files)]
        yield from self._stream([one for one in pieces if one.start <= one.end], Query())

    def _stream(self, pieces: list[_Piece], query: Query) -> Iterator[list[Envelope]]:
        """One origin."""
        left = deque(reversed(pieces) if query.newest_first else pieces)
        while left:
            piece = left.popleft()
            try:
                # Opened once: whatever happens to its name, what has been opened can be read to the end.
                source = _DISK.open_input_file(str(piece.file.path))
            except FileNotFoundError:
                instead = self._instead(piece)
                left.extendleft(instead if query.newest_first else reversed(instead))
                continue
            try:
                with source:
                    yield from self._read(piece, source, query)
            except UNREADABLE as error:
                self.damaged(piece.file.path, error)

    def _instead(self, piece: _Piece) -> list[_Piece]:
        """Where the rows are that were in a file that is gone; nowhere, if they have been removed."""
        lost = piece.file
        now = _without_overlaps(file for file in self.files() if (file.origin, file.epoch) == (lost.origin, lost.epoch))
        return [cut for one in now if (cut := one.cut(piece.start, piece.end)).start <= cut.end]

    def _read(self, piece: _Piece, source: pa.NativeFile, query: Query) -> Iterator[list[Envelope]]:
        fragment = _FORMAT.make_fragment(source)
        schema = fragment.physical_schema
        found, complete = promoted_in(fragment.metadata.metadata or {})
        promoted = {one.name: one for one in found}
        wanted = predicate(query, promoted, complete)
        named = {one.name for conjunction in query.filter.conjunctions for one in conjunction}
        asked = [*sorted(named & promoted.keys()), *(["published_at"] if query.has_times else [])]
        if piece.start > piece.file.first or piece.end < piece.file.last:
            part = (pc.field("seq") >= piece.start) & (pc.field("seq") <= piece.end)
            wanted = part if wanted is None else wanted & part
            asked.append("seq")
        names = [name for name in schema.names if name not in promoted]
        promoted_at = {at for at, name in enumerate(schema.names) if name in promoted}
        columns = pq.ParquetFile(source, metadata=fragment.metadata, page_checksum_verification=True)
        blooms = BloomFilters(source, fragment.metadata, schema.names)
        sought_in = sought(query, promoted, complete)
        pages = Pages(source, columns, [at for at in range(columns.metadata.num_columns) if at not in promoted_at])
        groups = fragment.split_by_row_group(wanted, schema=schema)
        for group in reversed(groups) if query.newest_first else groups:
            yield []
            if not blooms.may_hold(group.row_groups[0].id, sought_in):
                continue
            passed = None if wanted is None else _passing(group, wanted, asked)
            if passed is not None and not len(passed):
                continue
            runs: list[pa.RecordBatch] = []
            at = group.row_groups[0].id
            parts = [Part(0, columns, at)] if passed is None else pages.holding(at, passed)
            for rows in _rows(parts, names, passed):
                runs.append(rows.take(pc.sort_indices(rows.column("seq"))))
                yield []
            numbers = pa.chunked_array([run.column("seq") for run in runs], pa.int64()).sort()
            starts = range(0, len(numbers), STEP)
            for start in reversed(starts) if query.newest_first else starts:
                first, last = numbers[start], numbers[min(start + STEP, len(numbers)) - 1]
                yield query.chosen(envelopes_in(_merged(runs, first.as_py(), last.as_py())))

    def damaged(self, path: Path, error: Exception) -> None:
        """Note that a file could not be read."""
        self._damage[path] = ArchiveDamage(path, str(error).partition("\n")[0])


def _passing(group: ds.ParquetFileFragment, wanted: pc.Expression, asked: list[str]) -> pa.Int64Array:
    """Which rows of a row group pass the predicate. Often none does, and the other columns are not needed."""
    seen = group.to_table(schema=group.physical_schema, columns=asked, use_threads=False)
    return seen.append_column("", pa.arange(0, len(seen))).filter(wanted).column("").combine_chunks()


def _rows(parts: Iterable[Part], names: list[str], passed: pa.Int64Array | None) -> Iterator[pa.RecordBatch]:
    """Those rows of a row group that passed, as they are on disk, some at a time."""
    for start, file, group in parts:
        for rows in file.iter_batches(STEP_ROWS, row_groups=[group], columns=names, use_threads=False):
            end = start + len(rows)
            if passed is None:
                yield rows.select(names)
            else:
                first, last = (bisect_left(passed, at, key=_number) for at in (start, end))
                yield rows.select(names).take(pc.subtract(passed.slice(first, last - first), start))
                if last == len(passed):
                    return
            start = end


def _merged(runs: list[pa.RecordBatch], first: int, last: int) -> pa.Table:
    """The rows with these numbers, in their order, of runs that are each in order."""
    parts = []
    for run in runs:
        numbers = run.column("seq")
        start = bisect_left(numbers, first, key=_number)
        end = bisect_right(numbers, last, lo=start, key=_number)
        if start < end:
            parts.append(run.slice(start, end - start))
    return pa.Table.from_batches(parts).sort_by("seq")


def _without_overlaps(files: Iterable[ArchiveFile]) -> Iterator[_Piece]:
    for _, some in groupby(files, lambda file: (file.origin, file.epoch)):
        reached = 0
        for file in some:
            if file.last > reached:
                yield _Piece(file, max(file.first, reached + 1), file.last)
                reached = file.last
