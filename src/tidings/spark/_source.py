"""The data source `tidings`: archives and brokers' logs as tables and streams, and rows as notifications.

Spark pickles the source and its readers, and runs them in workers: they hold nothing but data, and import what they
need when they run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.datasource import Filter as SparkFilter
from pyspark.sql.types import LongType, StructField, StructType

from tidings.model import Position

from ._options import Options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from ._pushed import Pushed
    from ._shape import TableShape
    from ._snapshot import Piece

SPLIT = 131_072
"""The most numbers of a file that one task reads."""


class TidingsSource(DataSource):
    """The data source behind `format("tidings")`: reads archives and the logs of brokers, publishes rows."""

    @classmethod
    def name(cls) -> str:
        return "tidings"

    def schema(self) -> StructType:
        """Return the columns of docs/archive.md, with the promoted ones that are asked for, or that the archive has."""
        from ._columns import schema_of  # noqa: PLC0415
        from ._shape import LOST_TO  # noqa: PLC0415
        from ._snapshot import taken  # noqa: PLC0415
        from ._sql import Column  # noqa: PLC0415

        options = Options.parse(self.options)
        options.check_readable()
        with_body = False
        if options.promote is not None:
            columns = [Column(one, complete=False) for one in options.promote]
        elif options.path:
            snapshot = taken(options.path)
            columns, with_body = list(snapshot.columns.values()), snapshot.with_body
        else:
            columns = []
        schema = schema_of(columns, with_body=with_body)
        return schema.add(StructField(LOST_TO, LongType())) if options.gaps_as_rows else schema

    def reader(self, schema: StructType) -> DataSourceReader:
        options = Options.parse(self.options)
        options.check_readable()
        return PushingReader(options, schema) if options.pushdown else TableReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from ._stream import StreamReader  # noqa: PLC0415

        options = Options.parse(self.options)
        options.check_readable()
        return StreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from ._sink import TableWriter  # noqa: PLC0415

        return TableWriter(Options.parse(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from ._sink import StreamWriter  # noqa: PLC0415

        return StreamWriter(Options.parse(self.options), schema)


def register(spark: SparkSession) -> None:
    """Make `format("tidings")` known to a session that Tidings did not start, with filters pushed down."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(TidingsSource)


@dataclass
class FilePart(InputPartition):
    """Some numbers of an archived log."""

    piece: Piece


@dataclass
class LogPart(InputPartition):
    """Some numbers of a broker's log."""

    url: str
    origin: str
    after: Position
    upto: Position


@dataclass
class GapPart(InputPartition):
    """Numbers that nobody holds any more."""

    origin: str
    epoch: int
    first: int
    last: int


def split(pieces: Iterable[Piece]) -> Iterator[FilePart]:
    """Cut large files, so that several tasks can share them; numbers grow from one row group to the next."""
    for piece in pieces:
        for start in range(piece.start, piece.end + 1, SPLIT):
            end = min(piece.end, start + SPLIT - 1)
            yield FilePart(
                piece._replace(start=start, end=end, whole=piece.whole and end - start == piece.end - piece.start)
            )


@dataclass
class PartReader:
    """Reads the parts of a table or of a stream, in a worker."""

    options: Options
    schema: StructType
    pushed: Pushed | None = field(default=None)

    def shape(self) -> TableShape:
        """The columns that Spark wants."""
        from ._shape import TableShape  # noqa: PLC0415

        return TableShape.of(self.schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        match partition:
            case FilePart(piece):
                yield from self._file(piece)
            case LogPart():
                yield from self._log(partition)
            case GapPart(origin, epoch, first, last):
                yield self.shape().gap(origin, epoch, first, last)

    def _file(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        from ._files import query_of, read  # noqa: PLC0415
        from ._snapshot import local_path  # noqa: PLC0415

        query = query_of(self.options.filter, self.options.since, self.options.until)
        predicate = self.pushed.predicate if self.pushed is not None else None
        yield from read(local_path(self.options.path), piece, self.shape(), query, predicate)

    def _log(self, part: LogPart) -> Iterator[pa.RecordBatch]:
        from ._logs import read  # noqa: PLC0415

        yield from read(self.options, part, self.shape(), self.pushed, self._file)


class TableReader(DataSourceReader):
    """An archive and logs as they are when the work is planned."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._parts = PartReader(options, schema)
        self._parts.shape()  # what cannot be is said before anything starts

    def partitions(self) -> Sequence[InputPartition]:
        """Files by hour, large ones in several parts; logs in stretches."""
        from ._brokers import Brokers  # noqa: PLC0415
        from ._plan import Catalogue  # noqa: PLC0415

        pushed, options = self._parts.pushed, self._parts.options
        since = max([at for at in (options.since, pushed and pushed.since) if at is not None], default=None)
        until = min([at for at in (options.until, pushed and pushed.until) if at is not None], default=None)
        brokers = Brokers(options)
        try:
            found = Catalogue.taken(options, brokers).everything(since, until)
        finally:
            brokers.close()
        return found or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one part."""
        return self._parts.read(partition)


class PushingReader(TableReader):
    """As above, with Spark's conditions pushed down: only for a table that is used once.

    Spark 4.3 keeps what it has pushed for one use of a table, and reads with it for every other use of the same table.
    """

    def pushFilters(self, filters: list[SparkFilter]) -> Iterable[SparkFilter]:
        """Take what files and brokers can be asked; the rest is left to Spark."""
        from ._pushed import pushed  # noqa: PLC0415

        self._parts.pushed, left = pushed(filters, self._parts.shape())
        return left
