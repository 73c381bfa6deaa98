"""Reading pieces of an archive in a worker: what is asked for, as Arrow, and no more of a file than needed.

A piece names numbers of a log, and the file that held them when the work was planned. If that file has been merged with
others meanwhile, its numbers are read from the one that has taken its place; if they have been removed, that is an
error, because the answer would not be what it was when it was planned.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import reduce
from operator import and_
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from tidings.model import EVERYTHING, Constraint, Filter, Location
from tidings.model.operators import Equal, Exists, IsNull, Member, Prefix, Range, Within
from tidings.store import Promoted, StoreError
from tidings.store.archive import EXACT_INTEGERS, Query, notifications_in, predicate, promoted_in

from ._errors import ArchiveChanged, SourceError
from ._shape import TableShape
from ._snapshot import Piece, damaged, pieces

_DISK = LocalFileSystem()
_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)
_UNREADABLE = (pa.ArrowException, OSError, StoreError, ValueError, KeyError)


def query_of(filter: Filter, since: int | None, until: int | None) -> Query:
    """What is asked of a file."""
    plain = Query(filter=filter)
    return Query(
        filter=filter,
        since=plain.since if since is None else since,
        until=plain.until if until is None else until,
    )


def read(
    root: Path, piece: Piece, shape: TableShape, query: Query, pushed: pc.Expression | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a piece that pass the query, and what Spark has pushed down."""
    left = [piece]
    while left:
        piece = left.pop(0)
        try:
            source = _DISK.open_input_file(piece.path)
        except FileNotFoundError:
            left = _instead(root, piece) + left
            continue
        with contextlib.closing(source):
            try:
                for table in _tables(source, piece, shape, query, pushed):
                    yield from shape.batches(table)
            except SourceError:
                raise
            except _UNREADABLE as error:
                raise damaged(piece.path, error) from None


def _instead(root: Path, lost: Piece) -> list[Piece]:
    """Where the numbers are that were in a file that is gone."""
    found = []
    for one in pieces(root):
        start, end = max(one.start, lost.start), min(one.end, lost.end)
        if (one.origin, one.epoch) == (lost.origin, lost.epoch) and start <= end:
            found.append(one._replace(start=start, end=end, whole=False))
    if not found or found[0].path == lost.path:
        raise ArchiveChanged(
            f"'{lost.path}' was removed after the query had been planned; "
            "run it again, or ask for a time that is still kept"
        )
    return found


def _tables(
    source: pa.NativeFile, piece: Piece, shape: TableShape, query: Query, pushed: pc.Expression | None
) -> Iterator[pa.Table]:
    fragment = _FORMAT.make_fragment(source)
    schema = fragment.physical_schema
    present, complete = promoted_in(fragment.metadata.metadata or {})
    promoted = {one.name: one for one in present}
    held = {name for name in schema.names if name not in promoted or shape.promoted.get(name) == promoted[name]}
    exact = is_exact(query.filter, promoted, complete)
    parts = [] if (one := predicate(query, promoted, complete)) is None else [one]
    asked = {constraint.name for conjunction in query.filter.conjunctions for constraint in conjunction}
    asked = (asked & promoted.keys()) | ({"published_at"} if query.has_times else set())
    if not piece.whole:
        parts.append((pc.field("seq") >= piece.start) & (pc.field("seq") <= piece.end))
        asked.add("seq")
    names_pushed = _names(pushed, shape)
    if pushed is not None and names_pushed <= held:
        parts.append(pushed)
        asked |= names_pushed
        pushed = None
    wanted = reduce(and_, parts) if parts else None
    asked = asked or {"seq"}
    needed = shape.needs(present) | {"seq"} | (set() if exact else {"attributes"}) | names_pushed & held
    for group in fragment.split_by_row_group(wanted, schema=schema):
        table = _rows(group, wanted, sorted(asked), sorted(needed), schema)
        if len(table) and not exact:
            table = table.filter(_matching(table, query.filter))
        if len(table) and pushed is not None:
            table = _pushed_late(table, shape, pushed)
        if len(table):
            yield table.sort_by("seq")


def _rows(
    group: ds.ParquetFileFragment, wanted: pc.Expression | None, asked: list[str], needed: list[str], schema: pa.Schema
) -> pa.Table:
    """What passes the predicate: the columns that it asks about are read first, the others only if something passes."""
    if wanted is None:
        return group.to_table(schema=schema, columns=needed, use_threads=False)
    seen = group.to_table(schema=schema, columns=asked, use_threads=False)
    passed = seen.append_column("", pa.arange(0, len(seen))).filter(wanted).column("")
    if not len(passed):
        return seen.slice(0, 0)
    rest = [name for name in needed if name not in asked]
    table = group.to_table(schema=schema, columns=rest, use_threads=False) if rest else seen.select([])
    for name in asked:
        if name in needed:
            table = table.append_column(schema.field(name), seen.column(name))
    return table if len(passed) == len(seen) else table.take(passed)


def _matching(table: pa.Table, filter: Filter) -> pa.Array:
    notifications = (one for chunk in table.column("attributes").chunks for one in notifications_in(chunk))
    return pa.array([filter.matches(one) for one in notifications], pa.bool_())


def _pushed_late(table: pa.Table, shape: TableShape, pushed: pc.Expression) -> pa.Table:
    """A condition on columns that the file does not have: it is asked when they have been made."""
    made = pa.Table.from_batches(list(shape.batches(table)), shape.schema)
    made = made.append_column("", pa.arange(0, len(made)))
    return table.take(made.filter(pushed).column(""))


def _names(pushed: pc.Expression | None, shape: TableShape) -> set[str]:
    """The columns that a condition asks about."""
    if pushed is None:
        return set()
    text = str(pushed)
    return {name for name in shape.names if name in text}  # too many do no harm


def is_exact(filter: Filter, promoted: dict[str, Promoted], complete: frozenset[str]) -> bool:
    """Whether the predicate says it all, so that no notification has to be looked at."""
    return filter == EVERYTHING or all(
        one.name in complete and one.name in promoted and _is_simple(one)
        for conjunction in filter.conjunctions
        for one in conjunction
    )


def _is_simple(constraint: Constraint) -> bool:
    match constraint:
        case Equal() | Member() | Exists() | IsNull():
            return True
        case Range():
            bounds = [bound for bound in (constraint.low, constraint.high) if isinstance(bound, (int, float))]
            return all(-EXACT_INTEGERS <= bound <= EXACT_INTEGERS for bound in bounds)
        case Within(place=Location()):
            return True
    return type(constraint) is Prefix
