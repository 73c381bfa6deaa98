"""Counting and adding: count, sum, rate, mean, product and histogram. All of them are vectors of integers that add."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from tidings.model import AggregateError

from ._aggregate import Split
from ._codec import canonical, plain, sequence, whole
from ._measured import Measured
from ._numbers import LARGEST, UNIT, divided, millionths, number_of, presented

MAX_EDGES = 256
"""The most edges of a histogram."""
_LOG_BITS = 32
_LOG_PRECISION = 96


class _Added(Measured[int]):
    """An integer that adds."""

    split = Split.SUM
    ranged = True

    def zero(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def invert(self, partial: int) -> int:
        return -partial

    def decode(self, data: bytes) -> int:
        return whole(plain(data), self.name)


class Count(_Added):
    """How many records there are; with an operand, how many have a value for it.

    >>> count = Count()
    >>> count.combine(count.measure(None), 2)
    3
    """

    needs_operand = False
    integral = True

    def measure(self, value: Any) -> int:
        """One more."""
        return 1

    @property
    def native(self) -> bool:
        """Whether Spark can count by itself: all records that pass the filter, without groups."""
        return self.operand is None and type(self).key is Measured.key and not self.by

    def spark_native(self) -> Any:
        """The partial of a pane, encoded."""
        from pyspark.sql import functions  # noqa: PLC0415 - an extra, and slow to load

        return functions.count(functions.lit(1)).cast("string").cast("binary")


class Rate(Count):
    """How many records there are per second of the window."""

    integral = False

    def __init__(self, operand: Any = None, **more: Any) -> None:
        super().__init__(operand, **more)
        if self.window is None:
            raise AggregateError("a rate needs a window; write WINDOW 60s, or window=Tumbling('60s')")
        self.unit = self.window.size_ms / 1_000

    def present(self, partial: int) -> float:
        """Per second."""
        return divided(partial, 1) / self.unit

    def distance(self, a: int, b: int) -> float:
        """The difference, per second."""
        return divided(abs(a - b), 1) / self.unit


class Sum(_Added):
    """The sum of a number, in millionths: floats are rounded to them, so that the order of adding does not matter.

    >>> total = Sum("price")
    >>> total.present(total.combine(total.measure(0.1), total.measure(0.2)))
    0.3
    """

    unit = UNIT

    def measure(self, value: Any) -> int | None:
        """The number, in millionths."""
        number = number_of(value)
        return None if number is None else millionths(number)

    def present(self, partial: int) -> int | float:
        """An integer where it is one."""
        return presented(partial)

    def distance(self, a: int, b: int) -> float:
        """The difference."""
        return divided(abs(a - b), UNIT)


class _Vector(Measured[tuple[int, ...]]):
    """Integers that add, each for itself."""

    size: int
    least: ClassVar[int | None] = None
    """The least that each may be in a partial that came."""

    def zero(self) -> tuple[int, ...]:
        return (0,) * self.size

    def combine(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([x + y for x, y in zip(a, b, strict=True)])

    def invert(self, partial: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([-x for x in partial])

    def encode(self, partial: tuple[int, ...]) -> bytes:
        return canonical(list(partial))

    def decode(self, data: bytes) -> tuple[int, ...]:
        numbers = sequence(plain(data), self.name, self.size)
        return tuple([whole(one, self.name, least=self.least) for one in numbers])


class Mean(_Vector):
    """The arithmetic mean, kept as sum and number: a mean of means would depend on the grouping.

    A bound on its error cannot be divided, so every change is told.

    >>> mean = Mean("load")
    >>> mean.present(mean.combine(mean.measure(1), mean.measure(2)))
    1.5
    """

    size = 2

    def measure(self, value: Any) -> tuple[int, ...] | None:
        """The number, once."""
        number = number_of(value)
        return None if number is None else (millionths(number), 1)

    def decode(self, data: bytes) -> tuple[int, ...]:
        """Sum and number; there cannot be less than none."""
        total, number = sequence(plain(data), self.name, 2)
        return whole(total, self.name), whole(number, self.name, least=0)

    def present(self, partial: tuple[int, ...]) -> float | None:
        """None if there is nothing to take the mean of."""
        total, number = partial
        return divided(total, number * UNIT) if number else None


class Product(_Vector):
    """The product, kept as factors, zeros, negative factors and the sum of the logarithms: so it stays small and adds.

    >>> product = Product("factor")
    >>> round(product.present(product.combine(product.measure(-3), product.measure(2.5))), 6)
    -7.5
    """

    size = 4
    split = Split.SUM

    def measure(self, value: Any) -> tuple[int, ...] | None:
        """One factor."""
        number = number_of(value)
        if number is None:
            return None
        return (1, int(not number), int(number < 0), log2_units(abs(number)) if number else 0)

    def decode(self, data: bytes) -> tuple[int, ...]:
        """Numbers of factors, and the sum of their logarithms, which may be negative."""
        *counts, logarithm = sequence(plain(data), self.name, 4)
        return (*(whole(one, self.name, least=0) for one in counts), whole(logarithm, self.name))

    def present(self, partial: tuple[int, ...]) -> float:
        """The product, as a float: at most the largest one."""
        _, zeros, negative, logarithm = partial
        if zeros:
            return 0.0
        sign = -1.0 if negative % 2 else 1.0
        return sign * _power(logarithm)

    def error(self, partial: tuple[int, ...]) -> float:
        """Each logarithm is rounded once."""
        factors = max(partial[0], 0)
        off = min(factors * 2.0**-_LOG_BITS * math.log(2), 700.0)
        return abs(self.present(partial)) * (math.expm1(off) + 1e-12)

    def distance(self, a: tuple[int, ...], b: tuple[int, ...]) -> float:
        """The difference of the logarithms; what changes the sign, or whether it is 0, is infinitely far."""
        if a[1:3] != b[1:3]:
            return math.inf
        logarithms = divided(abs(a[3] - b[3]), 1 << _LOG_BITS) * math.log(2)
        return logarithms + divided(abs(a[0] - b[0]), 1 << (_LOG_BITS + 1))


def log2_units(number: int | float) -> int:
    """The logarithm to base 2 of a positive number, rounded down to units of 2**-32, by integers alone.

    >>> log2_units(8) == 3 << 32, log2_units(0.5) == -1 << 32
    (True, True)
    """
    numerator, denominator = number.as_integer_ratio()
    exponent = numerator.bit_length() - denominator.bit_length()
    mantissa = _scaled(numerator, denominator, _LOG_PRECISION - exponent)
    if mantissa >> _LOG_PRECISION == 0:
        exponent -= 1
        mantissa = _scaled(numerator, denominator, _LOG_PRECISION - exponent)
    units = exponent
    for _ in range(_LOG_BITS):
        mantissa = mantissa * mantissa >> _LOG_PRECISION
        bit = mantissa >> (_LOG_PRECISION + 1)
        mantissa >>= bit
        units = units << 1 | bit
    return units


def _scaled(numerator: int, denominator: int, shift: int) -> int:
    return (numerator << shift) // denominator if shift >= 0 else numerator // (denominator << -shift)


def _power(units: int) -> float:
    try:
        return math.pow(2.0, divided(units, 1 << _LOG_BITS))
    except OverflowError:
        return LARGEST


class Histogram(_Vector):
    """How many values lie below, between and above edges: `value <= edge` counts towards the part before the edge.

    >>> loads = Histogram("load", edges=(50, 90))
    >>> loads.measure(50), loads.measure(91)
    ((1, 0, 0), (0, 0, 1))
    """

    split = Split.SUM
    integral = True
    least = 0

    def __init__(self, operand: Any, *, edges: Sequence[float], **more: Any) -> None:
        super().__init__(operand, **more)
        known = [number_of(edge) for edge in edges]
        if not known or len(known) > MAX_EDGES or None in known or sorted(set(known)) != known:  # type: ignore[type-var]
            raise AggregateError(
                f"the edges of a "
                f"histogram are {list(edges)!r:.60}; give 1 to {MAX_EDGES} numbers, each larger than the last"
            )
        self.edges: tuple[float, ...] = tuple(edges)
        self.size = len(self.edges) + 1

    def measure(self, value: Any) -> tuple[int, ...] | None:
        """One more in the part that the number lies in."""
        number = number_of(value)
        if number is None:
            return None
        at = sum(number > edge for edge in self.edges)
        return (0,) * at + (1,) + (0,) * (self.size - 1 - at)

    def present(self, partial: tuple[int, ...]) -> list[int]:
        """The counts, from the lowest part to the highest."""
        return list(partial)

    def distance(self, a: tuple[int, ...], b: tuple[int, ...]) -> float:
        """All differences together."""
        return sum(abs(x - y) for x, y in zip(a, b, strict=True))
