"""Batches: many envelopes or journal records as one blob, compressed and checked.

One row of the engine holds a batch, not a notification: a row costs about as much as it costs to encode a hundred
notifications, and neighbours compress well together (docs/decisions/0030-storage-engine.md has the figures). A batch
is bounded in count and bytes, so that reading one is a short step for the loop that reads.

A blob starts with one byte that says how the rest is made: 0 as it is, 1 by zlib.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

from tidings.model import Identity
from tidings.wire import Envelope, Run, array_head

from ._records import JournalRecord

BATCH_COUNT = 500
"""The most envelopes or records in one batch."""
BATCH_BYTES = 262_144
"""The bytes of bodies after which a batch is closed."""
COMPRESS_ABOVE = 400
"""Bytes below which compressing gains nothing worth its time."""
COMPRESS_LEVEL = 1
"""zlib's fastest: level 6 takes five times the time for a fifth less."""

_PLAIN, _ZLIB = b"\x00", b"\x01"


class Unreadable(Exception):
    """A blob that is not what was written."""


class Head(msgspec.Struct, frozen=True, array_like=True):
    """The part of an envelope that says who published it; the rest is skipped, not decoded."""

    identity: Identity


T = TypeVar("T")

encode = msgspec.msgpack.Encoder().encode
envelopes_in: msgspec.msgpack.Decoder[list[Envelope]] = msgspec.msgpack.Decoder(list[Envelope])
heads_in: msgspec.msgpack.Decoder[list[Head]] = msgspec.msgpack.Decoder(list[Head])
records_in: msgspec.msgpack.Decoder[list[JournalRecord]] = msgspec.msgpack.Decoder(list[JournalRecord])


def pack(items: Sequence[object]) -> bytes:
    """The items as one blob."""
    return _compressed(encode(items))


def pack_publications(items: Sequence[Envelope | Run]) -> bytes:
    """Publications as one blob, those of a run as they are encoded already."""
    if not any(isinstance(one, Run) for one in items):
        return pack(items)
    encoded = [one.data if isinstance(one, Run) else encode(one) for one in items]
    return _compressed(array_head(count_of(items)) + b"".join(encoded))


def count_of(items: Sequence[Envelope | Run]) -> int:
    """How many publications these are."""
    return sum(len(one) if isinstance(one, Run) else 1 for one in items)


def _compressed(data: bytes) -> bytes:
    if len(data) > COMPRESS_ABOVE:
        packed = zlib.compress(data, COMPRESS_LEVEL)
        if len(packed) < len(data):
            return _ZLIB + packed
    return _PLAIN + data


def unpack(blob: bytes, checksum: int, decoder: msgspec.msgpack.Decoder[list[T]]) -> list[T]:
    """The items in a blob whose checksum was kept beside it."""
    data = unpacked(blob, checksum)
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Unreadable(str(error)) from None


def unpacked(blob: bytes, checksum: int) -> bytes:
    """The same, still encoded."""
    if zlib.crc32(blob) != checksum:
        raise Unreadable("the checksum is wrong")
    packing = blob[:1]
    if packing not in (_PLAIN, _ZLIB):
        raise Unreadable(f"packing {packing.hex()} is unknown")
    try:
        return zlib.decompress(memoryview(blob)[1:]) if packing == _ZLIB else blob[1:]
    except zlib.error as error:
        raise Unreadable(str(error)) from None


def batches(publications: Sequence[Envelope | Run]) -> Iterator[Sequence[Envelope | Run]]:
    """The publications, cut into batches; a run is not cut."""
    start = size = count = 0
    for at, one in enumerate(publications):
        many, more = (len(one), one.size) if isinstance(one, Run) else (1, len(one.body))
        if at > start and (count + many > BATCH_COUNT or size >= BATCH_BYTES):
            yield publications[start:at]
            start, size, count = at, 0, 0
        size += more
        count += many
    if start < len(publications):
        yield publications[start:]
