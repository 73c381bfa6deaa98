"""Pages: some rows of a row group, without reading what lies before and behind them.

Theory of operation
-------------------
The offset index of a Parquet file tells where each page of a column is, and which row it begins with. Arrow writes it
and does not read by it. So the pages that hold the wanted rows are copied into a small Parquet file in memory, whose
footer knows of nothing else, and Arrow reads that: checksums, compression and encodings stay its business.

The pages of different columns need not end at the same rows. A *segment* is a range of rows at whose ends a page of
each wanted column ends. A row group whose pages cannot be found in this way is read as a whole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from itertools import pairwise
from operator import and_
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ._thrift import I32, I64, LIST, STRUCT, elements, fields, signed, skip, varint

_UNEXPECTED = (ValueError, IndexError, KeyError)
"""What is raised where a file has no offset index, or is written in a way that this does not know."""
_MAGIC = b"PAR1"
_ENDING = 8
"""Bytes behind the footer: its length, and the magic number."""
_HEADER_BYTES = 64
"""A page header has fewer, up to the number of its values."""
_DATA_PAGES = {0: 5, 3: 8}
"""The types of pages that hold values, and the field of the header that tells how many."""
_STOP = b"\x00"

_number = pa.Int64Scalar.as_py


class Part(NamedTuple):
    """Some rows of a row group, in a file of their own or where they are."""

    start: int
    """The place of the first in the row group."""
    file: pq.ParquetFile
    group: int
    """The row group of that file."""


class _Segment(NamedTuple):
    start: int
    end: int


class _Page(NamedTuple):
    offset: int
    size: int
    first: int
    """The row that it begins with."""


class _Column(NamedTuple):
    """A wanted column of a row group."""

    prefix: bytes
    """The first four fields of its metadata, which stay as they are: type, encodings, path, codec."""
    dictionary: int | None
    """Where its dictionary begins, which ends where its first page begins."""
    pages: list[_Page]


class Pages:
    """The pages of a file, in those of its columns that are wanted."""

    def __init__(self, source: pa.NativeFile, file: pq.ParquetFile, wanted: Sequence[int]) -> None:
        self._source = source
        self._file = file
        self._wanted = frozenset(wanted)

    def holding(self, group: int, rows: pa.Int64Array) -> Iterator[Part]:
        """The parts of a row group that hold these rows, whose places ascend."""
        count = self._file.metadata.row_group(group).num_rows
        try:
            chunks = self._footer.chunks(group)
            columns = {at: self._column(group, at, chunks[at]) for at in self._wanted}
            needed = [one for one in _segments(columns, count) if _are_within(rows, one)]
            if 2 * sum(end - start for start, end in needed) > count:
                raise ValueError("most of it is needed")
            small = [self._read(chunks, columns, needed[0])]
        except _UNEXPECTED:
            yield Part(0, self._file, group)
            return
        yield from small
        for segment in needed[1:]:
            yield self._read(chunks, columns, segment)

    @cached_property
    def _footer(self) -> _Footer:
        size = self._file.metadata.serialized_size
        return _Footer(self._source.read_at(size, self._source.size() - _ENDING - size))

    def _column(self, group: int, at: int, chunk: bytes) -> _Column:
        known = self._file.metadata.row_group(group).column(at)
        starts = {number: place for number, _, place in fields(chunk, 0)}
        within = {number: place for number, _, place in fields(chunk, starts[3])}
        size, offset = signed(chunk, starts[5])[0], signed(chunk, starts[4])[0]
        index = self._source.read_at(size, offset)
        pages = _pages(index)
        if pages[0].first or pages[0].offset != known.data_page_offset:
            raise ValueError("the offset index does not begin where the column does")
        return _Column(chunk[starts[3] : within[5] - 1], known.dictionary_page_offset, pages)

    def _read(self, chunks: Sequence[bytes], columns: dict[int, _Column], segment: _Segment) -> Part:
        """A file that has these rows only, and of its columns those that are wanted."""
        parts, at, described = [_MAGIC], len(_MAGIC), []
        for number, chunk in enumerate(chunks):
            if number not in columns:
                described.append(chunk)  # nobody reads it
                continue
            column = columns[number]
            dictionary, data, values = self._copied(column, segment)
            described.append(_chunk(column.prefix, values, at, len(dictionary), len(data)))
            parts += [dictionary, data]
            at += len(dictionary) + len(data)
        footer = self._footer.of(segment.end - segment.start, described)
        parts += [footer, len(footer).to_bytes(4, "little"), _MAGIC]
        small = pq.ParquetFile(pa.BufferReader(b"".join(parts)), page_checksum_verification=True)
        return Part(segment.start, small, 0)

    def _copied(self, column: _Column, segment: _Segment) -> tuple[bytes, bytes, int]:
        """Its dictionary, which is empty if it has none, the pages of some rows, and how many values these have."""
        pages = [page for page in column.pages if segment.start <= page.first < segment.end]
        first, last = pages[0], pages[-1]
        data = self._source.read_at(last.offset + last.size - first.offset, first.offset)
        values = sum(_values(data, page.offset - first.offset) for page in pages)
        begin, end = column.dictionary, column.pages[0].offset
        return b"" if begin is None else self._source.read_at(end - begin, begin), data, values


class _Footer:
    """The footer of a file."""

    def __init__(self, data: bytes) -> None:
        starts: dict[int, int] = {}
        for number, _, at in fields(data, 0):
            starts[number] = at
            if number == 4:  # what follows is not needed, and passing over this is what costs
                break
        # A field that follows the one before it has a head of one byte, which stays right whatever its value becomes.
        if data[starts[3] - 1] != 1 << 4 | I64 or data[starts[4] - 1] != 1 << 4 | LIST:
            raise ValueError("the fields of the footer do not follow one another")
        self._data = data
        *self._groups, end = _structs(data, starts[4])
        self._before = data[: starts[3] - 1]
        self._behind = data[end:]

    def chunks(self, group: int) -> list[bytes]:
        """How the columns of a row group are described."""
        starts = _starts(self._data, self._groups[group])
        borders = list(_structs(self._data, starts[1]))
        return [self._data[at:end] for at, end in pairwise(borders)]

    def of(self, rows: int, chunks: Sequence[bytes]) -> bytes:
        """A footer of a file that has one row group only, with these columns."""
        group = _list(chunks) + _field(0) + _field(rows) + _STOP
        return self._before + _field(rows) + _list([group]) + self._behind


def _segments(columns: dict[int, _Column], rows: int) -> list[_Segment]:
    borders = sorted(reduce(and_, ({page.first for page in column.pages} for column in columns.values())))
    return list(map(_Segment, borders, [*borders[1:], rows]))


def _are_within(rows: pa.Int64Array, segment: _Segment) -> bool:
    at = bisect_left(rows, segment.start, key=_number)
    return at < len(rows) and rows[at].as_py() < segment.end


def _starts(data: bytes, at: int) -> dict[int, int]:
    """Where the value of each field of a struct begins."""
    return {number: place for number, _, place in fields(data, at)}


def _structs(data: bytes, at: int) -> Iterator[int]:
    """Where each struct of a list begins, and where the last one ends."""
    count, kind, at = elements(data, at)
    if kind != STRUCT:
        raise ValueError("a list of something else")
    yield at
    for _ in range(count):
        at = skip(data, at, STRUCT)
        yield at


def _pages(index: bytes) -> list[_Page]:
    """The pages that an offset index tells of: a struct with a list of structs of three numbers."""
    if index[0] != 1 << 4 | LIST:
        raise ValueError("an offset index without pages")
    count, _, at = elements(index, 1)
    pages = []
    for _ in range(count):
        numbers = []
        for kind in (I64, I32, I64):
            if index[at] != 1 << 4 | kind:
                raise ValueError("a page without a place")
            one, at = signed(index, at + 1)
            numbers.append(one)
        pages.append(_Page(*numbers))
        at += 1
    return pages


def _values(data: bytes, at: int) -> int:
    """How many values there are in the page that begins here."""
    header = data[at : at + _HEADER_BYTES]
    wanted = _DATA_PAGES[signed(header, 1)[0]]
    within = next(place for number, _, place in fields(header, 0) if number == wanted)
    return signed(header, within + 1)[0]


# --- writing: a field's head is how far its number is from that before, and its kind -----------------------


def _chunk(prefix: bytes, values: int, at: int, dictionary: int, data: int) -> bytes:
    """A column that is here, with a dictionary of so many bytes, which may be none, and pages of so many."""
    size = dictionary + data
    metadata = prefix + _field(values) + _field(size) + _field(size) + _field(at + dictionary, after=2)
    if dictionary:
        metadata += _field(at, after=2)
    return _field(0, after=2) + bytes([1 << 4 | STRUCT]) + metadata + _STOP + _STOP


def _field(value: int, *, after: int = 1) -> bytes:
    """A number, in the field so many after the last."""
    return bytes([after << 4 | I64]) + varint(value << 1)


def _list(structs: Sequence[bytes]) -> bytes:
    """A list, in the next field."""
    return bytes([1 << 4 | LIST, 0xF0 | STRUCT]) + varint(len(structs)) + b"".join(structs)
