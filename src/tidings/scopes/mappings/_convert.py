"""Convert: units and currencies, `y = x * factor + offset`, or back, `y = (x - offset) / factor`.

Theory of operation
-------------------
Filters must be translated through the arithmetic that notifications really go through, rounding included:
a subscription to `price = 110.00000000000001` has to reach the 100 that becomes it. No error is
estimated for that. On floats alone, and on integers alone, the conversion never runs against the order of its
arguments, because each of its operations rounds the exact result to the nearest float, and rounding keeps order. (On
both together it may, since integers are computed exactly.) So in each of the two *families* the sources of
`y >= c` are all numbers from some point on, and bisection over the family, 64 steps, finds that point.

Likewise no source of `x >= c` has a smaller image than the first number of its family that is at least c.

A quotient of integers is an integer where that is exact and below 2**53, where floats are exact, too, so that order
is kept; a larger one is a float.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from tidings.model import Kind, MappingError, Scalar
from tidings.model.operators import Range

from ._elementwise import Elementwise
from ._step import Step, checked_names
from ._translate import Answer

Number: TypeAlias = int | float

MAX_PREIMAGES = 4
"""The most numbers with one image that are listed one by one; more are a range."""

_EXACT = 2**53
_INTS = range(-(2**63), 2**63)


class Convert(Elementwise, frozen=True):
    """A number in other units: `x * factor + offset`; with `divide`, `(x - offset) / factor`.

    >>> Convert("celsius", 1.8, 32, to="fahrenheit").run({"celsius": 100})
    {'fahrenheit': 212.0}
    """

    name: str
    factor: int | float
    offset: int | float = 0
    to: str | None = None
    divide: bool = False

    def __post_init__(self) -> None:
        checked_names(self, self.target, self.name)
        for number in (self.factor, self.offset):
            if type(number) not in (int, float) or not _is_valid(number):
                raise MappingError(f"Convert: {number!r:.60} is not a number that Tidings can hold; use int or float")
        if self.factor == 0:
            raise MappingError(
                f"Convert: the factor 0 would make all values of '{self.name}' equal; use Add for a constant"
            )

    @property
    def source(self) -> str:
        """The attribute before."""
        return self.name

    @property
    def target(self) -> str:
        """The attribute after."""
        return self.name if self.to is None else self.to

    @property
    def kinds(self) -> tuple[Kind, Kind]:
        """From numbers to numbers."""
        return Kind.NUMBER, Kind.NUMBER

    def image(self, scalar: Any) -> Scalar | None:
        """The number in other units; None if it leaves what a float or 64 bits can hold."""
        if type(scalar) not in (int, float):
            return None
        number = self._computed(scalar)
        return number if _is_valid(number) else None

    def _computed(self, number: Number) -> Number:
        """The conversion as Python computes it, which may be infinite or too large."""
        if not self.divide:
            return number * self.factor + self.offset
        rest = number - self.offset
        if type(rest) is int and type(self.factor) is int and rest % self.factor == 0:
            whole = rest // self.factor
            if abs(whole) <= _EXACT:
                return whole
        return rest / self.factor

    def preimages(self, value: Number) -> Sequence[Scalar] | None:
        """The few numbers that become this one."""
        found: list[Scalar] = []
        for family in _FAMILIES:
            first, last = self._span(family, value)
            if first is None or last is None:
                continue
            if last - first >= MAX_PREIMAGES:
                return None
            found += [family.at(index) for index in range(first, last + 1)]
        return found

    def _span(self, family: _Family, value: Number) -> tuple[int | None, int | None]:
        """The first and the last index in the family that become this value; the last is before the first if none."""
        enough, not_too_much = (lambda y: y >= value), (lambda y: y <= value)
        if self.factor < 0:
            enough, not_too_much = not_too_much, enough
        return self._first(family, enough), self._last(family, not_too_much)

    def _first(self, family: _Family, passes: Callable[[Number], bool]) -> int | None:
        return family.first(lambda x: passes(self._computed(x)))

    def _last(self, family: _Family, passes: Callable[[Number], bool]) -> int | None:
        return family.last(lambda x: passes(self._computed(x)))

    def pulled(self, range: Range) -> Answer:
        """The numbers that come to lie in the range, between the ones found by bisection."""
        low: Number | None = None
        high: Number | None = None
        for bound, passes, upwards in _sides(range):
            if bound is None:
                continue
            if upwards is (self.factor > 0):
                ends = [family.at(at) for family in _FAMILIES if (at := self._first(family, passes)) is not None]
                low = min(ends, default=None)
            else:
                ends = [family.at(at) for family in _FAMILIES if (at := self._last(family, passes)) is not None]
                high = max(ends, default=None)
            if not ends:
                return False
        return Range(self.source, low, high)

    def pushed(self, range: Range) -> Answer:
        """Between the images of the first and the last number in the range."""
        low: Number | None = None
        high: Number | None = None
        for bound, passes, upwards in _sides(range):
            if bound is None:
                continue
            found = [family.first(passes) if upwards else family.last(passes) for family in _FAMILIES]
            ends = [
                self._computed(family.at(at)) for family, at in zip(_FAMILIES, found, strict=True) if at is not None
            ]
            if upwards is (self.factor > 0):
                low = min((end for one in ends if (end := _clipped(one, up=True)) is not None), default=None)
                missing = low is None
            else:
                high = max((end for one in ends if (end := _clipped(one, up=False)) is not None), default=None)
                missing = high is None
            if missing:
                return False
        return Range(self.target, low, high)

    def inverse(self) -> Step:
        """The opposite conversion: exact for integers below 2**53 with an integer factor and offset, else rounded."""
        return Convert(
            self.target, self.factor, self.offset, self.name if self.to is not None else None, not self.divide
        )


def _sides(range: Range) -> Iterator[tuple[Number | None, Callable[[Number], bool], bool]]:
    """The two bounds: the bound, which numbers pass it, and whether these are the larger ones."""
    low, high = range.low, range.high
    yield low, (lambda y: y > low) if range.low_open else (lambda y: y >= low), True
    yield high, (lambda y: y < high) if range.high_open else (lambda y: y <= high), False


def _is_valid(number: Number) -> bool:
    return number in _INTS if type(number) is int else math.isfinite(number)


def _clipped(bound: Number, *, up: bool) -> Number | None:
    """The bound of images in one family, where what cannot be held is blocked; None if nothing is left."""
    if _is_valid(bound):
        return bound
    least: Number = _INTS[0] if type(bound) is int else -sys.float_info.max
    most: Number = _INTS[-1] if type(bound) is int else sys.float_info.max
    if up:
        return least if bound < least else None
    return most if bound > most else None


class _Family(NamedTuple):
    """Numbers in their order, by index: all floats, or all integers."""

    at: Callable[[int], Number]
    least: int
    most: int

    def first(self, passes: Callable[[Number], bool]) -> int | None:
        """The first that passes, where all after it do."""
        low, high = self.least, self.most
        if not passes(self.at(high)):
            return None
        while low < high:
            middle = (low + high) // 2
            if passes(self.at(middle)):
                high = middle
            else:
                low = middle + 1
        return low

    def last(self, passes: Callable[[Number], bool]) -> int | None:
        """The last that passes, where all before it do."""
        if not passes(self.at(self.least)):
            return None
        beyond = self.first(lambda number: not passes(number))
        return self.most if beyond is None else beyond - 1


def _float_at(index: int) -> float:
    """The floats in their order: those of the non-negative indices are their bits read as an integer."""
    number: float = struct.unpack("<d", struct.pack("<q", abs(index)))[0]
    return number if index >= 0 else -number


_MOST = struct.unpack("<q", struct.pack("<d", sys.float_info.max))[0]
_FAMILIES = (_Family(int, _INTS[0], _INTS[-1]), _Family(_float_at, -_MOST, _MOST))
