"""The writer: a thread that turns what waits into commits, and tells the broker's thread when the disk has them.

Theory of operation
-------------------
*Group commit.* The writer takes everything that waits, writes it in one transaction and syncs once. While it does,
new operations gather; so the slower the disk, the larger the next commit, and the rate does not depend on the time of
a sync. Operations stay in order, and a commit is atomic: after a crash a prefix of all operations is there.

*Answers.* All answers of one commit are posted to the broker's thread together, after the sync and never before.

*Failure.* If the disk refuses, the whole commit is undone, its operations hear `failed` and are forgotten; nothing is
retried here, because only the publisher knows whether it still matters. The next commit is a new attempt: once there is
space again, it succeeds.

*Forgetting.* What is old goes with a commit, but is not allowed to undo it: what cannot be read or deleted stays, and
whoever asked for it to be forgotten hears `failed`. The limits that were told last hold for every commit: an estimate
of the room that is left says when one has to forget, so that a burst does not run away from them.

*Checkpoints.* A commit goes into SQLite's write-ahead log; from time to time its pages are copied into the main file.
That may take long (it syncs twice), and would delay the answers of the next commit. So another thread copies while
the writer goes on, and the writer itself only copies the small rest, after which the log is used from its start again.
With a small limit the log is copied sooner.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from tidings.wire import Envelope, Run

from ._errors import StoreClosed, StoreError, StoreFull
from ._file import connect, explain
from ._journal_retention import Slice, forget_journal, next_slice
from ._packing import BATCH_COUNT, batches, count_of, pack, pack_publications
from ._query import FOR_EVER
from ._queue import Failed, Heard, Line, Operation, Put, Retain, WriteQueue
from ._retention import content_bytes, forget, journal_is_too_long, log_bytes, used_bytes
from ._segments import INSERT as _SEGMENTS
from ._segments import OpenSegment, resumed
from ._shrinking import disk_bytes, shrink
from ._summary import Sets, Summariser, encoded

COMMIT_OVERHEAD = 16_384
"""Bytes that a commit adds to the log beside its blobs, about: pages of the trees."""
ROW_OVERHEAD = 2_048
"""Bytes that a row takes in the file beside its blob, about: half a page, and its place in the trees."""
COMMIT_PART = 8
"""A commit takes at most this part of the limit of bytes."""
MIN_COMMIT_BYTES = 65_536
"""A commit may always take so much."""

Post: TypeAlias = Callable[[Callable[[], None]], object]

_PUBLICATIONS = (
    "INSERT INTO publications (id, epoch, first, last, count, earliest, latest, summary, checksum, batch) "
    "VALUES (?,?,?,?,?,?,?,?,?,?)"
)
_JOURNAL = "INSERT INTO journal (earliest, latest, checksum, batch) VALUES (?, ?, ?, ?)"
_PUT = "INSERT OR REPLACE INTO state VALUES (?, ?, ?)"
_DELETE = "DELETE FROM state WHERE name = ? AND key = ?"


class _Batch(NamedTuple):
    """A batch that is about to be written, and what its segment has to know of it."""

    row: tuple[int | bytes, ...]
    id: int
    size: int
    earliest: int
    latest: int
    sets: Sets


class Writer:
    """Owns the writing connection from the start of its thread to its end."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, queue: WriteQueue, post: Post, promoted: Sequence[str]
    ) -> None:
        self._connection = connection
        self._path = path
        self._queue = queue
        self._post = post
        self._summariser = Summariser(promoted)
        self._last_id = 0
        self._segment = OpenSegment()
        self._closed: list[tuple[int | bytes, ...]] = []
        """Segments that are complete and go with the next commit."""
        self._thread = threading.Thread(target=self._run, name=f"tidings-store {path}", daemon=True)
        self._copying: threading.Thread | None = None
        self._written = 0
        """Bytes in the write-ahead log since it was copied, about."""
        self._troubles: list[str] = []
        """What went wrong with forgetting in the last commit."""
        self._limits: Retain | None = None
        """The limits that were told last."""
        self._unforgotten: Failed | None = None
        """Who hears if they cannot be kept."""
        self._room = math.inf
        """Bytes that fit into the file until something has to be forgotten, about."""
        self._shrinking = False
        """Whether to see if the file and its log are larger than they may be."""
        self.synced = self.failed = self.batches = self.bytes = self.unheard = 0
        self.damaged = self.forget_failures = 0
        self.last_sync = self.slowest_sync = self.last_checkpoint = self.slowest_checkpoint = 0

    def start(self) -> None:
        (self._last_id,) = self._connection.execute("SELECT coalesce(max(id), 0) FROM publications").fetchone()
        self._thread.start()

    def join(self, patience: float | None = None) -> bool:
        """Wait until everything that waited is on disk, for so many seconds; whether it is."""
        self._thread.join(patience)
        if self._thread.is_alive():
            return False
        if self._copying is not None:
            self._copying.join()
        return True

    def _run(self) -> None:
        with contextlib.suppress(sqlite3.Error):  # what cannot be read now goes without a segment, and is still found
            self._segment, self._closed = resumed(self._connection)
        while (operations := self._queue.take()) is not None:
            error = self._commit(operations)
            self._queue.done()
            self._answer(operations, error)
            if error is None:
                self._keep_log_short()
                self._keep_small()

    # --- commits --------------------------------------------------------------------------------------

    def _commit(self, operations: list[Operation]) -> StoreError | None:
        start = time.perf_counter_ns()
        try:
            self._write(operations)
        except Exception as error:  # whatever it is, the thread must live and the callers must hear
            with contextlib.suppress(sqlite3.Error):
                self._connection.rollback()
            self.failed += sum(operation.count for operation in operations)
            return explain(error, self._path)
        self.last_sync = (time.perf_counter_ns() - start) // 1_000
        self.slowest_sync = max(self.slowest_sync, self.last_sync)
        self.synced += sum(operation.count for operation in operations)
        self.batches += 1
        self._written += COMMIT_OVERHEAD
        return None

    def _write(self, operations: list[Operation]) -> None:
        kept: list[Envelope | Run] = []
        records: list[Line] = []
        state: dict[tuple[str, str], bytes | None] = {}
        retain: Retain | None = None
        self._troubles.clear()
        for operation in operations:
            what = operation.what
            if isinstance(what, Envelope | Run):
                kept.append(what)
            elif type(what) is Line:
                records.append(what)
            elif type(what) is Put:
                state[what.table, what.key] = what.value
                self._written += operation.size
                self._room -= operation.size
            elif type(what) is Retain:
                retain, self._unforgotten = what, operation.failed  # the latest of several is meant
                self._told(retain)
        written = [self._batch(batch) for batch in batches(kept)]
        publications = [batch.row for batch in written]
        journal = [self._journal(records[at : at + BATCH_COUNT]) for at in range(0, len(records), BATCH_COUNT)]
        if self._room < 0:
            retain = retain or self._limits
        carry = None if retain is None else self._next_slice(retain)
        connection = self._connection
        if len(publications) == 1 and not journal and not state and retain is None and not self._closed:
            # One statement is a transaction of its own. Each further one gives the interpreter's lock away,
            # and a busy loop gives it back late.
            connection.execute(_PUBLICATIONS, publications[0])
            self._add_to_segment(written)
            return
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(_PUBLICATIONS, publications)
        connection.executemany(_SEGMENTS, self._closed)
        connection.executemany(_JOURNAL, journal)
        connection.executemany(_DELETE, [at for at, value in state.items() if value is None])
        connection.executemany(_PUT, [(*at, value) for at, value in state.items() if value is not None])
        more = retain is not None and self._forget(retain, carry)
        if retain is not None and retain.max_bytes is not None:
            self._room = content_bytes(retain.max_bytes) - used_bytes(connection)
        connection.execute("COMMIT")
        self._closed.clear()
        self._add_to_segment(written)
        if more and retain is not None:
            with contextlib.suppress(StoreFull, StoreClosed):  # then the next call of `retain` goes on
                self._queue.put(Operation(retain, 0, None, self._unforgotten))

    def _batch(self, batch: Sequence[Envelope | Run]) -> _Batch:
        self._last_id += 1  # a commit that fails leaves a hole in these numbers, which nobody minds
        heads = [one.first if isinstance(one, Run) else one.identity for one in batch]
        last, count = batch[-1], count_of(batch)
        last_seq = last.last if isinstance(last, Run) else last.identity.seq
        times = [identity.published_at for identity in heads]
        earliest, latest = min(times), max(times)
        sets = self._summariser.sets(batch)
        summary = encoded(earliest, latest, sets)
        blob = pack_publications(batch)
        self._count(blob)
        row = (self._last_id, heads[0].epoch, heads[0].seq, last_seq, count, earliest, latest, summary)
        return _Batch((*row, zlib.crc32(blob), blob), self._last_id, count, earliest, latest, sets)

    def _add_to_segment(self, written: list[_Batch]) -> None:
        for batch in written:
            self._segment.add(*batch[1:])
            if self._segment.is_complete:
                self._closed.append(self._segment.row())
                self._segment = OpenSegment()

    def _count(self, blob: bytes) -> None:
        self.bytes += len(blob)
        self._written += len(blob)
        self._room -= len(blob) + ROW_OVERHEAD

    def _journal(self, batch: Sequence[Line]) -> tuple[int | bytes, ...]:
        times = [line.at for line in batch]
        blob = pack([line.record for line in batch])
        self._count(blob)
        return min(times), max(times), zlib.crc32(blob), blob

    # --- forgetting -----------------------------------------------------------------------------------

    def _told(self, limits: Retain) -> None:
        """Limits hold until others are told."""
        if self._limits is None or self._limits.max_bytes != limits.max_bytes:
            most = self._queue.max_bytes
            part = most if limits.max_bytes is None else max(MIN_COMMIT_BYTES, limits.max_bytes // COMMIT_PART)
            self._queue.commit_bytes = min(most, part)
            self._room = math.inf  # known at the end of this commit
            self._connection.execute(f"PRAGMA journal_size_limit={2 * log_bytes(limits.max_bytes)}")
        self._limits = limits
        self._shrinking = True

    def _next_slice(self, limits: Retain) -> Slice | None:
        """Read what the journal is to forget; only this thread ever takes something out of it."""
        try:
            before = limits.journal_before
            if journal_is_too_long(self._connection, limits.max_bytes):
                before = FOR_EVER
            if before is None:
                return None
            carry = next_slice(self._connection, before)
        except Exception as error:  # whatever it is, it must not undo what others commit
            self._stays(f"its journal cannot be read: {type(error).__name__}: {error}")
            return None
        self._written += carry.size if carry is not None else 0
        return carry

    def _forget(self, limits: Retain, carry: Slice | None) -> bool:
        """Within the transaction. Whether there may be more to forget."""
        more = self._tried(lambda: forget(self._connection, limits))
        return (carry is not None and self._tried(lambda: self._forget_journal(carry))) or more

    def _forget_journal(self, carry: Slice) -> bool:
        more = forget_journal(self._connection, carry)
        if carry.damaged:
            self.damaged += carry.damaged
            self._troubles.append(
                f"'{self._path}': {carry.damaged} damaged rows of the journal were deleted unread, so no audit "
                "knows what they recorded; check the disk"
            )
        return more

    def _tried(self, forget: Callable[[], bool]) -> bool:
        """Forget something, or undo that alone."""
        connection = self._connection
        connection.execute("SAVEPOINT forgetting")
        try:
            more = forget()
        except sqlite3.Error as error:
            if not connection.in_transaction:
                raise  # so bad that the engine has undone everything
            connection.execute("ROLLBACK TO forgetting")
            self._stays(f"it cannot be deleted: {error}")
            more = False
        connection.execute("RELEASE forgetting")
        return more

    def _stays(self, problem: str) -> None:
        self.forget_failures += 1
        self._troubles.append(
            f"old data stays in '{self._path}', because {problem}; check the disk, restore the store from a backup, "
            "or use the version of Tidings that wrote it"
        )

    # --- answers --------------------------------------------------------------------------------------

    def _answer(self, operations: list[Operation], error: StoreError | None) -> None:
        answers: list[Callable[[], None]] = []
        unforgotten = StoreError("; ".join(self._troubles)) if self._troubles else None
        for operation in self._heard(operations, error, answers):
            problem = error or (unforgotten if type(operation.what) is Retain else None)
            if problem is None and operation.synced is not None:
                answers.append(operation.synced)
            elif problem is not None and operation.failed is not None:
                answers.append(partial(operation.failed, problem))
        if not answers:
            return
        try:
            self._post(lambda: _call_all(answers))
        except Exception:  # the loop that should hear has ended; the data is where it belongs
            self.unheard += len(answers)

    def _heard(
        self, operations: list[Operation], error: StoreError | None, answers: list[Callable[[], None]]
    ) -> Iterator[Operation]:
        """Answer for envelopes that have the same `heard` and follow one another; what is left."""
        run: list[Envelope | Run] = []
        heard: Heard | None = None
        for operation in operations:
            if operation.heard is None:
                yield operation
                continue
            if operation.heard is not heard:
                run, heard = [], operation.heard
                answers.append(partial(heard, run, error))
            assert isinstance(operation.what, Envelope | Run)
            run.append(operation.what)

    # --- checkpoints ----------------------------------------------------------------------------------

    def _keep_log_short(self) -> None:
        """Between two commits: have the log copied when it is long, and finish a copy when it is nearly done."""
        if self._copying is not None:
            if not self._copying.is_alive():
                self._copying = None
                self._copied(self._connection)
        elif self._written > log_bytes(None if self._limits is None else self._limits.max_bytes):
            self._written = 0
            self._copying = threading.Thread(target=self._copy, name=f"tidings-checkpoint {self._path}", daemon=True)
            self._copying.start()

    def _keep_small(self) -> None:
        """When limits are told, which is every few seconds: give the disk back what is beyond them."""
        limits = self._limits
        if limits is None or limits.max_bytes is None or self._copying is not None or not self._shrinking:
            return
        if disk_bytes(self._path) <= limits.max_bytes:
            self._shrinking = False
            return
        try:
            self._shrinking = shrink(self._connection, self._path, limits.max_bytes)
            self._written = 0
        except sqlite3.Error:  # a full disk, or somebody reads: next time
            self._shrinking = False

    def _copy(self) -> None:
        with contextlib.suppress(sqlite3.Error), contextlib.closing(connect(self._path)) as connection:
            self._copied(connection)

    def _copied(self, connection: sqlite3.Connection) -> None:
        start = time.perf_counter_ns()
        with contextlib.suppress(sqlite3.Error):  # a copy that fails loses nothing: the log stays and is copied later
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        self.last_checkpoint = (time.perf_counter_ns() - start) // 1_000
        self.slowest_checkpoint = max(self.slowest_checkpoint, self.last_checkpoint)


def _call_all(answers: list[Callable[[], None]]) -> None:
    """Call every answer, even if one raises; then raise what they raised."""
    errors = []
    for answer in answers:
        try:
            answer()
        except Exception as error:
            errors.append(error)
    if errors:
        raise ExceptionGroup("answers of the store raised", errors)
