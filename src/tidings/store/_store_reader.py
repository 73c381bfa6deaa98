"""A reader of a store that belongs to nobody's thread: for queries beside a running broker, and for closed stores.

It takes no lock, begins no epoch and writes nothing; it sees what is synced. SQLite lets it read while the broker
writes.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from tidings.wire import Envelope

from ._errors import StoreForeign
from ._file import CACHE_KIB, FORMAT, explain, is_store, owner_of
from ._journal_retention import Carried
from ._pages import forgotten
from ._query import FOR_EVER, Query, Queryable, Walk
from ._reader import Batch, Packed, Reader
from ._records import Bounds, Damage, Extent, JournalRecord

_EXTENT = "SELECT coalesce(sum(count), 0), count(*), min(earliest), max(latest) FROM publications"


class StoreReader(Queryable):
    """Reads the store in a directory, from one thread at a time; a context manager.

    >>> import tempfile
    >>> from tidings.store import Store, StoreReader
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     _ = Store.open(directory, post=lambda call: call(), owner="berlin").close()
    ...     with StoreReader(directory) as reader:
    ...         reader.owner, list(reader.query())
    ('berlin', [])
    """

    def __init__(self, directory: str | Path) -> None:
        self.path = Path(directory) / "store.sqlite"
        self._connection = _connected(self.path)
        self._reader = Reader(self._connection, self.path)
        self.owner = owner_of(self._connection)
        """The broker whose store it is, which is the origin of everything in it."""

    def steps(self, query: Query) -> Iterator[list[Envelope]]:
        """A query among what is synced."""
        if (newest := self._reader.newest()) is not None:
            yield from Walk(self._reader, query).steps(newest.id)

    def beyond(self, epoch: int, seq: int) -> Iterator[list[Envelope]]:
        """What follows a position, in order, batch by batch, as far as the log went when the first one was read."""
        for batch in self._batches_beyond(epoch, seq):
            yield [one for one in self._reader.envelopes(batch) if (batch.epoch, one.identity.seq) > (epoch, seq)]

    def packed_beyond(self, epoch: int, seq: int) -> Iterator[Packed]:
        """The same, as it was written: the first batch may begin before the position."""
        found = map(self._reader.packed, self._batches_beyond(epoch, seq))
        return (packed for packed in found if packed is not None)

    def envelopes(self, packed: Packed) -> list[Envelope]:
        """What is in a batch, decoded; nothing if that fails, which is noted as damage."""
        return self._reader.envelopes(packed.batch)

    def _batches_beyond(self, epoch: int, seq: int) -> Iterator[Batch]:
        newest = self._reader.newest()
        while newest is not None and (batches := self._reader.beyond(epoch, seq)):
            for batch in batches:
                if batch.id > newest.id:
                    return
                yield batch
            epoch, seq = batches[-1].epoch, batches[-1].last

    def forgotten(self) -> int:
        """When the oldest publication here was published, if older ones were forgotten; 0: none ever was."""
        return forgotten(self._reader)

    def epochs(self) -> tuple[int, ...]:
        """Every epoch that the store has seen."""
        return tuple(self._reader.epochs())

    def bounds(self, epoch: int) -> Bounds | None:
        """The smallest and the largest number that is held of an epoch."""
        return self._reader.bounds(epoch)

    def items(self, table: str) -> dict[str, bytes]:
        """The small state of a table, by key."""
        return self._reader.items(table)

    def journal(self, start: int = 0, until: int = FOR_EVER, *, holes: bool = False) -> Iterator[JournalRecord]:
        """The records with `start <= at < until`, in the order in which they were written.

        With `holes`, a record of kind `HOLE` stands for each row that cannot be read.
        """
        return self._reader.journal(start, until, holes=holes)

    def carried(self) -> Carried:
        """What is known of the time before the oldest record of the journal."""
        return self._reader.carried()

    @contextlib.contextmanager
    def moment(self) -> Iterator[None]:
        """Everything that is read within is of one moment. The write-ahead log grows until it ends."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def extent(self) -> Extent:
        """How much there is, of which time. Looks at every batch, without opening any."""
        try:
            count, batches, earliest, latest = self._connection.execute(_EXTENT).fetchone()
        except sqlite3.Error as error:
            raise explain(error, self.path) from None
        files = (self.path, self.path.with_name("store.sqlite-wal"))
        size = sum(file.stat().st_size for file in files if file.exists())
        return Extent(count, batches, size, earliest, latest)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """The batches that this reader could not read."""
        return self._reader.damage

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _connected(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise StoreForeign(f"there is no store in '{path.parent}'; name the data directory of a broker")
    # The second is for directories in which not even the index of the write-ahead log may be made: then nobody writes.
    for mode in ("mode=ro", "immutable=1"):
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?{mode}", uri=True, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
            if not is_store(connection):
                raise StoreForeign(f"'{path}' is not a store of Tidings, or not of format {FORMAT}")
            return connection
        except sqlite3.DatabaseError as error:
            connection.close()
            problem = explain(error, path)
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise problem from None
        except StoreForeign:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
            raise
    raise problem
