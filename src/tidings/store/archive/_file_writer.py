"""One file of an archive on its way to disk: invisible until it is whole, then there at once.

Rows gather until they make a row group. While that is sorted and written, by a thread, the next one gathers; so memory
holds two row groups, however long the file. `commit` closes the file, syncs it, gives it its name and syncs the
directory: a reader sees all of it or nothing, and after a crash of the machine it is there or it is not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq

from tidings.store._layout import path_of
from tidings.store._promoted import Promoted

from ._directories import put
from ._gathering import Gathering, Size
from ._parquet import parquet_writer
from ._schema import META_COMPLETE
from ._stretch import Stretch


class FileWriter:
    """Writes a file of one hour of one epoch of one origin."""

    def __init__(
        self, root: Path, temporary: Path, origin: str, promoted: Sequence[Promoted], *, with_body: bool
    ) -> None:
        self._root = root
        self._temporary = temporary
        self._origin = origin
        self._promoted = promoted
        self._with_body = with_body
        self._writer: pq.ParquetWriter | None = None
        self._gathering = self._new()
        self._thread = ThreadPoolExecutor(1, "tidings-archive")
        self._writing: Future[None] | None = None
        self._incomplete: set[str] = set()
        self._first: Stretch | None = None
        self._last: Stretch | None = None
        self.size = Size()
        """Before it is compressed."""

    def add(self, stretch: Stretch) -> int:
        """Further rows, in the order of the log; how many."""
        size = self._gathering.add(stretch)
        if size.rows:
            self._first = self._first or stretch
            self._last = stretch
            self.size = self.size.plus(size)
        if self._gathering.is_enough:
            self._pass_on()
        return size.rows

    def commit(self) -> Path:
        """Make the file a part of the archive; its path."""
        assert self._first is not None and self._last is not None, "a file has rows"  # noqa: PT018
        if not self._gathering.is_empty:
            self._pass_on()
        self._wait()
        self._thread.shutdown()
        assert self._writer is not None
        complete = [one.name for one in self._promoted if one.name not in self._incomplete]
        self._writer.add_key_value_metadata({META_COMPLETE: json.dumps(complete).encode()})
        self._writer.close()
        epoch, hour = self._first.kind
        path = self._root / path_of(self._origin, epoch, self._first.first, self._last.last, hour)
        put(self._root, self._temporary, path)
        return path

    def abandon(self) -> None:
        """Leave nothing."""
        self._thread.shutdown()
        if self._writer is not None:
            self._writer.close()
        self._temporary.unlink(missing_ok=True)

    def _new(self) -> Gathering:
        return Gathering(self._origin, self._promoted, with_body=self._with_body)

    def _pass_on(self) -> None:
        """Have what has gathered written, when the row group before has been."""
        self._wait()
        full, self._gathering = self._gathering, self._new()
        self._writing = self._thread.submit(self._write_group, full)

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()

    def _write_group(self, gathered: Gathering) -> None:
        table, incomplete = gathered.table()
        self._incomplete |= incomplete
        if self._writer is None:
            self._writer = parquet_writer(self._temporary, table, self._promoted)
        self._writer.write_table(table, row_group_size=len(table))
