"""Choosing among values: maximum and minimum, union and intersection, and, or and exclusive or of bits."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

from tidings.model import PartialRefused

from ._aggregate import Split
from ._codec import canonical, canonical_number, plain, plain_number, whole
from ._measured import Measured, items_of, value_of
from ._numbers import LARGEST, number_of

Extreme: TypeAlias = int | float | None
Members: TypeAlias = frozenset[str]

_BITS = range(-(2**63), 2**63)


class _Extreme(Measured[Extreme]):
    """A number that is chosen. Each contributor may use the whole bound, as only one of them is chosen."""

    split = Split.WHOLE

    def zero(self) -> Extreme:
        return None

    def measure(self, value: Any) -> Extreme:
        return number_of(value)

    def distance(self, a: Extreme, b: Extreme) -> float:
        if a is None or b is None:
            return 0 if a is b else math.inf
        gap = abs(a - b) if type(a) is type(b) else abs(Fraction(a) - Fraction(b))
        return gap if isinstance(gap, int) and gap <= LARGEST else float(min(gap, LARGEST))

    def encode(self, partial: Extreme) -> bytes:
        return canonical_number(partial)

    def decode(self, data: bytes) -> Extreme:
        return plain_number(data)


class Max(_Extreme):
    """The largest number.

    >>> Max("load").combine(3, None), Max("load").combine(3, 2.5)
    (3, 3)
    """

    def combine(self, a: Extreme, b: Extreme) -> Extreme:
        """The larger one."""
        return b if a is None else a if b is None else max(a, b)


class Min(_Extreme):
    """The smallest number."""

    def combine(self, a: Extreme, b: Extreme) -> Extreme:
        """The smaller one."""
        return b if a is None else a if b is None else min(a, b)


class Union(Measured[Members]):
    """The set of all values. It grows, so it is bounded by its bytes: for many values use `Distinct` or `Frequent`.

    >>> racks = Union("rack")
    >>> racks.present(racks.combine(racks.measure("r2"), racks.measure("r1")))
    ['r1', 'r2']
    """

    split = Split.SUM
    integral = True

    def zero(self) -> Members:
        """No value."""
        return frozenset()

    def measure(self, value: Any) -> Members:
        """The value, or the elements of a list."""
        return frozenset(items_of(value))

    def combine(self, a: Members, b: Members) -> Members:
        """What either has."""
        return a | b

    def present(self, partial: Members) -> list[Any]:
        """The values, sorted by how they are written."""
        return [value_of(item) for item in sorted(partial)]

    def distance(self, a: Members, b: Members) -> float:
        """How many values one has and the other has not."""
        return len(a ^ b)

    def encode(self, partial: Members) -> bytes:
        """A sorted list."""
        return canonical(sorted(partial))  # type: ignore[arg-type]

    def decode(self, data: bytes) -> Members:
        """A sorted list."""
        return _members(plain(data), self.name)


class Intersection(Measured[Members | None]):
    """The values that every record has; before the first record that is everything, which is presented as None.

    >>> tags = Intersection("tags")
    >>> tags.present(tags.combine(tags.measure(("a", "b")), tags.measure(("b", "c"))))
    ['b']
    """

    split = Split.SUM
    integral = True

    def zero(self) -> Members | None:
        """Everything."""
        return None

    def measure(self, value: Any) -> Members:
        """The value, or the elements of a list."""
        return frozenset(items_of(value))

    def combine(self, a: Members | None, b: Members | None) -> Members | None:
        """What both have."""
        return b if a is None else a if b is None else a & b

    def present(self, partial: Members | None) -> list[Any] | None:
        """The values, sorted by how they are written; None: everything."""
        return None if partial is None else [value_of(item) for item in sorted(partial)]

    def distance(self, a: Members | None, b: Members | None) -> float:
        """How many values one has and the other has not; from everything, infinitely many."""
        if a is None or b is None:
            return 0 if a is b else math.inf
        return len(a ^ b)

    def encode(self, partial: Members | None) -> bytes:
        """A sorted list, or null."""
        return canonical(None if partial is None else sorted(partial))  # type: ignore[arg-type]

    def decode(self, data: bytes) -> Members | None:
        """A sorted list, or null."""
        found = plain(data)
        return None if found is None else _members(found, self.name)


def _members(found: Any, name: str) -> Members:
    known = type(found) is list and all(type(one) is str for one in found)
    if not known or sorted(set(found)) != found:
        raise PartialRefused(f"{name}: {found!r:.60} is not a sorted list of texts, each once")
    for one in found:
        try:
            value_of(one)
        except (ValueError, RecursionError):
            raise PartialRefused(f"{name}: {one!r:.60} is not a value as sets keep it") from None
    return frozenset(found)


class _Bits(Measured[int]):
    """The bits of integers of 64 bits."""

    split = Split.SUM
    integral = True

    def zero(self) -> int:
        return 0

    def measure(self, value: Any) -> int | None:
        return value if type(value) is int else None

    def distance(self, a: int, b: int) -> float:
        """How many bits differ."""
        return ((a ^ b) & (2**64 - 1)).bit_count()

    def decode(self, data: bytes) -> int:
        found = whole(plain(data), self.name)
        if found not in _BITS:
            raise PartialRefused(f"{self.name}: {found!r:.40} has more than 64 bits")
        return found


class BitAnd(_Bits):
    """The bits that are set in every value."""

    def zero(self) -> int:
        """All bits."""
        return -1

    def combine(self, a: int, b: int) -> int:
        """Bits of both."""
        return a & b


class BitOr(_Bits):
    """The bits that are set in some value."""

    def combine(self, a: int, b: int) -> int:
        """Bits of either."""
        return a | b


class BitXor(_Bits):
    """The bits that are set in an odd number of values."""

    def combine(self, a: int, b: int) -> int:
        """Bits of one of them."""
        return a ^ b

    def invert(self, partial: int) -> int:
        """Each value takes itself away."""
        return partial
