"""Summaries: what a batch may hold, so that a query need not open it to know that it holds nothing of interest.

A batch is compressed, so an index of single publications would point into something that has to be opened as a whole.
Instead each batch, and each segment of many batches, carries a summary: the times that it spans, and for each promoted
attribute the set of its values, as 32-bit hashes. A value that is not in the set is not in the batch; one that is in
the set most probably is. A summary may therefore let a query open too much, never too little.

An attribute that the summary does not name was not promoted then, or had too many values: anything may be there.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypeAlias

import msgspec

from tidings.model import Constraint, Filter, Location, Scalar, Value
from tidings.model.operators import IsNull
from tidings.wire import Envelope, Run, attribute_decoder_of_many

PROMOTED = ("type",)
"""The attributes that are summarised unless the configuration names others."""
SEGMENT_TERMS = 8_192
"""The most values of one attribute in the summary of a segment; an attribute with more is left out of it."""

Sets: TypeAlias = dict[str, set[int]]

_PRESENT = 0
"""Stands in the set of every attribute that some publication has, whatever its value."""


class Summary(msgspec.Struct, array_like=True):
    """What a batch or a segment may hold."""

    earliest: int
    latest: int
    terms: dict[str, bytes] = {}
    """Sorted 32-bit numbers, little-endian, for each attribute that is summarised."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Summary).decode


def encoded(earliest: int, latest: int, sets: Sets) -> bytes:
    """A summary as it is kept, with its checksum: a damaged one must not hide what is there."""
    data = _encode(Summary(earliest, latest, {name: _packed(terms) for name, terms in sets.items()}))
    return zlib.crc32(data).to_bytes(4, "little") + data


def decoded(blob: bytes | None) -> Summary | None:
    """The summary in these bytes; None if there is none, or it is damaged."""
    if blob is None or zlib.crc32(memoryview(blob)[4:]).to_bytes(4, "little") != blob[:4]:
        return None
    try:
        return _decode(memoryview(blob)[4:])
    except msgspec.MsgspecError:
        return None


class Summariser:
    """Collects the values of the promoted attributes."""

    def __init__(self, promoted: Iterable[str]) -> None:
        self._names = tuple(promoted)
        self._look = attribute_decoder_of_many(self._names)

    def sets(self, publications: Sequence[Envelope | Run]) -> Sets:
        """The values of each promoted attribute in some publications."""
        if not self._names:
            return {}
        bodies: list[bytes] = []
        for one in publications:
            if isinstance(one, Run):
                bodies += one.bodies()
            else:
                bodies.append(one.body)
        columns = self._look(bodies)
        return {name: _terms(name, column) for name, column in zip(self._names, columns, strict=True)}


def _terms(name: str, column: Iterable[Value | None]) -> set[int]:
    values = set(column)
    values.discard(None)
    scalars: set[Scalar] = set()
    for value in values:
        if type(value) is tuple:
            scalars.update(value)
        else:
            scalars.add(value)  # type: ignore[arg-type]
    terms = {term(name, scalar) for scalar in scalars}
    for one, other in ((0, False), (1, True)):
        if one in scalars:  # to Python they are equal, so the set has kept one of them
            terms.update((term(name, one), term(name, other)))
    return terms | {_PRESENT} if values else terms


def sets_in(summary: Summary | None) -> Sets:
    """The values in a summary."""
    return {name: set(_unpacked(terms)) for name, terms in summary.terms.items()} if summary is not None else {}


def term(name: str, value: Scalar) -> int:
    """The number that stands for a value; equal values have equal numbers, whatever their type."""
    match value:
        case bool():
            data = b"b1" if value else b"b0"
        case str():
            data = b"s" + value.encode()
        case int():
            data = b"n%d" % value
        case float():
            data = b"n%d" % int(value) if value.is_integer() else b"f" + value.hex().encode()
        case bytes():
            data = b"x" + value
        case datetime():
            data = b"t" + value.isoformat().encode()
        case Location():
            data = b"p" + str(value).encode()
    return zlib.crc32(data, zlib.crc32(name.encode())) or 1  # 0 means something else


class Screen:
    """What a filter and a range of time need; asked about one summary after the other."""

    def __init__(self, filter: Filter, since: int, until: int) -> None:
        self._since = since
        self._until = until
        self._conjunctions = [[_need(one) for one in conjunction] for conjunction in filter.conjunctions]

    def may_pass(self, summary: Summary | None) -> bool:
        """Whether something that is asked for may be there."""
        if summary is None:
            return True
        if summary.latest < self._since or summary.earliest >= self._until:
            return False
        terms = summary.terms
        return any(
            all(name not in terms or _holds_any(terms[name], wanted) for name, wanted in needs)
            for needs in self._conjunctions
        )


def _need(constraint: Constraint) -> tuple[str, tuple[int, ...]]:
    """The attribute of a constraint, and the terms of which a summary must have one."""
    name = constraint.name
    if isinstance(constraint, IsNull):
        return "", ()  # no attribute has this name: nothing can be told from a summary
    values = constraint.values
    return (name, (_PRESENT,)) if values is None else (name, tuple(term(name, value) for value in values))


def _holds_any(packed: bytes, wanted: tuple[int, ...]) -> bool:
    terms = _unpacked(packed)
    for one in wanted:
        at = bisect_left(terms, one)
        if at < len(terms) and terms[at] == one:
            return True
    return False


def _packed(terms: set[int]) -> bytes:
    return _little(array("I", sorted(terms))).tobytes()


def _unpacked(packed: bytes) -> array[int]:
    return _little(array("I", packed))


def _little(numbers: array[int]) -> array[int]:
    if array("H", b"\x01\x00")[0] != 1:
        numbers.byteswap()
    return numbers
