"""A row group in the making: stretches of the log gather until there are enough of them, and become columns.

The compiled engine takes a stretch as the bytes that it was written as. What it leaves, because it is odd, or because
there is no engine, becomes columns in Python, some rows at a time. Both give the same rows, and row groups that end at
the same places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from tidings import _native
from tidings.store._promoted import Promoted
from tidings.wire import Envelope

from ._compiled import CompiledColumns
from ._parquet import ROW_GROUP_ROWS
from ._row_group import columns_of, row_group
from ._stretch import Stretch

ROW_GROUP_BYTES = 16_777_216
"""The bytes of bodies after which a row group is closed."""
SPREAD_BYTES = 134_217_728
"""The bytes of columns after which it is, too: each element of a list has the name of its attribute."""
PART_BYTES = 524_288
"""The bytes of bodies after which rows become columns, however few they are."""
PART_ROWS = 1_000
"""Rows that become columns together: few enough to stay in the processor's cache."""


class Size(NamedTuple):
    """How many rows there are, and the bytes of their bodies."""

    rows: int = 0
    bytes: int = 0

    def plus(self, more: Size) -> Size:
        """Both together."""
        return Size(self.rows + more.rows, self.bytes + more.bytes)


class Gathering:
    """Rows that will be a row group."""

    def __init__(self, origin: str, promoted: Sequence[Promoted], *, with_body: bool) -> None:
        self._promoted = promoted
        self._with_body = with_body
        self._compiled: CompiledColumns | None = None
        if _native.engine is not None:
            self._compiled = CompiledColumns(_native.engine, origin, promoted, with_body=with_body)
        self._waiting: list[Envelope] = []
        self._parts: list[pa.Table] = []
        self._incomplete: set[str] = set()
        self._open = Size()
        self._closed = Size()
        self._spread = 0

    def add(self, stretch: Stretch) -> Size:
        """Further rows, in the order of the log; how many, which are none if they cannot be read."""
        size = self._add(stretch)
        self._open = self._open.plus(size)
        if self._open.rows >= PART_ROWS or self._open.bytes >= PART_BYTES:
            self._close_part()
        return size

    @property
    def is_enough(self) -> bool:
        """Whether there are enough rows for a row group."""
        rows, size = self._closed
        return rows > ROW_GROUP_ROWS - PART_ROWS or size >= ROW_GROUP_BYTES or self._spread >= SPREAD_BYTES

    @property
    def is_empty(self) -> bool:
        """Whether there are no rows."""
        return not self._open.rows and not self._closed.rows

    def table(self) -> tuple[pa.Table, set[str]]:
        """The row group, sorted, and the promoted columns that could not hold every value; to be called once."""
        self._close_part()
        if self._compiled is not None:
            made, incomplete = self._compiled.table()
            if not self._parts:
                return made, incomplete
            self._parts.append(made)
            self._incomplete |= incomplete
        return row_group(self._parts, self._promoted), self._incomplete

    def _add(self, stretch: Stretch) -> Size:
        if self._compiled is not None and stretch.data is not None:
            added = self._compiled.add(stretch.data)
            if added is not None:
                rows, size, names = added
                self._spread += names
                return Size(rows, size)
        self._waiting += stretch.envelopes
        return Size(len(stretch.envelopes), sum([len(envelope.body) for envelope in stretch.envelopes]))

    def _close_part(self) -> None:
        if self._waiting:
            part, incomplete = columns_of(self._waiting, self._promoted, with_body=self._with_body)
            self._parts.append(part)
            self._incomplete |= incomplete
            self._spread += part.nbytes
            self._waiting = []
        self._closed = self._closed.plus(self._open)
        self._open = Size()
