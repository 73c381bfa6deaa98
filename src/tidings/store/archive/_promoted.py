"""Promoted attributes: those that get a typed column of their own, by which readers pass over what they do not want.

A column has one type for ever, so it cannot hold whatever an attribute may be: it holds the scalars of its kind. Any
other value is null there, and stands in the column of all attributes as always.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, Self

import pyarrow as pa

from tidings.model import Location, Value
from tidings.store._errors import StoreError

EXACT_INTEGERS = 2**53
"""Up to here a float column holds integers exactly; a larger one is null there."""


class PromotedKind(enum.Enum):
    """The type of a promoted column."""

    TEXT = "text"
    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    TIME = "time"
    PLACE = "place"
    BYTES = "bytes"


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


class Promoted(NamedTuple):
    """An attribute with a column of its own, which has its name."""

    name: str
    kind: PromotedKind = PromotedKind.TEXT

    @classmethod
    def parse(cls, text: str, reserved: frozenset[str] = frozenset()) -> Self:
        """From `name` (a text) or `name:kind`.

        >>> Promoted.parse("price:float")
        Promoted(name='price', kind=<PromotedKind.FLOAT: 'float'>)
        """
        found = re.fullmatch(r"(.+?)(?::(\w+))?", text, re.DOTALL)
        kinds = [kind.value for kind in PromotedKind]
        if found is None or (found[2] is not None and found[2] not in kinds):
            raise StoreError(f"{text!r} cannot be promoted; write name or name:kind, with one of {', '.join(kinds)}")
        if found[1] in reserved:
            raise StoreError(f"'{found[1]}' cannot be promoted: every archive has a column of that name")
        return cls(found[1], PromotedKind(found[2] or "text"))

    @property
    def type(self) -> pa.DataType:
        """The type of the column."""
        return _TYPES[self.kind][0]

    def column(self, values: Sequence[Value | None]) -> tuple[pa.Array, bool]:
        """The column for these values, and whether every value that is there could be held."""
        kind = _TYPES[self.kind][1]
        if self.kind is not PromotedKind.PLACE and set(map(type, values)) == {kind}:
            return pa.array(values, self.type), True
        fitting: list[Any] = [value if type(value) is kind else None for value in values]
        if self.kind is PromotedKind.FLOAT:
            fitting = [_as_float(value) for value in values]
        elif self.kind is PromotedKind.PLACE:
            fitting = [None if value is None else str(value) for value in fitting]
        exact = fitting.count(None) == values.count(None)
        return pa.array(fitting, self.type), exact


def _as_float(value: Any) -> float | None:
    if type(value) is int and -EXACT_INTEGERS <= value <= EXACT_INTEGERS:
        return float(value)
    return value if type(value) is float else None
