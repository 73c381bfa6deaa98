"""Values: what an attribute may hold, and when two of them compare.

A value is a scalar or a list of scalars (kept as a tuple). Scalars fall into six kinds; only values
of one kind compare, so `True` is never `1` and `'7'` is never `7`. Numbers compare by value across
int and float, exactly, however large. The limits make every value fit every engine that has to hold
it: msgpack, Parquet, Spark.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

from ._errors import ValueRefused
from ._location import Location
from ._text import encodable

Scalar: TypeAlias = bool | int | float | str | bytes | datetime | Location
Value: TypeAlias = Scalar | tuple[Scalar, ...]

MAX_TEXT = 1_048_576
"""The most characters of a string and bytes of a bytes value: as many as a whole notification may have bytes."""
MAX_LIST = 1_024
"""The most elements of a list."""
INT_RANGE = range(-(2**63), 2**63)
"""The integers that every engine can hold."""


class Kind(enum.Enum):
    """What sort of scalar it is. Values of different kinds never compare."""

    BOOLEAN = "boolean"
    NUMBER = "number"
    TEXT = "text"
    BYTES = "bytes"
    TIME = "time"
    PLACE = "place"

    __hash__ = object.__hash__  # members are singletons; Enum's own __hash__ runs Python code


ORDERED = frozenset({Kind.NUMBER, Kind.TEXT, Kind.BYTES, Kind.TIME})
"""The kinds that `<` and its relatives are defined for."""

_KINDS: dict[type, Kind] = {
    bool: Kind.BOOLEAN,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    str: Kind.TEXT,
    bytes: Kind.BYTES,
    datetime: Kind.TIME,
    Location: Kind.PLACE,
}


_PLAIN: dict[type, Callable[[Any], Scalar]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,  # str() would ask an enum for its name
    bytes: bytes,
}
"""How an instance of a subclass becomes a plain one."""


def kind_of(scalar: Scalar) -> Kind:
    """The kind of a scalar that has been checked."""
    return _KINDS[type(scalar)]


def checked_scalar(value: object, place: str) -> Scalar:
    """The scalar as Tidings keeps it, or `ValueRefused`, which names the `place`."""
    kind = type(value)
    if kind is str or kind is bytes:
        if len(value) > MAX_TEXT:  # type: ignore[arg-type]
            raise ValueRefused(f"{place}: {len(value):,} long, at most {MAX_TEXT:,} are allowed")  # type: ignore[arg-type]
        if kind is str and not encodable(value):  # type: ignore[arg-type]
            raise ValueRefused(f"{place}: {value!r:.60} is not Unicode text (a lone surrogate); send it as bytes")
        return value  # type: ignore[return-value]
    if kind is bool or kind is Location:
        return value  # type: ignore[return-value]
    if kind is int:
        if value not in INT_RANGE:
            bits = value.bit_length()  # type: ignore[attr-defined]
            raise ValueRefused(f"{place}: a number of {bits} bits does not fit into 64; use a float or a string")
        return value  # type: ignore[return-value]
    if kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise ValueRefused(f"{place}: {value} cannot be compared; leave the attribute out")
        return value  # type: ignore[return-value]
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueRefused(f"{place}: {value!r} has no time zone; use datetime.now(UTC) or .astimezone()")
        return _in_utc(value, place)
    for base, plain in _PLAIN.items():
        if isinstance(value, base):  # a subclass: an IntEnum, a numpy scalar
            return checked_scalar(plain(value), place)
    if value is None:
        raise ValueRefused(f"{place}: None is not a value; leave the attribute out")
    raise ValueRefused(
        f"{place}: {kind.__name__} is not a value; use bool, int, float, str, bytes, datetime, Location "
        "or a list of these"
    )


def _in_utc(moment: datetime, place: str) -> datetime:
    try:
        utc = moment.astimezone(UTC)
    except OverflowError:
        raise ValueRefused(
            f"{place}: {moment!r} is outside the years 1 to 9999 in UTC; use a time within them"
        ) from None
    if type(utc) is datetime:
        return utc
    return datetime.combine(utc.date(), utc.time(), UTC)  # a subclass, like pandas.Timestamp


def checked_value(value: object, place: str) -> Value:
    """As `checked_scalar`, but a list of scalars passes too."""
    if not isinstance(value, (list, tuple)):
        return checked_scalar(value, place)
    if len(value) > MAX_LIST:
        raise ValueRefused(f"{place}: a list of {len(value):,} elements, at most {MAX_LIST:,} are allowed")
    return tuple([checked_scalar(item, f"{place}[{at}]") for at, item in enumerate(value)])


def literal(value: Scalar) -> str:
    """The value as the filter language writes it."""
    if type(value) is str:  # these are most
        return "'" + value.replace("'", "''") + "'"
    if type(value) is int or type(value) is float:
        return repr(value)
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"X'{value.hex().upper()}'"
        case datetime():
            return f"TIMESTAMP '{value.isoformat().replace('+00:00', 'Z')}'"
        case Location():
            return f"LOCATION {literal(str(value))}"
        case _:
            return repr(value)
