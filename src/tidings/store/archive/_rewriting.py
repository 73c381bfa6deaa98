"""Rewriting: some files of the archive as one, with the same rows, in the layout that is wanted.

Rows stay columns all the way: nothing is decoded. A promoted column that a file does not have is made of the column of
all attributes, exactly as a roll would have made it. Memory holds a row group of the old file and one of the new.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.store._layout import ArchiveFile
from tidings.store._promoted import Promoted

from ._parquet import ROW_GROUP_ROWS, parquet_writer
from ._promoted import promoted_of
from ._row_group import row_group
from ._schema import META_COMPLETE, promoted_in, schema_of

GROUP_BYTES = 67_108_864
"""The bytes of columns in memory after which a row group is closed, however few its rows are."""


class Layout(NamedTuple):
    """How the rows of a file are kept: files that differ in it are not merged."""

    promoted: tuple[Promoted, ...]
    """In the order by which rows are sorted."""
    with_body: bool


class Header(NamedTuple):
    """What the end of a file tells."""

    rows: int
    layout: Layout
    complete: frozenset[str]


def header_of(path: Path) -> Header:
    """Read the end of a file; raises what Arrow raises, or `StoreError` for another format."""
    metadata = pq.read_metadata(path)
    promoted, complete = promoted_in(metadata.metadata or {})
    names = set(metadata.schema.to_arrow_schema().names)
    return Header(metadata.num_rows, Layout(tuple(promoted), "body" in names), complete)


def rewrite(
    files: Sequence[ArchiveFile], target: Path, layout: Layout, progress: Callable[[int], None] = lambda rows: None
) -> None:
    """Write the rows of these files, which follow one another, as one file; `progress` hears of each part."""
    incomplete: set[str] = set()
    writer: pq.ParquetWriter | None = None
    parts: list[pa.Table] = []
    with contextlib.ExitStack() as closing:
        for table, missing in _tables(files, layout):
            incomplete |= missing
            while len(table):
                room = ROW_GROUP_ROWS - sum(map(len, parts))
                parts.append(table.slice(0, room))
                table = table.slice(room)
                if sum(map(len, parts)) < ROW_GROUP_ROWS and sum(part.nbytes for part in parts) < GROUP_BYTES:
                    continue
                writer = writer or closing.enter_context(parquet_writer(target, parts[0], layout.promoted))
                progress(_written(writer, parts, layout))
        if parts:
            writer = writer or closing.enter_context(parquet_writer(target, parts[0], layout.promoted))
            progress(_written(writer, parts, layout))
        assert writer is not None, "a file has rows"
        complete = [one.name for one in layout.promoted if one.name not in incomplete]
        writer.add_key_value_metadata({META_COMPLETE: json.dumps(complete).encode()})


def _written(writer: pq.ParquetWriter, parts: list[pa.Table], layout: Layout) -> int:
    group = row_group(parts, layout.promoted)
    parts.clear()
    writer.write_table(group, row_group_size=len(group))
    return len(group)


def _tables(files: Sequence[ArchiveFile], layout: Layout) -> Iterator[tuple[pa.Table, set[str]]]:
    """The rows in the order of the log, and the promoted columns that could not hold every value."""
    schema = schema_of(layout.promoted, with_body=layout.with_body)
    for file in files:
        found, complete = promoted_in(pq.read_metadata(file.path).metadata or {})
        known = set(found) & set(layout.promoted)
        with pq.ParquetFile(file.path, page_checksum_verification=True) as source:
            for at in range(source.num_row_groups):
                table = source.read_row_group(at, use_threads=False).sort_by("seq")
                missing = {one.name for one in known if one.name not in complete}
                columns = []
                for field in schema:
                    one = next((one for one in layout.promoted if one.name == field.name), None)
                    if one is None or one in known:
                        columns.append(table.column(field.name))
                    else:
                        column, whole = promoted_of(table.column("attributes").combine_chunks(), one)
                        columns.append(column)
                        missing |= set() if whole else {one.name}
                yield pa.Table.from_arrays(columns, schema=schema), missing
