"""Quantiles by counts in logarithmic buckets, which add and can be taken away again, so that windows slide.

Theory of operation
-------------------
Each power of two between 2**-16 and 2**40 is divided into 16 buckets of equal width, and so are the negative numbers. A
value counts in its bucket, found from its binary digits: no logarithm is taken, so every machine finds the same one. A
bucket [low, high) stands for 2*low*high / (low + high), which is off by at most (high - low) / (high + low) of the
true value: 1/33, as 33 sixteenths are the least that low and high are together. Values nearer to 0 than 2**-16
count as 0; values beyond 2**40 have a bucket at either end, whose error is infinite.

A partial is the counts of the buckets in use. It has at most 4 KB for any 8 million values, and for any number of
values whose magnitudes differ by no more than a factor of a million.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

from tidings.model import AggregateError, PartialRefused

from ._codec import Reader, varint
from ._measured import Measured
from ._numbers import number_of

RELATIVE_ERROR = 1 / 33
"""By how much a quantile may be off, relative to the true one."""

_LOWEST, _HIGHEST = -16, 40
_PER_POWER = 16
_LAST = (_HIGHEST - _LOWEST) * _PER_POWER + 1

Buckets: TypeAlias = dict[int, int]
"""The counts of buckets in use; 0 is about 0, negative numbers have negative buckets. It is never changed."""


class Quantile(Measured[Buckets]):
    """The value that a given share of all values does not exceed, by the nearest rank.

    >>> load = Quantile("load", q=0.95)
    >>> seen = load.zero()
    >>> for value in range(1, 101):
    ...     seen = load.combine(seen, load.measure(value))
    >>> abs(load.present(seen) - 95) <= load.error(seen) <= 3
    True
    """

    def __init__(self, operand: Any, *, q: float | Fraction = 0.5, **more: Any) -> None:
        super().__init__(operand, **more)
        try:
            self.q = Fraction(str(q))
        except (ValueError, ZeroDivisionError):
            self.q = Fraction(-1)
        if not 0 <= self.q <= 1:
            raise AggregateError(f"the quantile {q!r:.40} is not a share; give a number from 0 to 1, such as 0.95")

    def zero(self) -> Buckets:
        """No value."""
        return {}

    def measure(self, value: Any) -> Buckets | None:
        """One more in the bucket of the number."""
        number = number_of(value)
        return None if number is None else {bucket(number): 1}

    def combine(self, a: Buckets, b: Buckets) -> Buckets:
        """The counts, added."""
        larger, smaller = (a, b) if len(a) >= len(b) else (b, a)
        counts = larger.copy()
        for at, count in smaller.items():
            if found := counts.get(at, 0) + count:
                counts[at] = found
            else:
                del counts[at]
        return counts

    def invert(self, partial: Buckets) -> Buckets:
        """The counts, to be taken away."""
        return {at: -count for at, count in partial.items()}

    def present(self, partial: Buckets) -> float | None:
        """The quantile; None if there is no value."""
        at = self._chosen(partial)
        return None if at is None else middle(at)

    def error(self, partial: Buckets) -> float:
        """How far the edges of its bucket are from what is presented; infinite beyond 2**40."""
        at = self._chosen(partial)
        if at is None:
            return 0
        if abs(at) >= _LAST:
            return math.inf
        low, high = edges(abs(at))
        return max(high - abs(middle(at)), abs(middle(at)) - low) if at else high

    def _chosen(self, partial: Buckets) -> int | None:
        """The bucket that holds the quantile."""
        rank = max(1, math.ceil(self.q * sum(partial.values())))
        for at in sorted(partial):
            rank -= partial[at]
            if rank <= 0:
                return at
        return None

    def encode(self, partial: Buckets) -> bytes:
        """For each bucket in use how many are skipped before it, and its count; runs of neighbours are cheapest."""
        if min(partial.values(), default=1) < 0:
            raise PartialRefused(
                f"{self.name}: counts below 0 do not travel; send what is left, not what is taken away"
            )
        out, at = bytearray(), -_LAST
        for place in sorted(partial):
            if place > at:
                out += b"\x00" + varint(place - at)
            out += varint(partial[place])
            at = place + 1
        return bytes(out)

    def decode(self, data: bytes) -> Buckets:
        """Counts of buckets, none of them 0."""
        reader, at, counts = Reader(data), -_LAST, {}
        skipped = False
        while not reader.ended:
            count = reader.varint()
            if not count:
                step = reader.varint()
                if skipped or not step or reader.ended:
                    raise PartialRefused(
                        f"{self.name}: buckets are skipped by {step} where that is not the shortest way"
                    )
                at, skipped = at + step, True
                continue
            if at > _LAST:
                raise PartialRefused(f"{self.name}: there is no bucket {at}; the last one is {_LAST}")
            counts[at] = count
            at, skipped = at + 1, False
        return counts


def bucket(number: int | float) -> int:
    """The bucket that a number counts in.

    >>> bucket(0), bucket(1), bucket(-1), bucket(1.0625), bucket(2)
    (0, 257, -257, 258, 273)
    """
    if isinstance(number, int):
        size = abs(number)
        exponent = size.bit_length() - 1
        digits = size >> exponent - 4 if exponent >= 4 else size << 4 - exponent if size else 0
    else:
        mantissa, exponent = math.frexp(abs(number))
        exponent, digits = exponent - 1, int(mantissa * 2 * _PER_POWER)
    if not number or exponent < _LOWEST:
        return 0
    at = _LAST if exponent >= _HIGHEST else (exponent - _LOWEST) * _PER_POWER + digits - _PER_POWER + 1
    return at if number > 0 else -at


def edges(at: int) -> tuple[float, float]:
    """Between which numbers a bucket lies, the second excluded; that of 0 on either side of it."""
    if not at:
        return 0.0, 2.0**_LOWEST
    power, part = divmod(at - 1, _PER_POWER)
    unit = 2.0 ** (power + _LOWEST) / _PER_POWER
    return unit * (_PER_POWER + part), unit * (_PER_POWER + part + 1)


def middle(at: int) -> float:
    """The number that a bucket stands for: as far from either edge, relative to the edge."""
    if not at:
        return 0.0
    low, high = edges(abs(at))
    found = low if abs(at) >= _LAST else 2 * low * high / (low + high)
    return math.copysign(found, at)
