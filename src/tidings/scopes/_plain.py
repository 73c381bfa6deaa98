"""Values in plain words: as JSON, and whatever knows no more kinds than JSON, can hold them, and back, exactly.

The kinds that JSON lacks are objects with one key: `{"time": "2026-01-01T00:00:00+00:00"}`, `{"bytes": "00ff"}`,
`{"place": "/berlin"}`.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Any

from tidings.model import Kind, Location, Scalar, kind_of

_NUMBER = re.compile(r"[+-]?([0-9]+|([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]+)?)", re.ASCII)
_MAX_DIGITS = 400
_LACKING = {Kind.BYTES.value, Kind.TIME.value, Kind.PLACE.value}


def plain(value: Any) -> Any:
    """A value that has been checked, as JSON can hold it."""
    if type(value) is tuple:
        return [plain(item) for item in value]
    kind = kind_of(value).value
    return {kind: written(value)} if kind in _LACKING else value


def rich(value: Any) -> Any:
    """What `plain` stands for; what it never makes is left as it is, or as nested attributes."""
    if isinstance(value, list):
        return [rich(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((kind, text),) = value.items()
        if kind in _LACKING and isinstance(text, str):
            return read(kind, text)
    return {name: rich(item) for name, item in value.items() if item is not None}


def written(scalar: Scalar) -> str:
    """A scalar as a text."""
    match scalar:
        case bool():
            return "true" if scalar else "false"
        case bytes():
            return scalar.hex()
        case datetime():
            return scalar.isoformat()
        case _:
            return str(scalar)


def read(kind: str, text: str) -> Scalar:
    """The scalar of a kind that a text stands for, or `ValueError`."""
    match Kind(kind):
        case Kind.BOOLEAN if text in ("true", "false"):
            return text == "true"
        case Kind.NUMBER if (number := number_in(text)) is not None:
            return number
        case Kind.TEXT:
            return text
        case Kind.BYTES:
            return bytes.fromhex(text)
        case Kind.TIME:
            return datetime.fromisoformat(text)
        case Kind.PLACE:
            return Location(text)
    raise ValueError(f"{text!r:.60} is not a {kind}")


def number_in(text: str) -> int | float | None:
    """The number that a text stands for, as Python and SQL write it; None if it is none, or too large."""
    if len(text) > _MAX_DIGITS or not _NUMBER.fullmatch(text):
        return None
    if text.lstrip("+-").isdecimal():
        whole = int(text)
        return whole if -(2**63) <= whole < 2**63 else None
    number = float(text)
    return number if math.isfinite(number) else None
