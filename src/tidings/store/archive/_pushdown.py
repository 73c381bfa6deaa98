"""From a filter to a predicate that Parquet's statistics can use.

The predicate is true wherever the filter is, and sometimes elsewhere: it decides what is read, the filter decides what
is found. A constraint on a promoted column becomes a comparison with the column; one on anything else becomes nothing.
Where a column could not hold every value, null may hide a list or a value of another kind, and passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_, or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidings.model import Constraint, Kind, Location, Scalar
from tidings.model.operators import Exists, IsNull, Prefix, Range, Within
from tidings.store._promoted import Promoted, PromotedKind
from tidings.store._query import BEGINNING, FOR_EVER, Query

from ._bloom import Sought, hash_of
from ._parquet import BLOOMED
from ._promoted import EXACT_INTEGERS, TIME, type_of

_KINDS = {
    PromotedKind.TEXT: Kind.TEXT,
    PromotedKind.INTEGER: Kind.NUMBER,
    PromotedKind.FLOAT: Kind.NUMBER,
    PromotedKind.BOOLEAN: Kind.BOOLEAN,
    PromotedKind.TIME: Kind.TIME,
    PromotedKind.PLACE: Kind.PLACE,
    PromotedKind.BYTES: Kind.BYTES,
}
_LARGEST = 0x10FFFF
_INTEGERS = range(-(2**63), 2**63)
EVERY = pc.scalar(True)
NONE = pc.scalar(False)


def predicate(query: Query, promoted: Mapping[str, Promoted], complete: frozenset[str]) -> pc.Expression | None:
    """A predicate that every row passes that the query asks for; None if nothing is known to help."""
    parts = [*_times(query)]
    content = _any([_all([_one(c, promoted, complete) for c in conj]) for conj in query.filter.conjunctions])
    if content is not EVERY:
        parts.append(content)
    return reduce(and_, parts) if parts else None


def sought(query: Query, promoted: Mapping[str, Promoted], complete: frozenset[str]) -> list[list[Sought]]:
    """What Bloom filters can tell: a row that is asked for has all of one of these lists. Empty: they tell nothing."""
    found = []
    for conjunction in query.filter.conjunctions:
        asked = [(constraint, promoted.get(constraint.name)) for constraint in conjunction]
        together = [
            Sought(column.name, _hashes(constraint.values, column), column.name not in complete)
            for constraint, column in asked
            if column is not None
            and column.kind in BLOOMED
            and constraint.values is not None
            and constraint.kind is _KINDS[column.kind]
        ]
        if not together:
            return []
        found.append(together)
    return found


def _hashes(values: tuple[Scalar, ...], column: Promoted) -> tuple[int, ...]:
    held = [one for value in values if (one := _as_held(value, column)) is not None]
    return tuple(hash_of(_as_stored(one)) for one in held)


def _as_stored(value: Any) -> bytes:
    """A value as Parquet stores it."""
    if type(value) is int:
        return value.to_bytes(8, "little", signed=True)
    return value if type(value) is bytes else str(value).encode()


def _times(query: Query) -> list[pc.Expression]:
    at = pc.field("published_at")
    since = [at >= pa.scalar(query.since, TIME)] if query.since != BEGINNING else []
    return since + ([at < pa.scalar(query.until, TIME)] if query.until != FOR_EVER else [])


def _any(parts: list[pc.Expression]) -> pc.Expression:
    if any(part is EVERY for part in parts):
        return EVERY
    return reduce(or_, parts, NONE) if len(parts) != 1 else parts[0]


def _all(parts: list[pc.Expression]) -> pc.Expression:
    useful = [part for part in parts if part is not EVERY]
    return reduce(and_, useful) if useful else EVERY


def _one(constraint: Constraint, promoted: Mapping[str, Promoted], complete: frozenset[str]) -> pc.Expression:
    column = promoted.get(constraint.name)
    if column is None:
        return EVERY
    field = pc.field(column.name)
    if isinstance(constraint, IsNull):
        return field.is_null()
    if constraint.name not in complete:
        held = _held(constraint, column, field)
        return EVERY if held is EVERY else held | field.is_null()
    held = _held(constraint, column, field)
    return field.is_valid() if held is EVERY else held


def _held(constraint: Constraint, column: Promoted, field: pc.Expression) -> pc.Expression:
    """For the scalars that the column holds: EVERY if all of them may pass."""
    kind = constraint.kind
    if isinstance(constraint, Exists) or kind is None:
        return EVERY
    if kind is not _KINDS[column.kind]:
        return NONE
    if (values := constraint.values) is not None:
        return _equal(values, column, field)
    if type(constraint) is Range:
        return _range(constraint, column, field)
    if type(constraint) is Prefix:
        return _prefix(constraint.text, field)
    if isinstance(constraint, Within) and isinstance(constraint.place, Location):
        return _within(str(constraint.place), field)
    return EVERY


def _equal(values: tuple[Scalar, ...], column: Promoted, field: pc.Expression) -> pc.Expression:
    held = [one for value in values if (one := _as_held(value, column)) is not None]
    return reduce(or_, [field == pa.scalar(one, type_of(column)) for one in held], NONE) if held else NONE


def _as_held(value: Any, column: Promoted) -> Any:
    """An operand as the column would hold it; None if the column can hold nothing equal."""
    match column.kind:
        case PromotedKind.INTEGER:
            return int(value) if value == math.floor(value) and int(value) in _INTEGERS else None
        case PromotedKind.FLOAT:
            try:
                return float(value) if float(value) == value else None
            except OverflowError:
                return None
        case PromotedKind.PLACE:
            return str(value)
        case _:
            return value


def _range(constraint: Range, column: Promoted, field: pc.Expression) -> pc.Expression:
    low, high = constraint.low, constraint.high
    if column.kind is PromotedKind.INTEGER:
        low, low_open = _whole(low, math.floor, open=constraint.low_open)
        high, high_open = _whole(high, math.ceil, open=constraint.high_open)
    else:
        low_open, high_open = constraint.low_open, constraint.high_open
        if column.kind is PromotedKind.FLOAT:
            low, high = _exact(low), _exact(high)
    parts = []
    if low is not None:
        bound = pa.scalar(low, type_of(column))
        parts.append(field > bound if low_open else field >= bound)
    if high is not None:
        bound = pa.scalar(high, type_of(column))
        parts.append(field < bound if high_open else field <= bound)
    return reduce(and_, parts) if parts else EVERY


def _whole(bound: Any, towards: Callable[[Any], int], *, open: bool) -> tuple[int | None, bool]:
    """A bound for integers: 2.5 from below is just above 2. Beyond all integers there is none to compare with."""
    if bound is None or towards(bound) not in _INTEGERS:
        return None, open
    whole = towards(bound)
    return whole, open or whole != bound


def _exact(bound: Any) -> float | None:
    """A bound for floats, if a float can be it."""
    if type(bound) is int and not -EXACT_INTEGERS <= bound <= EXACT_INTEGERS:
        return None
    return None if bound is None else float(bound)


def _prefix(text: str, field: pc.Expression) -> pc.Expression:
    if not text:
        return EVERY
    parts = field >= pa.scalar(text)
    stem = text.rstrip(chr(_LARGEST))
    if stem:
        last = ord(stem[-1]) + 1
        parts &= field < pa.scalar(stem[:-1] + chr(0xE000 if last == 0xD800 else last))  # there are no texts between
    return parts


def _within(path: str, field: pc.Expression) -> pc.Expression:
    if path == "/":
        return EVERY
    return (field == pa.scalar(path)) | ((field >= pa.scalar(path + "/")) & (field < pa.scalar(path + "0")))
