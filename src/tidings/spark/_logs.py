"""Reading a stretch of a broker's log in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from tidings.client import ConnectionFailed
from tidings.model import Position, TidingsError
from tidings.wire import Envelope

from ._brokers import abandon, connected
from ._errors import GapInStream, SourceError
from ._options import Options
from ._shape import TableShape

if TYPE_CHECKING:
    from ._pushed import Pushed
    from ._snapshot import Piece
    from ._source import LogPart


def read(
    options: Options,
    part: LogPart,
    shape: TableShape,
    pushed: Pushed | None,
    read_file: Callable[[Piece], Iterator[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:
    """The rows between two positions, in the order of the log.

    What the broker has archived and forgotten since the work was planned is read from the archive, by `read_file`.
    """
    wanted = options.filter if pushed is None else options.filter & pushed.filter
    client = connected(options, part.url)
    try:
        reached = part.after
        for page in client.read_log(part.after, part.upto, wanted, timeout=options.patience):
            for epoch, first, last in page.lost:
                start = reached if epoch > reached[0] and first == 1 else Position(epoch, first - 1)
                if (pieces := archived_since(options, part.origin, start, Position(epoch, last))) is not None:
                    for piece in pieces:
                        yield from read_file(piece)
                elif not options.gaps_as_rows:
                    raise gap(part.origin, epoch, first, last)
                else:
                    yield shape.gap(part.origin, epoch, first, last)
            chosen = [envelope for envelope in page.envelopes if _in_time(envelope, options)]
            for batch in shape.of_envelopes(chosen) if chosen else ():
                kept = batch if pushed is None or pushed.predicate is None else _kept(batch, pushed)
                if len(kept):
                    yield kept
            reached = page.reached
        if reached < part.upto:
            raise SourceError(
                f"the log of broker '{part.origin}' ends at {reached}, but had reached {part.upto} before: it has lost "
                "what it had stored; restore its data directory, or begin a new query"
            )
    except ConnectionFailed as error:
        raise SourceError(f"the broker at {part.url} is gone: {error}") from None
    except SourceError:
        raise
    except TidingsError as error:
        raise SourceError(f"the broker at {part.url} refuses: {error}") from None
    finally:
        abandon(client)


def archived_since(options: Options, origin: str, after: Position, upto: Position) -> list[Piece] | None:
    """Where a stretch of a log is in the archive; None if it is not there."""
    from ._plan import Origin  # noqa: PLC0415 - plans are made of parts, and these read them
    from ._snapshot import local_path, pieces  # noqa: PLC0415

    if not options.path:
        return None
    known = Origin(origin, [piece for piece in pieces(local_path(options.path)) if piece.origin == origin])
    return known.between(after, upto) if known.archived >= upto else None


def _in_time(envelope: Envelope, options: Options) -> bool:
    at = envelope.identity.published_at
    return (options.since is None or options.since <= at) and (options.until is None or at < options.until)


def _kept(batch: pa.RecordBatch, pushed: Pushed) -> pa.RecordBatch:
    table = pa.Table.from_batches([batch]).filter(pushed.predicate).combine_chunks()
    return table.to_batches()[0] if len(table) else batch.slice(0, 0)


def gap(origin: str, epoch: int, first: int, last: int) -> GapInStream:
    """What to say of numbers that nobody holds any more."""
    return GapInStream(
        f"numbers {first} to {last} of broker '{origin}', epoch {epoch}, were forgotten or damaged before they "
        "were read; set option gaps=row to go on with a row for each such gap, or retain more to avoid them"
    )
