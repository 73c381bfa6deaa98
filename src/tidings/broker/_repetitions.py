"""Repetitions: whether a publication is among the latest that were delivered to a subscription.

A publisher's numbers grow, and nearly always come in their order. So the numbers of each (subscription, publisher,
version) are kept as a sorted list: what lies above its end is new and is appended, anything else is looked up. They are
kept in two generations: when the younger has `size` of them it becomes the older one, and the older is forgotten. So at
least `size` are known, at most twice as many, and forgetting costs nothing per delivery. A list of the younger
generation begins with the largest number of the older one, so that its end is the largest of all: one number more for
each source that has a new one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TypeAlias

Source: TypeAlias = tuple[str, str, int]
"""Subscription, publisher, version."""


class Repetitions:
    """The latest deliveries."""

    __slots__ = ("_count", "_older", "_size", "_younger")

    def __init__(self, size: int) -> None:
        self._size = size
        self._count = 0
        self._younger: dict[Source, list[int]] = {}
        self._older: dict[Source, list[int]] = {}

    def known(self, source: Source, number: int) -> bool:
        """Whether this number has been noted lately; if not, it is now."""
        numbers = self._younger.get(source)
        if numbers is None:
            older = self._older.get(source, [])
            if _contains(older, number):
                return True  # a source that only repeats itself gets no list: it would never be forgotten
            numbers = self._younger[source] = older[-1:]
        if not numbers or number > numbers[-1]:
            numbers.append(number)
        elif _contains(numbers, number) or _contains(self._older.get(source, []), number):
            return True
        else:
            insort(numbers, number)
        self._count += 1
        if self._count >= self._size:
            self._older, self._younger, self._count = self._younger, {}, 0
        return False

    def follows(self, source: Source, number: int) -> bool:
        """Whether the source is known, and this number lies above all that were noted of it."""
        numbers = self._younger.get(source)
        return numbers is not None and bool(numbers) and number > numbers[-1]

    def note(self, source: Source, numbers: list[int]) -> None:
        """Note growing numbers, the first of which follows, as `known` does for each."""
        left = numbers
        while left:
            noted = self._younger.get(source)
            if noted is None:
                noted = self._younger[source] = self._older.get(source, [])[-1:]
            room = self._size - self._count
            now, left = left[:room], left[room:]
            noted += now
            self._count += len(now)
            if self._count >= self._size:
                self._older, self._younger, self._count = self._younger, {}, 0


def _contains(numbers: list[int], number: int) -> bool:
    at = bisect_left(numbers, number)
    return at < len(numbers) and numbers[at] == number
