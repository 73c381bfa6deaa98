"""The most frequent values, by a summary of counters that can be merged.

Theory of operation
-------------------
A partial has at most 24 counters, and `lost`. If merging two leaves more than 24, the 25th largest count is subtracted
from all of them, those that are not above 0 go, and `lost` grows by what was subtracted. Each subtraction takes as
much from 25 counters, so `lost` is at most a 25th of all values. The true count of a value is between its counter
and its counter plus `lost`; a value without a counter occurred at most `lost` times.

How much is subtracted depends on the grouping. So the definition says `approximate`: its laws hold within `lost`,
and not byte for byte.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tidings.model import PartialRefused

from ._codec import canonical, plain, sequence, whole
from ._measured import Measured, items_of, value_of

COUNTERS = 24
"""The most counters of a partial."""
MAX_KEPT = 96
"""The most bytes of a value in a counter; longer ones are known by their start and a digest."""


class Summary(NamedTuple):
    """Counters, sorted by value, and how much each of them may be too low."""

    lost: int
    counters: tuple[tuple[str, int], ...]


class Frequent(Measured[Summary]):
    """The most frequent values, at most 24, each with its least count; `error` is by how much the counts may be too
    low.

    >>> words = Frequent("word")
    >>> words.present(words.combine(words.measure(("a", "b")), words.measure("a")))
    [['a', 2], ['b', 1]]
    """

    approximate = True

    def zero(self) -> Summary:
        """No value."""
        return Summary(0, ())

    def measure(self, value: Any) -> Summary:
        """The value once, or each element of a list."""
        counts: dict[str, int] = {}
        for item in items_of(value, MAX_KEPT):
            counts[item] = counts.get(item, 0) + 1
        return _trimmed(0, counts)

    def combine(self, a: Summary, b: Summary) -> Summary:
        """The counters, added, and cut to as many as are kept."""
        counts = dict(a.counters)
        for item, count in b.counters:
            counts[item] = counts.get(item, 0) + count
        return _trimmed(a.lost + b.lost, counts)

    def present(self, partial: Summary) -> list[list[Any]]:
        """Values and counts, the most frequent first; among equals, in the order of how they are written."""
        return [[value_of(item), count] for item, count in sorted(partial.counters, key=lambda one: (-one[1], one[0]))]

    def error(self, partial: Summary) -> float:
        """By how much each count may be too low."""
        return partial.lost

    def agrees(self, a: Summary, b: Summary) -> bool:
        """Whether each value may have occurred as often as both say."""
        one, other = dict(a.counters), dict(b.counters)
        return all(
            one.get(item, 0) <= other.get(item, 0) + b.lost and other.get(item, 0) <= one.get(item, 0) + a.lost
            for item in one.keys() | other.keys()
        )

    def encode(self, partial: Summary) -> bytes:
        """What is lost, and the counters."""
        return canonical([partial.lost, [[item, count] for item, count in partial.counters]])

    def decode(self, data: bytes) -> Summary:
        """A summary of at most 24 counters."""
        lost, rows = sequence(plain(data), self.name, 2)
        if type(rows) is not list or len(rows) > COUNTERS:
            raise PartialRefused(f"{self.name}: {rows!r:.60} is not a list of at most {COUNTERS} counters")
        counters = []
        for row in rows:
            item, count = sequence(row, self.name, 2)
            counters.append((_known(item, self.name), whole(count, self.name, least=1)))
        if sorted(dict(counters).items()) != counters:
            raise PartialRefused(f"{self.name}: the counters are not sorted, or a value has two")
        return Summary(whole(lost, self.name, least=0), tuple(counters))


def _known(item: Any, name: str) -> str:
    try:
        value_of(item)
    except (ValueError, TypeError, RecursionError):
        raise PartialRefused(f"{name}: {item!r:.60} is not a value as counters keep it") from None
    return item  # type: ignore[no-any-return]


def _trimmed(lost: int, counts: dict[str, int]) -> Summary:
    if len(counts) > COUNTERS:
        less = sorted(counts.values(), reverse=True)[COUNTERS]
        lost += less
        counts = {item: count - less for item, count in counts.items() if count > less}
    return Summary(lost, tuple(sorted(counts.items())))
