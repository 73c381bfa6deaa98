"""What Spark pushes down: conditions on columns, as predicates for files and as filters for brokers.

Spark hands over simple comparisons of a column with a constant, joined by AND. A file is asked with the comparison
itself. A broker is asked with a filter that passes at least the same: it tells lists and values of other kinds from
missing ones, which a column does not; so its answer is looked at once more.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidings.model import EVERYTHING, Conjunction, Constraint, Filter, Location, TidingsError
from tidings.model.operators import Equal, Exists, Member, Range, like
from tidings.store import Promoted, PromotedKind

from ._shape import TableShape

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter as SparkFilter

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Pushed(NamedTuple):
    """What all accepted conditions together ask for."""

    predicate: Any = None
    """On the columns that Spark gets: a `pc.Expression`, or None."""
    filter: Filter = EVERYTHING
    """Passes at least what passes the predicate."""
    since: int | None = None
    until: int | None = None


def pushed(conditions: Iterable[SparkFilter], shape: TableShape) -> tuple[Pushed, list[SparkFilter]]:
    """What can be pushed down, and the conditions that Spark has to test itself."""
    predicates, constraints, left = [], [], []
    since, until = None, None
    for condition in conditions:
        predicate = _predicate(condition, shape)
        if predicate is None:
            left.append(condition)
            continue
        predicates.append(predicate)
        constraints += _constraints(condition, shape)
        low, high = _times(condition)
        since = low if since is None else max(since, low if low is not None else since)
        until = high if until is None else min(until, high if high is not None else until)
    if not predicates:
        return Pushed(), left
    return Pushed(reduce(and_, predicates), Filter([Conjunction(constraints)]), since, until), left


def _predicate(condition: SparkFilter, shape: TableShape) -> pc.Expression | None:
    from pyspark.sql import datasource as s  # noqa: PLC0415 - an extra, and slow to load

    if isinstance(condition, s.Not):
        inner = _predicate(condition.child, shape)
        return None if inner is None else ~inner
    name = _column(condition)
    if name is None or name not in shape.names or name == "attributes":
        return None
    field, kind = pc.field(name), shape.schema.field(name).type
    match condition:
        case s.IsNull():
            return field.is_null()
        case s.IsNotNull():
            return field.is_valid()
        case s.In():
            values = [_scalar(value, kind) for value in condition.value if value is not None]
            return None if None in values or not values else field.isin([value.as_py() for value in values if value])
    value = _scalar(condition.value, kind)  # type: ignore[attr-defined]
    if value is None:
        return None
    match condition:
        case s.EqualTo():
            return field == value
        case s.GreaterThan():
            return field > value
        case s.GreaterThanOrEqual():
            return field >= value
        case s.LessThan():
            return field < value
        case s.LessThanOrEqual():
            return field <= value
        case s.StringStartsWith():
            return pc.starts_with(field, pattern=condition.value)
        case s.StringEndsWith():
            return pc.ends_with(field, pattern=condition.value)
        case s.StringContains():
            return pc.match_substring(field, pattern=condition.value)
    return None


def _column(condition: SparkFilter) -> str | None:
    path: tuple[str, ...] = getattr(condition, "attribute", ())
    return path[0] if len(path) == 1 else None


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    if value is None:
        return None
    if isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    try:
        return pa.scalar(value, kind)
    except (pa.ArrowException, TypeError, ValueError):
        return None


def _times(condition: SparkFilter) -> tuple[int | None, int | None]:
    """The range of `published_at` that a condition leaves, in microseconds."""
    from pyspark.sql import datasource as s  # noqa: PLC0415

    value = getattr(condition, "value", None)
    if _column(condition) != "published_at" or not isinstance(value, date):
        return None, None
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    at = (moment - _EPOCH) // timedelta(microseconds=1)
    match condition:
        case s.EqualTo():
            return at, at + 1
        case s.GreaterThan() | s.GreaterThanOrEqual():
            return at, None
        case s.LessThan():
            return None, at
        case s.LessThanOrEqual():
            return None, at + 1
    return None, None


def _constraints(condition: SparkFilter, shape: TableShape) -> list[Constraint]:
    """What a broker can be asked; nothing if that would be more than it is worth."""
    from pyspark.sql import datasource as s  # noqa: PLC0415

    promoted = shape.promoted.get(_column(condition) or "")
    if promoted is None:
        return []
    name = promoted.name
    try:
        match condition:
            case s.IsNotNull():
                return [Exists(name)]
            case s.EqualTo():
                return [Equal(name, _value(condition.value, promoted))]
            case s.In():
                values = tuple(_value(value, promoted) for value in condition.value if value is not None)
                return [Member(name, values)]
            case s.GreaterThan() | s.GreaterThanOrEqual():
                low = _value(condition.value, promoted)
                return [Range(name, low, low_open=isinstance(condition, s.GreaterThan))]
            case s.LessThan() | s.LessThanOrEqual():
                high = _value(condition.value, promoted)
                return [Range(name, high=high, high_open=isinstance(condition, s.LessThan))]
            case s.StringStartsWith() if promoted.kind is PromotedKind.TEXT:
                escaped = "".join(f"!{one}" if one in "!%_" else one for one in condition.value)
                return [like(name, f"{escaped}%", "!")]
    except TidingsError:
        return []  # a value that no notification can have, or no order among places: the predicate deals with it
    return []


def _value(value: Any, promoted: Promoted) -> Any:
    if promoted.kind is PromotedKind.PLACE:
        return Location(value)
    if promoted.kind is PromotedKind.TIME and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return bytes(value) if promoted.kind is PromotedKind.BYTES else value
