"""All attributes of many notifications as one column, and back, exactly.

Each row is a list with one entry for each attribute, or for each element of an attribute that is a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidings.model import Location, Notification, Value

from ._blocks import Block, Mixed
from ._schema import ATTRIBUTE, REST

Attributes: TypeAlias = dict[str, Value]

_FIELDS: list[tuple[type[Any], str]] = [
    (bool, "as_bool"),
    (int, "as_int"),
    (float, "as_float"),
    (str, "as_text"),
    (bytes, "as_bytes"),
    (datetime, "as_time"),
    (Location, "as_place"),
]
_CODES = {kind: code for code, (kind, _) in enumerate(_FIELDS)}
_NOTHING = len(_FIELDS)
"""The code of an empty list, which has no value at all."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def column_of(block: Block | Mixed) -> pa.Array:
    """The column `attributes` for a block of notifications."""
    return _alike(block.names, block.columns) if isinstance(block, Block) else _one_by_one(block.rows)


def _alike(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> pa.Array:
    width, count = len(names), len(columns[0])
    kinds = [set(map(type, column)) for column in columns]
    values: dict[int, Iterable[Value]] = {}
    if all(len(some) == 1 for some in kinds):
        codes = bytes(_CODES[kind] for some in kinds for kind in some)
        for code in set(codes):
            chosen = [columns[at] for at in range(width) if codes[at] == code]
            values[code] = chain.from_iterable(zip(*chosen, strict=True))
        codes *= count
    else:
        flat = list(chain.from_iterable(zip(*columns, strict=True)))
        codes = bytes(map(_CODES.__getitem__, map(type, flat)))
        values = _by_kind(flat, codes)
    places = pa.array(list(range(width)) * count, pa.int32())
    offsets = range(0, width * count + 1, width)
    return _assembled(pa.array(names, pa.string()).take(places), codes, values, None, offsets)


def _one_by_one(rows: Sequence[Attributes]) -> pa.Array:
    names: list[str] = []
    indices: list[int | None] = []
    flat: list[Any] = []
    offsets = [0]
    for row in rows:
        for name, value in row.items():
            items = value if type(value) is tuple else (value,)
            names.extend([name] * (len(items) or 1))
            flat.extend(items or (None,))
            indices.extend(range(len(items)) if items and type(value) is tuple else [None if items else -1])
        offsets.append(len(names))
    codes = bytes(_CODES.get(type(value), _NOTHING) for value in flat)
    values = _by_kind(flat, codes)
    return _assembled(pa.array(names, pa.string()), codes, values, pa.array(indices, pa.int16()), offsets)


def _by_kind(flat: list[Any], codes: bytes) -> dict[int, Iterable[Value]]:
    return {code: [value for value in flat if type(value) is _FIELDS[code][0]] for code in set(codes) - {_NOTHING}}


def _assembled(
    names: pa.Array, codes: bytes, values: dict[int, Iterable[Value]], indices: pa.Array | None, offsets: Iterable[int]
) -> pa.Array:
    """One list per row out of flat parts: values are given by kind, codes tell where each belongs."""
    count = len(codes)
    kinds = pa.Array.from_buffers(pa.uint8(), count, [None, pa.py_buffer(codes)])
    children = [names, pa.nulls(count, pa.int16()) if indices is None else indices]
    for code, (kind, field) in enumerate(_FIELDS):
        wanted = ATTRIBUTE.field(field).type
        if code not in values:
            children.append(pa.nulls(count, wanted))
            continue
        given = list(map(str, values[code])) if kind is Location else list(values[code])
        children.append(_spread(pa.array(given, wanted), pc.equal(kinds, code)))
    entries = pa.StructArray.from_arrays(children, fields=list(ATTRIBUTE))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), entries, type=REST[0].type)


def _spread(values: pa.Array, mask: pa.Array) -> pa.Array:
    """The values where the mask is set, null elsewhere."""
    if len(values) == len(mask):
        return values
    return pc.replace_with_mask(pa.nulls(len(mask), values.type), mask, values)


def notifications_in(column: pa.Array) -> Iterator[Notification]:
    """The notifications whose attributes a column holds."""
    entries = column.flatten()
    parts: list[list[Any]] = [entries.field(name).to_pylist() for name in ("name", "index", *_value_fields(entries))]
    makers = [_MAKERS.get(name) for name in _value_fields(entries)]
    at = 0
    for length in pc.list_value_length(column).to_pylist():
        attributes: dict[str, Any] = {}
        for entry in range(at, at + length):
            name, index = parts[0][entry], parts[1][entry]
            value = None
            for values, make in zip(parts[2:], makers, strict=True):
                if (value := values[entry]) is not None:
                    value = value if make is None else make(value)
                    break
            if index is None:
                attributes[name] = value
            else:
                attributes[name] = (*attributes.get(name, ()), value) if index >= 0 else ()
        at += length
        yield Notification.trusted(attributes)


def _value_fields(entries: pa.StructArray) -> list[str]:
    """The fields that hold anything."""
    return [name for _, name in _FIELDS if entries.field(name).null_count < len(entries)]


def microseconds(instant: datetime) -> int:
    """Microseconds since 1970."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


_MAKERS: dict[str, Any] = {"as_place": Location, "as_time": lambda found: found.astimezone(UTC)}
