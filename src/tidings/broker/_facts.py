"""Facts: which events a deciding point has decided, kept small enough to be handed to the next one.

What one origin sends to one subscription comes in the order of its numbers. So a point that has taken one event of an
origin, and then another, has decided everything between the two that it was meant to decide: a *range*. A second range
begins where something may be missing in between, and the two become one when that has come.

A number that is in no range has not been decided. That is what recovery goes by: whoever goes on asks for what follows
the first hole (`resume`), and leaves out what is in a range (`in`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from itertools import pairwise
from operator import itemgetter
from typing import TypeAlias

from tidings.model import EventKey, Position

MAX_RANGES = 1_000
"""The most ranges of one epoch of an origin. Beyond it, the oldest hole counts as decided, and stands in `holes`."""
MAX_EPOCHS = 16
"""The most epochs of one origin. Beyond it, the oldest one counts as decided to its end."""
END = 2**63 - 1
"""The last number of a range that reaches to the end of its epoch."""

Told: TypeAlias = dict[str, dict[int, list[tuple[int, int]]]]
"""Facts as brokers tell them to one another: by origin and epoch, the first and last number of each range."""


_NONE: dict[int, list[tuple[int, int]]] = {}
_FIRST, _LAST = itemgetter(0), itemgetter(1)


class Facts:
    """What has been decided, by origin and epoch.

    >>> facts = Facts()
    >>> facts.add("b1", 1, 5, 9)
    >>> facts.add("b1", 1, 12, 12)
    >>> EventKey("b1", 1, 7) in facts, EventKey("b1", 1, 10) in facts
    (True, False)
    >>> facts.resume()
    {'b1': Position(epoch=1, seq=9)}
    >>> facts.add("b1", 1, 10, 11)
    >>> facts.resume()
    {'b1': Position(epoch=1, seq=12)}
    """

    def __init__(
        self, told: Mapping[str, Mapping[int, list[tuple[int, int]]]] | None = None, most: int = MAX_RANGES
    ) -> None:
        """`most` is the number of ranges that one epoch of an origin may have."""
        self._ranges: Told = {}
        self._most = most
        self.holes: list[tuple[str, int, int, int]] = []
        """Origin, epoch, first and last number of what counts as decided because there were too many ranges."""
        for origin, epochs in (told or {}).items():
            for epoch, ranges in epochs.items():
                for first, last in ranges:
                    self.add(origin, epoch, first, last)

    def __contains__(self, key: EventKey) -> bool:
        epochs = self._ranges.get(key.origin)
        if epochs is None:
            return False
        ranges = epochs.get(key.epoch)
        if ranges and ranges[-1][1] < key.seq:
            return False
        if ranges is None:
            return len(epochs) >= MAX_EPOCHS and key.epoch < min(epochs)
        at = bisect_right(ranges, (key.seq, END)) - 1
        return at >= 0 and ranges[at][1] >= key.seq

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def add(self, origin: str, epoch: int, first: int, last: int) -> None:
        """Everything from one number to another has been decided; what overlaps or touches becomes one range.

        A range that ends before it begins says where to go on: nothing has been decided there yet.
        """
        if last < first - 1:
            return
        epochs = self._ranges.setdefault(origin, {})
        ranges = epochs.setdefault(epoch, [])
        if ranges and ranges[-1][0] <= first <= ranges[-1][1] + 1:  # it goes on where it was
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], last))
            return
        begin = bisect_left(ranges, first - 1, key=_LAST)
        end = bisect_right(ranges, last + 1, key=_FIRST)
        if begin < end:
            first, last = min(first, ranges[begin][0]), max(last, ranges[end - 1][1])
        ranges[begin:end] = [(first, last)]
        if len(ranges) > self._most:
            one, two = ranges[:2]
            self.holes.append((origin, epoch, one[1] + 1, two[0] - 1))
            ranges[:2] = [(one[0], two[1])]
        if len(epochs) > MAX_EPOCHS:
            del epochs[min(epochs)]

    def take(self, key: EventKey, behind: Position | None) -> None:
        """An event has been decided, and so has everything between a position and it; None: it alone.

        A position in an earlier epoch: that epoch has been decided to its end, and this one from its beginning.
        """
        origin, epoch, seq = key
        if behind is not None and behind.epoch == epoch and behind.seq < seq:
            ranges = self._ranges.get(origin, _NONE).get(epoch)
            if ranges and ranges[-1][1] == behind.seq:  # it goes on where it was, as it nearly always does
                ranges[-1] = (ranges[-1][0], seq)
                return
        if behind is None or behind.epoch > epoch:
            self.add(origin, epoch, seq, seq)
        elif behind.epoch == epoch:
            self.add(origin, epoch, min(behind.seq + 1, seq), seq)
        else:
            if behind.epoch:
                self.add(origin, behind.epoch, behind.seq + 1, END)
            self.add(origin, epoch, 1, seq)

    def remove(self, key: EventKey) -> None:
        """An event has not been decided after all."""
        origin, epoch, seq = key
        if key not in self or epoch not in self._ranges[origin]:
            return
        split: list[tuple[int, int]] = []
        for first, last in self._ranges[origin][epoch]:
            if first <= seq <= last:
                split.append((first, seq - 1))  # though it be empty: it says where to go on
                split += [(seq + 1, last)] if seq < last else []
            else:
                split.append((first, last))
        self._ranges[origin][epoch] = split

    def close(self, origin: str, position: Position) -> None:
        """Everything up to a position counts as decided: whoever goes on does so behind it."""
        epochs = self._ranges.get(origin, {})
        for epoch in [one for one in epochs if one < position.epoch]:
            del epochs[epoch]
        known = epochs.get(position.epoch)
        first = min(known[0][0], position.seq + 1) if known else position.seq + 1
        self.add(origin, position.epoch, first, position.seq)

    def knows(self, origin: str) -> bool:
        """Whether anything is known about an origin: without it, nobody knows where to go on."""
        return origin in self._ranges

    def covers(self, origin: str, epoch: int, first: int, last: int) -> bool:
        """Whether adding such a range would change nothing."""
        ranges = self._ranges.get(origin, _NONE).get(epoch)
        if not ranges:
            return False
        at = bisect_right(ranges, (first, END)) - 1
        return at >= 0 and ranges[at][1] >= last

    def undecided(self, origin: str, upto: Position) -> Iterator[tuple[int, int, int]]:
        """Epoch, first and last number of everything up to a position that has not been decided."""
        for epoch, ranges in sorted(self._ranges.get(origin, _NONE).items()):
            if epoch > upto.epoch:
                return
            end = upto.seq if epoch == upto.epoch else END
            for (_, before), (behind, _) in pairwise([*ranges, (end + 1, end)]):
                if before + 1 <= min(behind - 1, end):
                    yield epoch, before + 1, min(behind - 1, end)

    def merge(self, other: Facts) -> None:
        """What another has decided has been decided."""
        for origin, epoch, first, last in other:
            self.add(origin, epoch, first, last)

    def __iter__(self) -> Iterator[tuple[str, int, int, int]]:
        for origin, epochs in self._ranges.items():
            for epoch, ranges in epochs.items():
                for first, last in ranges:
                    yield origin, epoch, first, last

    def resume(self) -> dict[str, Position]:
        """For each origin, the position before the first hole: who goes on asks for what follows it."""
        positions: dict[str, Position] = {}
        for origin, epochs in self._ranges.items():
            for epoch in sorted(epochs):
                (_, last), *more = epochs[epoch]
                positions[origin] = Position(epoch, last)
                if more or last != END:
                    break
            else:
                positions[origin] = Position(max(epochs) + 1, 0)
        return positions

    def told(self) -> Told:
        """As brokers tell it to one another."""
        return {
            origin: {epoch: list(ranges) for epoch, ranges in known.items()} for origin, known in self._ranges.items()
        }
