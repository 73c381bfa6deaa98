"""Promoted attributes: those that get a typed column of their own, by which readers pass over what they do not want.

A column has one type for ever, so it cannot hold whatever an attribute may be: it holds the scalars of its kind. Any
other value is null there, and stands in the column of all attributes as always.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidings.model import Location, Value
from tidings.store._promoted import Promoted, PromotedKind

EXACT_INTEGERS = 2**53
"""Up to here a float column holds integers exactly; a larger one is null there."""
VALUE_FIELDS = {
    PromotedKind.TEXT: "as_text",
    PromotedKind.INTEGER: "as_int",
    PromotedKind.FLOAT: "as_float",
    PromotedKind.BOOLEAN: "as_bool",
    PromotedKind.TIME: "as_time",
    PromotedKind.PLACE: "as_place",
    PromotedKind.BYTES: "as_bytes",
}
"""Where the column of all attributes has the values that a promoted column of this kind holds."""
TIME = pa.timestamp("us", tz="UTC")
_TYPES: dict[PromotedKind, tuple[pa.DataType, type]] = {
    PromotedKind.TEXT: (pa.string(), str),
    PromotedKind.INTEGER: (pa.int64(), int),
    PromotedKind.FLOAT: (pa.float64(), float),
    PromotedKind.BOOLEAN: (pa.bool_(), bool),
    PromotedKind.TIME: (TIME, datetime),
    PromotedKind.PLACE: (pa.string(), Location),
    PromotedKind.BYTES: (pa.binary(), bytes),
}


def type_of(promoted: Promoted) -> pa.DataType:
    """The type of a promoted column."""
    return _TYPES[promoted.kind][0]


def column_of(promoted: Promoted, values: Sequence[Value | None]) -> tuple[pa.Array, bool]:
    """The column for these values, and whether every value that is there could be held."""
    wanted, kind = _TYPES[promoted.kind]
    if promoted.kind is not PromotedKind.PLACE and set(map(type, values)) == {kind}:
        return pa.array(values, wanted), True
    fitting: list[Any] = [value if type(value) is kind else None for value in values]
    if promoted.kind is PromotedKind.FLOAT:
        fitting = [_as_float(value) for value in values]
    elif promoted.kind is PromotedKind.PLACE:
        fitting = [None if value is None else str(value) for value in fitting]
    return pa.array(fitting, wanted), fitting.count(None) == values.count(None)


def promoted_of(attributes: pa.ListArray, promoted: Promoted) -> tuple[pa.Array, bool]:
    """The same of the column of all attributes, without decoding it."""
    entries, rows = attributes.flatten(), pc.list_parent_indices(attributes)
    named = pc.equal(entries.field("name"), promoted.name)
    values = entries.field(VALUE_FIELDS[promoted.kind])
    if promoted.kind is PromotedKind.FLOAT:
        whole = entries.field("as_int")
        exact = pc.and_(pc.greater_equal(whole, -EXACT_INTEGERS), pc.less_equal(whole, EXACT_INTEGERS))
        values = pc.coalesce(values, pc.if_else(exact, whole, None).cast(pa.float64(), safe=False))
    held = pc.and_(pc.and_(named, entries.field("index").is_null()), values.is_valid())
    places = pc.inverse_permutation(rows.filter(held), max_index=len(attributes) - 1)
    there = pc.run_end_encode(rows.filter(named)).values  # each row once, as they ascend
    return values.filter(held).cast(type_of(promoted)).take(places), (pc.sum(held).as_py() or 0) == len(there)


def _as_float(value: Any) -> float | None:
    if type(value) is int and -EXACT_INTEGERS <= value <= EXACT_INTEGERS:
        return float(value)
    return value if type(value) is float else None
