"""How many different values there are, by a HyperLogLog of integers alone.

Theory of operation
-------------------
Each value has a hash of 64 bits. The upper 11 choose one of 2,048 registers; the register keeps the largest *rank*, the
position of the first 1 in the other 53 bits. Two sketches are combined by the maximum of each register, so the order,
the grouping and repetitions do not matter, byte for byte. The number of values is estimated from how many registers
have which rank, by Ertl's estimator, which needs no correction at either end. Its standard error is 1.04 /
sqrt(2048), 2.3 %.

Most sketches have seen few values. So a partial is a sorted tuple of `register << 6 | rank` while at most 256 registers
are in use, and 2,048 bytes from then on; which of the two it is follows from its content.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any, TypeAlias

from tidings.model import PartialRefused

from ._codec import Reader, varint
from ._measured import Measured, items_of

REGISTERS = 2_048
"""The registers of a sketch."""
STANDARD_ERROR = 1.04 / math.sqrt(REGISTERS)
"""The standard error of an estimate, relative to it."""

_INDEX_BITS = 11
_RANK_BITS = 64 - _INDEX_BITS
_SPARSE = 256
_PACKED = REGISTERS * 6 // 8

Sketch: TypeAlias = tuple[int, ...] | bytes


class Distinct(Measured[Sketch]):
    """About how many different values there are. A partial has at most 1,537 bytes.

    >>> users = Distinct("user")
    >>> seen = users.zero()
    >>> for name in ("ann", "bob", "ann"):
    ...     seen = users.combine(seen, users.measure(name))
    >>> users.present(seen)
    2
    """

    def zero(self) -> Sketch:
        """No value."""
        return ()

    def measure(self, value: Any) -> Sketch:
        """The value, or the elements of a list."""
        return _sparse(dict_of([_register(item) for item in items_of(value)]))

    def combine(self, a: Sketch, b: Sketch) -> Sketch:
        """The larger rank in each register."""
        if isinstance(a, bytes) and isinstance(b, bytes):
            return bytes(map(max, a, b))
        if isinstance(a, tuple) and isinstance(b, tuple):
            return _sparse(dict_of([*a, *b]))
        dense, sparse = (a, b) if isinstance(a, bytes) else (b, a)
        return _with(bytearray(dense), sparse)

    def present(self, partial: Sketch) -> int:
        """The estimate, as a whole number."""
        return round(estimate(dense_of(partial)))

    def error(self, partial: Sketch) -> float:
        """Three standard errors, and the rounding: 997 of 1,000 estimates are within it."""
        return 0 if not partial else 3 * STANDARD_ERROR * self.present(partial) + 0.5

    def encode(self, partial: Sketch) -> bytes:
        """The registers in use, or all of them in six bits each."""
        if isinstance(partial, bytes):
            return b"\x01" + _packed(partial)
        out, last = bytearray(b"\x00"), -1
        for entry in partial:
            out += varint((entry >> 6) - last - 1)
            out.append(entry & 63)
            last = entry >> 6
        return bytes(out)

    def decode(self, data: bytes) -> Sketch:
        """A sketch; ranks that no hash has are refused."""
        if data[:1] == b"\x01" and len(data) == 1 + _PACKED:
            ranks = _unpacked(data[1:])
            if REGISTERS - ranks.count(0) > _SPARSE and max(ranks) <= _RANK_BITS + 1:
                return ranks
            raise PartialRefused(
                f"{self.name}: {data[:8]!r}... is not a sketch with more than {_SPARSE} registers in use"
            )
        if data[:1] != b"\x00":
            raise PartialRefused(f"{self.name}: {data[:8]!r} does not begin as a sketch does")
        reader, at = Reader(data[1:]), -1
        entries: list[int] = []
        while not reader.ended:
            at += reader.varint() + 1
            rank = reader.take(1)[0]
            if at >= REGISTERS or not 0 < rank <= _RANK_BITS + 1 or len(entries) >= _SPARSE:
                raise PartialRefused(f"{self.name}: register {at} with rank {rank} is not one of a sketch")
            entries.append(at << 6 | rank)
        return tuple(entries)


def _register(item: str) -> int:
    """Which register an item belongs to, and its rank there, as one integer."""
    number = int.from_bytes(hashlib.blake2b(item.encode(), digest_size=8).digest())
    rest = number & ((1 << _RANK_BITS) - 1)
    return number >> _RANK_BITS << 6 | _RANK_BITS - rest.bit_length() + 1


def dict_of(entries: list[int]) -> dict[int, int]:
    """The largest entry of each register."""
    found: dict[int, int] = {}
    for entry in entries:
        register = entry >> 6
        if found.get(register, -1) < entry:
            found[register] = entry
    return found


def _sparse(entries: dict[int, int]) -> Sketch:
    """The one form of these entries."""
    if len(entries) <= _SPARSE:
        return tuple(sorted(entries.values()))
    return _with(bytearray(REGISTERS), tuple(entries.values()))


def _with(dense: bytearray, sparse: Sketch) -> bytes:
    for entry in sparse:
        register, rank = entry >> 6, entry & 63
        dense[register] = max(dense[register], rank)
    return bytes(dense)


def dense_of(partial: Sketch) -> bytes:
    """All registers, whatever the form of the partial."""
    return partial if isinstance(partial, bytes) else _with(bytearray(REGISTERS), partial)


def _packed(ranks: bytes) -> bytes:
    number = 0
    for rank in ranks:
        number = number << 6 | rank
    return number.to_bytes(_PACKED)


def _unpacked(data: bytes) -> bytes:
    number = int.from_bytes(data)
    return bytes(number >> shift & 63 for shift in range(6 * (REGISTERS - 1), -1, -6))


def estimate(ranks: bytes) -> float:
    """How many values were seen, by Ertl's estimator."""
    counts = [ranks.count(rank) for rank in range(_RANK_BITS + 2)]
    z = REGISTERS * _tau(1 - counts[-1] / REGISTERS)
    for count in reversed(counts[1:-1]):
        z = 0.5 * (z + count)
    z += REGISTERS * _sigma(counts[0] / REGISTERS)
    return REGISTERS / (2 * math.log(2)) * REGISTERS / z


def _sigma(x: float) -> float:
    if x == 1:
        return math.inf
    y, z, last = 1.0, x, -1.0
    while z != last:
        x, last = x * x, z
        z += x * y
        y += y
    return z


def _tau(x: float) -> float:
    if x in (0, 1):
        return 0.0
    y, z, last = 1.0, 1 - x, -1.0
    while z != last:
        x, last = math.sqrt(x), z
        y *= 0.5
        z -= (1 - x) ** 2 * y
    return z / 3
