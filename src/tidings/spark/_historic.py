"""Aggregates over the archive, by the definitions that brokers run: the same `lift`, `combine` and `present`, the
same bytes.

Theory of operation
-------------------
Each part of the archive is lifted and combined by key and pane where it is read. A pane belongs to as many windows
as it makes up, so its partial is handed to each of them, and the partials of a window are combined. As `combine`
does not care about order and grouping, the result is what a tree of brokers has computed, byte for byte, apart from
records that came too late for them: those are in the archive only.

A definition with `spark_native` lets Spark compute the partials of panes by itself; the rest is the same. It is
used only after both ways have given the same bytes on a sample, once for each definition in this process.

Definitions are shipped as text: a question as it is written, or source with its digest, which every executor
checks. Those of the catalogue go by name and settings. A class of the program itself is refused: executors would
get another one than brokers.
"""

from __future__ import annotations

import hmac
import itertools
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidings.aggregation.definitions import JP, Aggregate, Included, Measured, Record, pseudonym
from tidings.aggregation.deploying import digest_of
from tidings.aggregation.expressions import compiled
from tidings.aggregation.workers import Code, loaded
from tidings.model import EVERYTHING, AggregateError, Filter
from tidings.store.archive._row_group import IDENTITY_NAMES, envelopes_in

from ._archive import microseconds, read_archive
from ._columns import column
from ._errors import explained

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

log = logging.getLogger("tidings.spark")

SAMPLE = 20_000
"""How many publications the two ways are compared on."""
_PARTIALS = "key string, pane long, partial binary"
_RESULTS = "key string, window long, partial binary, value string, error double"
_proven: dict[str, bool] = {}


@dataclass(frozen=True)
class Shipped:
    """A definition on its way to executors: a question, a source with its digest, or one of the catalogue."""

    text: str = ""
    code: Code | None = None
    digest: str = ""
    aggregate: Aggregate[Any] | None = None

    def arrived(self) -> Aggregate[Any]:
        """The definition, where it is used. Raises `AggregateError` if it is not the one that was sent."""
        if self.code is not None:
            if not hmac.compare_digest(digest_of(self.code.source, self.code.entry), self.digest):
                raise AggregateError(f"the source of {self.code.entry} is not the one with the digest {self.digest}")
            found = loaded(self.code.source, self.code.entry)
            if not isinstance(found, Aggregate):
                raise AggregateError(f"{self.code.entry} runs once on each broker and has no history")
            return found
        return compiled(self.text) if self.aggregate is None else self.aggregate

    @property
    def identity(self) -> str:
        """By which an equality that was shown is remembered."""
        if self.digest or self.text:
            return self.digest or self.text
        assert self.aggregate is not None
        return (
            f"{type(self.aggregate).__name__} {self.aggregate.name} {sorted(map(repr, vars(self.aggregate).items()))}"
        )


def shipped(definition: str | Code | Aggregate[Any]) -> Shipped:
    """A definition as it is sent, or `AggregateError` for one that cannot be."""
    if isinstance(definition, str):
        return Shipped(text=compiled(definition).name)
    if isinstance(definition, Code):
        return Shipped(code=definition, digest=digest_of(definition.source, definition.entry))
    if not type(definition).__module__.startswith("tidings.aggregation."):
        raise AggregateError(
            f"{definition.name} is a class of this program, which executors cannot be sure of; "
            "pass Code(source, name of the class)"
        )
    return Shipped(aggregate=definition)


def historic(
    spark: SparkSession,
    definition: str | Code | Aggregate[Any],
    directory: str | Path,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    native: bool = True,
    secret: bytes = b"",
    included: Iterable[Included] | None = None,
) -> DataFrame:
    """The windows of an aggregate over an archive: `key`, `window`, `ends_at`, `partial`, `value`, `error`, `complete`.

    `value` is JSON. A window is `complete` if it lies within `since` and `until`; without these, all are. `secret`
    is the network's, for definitions that tell publishers apart: with it, their pseudonyms are those of the brokers.
    With `included`, of a value that a client was told, only these publications are looked at: the window of that value
    is then the same, byte for byte, also if something came too late for the brokers.

    Raises `AggregateError` for a definition without a window, or one that the archive cannot answer.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra, and slow to load

    sent = shipped(definition)
    aggregate = sent.arrived()
    window = aggregate.window
    if aggregate.joinpoints != {JP.PUBLISHED}:
        raise AggregateError(
            f"{aggregate.name} counts what the archive does not hold; the journals of brokers do: use series or "
            "windows, or `tidings aggregate history --data DIR`"
        )
    if window is None:
        raise AggregateError(f"{aggregate.name} has no window, and history has no present; give it a window")
    with explained():
        table = read_archive(spark, directory, since=since, until=until)
        if included is not None:
            table = table.where(_among(included))
        quick = native and aggregate.native and _equal(aggregate, sent, table, secret)
        panes = _native(aggregate, table) if quick else _generic(sent, table, secret)
        first, last = f.col("pane") + 1, f.col("pane") + window.panes
        spread = panes.withColumn("window", f.explode(f.sequence(first, last)))
        merged = spread.groupBy("key", "window").applyInArrow(_merging(sent), _RESULTS)
        ends = f.timestamp_millis(f.col("window") * window.slide_ms)
        begin, end = microseconds("since", since), microseconds("until", until)
        whole = f.lit(True)
        if begin is not None:
            whole &= f.col("window") * window.slide_ms - window.size_ms >= -(-begin // 1_000)
        if end is not None:
            whole &= f.col("window") * window.slide_ms <= end // 1_000
        return merged.withColumn("ends_at", ends).withColumn("complete", whole)


def merged_windows(sent: Shipped, table: DataFrame, secret: bytes) -> DataFrame:
    """The windows of publications of which each says in `window` to which it belongs: as `historic` gives them."""
    wanted = [*IDENTITY_NAMES, "attributes", *(["body"] if "body" in table.columns else []), "window"]
    partials = table.select(*wanted).mapInArrow(_lifting(sent, secret, by_window=True), _PARTIALS)
    merged = partials.withColumnRenamed("pane", "window").groupBy("key", "window")
    return merged.applyInArrow(_merging(sent), _RESULTS)


def _among(included: Iterable[Included]) -> Column:
    """Whether a publication is one of these."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    chosen = f.lit(False)
    for origin, epoch, first, last in included:
        chosen |= (f.col("origin") == origin) & (f.col("epoch") == epoch) & f.col("seq").between(first, last)
    return chosen


def _generic(sent: Shipped, table: DataFrame, secret: bytes) -> DataFrame:
    """The partials of panes, by the definition itself."""
    wanted = [*IDENTITY_NAMES, "attributes", *(["body"] if "body" in table.columns else [])]
    return table.select(*wanted).mapInArrow(_lifting(sent, secret), _PARTIALS)


def _native(aggregate: Aggregate[Any], table: DataFrame) -> DataFrame:
    """The partials of panes, by Spark; without groups the key is empty."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    assert isinstance(aggregate, Measured)
    assert aggregate.window is not None
    chosen = table if aggregate.where == EVERYTHING else table.where(column(aggregate.where, table))
    millis = f.floor(f.unix_micros("published_at") / f.lit(1_000))
    pane = f.floor(millis / f.lit(aggregate.window.slide_ms)).cast("long")
    counted = chosen.groupBy(pane.alias("pane")).agg(aggregate.spark_native().alias("partial"))
    return counted.select(f.lit("").alias("key"), "pane", "partial")


def _equal(aggregate: Aggregate[Any], sent: Shipped, table: DataFrame, secret: bytes) -> bool:
    """Whether both ways give the same bytes on a sample; found out once for each definition."""
    if sent.identity not in _proven:
        sample = table.limit(SAMPLE).localCheckpoint()
        order = ["key", "pane"]
        merge = _merging_panes(sent)
        generic = (
            _generic(sent, sample, secret).groupBy(*order).applyInArrow(merge, _PARTIALS).orderBy(*order).collect()
        )
        native = _native(aggregate, sample).orderBy(*order).collect()
        _proven[sent.identity] = generic == native
        if generic != native:
            log.warning("%s is computed the slow way: Spark's own expression gives something else", aggregate.name)
    return _proven[sent.identity]


def _lifting(
    sent: Shipped, secret: bytes, *, by_window: bool = False
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Combine what belongs to one key and pane; or to one key and the window that each row names."""

    def lifted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        aggregate = sent.arrived()
        window = aggregate.window
        assert window is not None
        panes: dict[tuple[str, int], Any] = {}
        passes = Filter.parse(str(aggregate.where)).matches if sent.code is not None and str(aggregate.where) else None
        for batch in batches:
            table = pa.Table.from_batches([batch])
            named = table.column("window").to_pylist() if by_window else itertools.repeat(0)
            for record, number in zip(
                records_in(table, aggregate, secret, peers=sent.code is None), named, strict=by_window
            ):
                if passes is not None and not passes(record.attrs):
                    continue
                one = aggregate.lift(record)
                if one is not None:
                    pane = number if by_window else window.pane(record.ts_ms)
                    place = aggregate.key(record) if aggregate.grouped else "", pane
                    held = panes.get(place)
                    panes[place] = one if held is None else aggregate.combine(held, one)
        yield _batch([(key, pane, aggregate.encode(partial)) for (key, pane), partial in panes.items()])

    return lifted


def records_in(table: pa.Table, aggregate: Aggregate[Any], secret: bytes, *, peers: bool = True) -> Iterator[Record]:
    """The records of some rows of an archive: of the type, and with the values, that a live `lift` sees. Code that is
    deployed is told of no peers."""
    named = "identity" in aggregate.capabilities
    for envelope in envelopes_in(table):
        identity, attrs = envelope.identity, envelope.notification
        topic = attrs.get("type")
        yield Record(
            ts_ms=identity.published_at // 1_000,
            broker=identity.origin,
            jp=JP.PUBLISHED,
            topic=topic if isinstance(topic, str) else "",
            peer=_peer(identity.publisher, aggregate.name, secret, named=named) if peers else "",
            attrs=attrs,
        )


def _peer(publisher: str, aggregate: str, secret: bytes, *, named: bool) -> str:
    return publisher if named else pseudonym(secret, aggregate, publisher)


def _merged(aggregate: Aggregate[Any], table: pa.Table) -> Any:
    partial = aggregate.zero()
    for data in table.column("partial").to_pylist():
        partial = aggregate.combine(partial, aggregate.decode(data))
    return partial


def _merging(sent: Shipped) -> Callable[[tuple[Any, ...], pa.Table], pa.Table]:
    def merge(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
        aggregate = sent.arrived()
        partial = _merged(aggregate, table)
        value = json.dumps(aggregate.present(partial), ensure_ascii=False)
        row = [group[0].as_py(), group[1].as_py(), aggregate.encode(partial), value, float(aggregate.error(partial))]
        kinds = (pa.string(), pa.int64(), pa.binary(), pa.string(), pa.float64())
        names = ("key", "window", "partial", "value", "error")
        return pa.table({name: pa.array([one], kind) for name, one, kind in zip(names, row, kinds, strict=True)})

    return merge


def _merging_panes(sent: Shipped) -> Callable[[tuple[Any, ...], pa.Table], pa.Table]:
    def merge(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
        aggregate = sent.arrived()
        encoded = aggregate.encode(_merged(aggregate, table))
        return pa.Table.from_batches([_batch([(group[0].as_py(), group[1].as_py(), encoded)])])

    return merge


def _batch(rows: list[tuple[str, int, bytes]]) -> pa.RecordBatch:
    keys, panes, partials = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array(keys, pa.string()),
            "pane": pa.array(panes, pa.int64()),
            "partial": pa.array(partials, pa.binary()),
        }
    )
