"""What brokers told live, compared with what is on disk: every complete value must be found there again.

Theory of operation
-------------------
A value of a question names the publications that it is about, so each window is computed again from exactly these: one
job joins them with the archive, and the definition of the brokers does the rest. A value of Python that was deployed
names none; its window is computed from everything that was published in it, so what came too late for the brokers makes
a difference there. A count has no window: at some moment shortly before it was told, the journals must show a number
within its error.

    SAME      the archive, or the journals, give the value that was told
    DIFFERS   they give another one
    MISSING   they do not hold everything that it is about, yet or any more
    SKIPPED   it was not complete, and so promised nothing
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tidings.aggregation.definitions import Aggregate, Included, Sliding, group_of
from tidings.aggregation.workers import Code
from tidings.client import AggregateValue
from tidings.model import ROOT_SCOPE, AggregateError
from tidings.store.archive import ArchiveReader

from ._archive import read_archive
from ._errors import explained
from ._historic import merged_windows, shipped
from ._series import Step, series

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WITHIN = timedelta(seconds=5)
"""How long before it was told a count may have been right: updates take some time through the network."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENT = timedelta(milliseconds=1)
_VALUES = "window long, number long"


class Agreement(enum.StrEnum):
    """What became of the comparison."""

    SAME = "same"
    DIFFERS = "differs"
    MISSING = "missing"
    SKIPPED = "skipped"


class Told(NamedTuple):
    """A value as a client was told it."""

    value: Any
    """Of a question with BY, by groups."""
    error: float
    complete: bool
    as_of: datetime
    window: tuple[datetime, datetime] | None = None
    included: tuple[Included, ...] | None = None

    @classmethod
    def of(cls, value: AggregateValue) -> Told:
        """What `client.aggregates` has told."""
        return cls(
            value.value, value.error, value.complete and not value.withheld, value.as_of, value.window, value.included
        )


class Reconciled(NamedTuple):
    """One value, and what is on disk."""

    at: datetime
    """The end of its window; of a count, when it was told."""
    told: Any
    found: Any
    agreement: Agreement
    reason: str = ""


class _Wanted(NamedTuple):
    """A value to be found again, and the number of its window."""

    number: int
    told: Told


def told_in(lines: Iterable[str]) -> Iterator[Told]:
    """The values in the output of `tidings aggregate watch --json`, or `AggregateError` with the number of the line."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _told(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise AggregateError(
                    f"line {number} is no value as `tidings aggregate watch --json` prints it: {error}"
                ) from None


def _told(words: Mapping[str, Any]) -> Told:
    value, window, included = words["value"], words.get("window"), words.get("included")
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        value = {tuple(one["group"]): one["value"] for one in value}
    return Told(
        value,
        float(words["error"]),
        bool(words["complete"]) and not words.get("withheld"),
        _moment_of(words["as_of"]),
        None if window is None else (_moment_of(window[0]), _moment_of(window[1])),
        None if included is None else tuple(Included(**one) for one in included),
    )


def _moment_of(text: str) -> datetime:
    return datetime.fromisoformat(text)


# --- windows ------------------------------------------------------------------------------------------


def reconcile(
    spark: SparkSession,
    definition: str | Code | Aggregate[Any],
    directory: str | Path,
    told: Iterable[Told],
    *,
    secret: bytes = b"",
) -> list[Reconciled]:
    """Compare values of a question, or of Python that was deployed, with the archive.

    `secret` is the network's, for questions that tell publishers apart. Raises `AggregateError` as `historic` does, and
    for a definition whose value depends on how it was grouped.
    """
    sent = shipped(definition)
    aggregate = sent.arrived()
    if aggregate.approximate:
        raise AggregateError(f"{aggregate.name:.80} depends on how values were grouped, and cannot be compared")
    if aggregate.window is None:
        raise AggregateError(f"{aggregate.name:.80} has no window; compare counts with the journals of brokers")
    values = list(told)
    numbers = [_window_of(one, aggregate.window) for one in values]
    archived = _archived(directory)
    lacking = {at: reason for at, one in enumerate(values) if (reason := _lacking(one, archived))}
    wanted = {at: _Wanted(numbers[at], one) for at, one in enumerate(values) if one.complete and at not in lacking}
    found: dict[int, dict[tuple[Any, ...], Any]] = {}
    if wanted:
        ends = [one.number * aggregate.window.slide_ms for one in wanted.values()]
        since = _EPOCH + _MOMENT * (min(ends) - aggregate.window.size_ms)
        with explained():
            table = read_archive(spark, directory, since=since, until=_EPOCH + _MOMENT * max(ends))
            rows = merged_windows(sent, _chosen(spark, table, wanted, aggregate.window), secret).collect()
        for row in rows:
            key = (row.key,) if sent.code is not None and aggregate.grouped else group_of(row.key)
            found.setdefault(row.window, {})[key] = json.loads(row.value)
    grouped = aggregate.grouped if sent.code is not None else bool(getattr(aggregate, "by", ()))
    empty = json.loads(json.dumps(aggregate.present(aggregate.zero())))
    return [
        _compared(one, found.get(at, {}), lacking.get(at, ""), empty, grouped=grouped) for at, one in enumerate(values)
    ]


def _window_of(told: Told, window: Sliding) -> int:
    """The number of its window; `AggregateError` if it is not one of the definition."""
    if told.window is None:
        raise AggregateError(f"the value of {told.as_of.isoformat()} has no window; compare counts with the journals")
    start, end = ((one - _EPOCH) // _MOMENT for one in told.window)
    if end - start != window.size_ms or end % window.slide_ms:
        raise AggregateError(
            f"the value of the window up to {told.window[1].isoformat()} was not told of this definition ({window})"
        )
    return end // window.slide_ms


def _archived(directory: str | Path) -> dict[tuple[str, int], tuple[int, int]]:
    """The first and the last number that the archive has of each origin and epoch."""
    known: dict[tuple[str, int], tuple[int, int]] = {}
    for file in ArchiveReader(directory).files():
        first, last = known.get((file.origin, file.epoch), (file.first, file.last))
        known[file.origin, file.epoch] = min(first, file.first), max(last, file.last)
    return known


def _lacking(told: Told, archived: Mapping[tuple[str, int], tuple[int, int]]) -> str:
    """What the archive does not have of the publications that a value names; "": nothing."""
    for origin, epoch, first, last in told.included or ():
        there = archived.get((origin, epoch))
        if there is None:
            return f"nothing of {origin} is archived that it published since its start {epoch}"
        if there[1] < last:
            return f"{origin} is archived up to {there[1]:,}, the value is about {first:,} to {last:,}"
    return ""


def _chosen(spark: SparkSession, table: DataFrame, wanted: Mapping[int, _Wanted], window: Sliding) -> DataFrame:
    """The publications that the values are about, once for each value, whose number is then their `window`."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra, and slow to load

    named, whole = [], []
    for at, (number, told) in wanted.items():
        if told.included is None:
            whole.append((at, number))
        named += [(at, number, *one) for one in told.included or ()]
    pane = f.floor(f.floor(f.unix_micros("published_at") / f.lit(1_000)) / f.lit(window.slide_ms))
    seen = table.withColumn("number", f.explode(f.sequence(pane + 1, pane + window.panes)))
    ranges = spark.createDataFrame(named, f"{_VALUES}, origin string, epoch long, first long, last long")
    among = seen.join(f.broadcast(ranges), ["number", "origin", "epoch"]).where("seq BETWEEN first AND last")
    everything = seen.join(f.broadcast(spark.createDataFrame(whole, _VALUES)), "number")
    columns = [*table.columns, "window"]
    return among.select(*columns).unionByName(everything.select(*columns))


def _compared(
    told: Told, rows: Mapping[tuple[Any, ...], Any], lacking: str, empty: Any, *, grouped: bool
) -> Reconciled:
    assert told.window is not None
    found = dict(rows) if grouped else rows.get((), empty)
    end = told.window[1]
    if not told.complete:
        return Reconciled(end, told.value, None, Agreement.SKIPPED, "not complete")
    if lacking:
        return Reconciled(end, told.value, None, Agreement.MISSING, lacking)
    if _alike(told.value, found):
        return Reconciled(end, told.value, found, Agreement.SAME)
    late = "which publications it includes is not known: some may have come late" if told.included is None else ""
    return Reconciled(end, told.value, found, Agreement.DIFFERS, late)


def _alike(told: Any, found: Any) -> bool:
    """Whether two values are the same; integers beyond 64 bits are told as floats."""
    if isinstance(told, Mapping) and isinstance(found, Mapping):
        return told.keys() == found.keys() and all(_alike(one, found[name]) for name, one in told.items())
    if isinstance(told, list | tuple) and isinstance(found, list | tuple):
        return len(told) == len(found) and all(map(_alike, told, found))
    if type(told) is float and type(found) is int:
        return told == float(found)
    return bool(told == found) and isinstance(told, bool) is isinstance(found, bool)


# --- counts -------------------------------------------------------------------------------------------


def reconcile_counts(
    data: Sequence[str | Path],
    aggregate: str,
    told: Iterable[Told],
    filter: str = "",
    *,
    scope: str = ROOT_SCOPE,
    within: timedelta = WITHIN,
) -> list[Reconciled]:
    """Compare values of `subscriber_count`, `subscription_count` or `publisher_count` with the journals of all brokers.

    A value agrees if the count was within its error at some moment up to `within` before it was told. Raises as
    `series` does.
    """
    values = list(told)
    if not values:
        return []
    steps = series(data, aggregate, filter, scope=scope, since=min(one.as_of for one in values) - within)
    return [_counted(one, steps, within) for one in values]


def _counted(told: Told, steps: Sequence[Step], within: timedelta) -> Reconciled:
    if not told.complete:
        return Reconciled(told.as_of, told.value, None, Agreement.SKIPPED, "not complete")
    begin = told.as_of - within
    ends = [*(step.at for step in steps[1:]), datetime.max.replace(tzinfo=UTC)]
    there = [step for step, end in zip(steps, ends, strict=True) if end > begin and step.at <= told.as_of]
    best = min(there, key=lambda step: abs(step.value - told.value))
    if abs(best.value - told.value) <= told.error:
        return Reconciled(told.as_of, told.value, best.value, Agreement.SAME)
    if not all(step.complete for step in there):
        return Reconciled(told.as_of, told.value, best.value, Agreement.MISSING, "rows of a journal are missing")
    return Reconciled(told.as_of, told.value, best.value, Agreement.DIFFERS)
