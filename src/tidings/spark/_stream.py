"""A stream: the archive, then the brokers' logs, as one; offsets are positions.

Spark keeps the offsets of each micro-batch in its checkpoint, and asks for the same stretch again after a crash. The
rows of a stretch are always the same (`_plan`), so together with a sink that recognises repetitions everything comes
exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tidings.model import NOWHERE, Position

from ._brokers import Brokers
from ._errors import SourceError
from ._logs import gap
from ._options import Options
from ._plan import Catalogue, Positions
from ._source import GapPart, PartReader


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`readStream.format("tidings")`."""

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.since is not None:
            raise SourceError("option since is for tables; a stream begins at option start, and .where(...) chooses")
        self._options = options
        self._parts = PartReader(options, schema)
        self._parts.shape()  # what cannot be is said before anything starts
        self._brokers = Brokers(options)
        self._target: Positions | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins."""
        return to_offset(self._taken().ends() if self._options.latest else {})

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the options say."""
        if self._options.max_rows:
            return ReadMaxRows(self._options.max_rows)
        return ReadMaxBytes(self._options.max_bytes) if self._options.max_bytes else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what there is now, and then end."""
        self._target = self._taken().ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next micro-batch goes."""
        after, catalogue = from_offset(start), self._taken()
        catalogue = self._checked(catalogue, after)
        target = self._target if self._target is not None else catalogue.ends()
        target = {name: place for name, place in target.items() if place > after.get(name, NOWHERE)}
        if not target:
            return start
        if isinstance(limit, ReadAllAvailable):
            return to_offset(after | target)
        rows, size = self._options.max_rows, self._options.max_bytes
        if isinstance(limit, ReadMaxRows):
            rows = limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            size = limit.max_bytes
        return to_offset(catalogue.advance(after, target, rows, size))

    def reportLatestOffset(self) -> dict[str, Any]:
        """How far there is something."""
        return to_offset(self._taken().ends())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What lies between two offsets, in parts for tasks."""
        after, upto = from_offset(start), from_offset(end)
        parts = self._checked(self._taken(), upto).stretch(after, upto)
        for part in parts:
            if isinstance(part, GapPart) and not self._options.gaps_as_rows:
                raise gap(part.origin, part.epoch, part.first, part.last)
        return parts

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one part, in a worker."""
        return self._parts.read(partition)

    def stop(self) -> None:
        """The query has ended."""
        self._brokers.close()

    def _taken(self) -> Catalogue:
        return Catalogue.taken(self._options, self._brokers)

    def _checked(self, catalogue: Catalogue, places: Positions) -> Catalogue:
        for name, place in places.items():
            if name not in catalogue.origins:
                known = ", ".join(sorted(catalogue.origins)) or "none"
                raise SourceError(
                    f"the checkpoint is at {place} of broker '{name}', and this source knows {known}: it belongs to "
                    "another query, or the broker is no longer named; use a new checkpoint directory, or name it"
                )
        return catalogue


def to_offset(places: Positions) -> dict[str, Any]:
    """Positions as Spark keeps them in a checkpoint."""
    return {name: {"epoch": epoch, "seq": seq} for name, (epoch, seq) in sorted(places.items())}


def from_offset(offset: Any) -> Positions:
    """The positions in a checkpoint; `SourceError` if they are none."""
    try:
        return {name: Position(int(place["epoch"]), int(place["seq"])) for name, place in offset.items()}
    except (AttributeError, TypeError, KeyError, ValueError, OverflowError):
        raise SourceError(
            f"the checkpoint holds {offset!r:.100} instead of positions: it belongs to another query; use a "
            "new checkpoint directory"
        ) from None
