"""The log for readers who come from far: what lies between two positions, in answers of bounded size.

Only what is synced is shown: what a reader has seen once, it sees again, whatever happens to the broker. An answer
opens a few batches at most, because it is made on the broker's loop. A batch that was listed and cannot be opened, as
it is damaged or has just been forgotten, is told as lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidings.model import NOWHERE, Position
from tidings.wire import Envelope

from ._position import FORGOTTEN
from ._reader import Batch, Reader

PAGE_COUNT = 2_000
"""The most publications of a page."""
PAGE_BYTES = 1_048_576
"""The bytes of bodies after which a page is closed."""
PAGE_BATCHES = 8
"""The most batches that are opened for a page, whether or not they hold what is wanted."""
MEASURED_BATCHES = 4_096
"""The most batches that are counted at once."""


class LogExtent(NamedTuple):
    """What a log holds, and how far one gets in it."""

    forgotten: Position
    reached: Position
    end: Position


class LogPage(NamedTuple):
    """A part of a log: everything that was asked for up to `reached`."""

    envelopes: list[Envelope]
    reached: Position
    lost: list[tuple[int, int, int]]


def measure(reader: Reader, after: Position, rows: int, size: int) -> LogExtent:
    """How far one gets from a position with so many rows and bytes at most; 0: any number."""
    newest = reader.newest()
    forgotten = FORGOTTEN.read(reader.items(FORGOTTEN.table))
    end = max(Position(newest.epoch, newest.last), forgotten) if newest is not None else forgotten
    if not rows and not size:
        return LogExtent(forgotten, end, end)
    reached, count, length = after, 0, 0
    for batch in reader.sizes(*after, MEASURED_BATCHES):
        left = rows - count if rows else batch.rows
        if batch.rows > left or (size and length + batch.bytes > size and reached != after):
            if reached == after:  # not even one batch: numbers are at least as many as publications
                first = max(batch.first, after.seq + 1) if batch.epoch == after.epoch else batch.first
                reached = Position(batch.epoch, min(batch.last, first + max(left, 1) - 1))
            break
        reached, count, length = Position(batch.epoch, batch.last), count + batch.rows, length + batch.bytes
    return LogExtent(forgotten, min(reached, end), end)


def forgotten(reader: Reader) -> int:
    """When the oldest publication in the log was published, if older ones were forgotten; 0: none ever was."""
    if not any(FORGOTTEN.read(reader.items(FORGOTTEN.table))):
        return 0
    return reader.earliest() or max(reader.epochs())  # nothing is left: everything up to now, or nearly


def read(reader: Reader, after: Position, upto: Position, passes: Callable[[Envelope], bool]) -> LogPage:
    """What follows a position and passes, up to another position or to the limits of a page.

    What has been forgotten behind the position is told as lost, whenever that happened.
    """
    page = _held(reader, after, upto, passes)
    forgotten = FORGOTTEN.read(reader.items(FORGOTTEN.table))  # after reading: it may just have happened
    gone = min(forgotten, upto)
    if gone <= after:
        return page
    epoch, last = gone
    lost = [(epoch, after.seq + 1 if epoch == after.epoch else 1, last)]
    lost += [one for one in page.lost if (one[0], one[2]) > gone]
    kept = [one for one in page.envelopes if (one.identity.epoch, one.identity.seq) > gone]
    return LogPage(kept, max(page.reached, gone), lost)


def _held(reader: Reader, after: Position, upto: Position, passes: Callable[[Envelope], bool]) -> LogPage:
    found: list[Envelope] = []
    lost: list[tuple[int, int, int]] = []
    size, reached = 0, after
    batches = reader.beyond(*after)
    for batch in batches[:PAGE_BATCHES]:
        if (batch.epoch, batch.first) > upto:
            return LogPage(found, upto, lost)
        envelopes = reader.envelopes(batch)
        if not envelopes:
            lost.append(_range(batch, after, upto))
        for envelope in envelopes:
            place = Position(batch.epoch, envelope.identity.seq)
            if place <= after:
                continue
            if place > upto:
                return LogPage(found, upto, lost)
            if len(found) >= PAGE_COUNT or size >= PAGE_BYTES:
                return LogPage(found, reached, lost)
            reached = place
            if passes(envelope):
                found.append(envelope)
                size += len(envelope.body)
        reached = min(Position(batch.epoch, batch.last), upto)
    return LogPage(found, reached if len(batches) > PAGE_BATCHES else max(reached, _end(reader, upto)), lost)


def _range(batch: Batch, after: Position, upto: Position) -> tuple[int, int, int]:
    first = max(batch.first, after.seq + 1) if batch.epoch == after.epoch else batch.first
    return batch.epoch, first, min(batch.last, upto.seq) if batch.epoch == upto.epoch else batch.last


def _end(reader: Reader, upto: Position) -> Position:
    """How far a reader has come that has seen everything."""
    newest = reader.newest()
    return min(upto, Position(newest.epoch, newest.last)) if newest is not None else NOWHERE
