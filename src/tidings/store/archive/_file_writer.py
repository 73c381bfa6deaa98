"""One file of an archive on its way to disk: invisible until it is whole, then there at once.

Rows become columns as they come, a few at a time, and gather until they make a row group. While that is sorted and
written, by a thread, the next one gathers; so memory holds two row groups, however long the file. `commit` closes the
file, syncs it, gives it its name and syncs the directory: a reader sees all of it or nothing, and after a crash of the
machine it is there or it is not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.store._layout import hour_of, path_of
from tidings.store._promoted import Promoted
from tidings.wire import Envelope

from ._directories import put
from ._parquet import ROW_GROUP_ROWS, parquet_writer
from ._row_group import columns_of, row_group
from ._schema import META_COMPLETE

ROW_GROUP_BYTES = 16_777_216
"""The bytes of bodies after which a row group is closed."""
PART_BYTES = 4_194_304
"""The bytes of bodies after which rows become columns, however few they are."""
PART_ROWS = 1_000
"""Rows that become columns together: few enough to stay in the processor's cache."""


class FileWriter:
    """Writes a file of one hour of one epoch of one origin."""

    def __init__(self, root: Path, temporary: Path, promoted: Sequence[Promoted], *, with_body: bool) -> None:
        self._root = root
        self._temporary = temporary
        self._promoted = promoted
        self._with_body = with_body
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[Envelope] = []
        self._waiting_bytes = 0
        self._parts: list[pa.Table] = []
        self._parts_rows = self._parts_bytes = 0
        self._thread = ThreadPoolExecutor(1, "tidings-archive")
        self._writing: Future[None] | None = None
        self._incomplete: set[str] = set()
        self._first: Envelope | None = None
        self._last: Envelope | None = None
        self.rows = 0
        self.bytes = 0
        """Of bodies, before they are compressed."""

    def add(self, envelopes: Sequence[Envelope]) -> None:
        """Further rows, in the order of the log; as many as a batch of the log holds."""
        self._first = self._first or envelopes[0]
        self._last = envelopes[-1]
        self._waiting += envelopes
        size = sum([len(envelope.body) for envelope in envelopes])
        self._waiting_bytes += size
        self.bytes += size
        self.rows += len(envelopes)
        if len(self._waiting) >= PART_ROWS or self._waiting_bytes >= PART_BYTES:
            self._make_part()
            if self._parts_rows > ROW_GROUP_ROWS - PART_ROWS or self._parts_bytes >= ROW_GROUP_BYTES:
                self._pass_on()

    def commit(self) -> Path:
        """Make the file a part of the archive; its path."""
        assert self._first is not None and self._last is not None, "a file has rows"  # noqa: PT018
        if self._waiting:
            self._make_part()
        if self._parts:
            self._pass_on()
        self._wait()
        self._thread.shutdown()
        assert self._writer is not None
        complete = [one.name for one in self._promoted if one.name not in self._incomplete]
        self._writer.add_key_value_metadata({META_COMPLETE: json.dumps(complete).encode()})
        self._writer.close()
        first, last = self._first.identity, self._last.identity
        path = self._root / path_of(first.origin, first.epoch, first.seq, last.seq, hour_of(first.published_at))
        put(self._root, self._temporary, path)
        return path

    def abandon(self) -> None:
        """Leave nothing."""
        self._thread.shutdown()
        if self._writer is not None:
            self._writer.close()
        self._temporary.unlink(missing_ok=True)

    def _make_part(self) -> None:
        part, incomplete = columns_of(self._waiting, self._promoted, with_body=self._with_body)
        self._parts.append(part)
        self._parts_rows += len(self._waiting)
        self._parts_bytes += self._waiting_bytes
        self._waiting, self._waiting_bytes = [], 0
        self._incomplete |= incomplete

    def _pass_on(self) -> None:
        """Have what has gathered written, when the row group before has been."""
        self._wait()
        parts, self._parts, self._parts_rows, self._parts_bytes = self._parts, [], 0, 0
        self._writing = self._thread.submit(self._write_group, parts)

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()

    def _write_group(self, parts: list[pa.Table]) -> None:
        table = row_group(parts, self._promoted)
        if self._writer is None:
            self._writer = parquet_writer(self._temporary, table, self._promoted)
        self._writer.write_table(table, row_group_size=len(table))
