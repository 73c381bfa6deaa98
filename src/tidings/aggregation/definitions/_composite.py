"""Several measures of the same records as one definition: `count(), p95(load) BY rack`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidings.model import AggregateError

from ._aggregate import Aggregate, Split
from ._codec import Reader, varint
from ._measured import Measured
from ._record import Record

MAX_PARTS = 8
"""The most measures of one definition."""

Partials = tuple[Any, ...]


class Composite(Aggregate[Partials]):
    """The measures side by side. They share filter, groups and window: those of the first.

    >>> from ._counts import Count, Mean
    >>> both = Composite([Count(), Mean("load")])
    >>> both.present(both.zero())
    [0, None]
    """

    def __init__(self, parts: Sequence[Measured[Any]], *, name: str = "composite") -> None:
        if not 1 <= len(parts) <= MAX_PARTS:
            raise AggregateError(f"{len(parts)} measures in one definition; give 1 to {MAX_PARTS}")
        first = parts[0]
        alike = [(one.where, one.by, one.window, one.joinpoints) for one in parts]
        if any(one != alike[0] for one in alike):
            raise AggregateError("the measures of one definition have one filter, one grouping and one window")
        self.parts = tuple(parts)
        self.name = name
        self.window, self.joinpoints = first.window, first.joinpoints
        self.where, self.by = first.where, first.by
        self.split = Split.NONE if any(one.split is Split.NONE for one in parts) else Split.SUM
        self.integral = all(one.integral for one in parts)
        self.approximate = any(one.approximate for one in parts)
        self.max_bytes = sum(one.max_bytes for one in parts)

    @property
    def invertible(self) -> bool:
        """Whether every measure has an inverse."""
        return all(one.invertible for one in self.parts)

    def key(self, record: Record) -> str:
        """The group of the record."""
        return self.parts[0].key(record)

    def zero(self) -> Partials:
        """Nothing of each."""
        return tuple([one.zero() for one in self.parts])

    def lift(self, record: Record) -> Partials | None:
        """What the record contributes to each; None if to none of them."""
        if not self.parts[0].concerns(record):
            return None
        found = tuple([one.taken(record) for one in self.parts])
        if None not in found:
            return found
        if all(one is None for one in found):
            return None
        return tuple([part.zero() if one is None else one for part, one in zip(self.parts, found, strict=True)])

    def combine(self, a: Partials, b: Partials) -> Partials:
        """Each with its like."""
        return tuple([one.combine(x, y) for one, x, y in zip(self.parts, a, b, strict=True)])

    def invert(self, partial: Partials) -> Partials:
        """Each by itself."""
        return tuple([one.invert(x) for one, x in zip(self.parts, partial, strict=True)])

    def present(self, partial: Partials) -> list[Any]:
        """One value for each measure."""
        return [one.present(x) for one, x in zip(self.parts, partial, strict=True)]

    def errors(self, partial: Partials) -> list[float]:
        """By how much each value may be off."""
        return [one.error(x) for one, x in zip(self.parts, partial, strict=True)]

    def error(self, partial: Partials) -> float:
        """By how much any of the values may be off."""
        return max(self.errors(partial))

    def distance(self, a: Partials, b: Partials) -> float:
        """All distances together, so that each is within a bound on them."""
        return sum(one.distance(x, y) for one, x, y in zip(self.parts, a, b, strict=True))

    def agrees(self, a: Partials, b: Partials) -> bool:
        """Whether those of each measure agree."""
        return all(one.agrees(x, y) for one, x, y in zip(self.parts, a, b, strict=True))

    def encode(self, partial: Partials) -> bytes:
        """Each with its length before it."""
        out = bytearray()
        for one, x in zip(self.parts, partial, strict=True):
            data = one.encode(x)
            out += varint(len(data)) + data
        return bytes(out)

    def decode(self, data: bytes) -> Partials:
        """As many partials as there are measures."""
        reader = Reader(data)
        found = tuple([one.decode(reader.take(reader.varint())) for one in self.parts])
        reader.end()
        return found
