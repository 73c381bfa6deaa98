"""Rows become notifications, each once, however often Spark tries.

Theory of operation
-------------------
Each partition of a query has a client name of its own, made of the option `clientName`, the query's id and the
partition's number. Without the option, the driver asks the broker for a name: it is given IDENTITY/..., and the writers
are called IDENTITY/spark/..., the same whenever the query is tried again. Each row has a number that grows with the
micro-batch and with its place among the rows of the partition. A border broker publishes a number of a client once, and
acknowledges it as often as it comes: so a task, a micro-batch or a whole query that is tried again publishes what is
missing and nothing twice.

For this a row must get the same number again. The rows of a partition are sorted by content first, because Spark
promises no order after a shuffle. Which rows are in a partition is decided by the plan, which is the same for the same
micro-batch of the same query.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, StructType

from ._errors import SourceError
from ._options import Options

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_NUMBERS = 2**32
"""The numbers of one micro-batch of one partition, and the most rows that it may have."""
DEFAULT_NAME = "spark"
"""What the names of writers begin with at a broker that knows no identities, and below the identity at others."""
_PLAIN = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "timestamp")


@dataclass
class Published(WriterCommitMessage):
    """What a task has done."""

    count: int


@dataclass
class RowPublisher:
    """Publishes the rows of one partition, in a worker."""

    options: Options
    schema: StructType

    def __post_init__(self) -> None:
        self.options.check_writable()
        names = [one.name for one in self.schema if one.name.lower() not in _own()]
        has_attributes = "attributes" in self.schema.fieldNames()
        if has_attributes and names and not self.options.attributes_only:
            raise SourceError(
                f"there are a column 'attributes' and others, like '{names[0]}', and only one of these can be "
                'published; drop one, or set .option("attributes", "only")'
            )
        if self.options.attributes_only and not has_attributes:
            raise SourceError("option attributes=only: there is no column 'attributes'; leave the option out")
        if not has_attributes and not names:
            raise SourceError("no column is left to publish: all of them belong to the archive; add some")
        self.names = () if has_attributes else tuple(names)
        for one in self.schema:
            if one.name in self.names:
                _check_type(one.name, one.dataType)
        self.client_name = self.options.client_name or _own_name(self.options)

    def publish(self, rows: Iterator[pa.RecordBatch], query: str, batch: int) -> Published:
        """Publish all rows, and wait until the broker has them in the quality that is asked for."""
        from tidings.client import ConnectionFailed  # noqa: PLC0415
        from tidings.model import TidingsError  # noqa: PLC0415
        from tidings.wire import decode_body  # noqa: PLC0415

        from ._brokers import abandon, connected  # noqa: PLC0415

        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        bodies = sorted(body for one in rows for body in self._bodies(one))
        if not bodies:
            return Published(0)
        if len(bodies) >= BATCH_NUMBERS:
            raise SourceError(f"a partition of {len(bodies):,} rows is too large; use more partitions")
        (url,) = self.options.brokers
        name = f"{self.client_name}/{query}/{partition}"
        client = connected(self.options, url, name=name, own_numbers=True)
        try:
            notifications = map(decode_body, bodies)
            client.publish_many(notifications, quality=self.options.quality, first=batch * BATCH_NUMBERS + 1)
        except ConnectionFailed as error:
            raise SourceError(f"the broker at {url} is gone: {error}") from None
        except TidingsError as error:
            raise SourceError(f"the broker at {url} refuses a row: {error}") from None
        finally:
            abandon(client)
        return Published(len(bodies))

    def _bodies(self, rows: pa.RecordBatch) -> Iterator[bytes]:
        from tidings.model import TidingsError  # noqa: PLC0415
        from tidings.store.archive import notifications_in  # noqa: PLC0415
        from tidings.wire import encode_body  # noqa: PLC0415

        try:
            if self.names:
                yield from map(encode_body, self._attributes(rows))
            else:
                column = rows.column(rows.schema.get_field_index("attributes"))
                if column.null_count:
                    raise SourceError("a row has no 'attributes'; filter such rows out before they are published")
                yield from map(encode_body, notifications_in(column))
        except TidingsError as error:
            raise SourceError(f"a row cannot be published: {error}") from None

    def _attributes(self, rows: pa.RecordBatch) -> Iterator[Mapping[str, object]]:
        columns = [rows.column(rows.schema.get_field_index(name)).to_pylist() for name in self.names]
        for values in zip(*columns, strict=True):
            yield {name: value for name, value in zip(self.names, values, strict=True) if value is not None}


class TableWriter(DataSourceArrowWriter):
    """`write.format("tidings")`: one write, which can be repeated if it has an `id`."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise SourceError('what was published cannot be taken back; write with .mode("append")')
        self._rows = RowPublisher(options, schema)
        self._id = options.id or uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        """Publish one partition, in a worker."""
        return self._rows.publish(iterator, self._id, 0)


class StreamWriter(DataSourceStreamArrowWriter):
    """`writeStream.format("tidings")`."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._rows = RowPublisher(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        """Publish one partition of a micro-batch, in a worker."""
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
        batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
        if query is None or batch is None:
            raise SourceError("Spark does not say which query and micro-batch this is; use a newer Spark")
        return self._rows.publish(iterator, self._rows.options.id or query, int(batch))


def _own_name(options: Options) -> str:
    """What the names of writers begin with: the identity that the token belongs to, as the broker knows it."""
    if options.token is None:
        return DEFAULT_NAME  # a broker that knows identities lets nobody in without
    from ._brokers import abandon, connected  # noqa: PLC0415

    client = connected(options, options.brokers[0])
    try:
        identity, slash, _ = client.name.rpartition("/")
    finally:
        abandon(client)
    return f"{identity}/{DEFAULT_NAME}" if slash else DEFAULT_NAME


def _own() -> frozenset[str]:
    from tidings.store.archive import RESERVED  # noqa: PLC0415

    from ._shape import LOST_TO  # noqa: PLC0415

    return RESERVED | {LOST_TO}


def _check_type(name: str, kind: Any) -> None:
    while isinstance(kind, ArrayType):
        kind = kind.elementType
    if isinstance(kind, StructType):
        for one in kind:
            _check_type(f"{name}.{one.name}", one.dataType)
    elif kind.simpleString() not in _PLAIN:
        raise SourceError(
            f"column '{name}' is {kind.simpleString()}, which no notification can hold; cast it to one of "
            f"{', '.join(_PLAIN)}"
        )
