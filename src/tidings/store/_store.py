"""The durable log of one broker: its `stored` publications, its small state, and a journal.

Theory of operation
-------------------
Everything that is to be kept goes through one bounded queue to one writer thread, in order; the thread that calls never
touches the disk. A commit of the writer is atomic and synced; then, and only then, `synced` is called, in the thread
that `post` leads to. So after a crash at any moment the store holds a prefix of what it was given, and that prefix
contains everything that was acknowledged.

Reading happens in the calling thread, in short steps, beside the writer. `read`, `query` and `items` also see what
still waits for the disk, as a running broker expects; `journal`, `bounds` and `publishers` see what is synced. For a
thread of one's own there is `StoreReader`.

Every opening is a new epoch of the broker. `close(last_seq=...)` notes how far the numbers of the epoch went. The
epoch of a broker that crashed ended with the last number on disk, unless `note_unlogged` was called in it: then it has
no end, and nobody can say how many publications it lost.

All methods belong to one thread, the broker's.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from tidings.model import NOWHERE, Identity, Position
from tidings.wire import Envelope, Run

from ._errors import StoreError
from ._file import COMPLETE, connect, explain, lock, open_file
from ._packing import encode
from ._pages import LogExtent, LogPage, forgotten, measure, read
from ._query import FOR_EVER, Query, Queryable, Walk
from ._queue import QUEUE_BYTES, QUEUE_COUNT, Failed, Heard, Line, Operation, Put, Retain, Synced, WriteQueue
from ._reader import Reader
from ._records import Bounds, Damage, JournalRecord, StoreStatistics
from ._recovery import mark_closed
from ._summary import PROMOTED
from ._writer import Post, Writer

RESEND_WINDOW = 100_000
"""How many of the newest publications `publishers` looks at."""
ENVELOPE_OVERHEAD = 500
"""Bytes that an envelope takes in the queue beside its body, about."""


def _now() -> int:
    return time.time_ns() // 1_000


def _text(table: str, key: str) -> bytes:
    """A name that cannot be written must be refused where it came in; it would spoil the commit it is in."""
    try:
        return f"{table}{key}".encode()
    except UnicodeEncodeError:
        raise StoreError(f"the key {key!r} of table {table!r} is not valid text") from None


class Store(Queryable):
    """Opened with `Store.open`; a context manager.

    >>> import tempfile
    >>> from tidings.store import Store
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with Store.open(directory, post=lambda call: call()) as store:
    ...         store.put("subscriptions", "alice/1", b"price > 100")
    ...     with Store.open(directory, post=lambda call: call()) as store:
    ...         store.items("subscriptions")
    {'alice/1': b'price > 100'}
    """

    def __init__(
        self,
        *,
        epoch: int,
        path: Path,
        held: sqlite3.Connection,
        writing: sqlite3.Connection,
        reading: sqlite3.Connection,
        queue: WriteQueue,
        post: Post,
        promoted: Sequence[str] = PROMOTED,
        warnings: Sequence[str] = (),
    ) -> None:
        self.epoch = epoch
        """The incarnation of the broker that this opening began."""
        self.path = path
        self.warnings = tuple(warnings)
        """What was wrong with what there was when it was opened: damage, loss, rights that are too wide."""
        self._last = 0
        self._held = held
        self._writing = writing
        self._reading = reading
        self._queue = queue
        self._reader = Reader(reading, path)
        self._writer = Writer(writing, path, queue, post, promoted)
        self._closed = False

    @classmethod
    def open(
        cls,
        directory: str | Path,
        *,
        post: Post,
        owner: str = "",
        clock: Callable[[], int] = _now,
        queue_count: int = QUEUE_COUNT,
        queue_bytes: int = QUEUE_BYTES,
        promoted: Sequence[str] = PROMOTED,
    ) -> Self:
        """Open or create the store in a directory, for the broker named `owner`, and begin a new epoch.

        `post` brings a call into the broker's thread: for asyncio, `loop.call_soon_threadsafe`. `clock` gives
        microseconds since 1970 UTC. Queries for values of the `promoted` attributes are quick.
        """
        directory = Path(directory)
        path = directory / "store.sqlite"
        with contextlib.ExitStack() as undo:
            held = undo.enter_context(contextlib.closing(lock(directory)))
            writing, epoch, warnings = open_file(path, owner, clock())
            undo.callback(writing.close)
            try:
                reading = undo.enter_context(contextlib.closing(connect(path, reader=True)))
            except sqlite3.Error as error:
                raise explain(error, path) from None
            store = cls(
                epoch=epoch,
                path=path,
                held=held,
                writing=writing,
                reading=reading,
                queue=WriteQueue(queue_count, queue_bytes),
                post=post,
                promoted=tuple(promoted),
                warnings=warnings,
            )
            store._writer.start()
            undo.pop_all()
        return store

    # --- writing --------------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Whether so much waits for the disk that the next write would raise `StoreFull`."""
        return self._queue.full

    def append(self, envelope: Envelope, synced: Synced, failed: Failed | None = None) -> None:
        """Keep a publication of this epoch; its number must be larger than that of the one before.

        Later either `synced` is called, when it would survive a crash, or `failed`, if the disk refused it.
        """
        self._check_order(envelope.identity)
        self._queue.put(Operation(envelope, len(envelope.body) + ENVELOPE_OVERHEAD, synced, failed))
        self._last = envelope.identity.seq

    def _check_order(self, identity: Identity) -> None:
        if identity.epoch != self.epoch or identity.seq <= self._last:
            raise StoreError(
                f"publication {identity.epoch}/{identity.seq} is out of order: "
                f"the next one must belong to epoch {self.epoch} and be above {self._last}"
            )

    def has_room(self, count: int, size: int) -> bool:
        """Whether so many publications, with so many bytes of bodies together, can be taken now."""
        return not self.full and self._queue.has_room(count, size + count * ENVELOPE_OVERHEAD)

    def keep(self, what: Envelope | Run, heard: Heard) -> None:
        """Keep a publication as `append` does, or a run; whoever keeps many gives the same `heard` and is called once.

        Later `heard` is called with those that are done, in order, and with the error if the disk refused them.
        """
        if isinstance(what, Run):
            first, last, size, count = what.first, what.last, what.size, len(what)
        else:
            first, last, size, count = what.identity, what.identity.seq, len(what.body), 1
        self._check_order(first)
        self._queue.put(Operation(what, size + count * ENVELOPE_OVERHEAD, None, None, heard, count))
        self._last = last

    def put(
        self, table: str, key: str, value: bytes, synced: Synced | None = None, failed: Failed | None = None
    ) -> None:
        """Keep a piece of small state, in order with everything else."""
        self._queue.put(Operation(Put(table, key, value), len(_text(table, key)) + len(value), synced, failed))

    def delete(self, table: str, key: str, synced: Synced | None = None, failed: Failed | None = None) -> None:
        """Forget a piece of small state; one that does not exist is forgotten already."""
        self._queue.put(Operation(Put(table, key, None), len(_text(table, key)), synced, failed))

    def record(self, record: JournalRecord, synced: Synced | None = None, failed: Failed | None = None) -> None:
        """Add a line to the journal."""
        encoded = encode(record)
        self._queue.put(Operation(Line(record.at, msgspec.Raw(encoded)), len(encoded), synced, failed))

    def retain(
        self,
        *,
        max_bytes: int | None = None,
        older_than: int | None = None,
        archived: Position | None = None,
        journal_before: int | None = None,
        synced: Synced | None = None,
        failed: Failed | None = None,
    ) -> None:
        """Forget the oldest publications: from before `older_than`, and as many as make the file exceed `max_bytes`.

        A slice goes with each of the next commits. Epochs and small state are kept. With `archived`, an epoch and a
        number, nothing after that position is forgotten. The journal forgets what is from before `journal_before`; what
        that tells of subscriptions that still stand is carried on.

        Later either `synced` is called, or `failed`: also if what was given with it is on disk, but something old could
        not be read and therefore stays, or was damaged and is gone.
        """
        self._queue.put(Operation(Retain(max_bytes, older_than, archived, journal_before), 0, synced, failed))

    # --- reading --------------------------------------------------------------------------------------

    def read(self, epoch: int, after: int) -> Iterator[Envelope]:
        """What is kept of one epoch with a number above `after`, in order: what is synced, then what waits."""
        waiting = [envelope for envelope in self._waiting() if envelope.identity.epoch == epoch]
        for batch in self._reader.publications(epoch, after):
            for envelope in batch:
                if envelope.identity.seq > after:
                    after = envelope.identity.seq
                    yield envelope
        for envelope in waiting:
            if envelope.identity.seq > after:
                yield envelope

    def _waiting(self) -> list[Envelope]:
        """The publications that wait for the disk, in order."""
        found: list[Envelope] = []
        for operation in self._queue.pending():
            if isinstance(operation.what, Envelope):
                found.append(operation.what)
            elif isinstance(operation.what, Run):
                found += operation.what.envelopes()
        return found

    def steps(self, query: Query) -> Iterator[list[Envelope]]:
        """A query that also sees what waits for the disk."""
        pending = self._waiting()
        newest = self._reader.newest()  # after `pending`: what is in neither has been appended since
        synced = newest.last if newest is not None and newest.epoch == self.epoch else 0
        waiting = query.passes([envelope for envelope in pending if envelope.identity.seq > synced])
        if query.newest_first:
            yield waiting
        if newest is not None:
            yield from Walk(self._reader, query).steps(newest.id)
        if not query.newest_first:
            yield waiting

    def measure(self, after: Position = NOWHERE, *, rows: int = 0, size: int = 0) -> LogExtent:
        """How far the synced log reaches, and how far one gets from a position with so many rows or bytes."""
        return measure(self._reader, after, rows, size)

    def page(self, after: Position, upto: Position, passes: Callable[[Envelope], bool]) -> LogPage:
        """A page of what the synced log holds after one position, up to another; short enough for a loop."""
        return read(self._reader, after, upto, passes)

    def publishers(self, newest: int = RESEND_WINDOW) -> dict[str, list[int]]:
        """The numbers of each publisher among the newest publications, in ascending order: a resend is one of them.

        They begin with 0 if there are certainly no older ones.
        """
        return self._reader.publishers(newest)

    def forgotten(self) -> int:
        """When the oldest publication here was published, if older ones were forgotten; 0: none ever was."""
        return forgotten(self._reader)

    def epochs(self) -> tuple[int, ...]:
        """Every epoch that this store has seen, the current one last."""
        return tuple(self._reader.epochs())

    def bounds(self, epoch: int) -> Bounds | None:
        """The smallest and the largest number that is held of an epoch, or None if there is none."""
        return self._reader.bounds(epoch)

    def note_unlogged(self, synced: Synced, failed: Failed | None = None) -> None:
        """Note that this epoch gives numbers to publications that are not appended here.

        This is never refused because the queue is full, and does not wait for what is in it: call it once at a time.
        """
        key = str(self.epoch)
        operation = Operation(Put(COMPLETE, key, None), len(_text(COMPLETE, key)), synced, failed)
        self._queue.put(operation, first=True)

    def ended(self, epoch: int) -> int | None:
        """The last number of an earlier epoch; None if it crashed and had given numbers to what is not here."""
        return self._reader.epochs().get(epoch)

    def items(self, table: str) -> dict[str, bytes]:
        """The small state of a table, by key; with what waits for the disk."""
        waiting = [operation.what for operation in self._queue.pending() if isinstance(operation.what, Put)]
        found = self._reader.items(table)
        for put in waiting:
            if put.table == table:
                found.pop(put.key, None)
                if put.value is not None:
                    found[put.key] = put.value
        return found

    def journal(self, start: int = 0, until: int = FOR_EVER) -> Iterator[JournalRecord]:
        """The records with `start <= at < until`, in the order in which they were written."""
        return self._reader.journal(start, until)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """The batches that could not be read since this store was opened."""
        return self._reader.damage

    def statistics(self) -> StoreStatistics:
        """What has happened since the store was opened."""
        writer, queue = self._writer, self._queue
        return StoreStatistics(
            appended=queue.total,
            synced=writer.synced,
            failed=writer.failed,
            batches=writer.batches,
            bytes=writer.bytes,
            queued=queue.count,
            queued_bytes=queue.bytes,
            last_sync=writer.last_sync,
            slowest_sync=writer.slowest_sync,
            last_checkpoint=writer.last_checkpoint,
            slowest_checkpoint=writer.slowest_checkpoint,
            unheard=writer.unheard,
            damaged=len(self._reader.damage) + writer.damaged,
            forget_failures=writer.forget_failures,
        )

    # --- the end --------------------------------------------------------------------------------------

    def close(self, last_seq: int | None = None, patience: float | None = None) -> int:
        """Write what waits, note the last number of the epoch if it is given, and release the directory.

        Waits for the disk: as long as it takes, or for `patience` seconds. What is not written then, beyond the commit
        that is under way, is given up, as a crash would do it: nobody has been told that it is synced, and the end of
        the epoch is not noted. Gives how many operations that were. Closing twice does nothing.
        """
        if self._closed:
            return 0
        if last_seq is not None and last_seq < self._last:
            raise StoreError(f"publication {self._last} has been appended; the epoch cannot end with {last_seq}")
        self._closed = True
        self._queue.close()
        given_up = 0
        if not self._writer.join(patience):
            given_up = self._queue.abandon()
            self._writer.join()
        try:
            if last_seq is not None and not given_up:
                self._writing.execute("UPDATE epochs SET ended = ? WHERE epoch = ?", (last_seq, self.epoch))
            mark_closed(self._writing)
        except sqlite3.Error as error:
            raise explain(error, self.path) from None
        finally:
            for connection in (self._reading, self._writing, self._held):
                with contextlib.suppress(sqlite3.Error):
                    connection.close()
        return given_up

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
