"""Framing: bytes of a connection to parts and back.

A connection carries *parts*, each `length (4 bytes, big-endian) | kind (1 byte) | payload`; the length counts kind and
payload. Parts of kind DATA carry one frame each and are numbered, implicitly: the first of a session is number 1. All
other kinds speak of the connection itself and are not numbered.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable

from ._dialling import other_protocol
from ._errors import WireError

MAX_PART = 4_194_304
"""The most bytes of one part, kind included; a peer may announce less in its hello."""


class Part(enum.IntEnum):
    """What a part is."""

    DATA = 0
    """One frame, numbered."""
    ACK = 1
    """8 bytes: every DATA up to this number has arrived."""
    PING = 2
    """Empty, or 8 bytes: the sender's clock."""
    PONG = 3
    """The answer: empty, or what the ping had and the clock of whoever answers."""
    HELLO = 4
    """The first part of whoever opened the connection."""
    WELCOME = 5
    """The answer to a hello that is accepted."""
    REJECT = 6
    """The answer to a hello that is not, or the last part before a connection is closed for a reason."""
    BYE = 7
    """The session has ended: nobody will come back for it."""


HEADER = struct.Struct(">IB")
_NUMBER = struct.Struct(">Q")
_KINDS = frozenset(map(int, Part))


def part(kind: Part, payload: bytes = b"") -> bytes:
    """The bytes of one part.

    >>> part(Part.PING)
    b'\\x00\\x00\\x00\\x01\\x02'
    """
    return HEADER.pack(len(payload) + 1, kind) + payload


def data_parts(payloads: Iterable[bytes]) -> list[bytes]:
    """As `part`, for many frames.

    >>> data_parts([b"a", b"bc"]) == [part(Part.DATA, b"a"), part(Part.DATA, b"bc")]
    True
    """
    pack, data = HEADER.pack, int(Part.DATA)
    return [pack(len(payload) + 1, data) + payload for payload in payloads]


def part_size(data: bytes, at: int) -> int:
    """The bytes of the part that begins at this place, header included; all that is left if that has no whole header.

    >>> part_size(part(Part.PING) * 2, 5)
    5
    """
    return 4 + HEADER.unpack_from(data, at)[0] if len(data) - at >= HEADER.size else len(data) - at


def without(parts: bytes, count: int) -> bytes:
    """These parts without the first few."""
    at = 0
    for _ in range(count):
        at += 4 + HEADER.unpack_from(parts, at)[0]
    return parts[at:]


def ack(number: int) -> bytes:
    """The bytes of an acknowledgement."""
    return part(Part.ACK, _NUMBER.pack(number))


def ack_number(payload: bytes) -> int:
    """The number in an acknowledgement."""
    if len(payload) != _NUMBER.size:
        raise WireError(f"an acknowledgement has {_NUMBER.size} bytes, not {len(payload)}")
    number: int = _NUMBER.unpack(payload)[0]
    return number


def times(*clocks: int) -> bytes:
    """The payload of a PING or PONG that tells times, in microseconds since 1970 UTC."""
    return b"".join(map(_NUMBER.pack, clocks))


def read_times(payload: bytes) -> tuple[int, ...]:
    """The times in a PING or PONG; none if it has another form, which later versions may give a meaning."""
    if len(payload) not in (_NUMBER.size, 2 * _NUMBER.size):
        return ()
    return tuple(number for (number,) in _NUMBER.iter_unpack(payload))


class Parser:
    """Takes bytes as they come and gives back whole parts. Never holds more than one part and one read."""

    __slots__ = ("_held", "_missing", "limit")

    def __init__(self, limit: int = MAX_PART) -> None:
        self.limit = limit
        """The most bytes of a part that begins from now on."""
        self._held = bytearray()
        self._missing = 0
        """How many bytes must come before there is anything to do."""

    @property
    def held(self) -> int:
        """The bytes of a part that is not whole yet."""
        return len(self._held)

    def begun(self, data: bytes) -> bytes:
        """These bytes, behind what is held of the part that they go on with; empty: that is not whole yet.

        What is given back is no longer held. Give what is not used of it to `feed`.
        """
        if not self._missing:
            return data
        self._held += data
        self._missing -= len(data)
        if self._missing > 0:
            return b""
        data = bytes(self._held)
        self._held = bytearray()
        self._missing = 0
        return data

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The parts that are complete now; `WireError` for a length or kind that cannot be."""
        if self._missing and not (data := self.begun(data)):
            return []
        parts: list[tuple[int, bytes]] = []
        at, end = 0, len(data)
        unpack, append, limit = HEADER.unpack_from, parts.append, self.limit
        missing = HEADER.size
        while end - at >= HEADER.size:
            length, kind = unpack(data, at)
            if not 0 < length <= limit:
                problem = f"a part of {length:,} bytes; at most {limit:,} are allowed here"
                raise WireError(other_protocol(data[at : at + 4]) or problem)
            if kind not in _KINDS:
                raise WireError(f"a part of kind {kind}, which is unknown")
            upto = at + 4 + length
            if upto > end:
                missing = 4 + length
                break
            append((kind, data[at + 5 : upto]))
            at = upto
        if at < end:
            self._held += data[at:]
            self._missing = missing - (end - at)
        return parts
