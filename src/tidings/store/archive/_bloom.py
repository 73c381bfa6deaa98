"""Bloom filters of Parquet: whether a row group certainly does not hold a value, from a few bytes of it.

The filter is split into blocks of eight words; a value sets one bit in each word of one block, and both follow from its
hash (xxHash, 64 bits, seed 0). What is not as this expects says that the value may be there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

_MASK = 2**64 - 1
_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_SALTS = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
_BLOCK = 32
"""Bytes of a block."""
_HEAD = b"\x15"
"""What the header of a filter begins with: the number of bytes that follow it comes next."""
_KIND = bytes.fromhex("1c1c00001c1c00001c1c000000")
"""And then: split into blocks, xxHash, not compressed; the end."""


def hash_of(data: bytes) -> int:
    """The hash of a value as Parquet stores it.

    >>> hex(hash_of(b""))
    '0xef46db3751d8e999'
    """
    one, two, three, four, five = _PRIMES
    at, size = 0, len(data)
    if size >= 32:
        lanes = [(one + two) & _MASK, two, 0, -one & _MASK]
        while at + 32 <= size:
            for lane in range(4):
                lanes[lane] = _round(lanes[lane], int.from_bytes(data[at : at + 8], "little"))
                at += 8
        found = sum(_left(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * one + four) & _MASK
    else:
        found = five
    found = (found + size) & _MASK
    for word in range(at, size - 7, 8):
        found = (_left(found ^ _round(0, int.from_bytes(data[word : word + 8], "little")), 27) * one + four) & _MASK
    at = size & ~7
    if size & 4:
        found = (_left(found ^ int.from_bytes(data[at : at + 4], "little") * one & _MASK, 23) * two + three) & _MASK
        at += 4
    for byte in data[at:]:
        found = _left(found ^ byte * five & _MASK, 11) * one & _MASK
    for shift, prime in ((33, two), (29, three)):
        found = (found ^ found >> shift) * prime & _MASK
    return found ^ found >> 32


class BloomFilter(NamedTuple):
    """The blocks of a filter; none: it cannot be read, and nothing is certain."""

    blocks: bytes

    @classmethod
    def read(cls, data: bytes) -> BloomFilter:
        """From its bytes in the file, header first."""
        size, at = _varint(data, 1)
        size >>= 1  # zigzag: it is not negative
        start = at + len(_KIND)
        if data[:1] != _HEAD or data[at:start] != _KIND or size % _BLOCK or len(data) < start + size:
            return cls(b"")
        return cls(data[start : start + size])

    def may_hold(self, hash: int) -> bool:
        """Whether a value with this hash may be there; False is certain."""
        if not self.blocks:
            return True
        block = (hash >> 32) * (len(self.blocks) // _BLOCK) >> 32
        words = int.from_bytes(self.blocks[block * _BLOCK : (block + 1) * _BLOCK], "little")
        low = hash & 0xFFFFFFFF
        return all(words >> 32 * at + ((low * salt & 0xFFFFFFFF) >> 27) & 1 for at, salt in enumerate(_SALTS))


class Sought(NamedTuple):
    """A column that must hold a value with one of these hashes."""

    name: str
    hashes: tuple[int, ...]
    or_null: bool
    """Or a null, which may hide a list that has the value."""


class BloomFilters:
    """The Bloom filters of a file."""

    def __init__(self, source: pa.NativeFile, metadata: pq.FileMetaData, names: Sequence[str]) -> None:
        self._source = source
        self._metadata = metadata
        self._places = {name: at for at, name in enumerate(names)}

    def may_hold(self, group: int, sought: Sequence[Sequence[Sought]]) -> bool:
        """Whether a row group may hold all of one of these lists, as far as its Bloom filters tell."""
        return not sought or any(all(self._may_hold(group, one) for one in together) for together in sought)

    def _may_hold(self, group: int, sought: Sought) -> bool:
        column = self._metadata.row_group(group).column(self._places[sought.name])
        if sought.or_null and (column.statistics is None or column.statistics.null_count != 0):
            return True
        offset, length = column.bloom_filter_offset, column.bloom_filter_length
        if offset is None or length is None:
            return True
        self._source.seek(offset)
        filter = BloomFilter.read(self._source.read(length))
        return any(map(filter.may_hold, sought.hashes))


def _round(lane: int, word: int) -> int:
    return _left(lane + word * _PRIMES[1] & _MASK, 31) * _PRIMES[0] & _MASK


def _left(word: int, by: int) -> int:
    return (word << by | word >> 64 - by) & _MASK


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    number = shift = 0
    for end in range(at, min(len(data), at + 5)):
        number |= (data[end] & 0x7F) << shift
        shift += 7
        if not data[end] & 0x80:
            return number, end + 1
    return 0, len(data)
