"""The compact protocol of Thrift, in which Parquet writes its footer and its page headers: as much as is needed here.

Nothing is decoded that is not asked for: a reader walks over the fields of a struct and passes over the others. What is
cut or of a kind that there is not raises `IndexError` or `ValueError`.
"""

from __future__ import annotations

from collections.abc import Iterator

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
_FIXED = {1: 0, 2: 0, 3: 1, 7: 8}
"""Bytes of the kinds that always have the same: a boolean is in the head of its field."""
_NUMBERS = (I32, I64)
_MOST = 10
"""The most bytes of a number."""


def unsigned(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    number = shift = 0
    for end in range(at, at + _MOST):
        byte = data[end]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, end + 1
        shift += 7
    raise ValueError("a number without an end")


def signed(data: bytes, at: int) -> tuple[int, int]:
    """The same with a sign."""
    number, at = unsigned(data, at)
    return number >> 1 ^ -(number & 1), at


def elements(data: bytes, at: int) -> tuple[int, int, int]:
    """How many there are in a list, of which kind, and where the first begins."""
    head = data[at]
    if head >> 4 != 15:
        return head >> 4, head & 15, at + 1
    count, at = unsigned(data, at + 1)
    return count, head & 15, at


def fields(data: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """The fields of a struct: number, kind, where the value begins. At the end 0, 0, and where the struct ends."""
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = signed(data, at)
        kind = head & 15
        yield number, kind, at
        at = skip(data, at, kind)
    yield 0, 0, at + 1


def skip(data: bytes, at: int, kind: int) -> int:
    """Where a value ends."""
    if 4 <= kind <= 6:
        while data[at] >= 0x80:
            at += 1
        return at + 1
    if kind == BINARY:
        size, at = unsigned(data, at)
        return at + size
    if kind == STRUCT:
        while head := data[at]:
            at += 1
            if not head >> 4:
                at = skip(data, at, I32)
            kind = head & 15
            if kind in _NUMBERS:  # most fields are, and a call costs more than they do
                while data[at] >= 0x80:
                    at += 1
                at += 1
            else:
                at = skip(data, at, kind)
        return at + 1
    if kind == LIST:
        count, kind, at = elements(data, at)
        if kind <= 2:
            return at + count
        if kind in _NUMBERS:
            for _ in range(count):
                while data[at] >= 0x80:
                    at += 1
                at += 1
            return at
        for _ in range(count):
            at = skip(data, at, kind)
        return at
    return at + _FIXED[kind]


def varint(value: int) -> bytes:
    """A number of seven bits a byte."""
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
