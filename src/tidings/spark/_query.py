"""A query of an archive by Spark: for ranges of time that one process should not read alone.

The answer is that of `ArchiveReader.query`, in the order of time; where the clock of an origin has jumped back, that is
not the order of its log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pyarrow as pa

from tidings.model import EVERYTHING, Filter
from tidings.store.archive._row_group import IDENTITY_NAMES, envelopes_in
from tidings.wire import Envelope

from ._archive import read_archive
from ._errors import explained
from ._progress import progress
from ._session import session

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Envelope).decode


def query_archive(
    directory: str | Path,
    filter: Filter = EVERYTHING,
    *,
    since: int | None = None,
    until: int | None = None,
    limit: int | None = None,
    newest_first: bool = False,
    master: str | None = None,
) -> Iterator[Envelope]:
    """Yield the publications that pass `filter` with `since <= published_at < until`, in microseconds, ordered by time.

    The answer arrives in parts; memory holds one part at a time.
    """
    spark = session(master, name="tidings archive query")
    with explained():
        table = read_archive(spark, directory, filter, since=_instant(since), until=_instant(until))
        has_body = "body" in table.columns
        order = [table[name] for name in ("published_at", "origin", "epoch", "seq")]
        chosen = table.orderBy(*([one.desc() for one in order] if newest_first else order))
        if limit is not None:
            chosen = chosen.limit(limit)
        rows = chosen.select(*IDENTITY_NAMES, "attributes", *(["body"] if has_body else []))
        encoded = rows.mapInArrow(_encoded, "envelope binary")
        with progress(spark, "looking"):
            answer = encoded.toLocalIterator()
            first = next(answer, None)
        if first is not None:
            yield _decode(bytes(first.envelope))
        for row in answer:
            yield _decode(bytes(row.envelope))


def _encoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        found = [_encode(envelope) for envelope in envelopes_in(pa.Table.from_batches([batch]))]
        yield pa.RecordBatch.from_pydict({"envelope": pa.array(found, pa.binary())})


def _instant(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else _EPOCH + timedelta(microseconds=microseconds)
