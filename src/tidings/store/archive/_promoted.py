"""Promoted attributes: those that get a typed column of their own, by which readers pass over what they do not want.

A column has one type for ever, so it cannot hold whatever an attribute may be: it holds the scalars of its kind. Any
other value is null there, and stands in the column of all attributes as always.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from tidings.model import Location, Value
from tidings.store._promoted import Promoted, PromotedKind

EXACT_INTEGERS = 2**53
"""Up to here a float column holds integers exactly; a larger one is null there."""


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


def _as_float(value: Any) -> float | None:
    if type(value) is int and -EXACT_INTEGERS <= value <= EXACT_INTEGERS:
        return float(value)
    return value if type(value) is float else None
