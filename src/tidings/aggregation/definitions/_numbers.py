"""Numbers of notifications as partials keep them: exact integers, so that nothing depends on the order of adding.

A sum is kept in millionths. An integer is exact in them; a float is rounded once, where it enters, half to even, by
integer arithmetic: the result is the same on every machine.
"""

from __future__ import annotations

import math
import sys
from typing import Any

LARGEST = sys.float_info.max
UNIT = 1_000_000
"""How many units of a sum are 1."""


def number_of(value: Any) -> int | float | None:
    """The value if it is a number that counts can use, in its one form: 2.0 is 2. None: it is something else.

    >>> number_of(2.0), number_of(2.5), number_of(True), number_of("2")
    (2, 2.5, None, None)
    """
    kind = type(value)
    if kind is int:
        return value  # type: ignore[no-any-return]
    if kind is float and math.isfinite(value):
        return int(value) if value.is_integer() else value
    return None


def millionths(number: int | float) -> int:
    """The number in millionths, rounded half to even.

    >>> millionths(3), millionths(0.1), millionths(-2.5)
    (3000000, 100000, -2500000)
    """
    if type(number) is int:
        return number * UNIT
    numerator, denominator = number.as_integer_ratio()
    quotient, rest = divmod(numerator * UNIT, denominator)
    twice = 2 * rest
    return quotient + (twice > denominator or (twice == denominator and quotient & 1))


def presented(units: int, unit: int = UNIT) -> int | float:
    """Units as the number that they are: an integer where they are one.

    >>> presented(3_000_000), presented(2_500_000)
    (3, 2.5)
    """
    whole, rest = divmod(units, unit)
    return whole if not rest else divided(units, unit)


def divided(numerator: int, denominator: int) -> float:
    """The quotient as a float; one beyond the largest float is the largest float."""
    try:
        return numerator / denominator
    except OverflowError:
        return LARGEST if numerator > 0 else -LARGEST
