"""The reader: pages of bounded size, so that a loop that reads a long history is never held up for long.

No transaction stays open between two pages: a reader that rests does not keep the write-ahead log from being reused.
A batch that cannot be read (its checksum is wrong, or its page is damaged) is left out and reported as `Damage`; the
rest is served. To those who fetch, its numbers are a hole like any other: a `Gap`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from tidings.wire import Envelope

from ._errors import StoreError
from ._file import explain
from ._journal_retention import LIVES, TABLE, Carried, carried_in
from ._packing import Unreadable, envelopes_in, heads_in, records_in, unpack, unpacked
from ._records import Bounds, Damage, JournalRecord, damaged

PAGE = 64
"""The most entries of an index that are read in one step; batches are read one by one."""

T = TypeVar("T")
U = TypeVar("U")

_AFTER = "SELECT id, epoch, first, last FROM publications WHERE epoch = ? AND last > ? ORDER BY epoch, last LIMIT ?"
_NEWEST = "SELECT id, epoch, first, last FROM publications WHERE id < ? ORDER BY id DESC LIMIT ?"
_BATCHES = (
    "SELECT id, epoch, first, last, summary FROM publications WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?",
    "SELECT id, epoch, first, last, summary FROM publications WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT ?",
)
_SEGMENTS = (
    "SELECT id, first, summary FROM segments WHERE id >= ? ORDER BY id LIMIT ?",
    "SELECT id, first, summary FROM segments WHERE id <= ? ORDER BY id DESC LIMIT ?",
)
_BEYOND = (
    "SELECT id, epoch, first, last, summary, earliest, latest FROM publications "
    "WHERE (epoch, last) > (?, ?) ORDER BY epoch, last LIMIT ?"
)
_SIZES = (
    "SELECT epoch, first, last, count, length(batch) FROM publications "
    "WHERE (epoch, last) > (?, ?) ORDER BY epoch, last LIMIT ?"
)
_EARLIEST = "SELECT earliest FROM publications ORDER BY id LIMIT 1"
_JOURNAL_RANGE = "SELECT min(id), max(id) FROM journal WHERE latest >= ? AND earliest < ?"
_LARGEST = 2**63 - 1
FIRST = 1
"""The id of the first batch."""


class Batch(NamedTuple):
    """Where a batch is, which numbers it spans, and what it may hold."""

    id: int
    epoch: int
    first: int
    last: int
    summary: bytes | None
    earliest: int = 0
    latest: int = 0
    """When its publications were published, in microseconds; only where the log is read from a position on."""


class Size(NamedTuple):
    """How much a batch holds."""

    epoch: int
    first: int
    last: int
    rows: int
    bytes: int


class Packed(NamedTuple):
    """A batch as it was written."""

    batch: Batch
    data: bytes
    """An array of envelopes, in msgpack."""


class Segment(NamedTuple):
    """The batches `first` to `last`, and what they may hold."""

    last: int
    first: int
    summary: bytes


class Reader:
    """Reads what is synced, from one thread at a time."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._damage: dict[tuple[str, int], Damage] = {}

    @property
    def damage(self) -> tuple[Damage, ...]:
        """What could not be read so far."""
        return tuple(self._damage.values())

    # --- publications ---------------------------------------------------------------------------------

    def publications(self, epoch: int, after: int) -> Iterator[list[Envelope]]:
        """The batches of an epoch that reach beyond `after`, in order."""
        while rows := self._rows(_AFTER, epoch, after, PAGE):
            for row in rows:
                yield self._batch("publications", row, envelopes_in)
            after = rows[-1][3]

    def earliest(self) -> int:
        """When the oldest publication was published, in microseconds; 0: there is none."""
        found = self._rows(_EARLIEST)
        return int(found[0][0]) if found else 0

    def newest(self) -> Batch | None:
        found = self.batches(FIRST, _LARGEST, backwards=True, limit=1)
        return found[0] if found else None

    def batches(self, first: int, last: int, *, backwards: bool = False, limit: int = PAGE) -> list[Batch]:
        """A page of batches with ids from `first` to `last`, from that end at which the walk begins."""
        return [Batch(*row) for row in self._rows(_BATCHES[backwards], first, last, limit)]

    def segments(self, start: int, *, backwards: bool = False) -> list[Segment]:
        """A page of segments with ids from `start` on, or backwards those that end before it."""
        return [Segment(*row) for row in self._rows(_SEGMENTS[backwards], start, PAGE)]

    def beyond(self, epoch: int, seq: int) -> list[Batch]:
        """A page of batches that hold something after this position."""
        return [Batch(*row) for row in self._rows(_BEYOND, epoch, seq, PAGE)]

    def sizes(self, epoch: int, seq: int, limit: int) -> list[Size]:
        """How much the next batches after this position hold; none of them is opened."""
        return [Size(*row) for row in self._rows(_SIZES, epoch, seq, limit)]

    def envelopes(self, batch: Batch) -> list[Envelope]:
        return self._batch("publications", batch[:4], envelopes_in)

    def packed(self, batch: Batch) -> Packed | None:
        """A batch as it was written, but for its compression; None if it is damaged, or was forgotten meanwhile."""
        data = self._row("publications", batch[:4], unpacked)
        return None if data is None else Packed(batch, data)

    def publishers(self, newest: int) -> dict[str, list[int]]:
        """The numbers of each publisher among the newest publications, in ascending order.

        They begin with 0 if there are certainly no older ones.
        """
        found: dict[str, list[int]] = {}
        before, left = _LARGEST, newest
        while left > 0 and (rows := self._rows(_NEWEST, before, PAGE)):
            before = rows[-1][0]
            for row in rows:
                heads = self._batch("publications", row, heads_in)
                for head in heads[-left:] if left > 0 else ():
                    found.setdefault(head.identity.publisher, []).append(head.identity.publisher_seq)
                left -= len(heads)
        whole = left > 0 and self._is_whole()
        return {publisher: [0] * whole + sorted(numbers) for publisher, numbers in found.items()}

    def _is_whole(self) -> bool:
        """Whether it is certain that nothing was forgotten: the first epoch is there from its first number on."""
        first = min(self.epochs(), default=0)
        return (bounds := self.bounds(first)) is not None and bounds.first == 1

    def epochs(self) -> dict[int, int | None]:
        """Every epoch, and the last number of those that ended in order."""
        return dict(self._rows("SELECT epoch, ended FROM epochs ORDER BY epoch"))

    def bounds(self, epoch: int) -> Bounds | None:
        """The smallest and the largest number held of an epoch."""
        order = "FROM publications WHERE epoch = ? ORDER BY epoch"
        first = self._rows(f"SELECT first {order}, last LIMIT 1", epoch)
        last = self._rows(f"SELECT last {order} DESC, last DESC LIMIT 1", epoch)
        return Bounds(first[0][0], last[0][0]) if first and last else None

    # --- journal and small state ----------------------------------------------------------------------

    def journal(self, start: int, until: int, *, holes: bool = False) -> Iterator[JournalRecord]:
        """The records of a time range, in the order in which they were written."""
        at = start
        ((low, high),) = self._rows(_JOURNAL_RANGE, start, until)
        if low is None:
            return
        for number in range(low, high + 1):
            for record in self._batch("journal", (number, 0, 0, 0), records_in):
                if start <= (at := record.at) < until:
                    yield record
            if holes and ("journal", number) in self._damage:
                yield damaged(at)

    def carried(self) -> Carried:
        """What is known of the time before the oldest record of the journal."""
        journal, lives = self.items(TABLE), self.items(LIVES)
        try:
            return carried_in(journal, lives)
        except msgspec.MsgspecError as error:
            raise StoreError(
                f"the part of its journal that '{self._path}' carries on cannot be read: {error}; restore it "
                "from a backup, or use the version of Tidings that wrote it"
            ) from None

    def items(self, table: str) -> dict[str, bytes]:
        """The small state of a table."""
        return dict(self._rows("SELECT key, value FROM state WHERE name = ? ORDER BY key", table))

    # --- the engine -----------------------------------------------------------------------------------

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._explained(error) from None

    def _batch(self, table: str, row: tuple[Any, ...], decoder: msgspec.msgpack.Decoder[list[T]]) -> list[T]:
        """The items of one row, or nothing if it is damaged."""
        found = self._row(table, row, lambda blob, checksum: unpack(blob, checksum, decoder))
        return [] if found is None else found

    def _row(self, table: str, row: tuple[Any, ...], unpacking: Callable[[bytes, int], U]) -> U | None:
        """What is made of one row; None if it is damaged, which is noted, or was forgotten meanwhile."""
        number, epoch, first, last = row
        query = f"SELECT checksum, batch FROM {table} WHERE id = ?"  # noqa: S608
        try:
            found = self._connection.execute(query, (number,)).fetchone()
            return unpacking(found[1], found[0]) if found else None
        except Unreadable as error:
            problem = str(error)
        except sqlite3.DatabaseError as error:
            problem = str(self._explained(error))
        self._damage[table, number] = Damage(epoch, first, last, f"{table}: {problem}")
        return None

    def _explained(self, error: sqlite3.Error) -> StoreError:
        return explain(error, self._path)
