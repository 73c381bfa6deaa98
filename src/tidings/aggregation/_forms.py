"""Forms: how a value is known, told and read, with its error.

A *point* is a partial of a definition. What a neighbour was told may differ from what is known by no more than the
slack of the broker, in the metric of the definition; how far it is from the truth follows from the shares alone.

A *range* is for whole numbers that add up. It is told wider than it is known, by the slack on both sides, and holds
until what is known leaves it. So the truth is inside every range once nothing is under way, whatever the shares were:
they only limit how wide it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import msgspec

from tidings.model import PartialRefused

from .definitions import Included

_WORD = 2**63
MAX_COUNT = 2**53
"""The largest end of a range: what every language can hold."""
MAX_PARTIAL = 4_096
"""The most bytes of a partial, encoded."""


class Arithmetic(Protocol):
    """What the engine asks of a definition; see `tidings.aggregation.definitions` for the rest of it."""

    def zero(self) -> Any:
        """The partial of nothing."""
        ...

    def combine(self, a: Any, b: Any, /) -> Any:
        """Two partials as one; associative and commutative."""
        ...

    def distance(self, a: Any, b: Any, /) -> float:
        """How far two partials are apart."""
        ...

    def present(self, partial: Any, /) -> Any:
        """The value of a partial, as people read it."""
        ...

    def encode(self, partial: Any, /) -> bytes:
        """A partial as bytes."""
        ...

    def decode(self, data: bytes, /) -> Any:
        """The partial in these bytes; raises if there is none."""
        ...


def tellable(value: Any) -> Any:
    """A value as it can be told: integers beyond 64 bits as floats, and None for what no float holds.

    >>> tellable([2**63 - 1, 2**64, {"a": -(10**400)}])
    [9223372036854775807, 1.8446744073709552e+19, {'a': None}]
    """
    if type(value) is int:
        if -_WORD <= value < _WORD:
            return value
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, dict):
        return {key: tellable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [tellable(one) for one in value]
    return value


class Read(NamedTuple):
    """A value as a client gets it."""

    value: Any
    error: float
    """At rest, the truth is at most this far away."""
    whole: bool = True
    """Whether nothing is missing, as far as the value itself can tell."""
    window: tuple[int, int] | None = None
    """From when to when, in milliseconds since 1970."""
    included: tuple[Included, ...] | None = None
    """Which publications it is about; None: that is not known."""


class Form(Protocol):
    """How the values of one aggregate travel."""

    whole_units: bool
    """Whether distances are whole numbers."""

    def zero(self) -> Any:
        """What is known of nothing."""
        ...

    def total(self, known: Iterable[Any]) -> Any:
        """Several as one."""
        ...

    def told(self, total: Any, slack: float) -> Any:
        """What to tell of what is known."""
        ...

    def is_stale(self, told: Any, total: Any, slack: float, bound: float) -> bool:
        """Whether what was told must be told anew to somebody with this bound."""
        ...

    def shown(self, before: Any, total: Any, slack: float) -> Any:
        """What to show to a client that was shown something before; None: nothing."""
        ...

    def is_news(self, shown: Any, total: Any, slack: float, bound: float) -> bool:
        """Whether a client with this bound must be shown something else."""
        ...

    def read(self, shown: Any, bound: float) -> Read:
        """What a client reads in what it is shown."""
        ...

    def encode(self, told: Any) -> bytes:
        """What is told, as bytes."""
        ...

    def decode(self, data: bytes) -> Any:
        """What was told, or `PartialRefused`."""
        ...


class Range(NamedTuple):
    """From where to where, both included."""

    low: int
    high: int

    @property
    def width(self) -> int:
        """How far apart the ends are."""
        return self.high - self.low

    def holds(self, other: Range) -> bool:
        """Whether another range lies inside this one."""
        return self.low <= other.low and other.high <= self.high


NONE = Range(0, 0)
_read_range = msgspec.msgpack.Decoder(tuple[int, int]).decode


class Ranges:
    """Ranges of whole numbers from 0 on."""

    whole_units = True

    def zero(self) -> Range:
        """Exactly nothing."""
        return NONE

    def of(self, count: int) -> Range:
        """What a broker knows of its own clients is exact."""
        return Range(count, count) if count else NONE

    def total(self, known: Iterable[Range]) -> Range:
        """Ends add up."""
        low = high = 0
        for one in known:
            low += one.low
            high += one.high
        return Range(low, high) if high else NONE

    def told(self, total: Range, slack: float) -> Range:
        """Wider by the slack."""
        by = math.floor(slack)
        if not by:
            return total
        return Range(max(0, total.low - by), total.high + by)

    def is_stale(self, told: Range, total: Range, slack: float, bound: float) -> bool:
        """It no longer holds; or the bound has been tightened, and a narrower one can be told now."""
        if not told.holds(total):
            return True
        return told.width > 2 * math.floor(bound) and self.told(total, slack).width < told.width

    def shown(self, before: Range | None, total: Range, slack: float) -> Range:
        """As neighbours are told."""
        return self.told(total, slack)

    is_news = is_stale

    def read(self, shown: Range, bound: float) -> Read:
        """The middle, and how far it may be off."""
        middle = (shown.low + shown.high) // 2
        return Read(middle, shown.high - middle)

    def encode(self, told: Range) -> bytes:
        """Both ends."""
        return msgspec.msgpack.encode((told.low, told.high))

    def decode(self, data: bytes) -> Range:
        """Both ends, if they are ends of a range."""
        try:
            low, high = _read_range(data)
        except msgspec.MsgspecError as error:
            raise PartialRefused(f"{data[:20]!r} is no range: {error}") from None
        if not 0 <= low <= high <= MAX_COUNT:
            raise PartialRefused(f"from {low} to {high} is no range of counts")
        return Range(low, high)


class Points:
    """Partials of a definition."""

    def __init__(self, definition: Arithmetic, *, whole_units: bool) -> None:
        self._definition = definition
        self.whole_units = whole_units

    def zero(self) -> Any:
        """The partial of nothing."""
        return self._definition.zero()

    def total(self, known: Iterable[Any]) -> Any:
        """All combined."""
        total = self._definition.zero()
        for one in known:
            total = self._definition.combine(total, one)
        return total

    def told(self, total: Any, slack: float) -> Any:
        """What is known."""
        return total

    def is_stale(self, told: Any, total: Any, slack: float, bound: float) -> bool:
        """Strictly further away than the slack."""
        return self._definition.distance(told, total) > slack

    def shown(self, before: Any, total: Any, slack: float) -> Any:
        """As neighbours are told."""
        return self.told(total, slack)

    is_news = is_stale

    def read(self, shown: Any, bound: float) -> Read:
        """The value of the partial; the shares keep it within the bound."""
        return Read(tellable(self._definition.present(shown)), bound)

    def encode(self, told: Any) -> bytes:
        """As the definition does."""
        return self._definition.encode(told)

    def decode(self, data: bytes) -> Any:
        """As the definition does; whatever it raises, the bytes are to blame."""
        if len(data) > MAX_PARTIAL:
            raise PartialRefused(f"a partial of {len(data):,} bytes; at most {MAX_PARTIAL:,} are taken")
        try:
            return self._definition.decode(data)
        except Exception as error:
            raise PartialRefused(f"{data[:20]!r} is no partial: {error}") from None
