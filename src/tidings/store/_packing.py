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
from tidings.wire import Envelope

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
    data = encode(items)
    if len(data) > COMPRESS_ABOVE:
        packed = zlib.compress(data, COMPRESS_LEVEL)
        if len(packed) < len(data):
            return _ZLIB + packed
    return _PLAIN + data


def unpack(blob: bytes, checksum: int, decoder: msgspec.msgpack.Decoder[list[T]]) -> list[T]:
    """The items in a blob whose checksum was kept beside it."""
    if zlib.crc32(blob) != checksum:
        raise Unreadable("the checksum is wrong")
    packing, data = blob[:1], memoryview(blob)[1:]
    if packing not in (_PLAIN, _ZLIB):
        raise Unreadable(f"packing {packing.hex()} is unknown")
    try:
        return decoder.decode(zlib.decompress(data) if packing == _ZLIB else data)
    except (msgspec.MsgspecError, zlib.error, ValueError) as error:
        raise Unreadable(str(error)) from None


def batches(envelopes: Sequence[Envelope]) -> Iterator[Sequence[Envelope]]:
    """The envelopes, cut into batches."""
    start = size = 0
    for at, envelope in enumerate(envelopes):
        if at - start == BATCH_COUNT or size >= BATCH_BYTES:
            yield envelopes[start:at]
            start, size = at, 0
        size += len(envelope.body)
    if start < len(envelopes):
        yield envelopes[start:]
