"""What there is to read, and where: each origin's log begins in the archive and goes on at its broker.

Theory of operation
-------------------
The archive holds a prefix of each origin's log, and the broker's store holds its end; in between the two overlap. What
lies up to the archive's end is read there, what follows at the broker. Both hold the same rows under the same numbers,
so it makes no difference where a row is read, and a stretch that is read again gives the same rows, wherever they are
by then.

A position is an epoch and a number, for each origin. Whoever goes on from a position is owed everything behind it. What
has been removed there is a gap: a broker remembers how far it has forgotten. An archive removes the oldest hours first,
so if a file at or before the position is still there, everything behind it is, too; if none is, something may be
missing, and is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyspark.sql.datasource import InputPartition

from tidings.model import NOWHERE, Position
from tidings.store.archive import origin_in_names
from tidings.wire import Measured

from ._brokers import Brokers
from ._options import Options
from ._snapshot import Piece, local_path, pieces
from ._source import GapPart, LogPart, split

Positions: TypeAlias = dict[str, Position]
"""For each origin, a position in its log."""


@dataclass
class Origin:
    """The log of one broker, in both places."""

    name: str
    pieces: list[Piece] = field(default_factory=list)
    url: str = ""
    log: Measured | None = None

    @property
    def archived(self) -> Position:
        """How far the archive reaches."""
        return max((Position(piece.epoch, piece.end) for piece in self.pieces), default=NOWHERE)

    @property
    def end(self) -> Position:
        """How far there is anything."""
        return max(self.archived, self.log.end if self.log is not None else NOWHERE)

    def between(self, after: Position, upto: Position) -> list[Piece]:
        """The archived part of a stretch."""
        found = []
        for piece in self.pieces:
            start = max(piece.start, after[1] + 1) if piece.epoch == after[0] else piece.start
            end = min(piece.end, upto[1]) if piece.epoch == upto[0] else piece.end
            if after[0] <= piece.epoch <= upto[0] and start <= end:
                whole = piece.whole and (start, end) == (piece.start, piece.end)
                found.append(piece._replace(start=start, end=end, whole=whole))
        return found

    def gaps(self, after: Position, upto: Position) -> Iterator[GapPart]:
        """What is missing behind a position that was reached."""
        if after == NOWHERE:
            return
        if self.pieces and (self.pieces[0].epoch, self.pieces[0].start) > after:
            first = self.pieces[0]
            alone = first.epoch == after[0] and first.start == after[1] + 1
            if not alone and (first.epoch, first.start) <= upto and not self._log_holds(after):
                start = after[1] + 1 if first.epoch == after[0] else 1
                if start < first.start:
                    yield GapPart(self.name, first.epoch, start, first.start - 1)
        reached = max(after, self.archived)
        if self.log is not None and reached < self.log.forgotten:
            epoch, seq = self.log.forgotten
            yield GapPart(self.name, epoch, reached[1] + 1 if reached[0] == epoch else 1, seq)

    def _log_holds(self, after: Position) -> bool:
        return self.log is not None and self.log.forgotten <= after


@dataclass
class Catalogue:
    """All origins, as they are at one moment."""

    origins: dict[str, Origin]
    brokers: Brokers

    @classmethod
    def taken(cls, options: Options, brokers: Brokers) -> Catalogue:
        """Look at the brokers first: what they archive and forget afterwards is in the archive then."""
        origins: dict[str, Origin] = {}
        for url, measured in brokers.measured():
            name = unquote(origin_in_names(measured.origin))
            origins[name] = Origin(name, url=url, log=measured)
        for piece in pieces(local_path(options.path)) if options.path else ():
            origins.setdefault(piece.origin, Origin(piece.origin)).pieces.append(piece)
        return cls(origins, brokers)

    def ends(self) -> Positions:
        """How far everything reaches."""
        return {name: origin.end for name, origin in self.origins.items() if origin.end != NOWHERE}

    def everything(self, since: int | None, until: int | None) -> list[InputPartition]:
        """All there is, of a range of time as far as the names of files tell it."""
        parts: list[InputPartition] = []
        for origin in self.origins.values():
            chosen = [
                piece
                for piece in origin.pieces
                if (since is None or since < piece.until) and (until is None or piece.since < until)
            ]
            parts += split(chosen)
            parts += self._log_parts(origin, origin.archived, origin.end)
        return parts

    def stretch(self, start: Positions, end: Positions) -> list[InputPartition]:
        """What lies between two positions of each origin, and the gaps in it."""
        parts: list[InputPartition] = []
        for name, upto in end.items():
            origin, after = self.origins[name], start.get(name, NOWHERE)
            if after >= upto:
                continue
            parts += origin.gaps(after, upto)
            parts += split(origin.between(after, upto))
            parts += self._log_parts(origin, max(after, origin.archived), upto)
        return parts

    def _log_parts(self, origin: Origin, after: Position, upto: Position) -> Iterator[LogPart]:
        if origin.log is None or after >= upto:
            return
        for one, two in self.brokers.parts(origin.url, max(after, origin.log.forgotten), upto):
            yield LogPart(origin.url, origin.name, one, two)

    # --- admission --------------------------------------------------------------------------------------

    def advance(self, start: Positions, target: Positions, rows: int, size: int) -> Positions:
        """As far as so many rows and bytes lead from one position towards another; at least a little."""
        budget = _Budget(rows, size)
        reached = dict(start)
        for piece in self._archived(start, target):
            for first, last, count, length in row_groups(piece):
                taken = budget.take(count, length)
                if taken:
                    seq = last if taken == count else min(last, first + taken - 1)
                    reached[piece.origin] = Position(piece.epoch, seq)
                if taken < count:
                    return reached
            reached[piece.origin] = Position(piece.epoch, piece.end)
        for name, upto in target.items():
            origin, after = self.origins[name], reached.get(name, NOWHERE)
            if origin.log is None or after >= upto:
                continue
            at = max(after, origin.archived)
            if at < upto and budget.left:
                limits = {"rows": budget.rows or 0, "size": budget.bytes or 0}
                measured = self.brokers.measure(origin.url, max(at, origin.log.forgotten), **limits).reached
                reached[name] = min(max(measured, at), upto)
                budget.take_about(at, reached[name])
        return reached

    def _archived(self, start: Positions, target: Positions) -> Sequence[Piece]:
        """All archived pieces of the stretch, by time; those of one origin in the order of its log."""
        found = [
            piece
            for name, upto in target.items()
            for piece in self.origins[name].between(start.get(name, NOWHERE), upto)
        ]
        latest: dict[str, int] = {}
        keys = []
        for piece in sorted(found, key=lambda piece: (piece.origin, piece.epoch, piece.start)):
            latest[piece.origin] = max(latest.get(piece.origin, 0), piece.since)
            keys.append(((latest[piece.origin], piece.origin, piece.epoch, piece.start), piece))
        return [piece for _, piece in sorted(keys, key=lambda pair: pair[0])]


class _Budget:
    """What is left of rows and bytes; None: as many as there are."""

    def __init__(self, rows: int, size: int) -> None:
        self.rows = rows or None
        self.bytes = size or None
        self._begun = False

    @property
    def left(self) -> bool:
        return (self.rows is None or self.rows > 0) and (self.bytes is None or self.bytes > 0)

    def take(self, count: int, length: int) -> int:
        """How many of some rows there is room for; bytes never keep the first ones out."""
        if not self.left or (self.bytes is not None and length > self.bytes and self._begun):
            return 0
        taken = count if self.rows is None else min(count, self.rows)
        self._begun = True
        if self.rows is not None:
            self.rows -= taken
        if self.bytes is not None:
            self.bytes = max(0, self.bytes - length)
        return taken

    def take_about(self, after: Position, reached: Position) -> None:
        """A log has given as much as it may: numbers are at least as many as rows."""
        if self.rows is not None:
            self.rows -= reached[1] - after[1] if reached[0] == after[0] else self.rows
        if self.bytes is not None:
            self.bytes = 0


def row_groups(piece: Piece) -> Iterator[tuple[int, int, int, int]]:
    """For each row group that is needed: the first and last number of it, its rows and its bytes."""
    metadata = pq.read_metadata(piece.path)
    column = metadata.schema.names.index("seq")
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        statistics = group.column(column).statistics
        first, last = max(statistics.min, piece.start), min(statistics.max, piece.end)
        if first <= last:
            length = sum(group.column(n).total_compressed_size for n in range(group.num_columns))
            yield first, last, min(group.num_rows, last - first + 1), length
