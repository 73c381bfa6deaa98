"""Mining: the neighbour graph of a network, from the hand-offs that its brokers wrote down.

Theory of operation
-------------------
1. *Collecting*: hand-offs stand in the journals of brokers, which forget. `collect` copies those that are not there yet
   into the archive, one Parquet file for each broker and run, named after the time that it covers. A file is whole or
   not there, and a hand-off stands in one file, so collecting may be repeated and interrupted.
2. *Counting*, by Spark: for each pair of brokers how often clients went from one to the other (*support*), how much
   that weighs if a move counts half after each half-life (*weight*), how long clients had stayed (*dwell*, the median),
   and the same weight without the days that are held out. A stay begins with the client's move before.
3. *Choosing*, here, as there are no more rows than pairs of brokers: the edges of most weight, as many as a broker may
   have neighbours. *Confidence* is the share of the moves from a broker that an edge stands for.
4. *Judging*: the graph without the days that are held out, cut to its best 1, 2, 3 ... neighbours of each broker,
   against the moves of those days: how many copies a client would have had, and how often one was where it went.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.mobility import EdgeLine, GraphFile
from tidings.model import TidingsError
from tidings.store import JournalKind, JournalRecord, StoreReader

from ._errors import explained
from ._progress import progress
from ._session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DIRECTORY = "_handoffs"
"""Where hand-offs stand in an archive."""
HALF_LIFE = timedelta(days=14)
"""After which a move counts half."""
HELD_OUT = timedelta(days=1)
"""The last part of the time, by which the graph is judged."""
MAX_DEGREE = 8
"""The most neighbours of one broker."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCHEMA = pa.schema(
    [
        ("client", pa.string()),
        ("old", pa.string()),
        ("new", pa.string()),
        ("at", pa.int64()),
        ("away", pa.int64()),
        ("outcome", pa.string()),
        ("missed", pa.int64()),
        ("pause", pa.int64()),
    ]
)


class Judged(NamedTuple):
    """What a number of neighbours is worth, on the days that were held out."""

    neighbours: int
    """At most so many copies of each client,"""
    copies: float
    """and so many on the average, since some brokers have fewer neighbours."""
    hit_rate: float
    """The share of moves to a broker with a copy."""


@dataclass(frozen=True, slots=True)
class Mined:
    """The result."""

    graph: GraphFile
    moves: int
    clients: int
    since: datetime
    until: datetime
    held_out: int
    """Moves in the days that were held out."""
    judged: tuple[Judged, ...]
    """Empty: there was nothing to learn from before these days, or nothing to judge by in them."""


class _Pair(NamedTuple):
    """All moves from one broker to another."""

    old: str
    new: str
    support: int
    weight: float
    earlier: float
    """The weight without the days that are held out."""
    later: int
    """The moves in these days."""
    dwell: float
    last_used: int


def mine(
    archive: str | Path,
    *,
    data: Sequence[str | Path] = (),
    master: str | None = None,
    directed: bool = True,
    half_life: timedelta = HALF_LIFE,
    held_out: timedelta = HELD_OUT,
    max_degree: int = MAX_DEGREE,
) -> Mined:
    """Mine the neighbour graph of all hand-offs in an archive, and of those in the data directories of brokers.

    Raises `TidingsError` if there are none, or if something cannot be read.
    """
    if half_life <= timedelta(0) or held_out < timedelta(0) or max_degree < 1:
        raise TidingsError(
            f"half-life {half_life}, held out {held_out}, at most {max_degree} neighbours; give a half-life above 0, "
            "0 or more to hold out, and 1 or more neighbours"
        )
    for one in data:
        collect(one, archive)
    files = [str(path) for path in sorted(Path(archive, DIRECTORY).glob("*.parquet"))]
    if not files:
        raise TidingsError(
            f"there are no hand-offs in the archive '{archive}'; name the data directories of the brokers with --data"
        )
    spark = session(master, name="tidings neighbours mine")
    with explained(), progress(spark, "mining"):
        return _mined(spark, files, directed=directed, ages=(half_life, held_out), max_degree=max_degree)


# --- collecting -----------------------------------------------------------------------------------------


def collect(data: str | Path, archive: str | Path) -> int:
    """Copy the hand-offs of a broker's journal into an archive, as far as they are not there yet; returns how many."""
    with StoreReader(data) as store:
        directory = Path(archive, DIRECTORY)
        start = 1 + max((_covered(path) for path in _files_of(directory, store.owner)), default=-1)
        records = [one for one in store.journal(start) if one.kind is JournalKind.HANDOFF and "old" in one.what]
        if not records:
            return 0
        directory.mkdir(parents=True, exist_ok=True)
        latest = max(one.at for one in records)
        path = directory / f"{quote(store.owner, safe='')}-{start}-{latest}.parquet"
        beside = path.with_name(f".{path.name}.new")
        try:
            pq.write_table(_table(records), beside, compression="zstd")
            beside.replace(path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(beside)
        return len(records)


def _files_of(directory: Path, owner: str) -> list[Path]:
    return [path for path in directory.glob("*.parquet") if unquote(path.stem.rsplit("-", 2)[0]) == owner]


def _covered(path: Path) -> int:
    """The time up to which a file has everything."""
    return int(path.stem.rsplit("-", 1)[1])


def _table(records: Iterable[JournalRecord]) -> pa.Table:
    rows = [{**record.what, "client": record.who, "at": record.at} for record in records]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


# --- counting -------------------------------------------------------------------------------------------


def _mined(
    spark: SparkSession, files: list[str], *, directed: bool, ages: tuple[timedelta, timedelta], max_degree: int
) -> Mined:
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra, and slow to load

    half_life, held_out = (age / timedelta(microseconds=1) for age in ages)
    moves = spark.read.parquet(*files).where("old <> new").cache()
    try:
        whole = moves.agg(
            f.count("*").alias("moves"), f.countDistinct("client").alias("clients"), f.min("at"), f.max("at")
        ).first()
        assert whole is not None
        since, until = whole["min(at)"], whole["max(at)"]
        if since is None:
            raise TidingsError("all hand-offs lead from a broker to itself; there is nothing to mine")
        pairs = _pairs(moves, until, half_life, until - held_out)
    finally:
        moves.unpersist()
    graph = _graph(pairs, max_degree, directed)
    later = sum(one.later for one in pairs)
    first, last = (_EPOCH + timedelta(microseconds=at) for at in (since, until))
    judged = tuple(_judged(pairs, max_degree, directed))
    return Mined(graph, whole["moves"], whole["clients"], first, last, later, judged)


def _pairs(moves: DataFrame, until: int, half_life: float, cut: float) -> list[_Pair]:
    from pyspark.sql import Window  # noqa: PLC0415
    from pyspark.sql import functions as f  # noqa: PLC0415

    steps = Window.partitionBy("client").orderBy("at")
    before, came = f.lag("at").over(steps), f.lag("new").over(steps)
    stayed = f.when(came == f.col("old"), f.col("at") - f.col("away") - before)
    weight = f.pow(f.lit(0.5), (f.lit(until) - f.col("at")) / f.lit(half_life))
    early = f.col("at") <= f.lit(cut)
    counted = (
        moves.withColumn("stayed", stayed)
        .groupBy("old", "new")
        .agg(
            f.count("*").alias("support"),
            f.sum(weight).alias("weight"),
            f.sum(f.when(early, weight).otherwise(0.0)).alias("earlier"),
            f.sum(f.when(early, 0).otherwise(1)).alias("later"),
            f.coalesce(f.percentile("stayed", f.lit(0.5)), f.lit(0.0)).alias("dwell"),
            f.max("at").alias("last_used"),
        )
    )
    rows = counted.orderBy("old", "new").collect()
    return [_Pair(**{**row.asDict(), "dwell": max(row["dwell"] / 1e6, 0.0)}) for row in rows]


# --- choosing and judging -------------------------------------------------------------------------------

_Way = tuple[str, str]


def _edge(one: _Pair, directed: bool) -> _Way:
    return (one.old, one.new) if directed or one.old < one.new else (one.new, one.old)


def _chosen(weights: dict[_Way, float], most: int, directed: bool) -> tuple[set[_Way], dict[str, int]]:
    """The heaviest edges, so that no broker has more than so many neighbours; and how many each has."""
    degrees: dict[str, int] = {}
    chosen = set()
    for edge in sorted(weights, key=lambda edge: (-weights[edge], edge)):
        ends = edge[:1] if directed else edge
        if weights[edge] > 0 and all(degrees.get(end, 0) < most for end in ends):
            chosen.add(edge)
            for end in ends:
                degrees[end] = degrees.get(end, 0) + 1
    return chosen, degrees


def _graph(pairs: list[_Pair], max_degree: int, directed: bool) -> GraphFile:
    ways: dict[_Way, list[_Pair]] = {}
    leaving: dict[str, int] = {}
    for one in pairs:
        ways.setdefault(_edge(one, directed), []).append(one)
        leaving[one.old] = leaving.get(one.old, 0) + one.support
    weights = {edge: sum(one.weight for one in both) for edge, both in ways.items()}
    chosen, _ = _chosen(weights, max_degree, directed)
    return GraphFile(tuple(_line(edge, ways[edge], leaving) for edge in sorted(chosen)), directed)


def _line(edge: _Way, both: list[_Pair], leaving: dict[str, int]) -> EdgeLine:
    """An edge; if it stands for both directions, confidence and dwell are those of the one that was gone more often."""
    main = max(both, key=lambda one: (one.support, one.old))
    return EdgeLine(
        *edge,
        round(sum(one.weight for one in both), 6),
        _EPOCH + timedelta(microseconds=max(one.last_used for one in both)),
        support=sum(one.support for one in both),
        confidence=round(main.support / leaving[main.old], 6),
        dwell=round(main.dwell, 3),
    )


def _judged(pairs: list[_Pair], max_degree: int, directed: bool) -> Iterator[Judged]:
    later = sum(one.later for one in pairs)
    weights: dict[_Way, float] = {}
    for one in pairs:
        edge = _edge(one, directed)
        weights[edge] = weights.get(edge, 0.0) + one.earlier
    if not later or not any(weights.values()):
        return
    for most in range(1, max_degree + 1):
        chosen, degrees = _chosen(weights, most, directed)
        hits = sum(one.later for one in pairs if _edge(one, directed) in chosen)
        copies = sum(one.later * degrees.get(one.old, 0) for one in pairs)
        yield Judged(most, copies / later, hits / later)
        if len(chosen) == sum(weight > 0 for weight in weights.values()):
            return
