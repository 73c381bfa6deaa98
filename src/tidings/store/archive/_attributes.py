"""All attributes of many notifications as one column, and back, exactly.

Each row is a list with one entry for each attribute, or for each element of an attribute that is a list.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from typing import Any, NamedTuple, Self, TypeAlias

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


def attributes_of(notifications: Iterable[Notification]) -> pa.Array:
    """The column `attributes` for any notifications."""
    return _one_by_one([one.attributes for one in notifications])


def _alike(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> pa.Array:
    width, count = len(names), len(columns[0])
    kinds = [set(map(type, column)) for column in columns]
    values: dict[int, Iterable[Value]] = {}
    if any(len(some) > 1 for some in kinds):
        flat = list(chain.from_iterable(zip(*columns, strict=True)))
        codes = bytes(map(_CODES.__getitem__, map(type, flat)))
        frame = _Frame.of(pa.array(names, pa.string()).take(_places(width, count)), codes)
        return frame.filled(_by_kind(flat, codes), None, range(0, width * count + 1, width))
    codes = bytes(_CODES[kind] for some in kinds for kind in some)
    for code in set(codes):
        chosen = [columns[at] for at in range(width) if codes[at] == code]
        values[code] = chain.from_iterable(zip(*chosen, strict=True))
    return _frame(tuple(names), codes, count).filled(values, None, range(0, width * count + 1, width))


@functools.lru_cache(maxsize=32)
def _frame(names: tuple[str, ...], codes: bytes, count: int) -> _Frame:
    """The frame of so many rows that look alike: the next rows will most probably need the same one."""
    return _Frame.of(pa.array(names, pa.string()).take(_places(len(names), count)), codes * count)


def _places(width: int, count: int) -> pa.Array:
    return pa.array(list(range(width)) * count, pa.int32())


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
    return _Frame.of(pa.array(names, pa.string()), codes).filled(values, pa.array(indices, pa.int16()), offsets)


def _by_kind(flat: list[Any], codes: bytes) -> dict[int, Iterable[Value]]:
    return {code: [value for value in flat if type(value) is _FIELDS[code][0]] for code in set(codes) - {_NOTHING}}


class _Frame(NamedTuple):
    """Where the entries of some rows are: their names, and which of them have a value of which kind."""

    names: pa.Array
    masks: dict[int, pa.Array]

    @classmethod
    def of(cls, names: pa.Array, codes: bytes) -> Self:
        """From the kinds of all entries, one byte each."""
        kinds = pa.Array.from_buffers(pa.uint8(), len(codes), [None, pa.py_buffer(codes)])
        return cls(names, {code: pc.equal(kinds, code) for code in set(codes) - {_NOTHING}})

    def filled(self, values: dict[int, Iterable[Value]], indices: pa.Array | None, offsets: Iterable[int]) -> pa.Array:
        """One list per row: values are given by kind, in order."""
        count = len(self.names)
        children = [self.names, pa.nulls(count, pa.int16()) if indices is None else indices]
        for code, (kind, field) in enumerate(_FIELDS):
            wanted = ATTRIBUTE.field(field).type
            if code in values:
                given = list(map(str, values[code])) if kind is Location else list(values[code])
                children.append(_spread(pa.array(given, wanted), self.masks[code]))
            else:
                children.append(pa.nulls(count, wanted))
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
    names, values = entries.field("name").to_pylist(), _values(entries)
    indices = entries.field("index")
    places = None if indices.null_count == len(indices) else indices.to_pylist()
    at = 0
    for length in pc.list_value_length(column).to_pylist():
        end = at + length
        if places is None:
            yield Notification.trusted(dict(zip(names[at:end], values[at:end], strict=True)))
        else:
            yield Notification.trusted(_with_lists(names[at:end], values[at:end], places[at:end]))
        at = end


def _with_lists(names: list[str], values: list[Any], places: list[int | None]) -> Attributes:
    attributes: dict[str, Any] = {}
    for name, value, place in zip(names, values, places, strict=True):
        if place is None:
            attributes[name] = value
        else:
            attributes.setdefault(name, [])
            if place >= 0:
                attributes[name].append(value)
    return {name: tuple(value) if type(value) is list else value for name, value in attributes.items()}


def _values(entries: pa.StructArray) -> list[Any]:
    """The value of each entry, whichever field it is in; None for an empty list."""
    codes = pa.repeat(pa.scalar(0, pa.uint8()), len(entries))
    sources: list[Iterator[Any]] = [repeat(None)]
    for _, name in _FIELDS:
        field = entries.field(name)
        if field.null_count == len(field):
            continue
        codes = pc.if_else(field.is_valid(), pa.scalar(len(sources), pa.uint8()), codes)
        make = _MAKERS.get(name)
        found = field.drop_null().to_pylist()
        sources.append(iter(found if make is None else map(make, found)))
    return [next(sources[code]) for code in codes.to_pylist()]


def microseconds(instant: datetime) -> int:
    """Microseconds since 1970."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


_MAKERS: dict[str, Any] = {"as_place": Location, "as_time": lambda found: found.astimezone(UTC)}
