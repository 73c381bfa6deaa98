"""Points: the inverse question. Which of these many notifications may pass this filter?

Routing asks it with one *witness* per announced filter, to find what a new filter covers. Each attribute keeps its
values in a dict and, per kind, in a sorted list; a query looks at the constraint with the fewest points and leaves
the rest to the caller, who has to test the answers anyway. A point that is no plain set of scalars (or unknown) is
always among the answers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from tidings.model import Conjunction, Constraint, Filter, Kind, Negated, Notification, kind_of
from tidings.model.operators import IsNull, Prefix, Range

K = TypeVar("K", bound=Hashable)


class _Axis(Generic[K]):
    """The points along one attribute and kind."""

    __slots__ = ("at", "count", "order")

    def __init__(self) -> None:
        self.at: dict[Any, dict[K, None]] = {}
        self.order: list[Any] = []
        self.count = 0

    def add(self, value: Any, key: K) -> None:
        if value not in self.at:
            self.at[value] = {}
            if kind_of(value) is not Kind.PLACE:
                insort(self.order, value)
        self.at[value][key] = None
        self.count += 1

    def remove(self, value: Any, key: K) -> None:
        keys = self.at[value]
        del keys[key]
        self.count -= 1
        if not keys:
            del self.at[value]
            if kind_of(value) is not Kind.PLACE:
                del self.order[bisect_left(self.order, value)]

    def between(self, low: Any, high: Any) -> tuple[int, int]:
        first = 0 if low is None else bisect_left(self.order, low)
        last = len(self.order) if high is None else bisect_right(self.order, high)
        return first, max(first, last)

    def keys(self, values: Iterable[Any]) -> Iterator[K]:
        for value in values:
            yield from self.at.get(value, ())


class Points(Generic[K]):
    """Notifications by key, and for a filter those that it may accept."""

    def __init__(self) -> None:
        self._witnesses: dict[K, Notification | None] = {}
        self._axes: dict[tuple[str, Kind], _Axis[K]] = {}
        self._odd: dict[K, None] = {}

    def __len__(self) -> int:
        return len(self._witnesses)

    def add(self, key: K, point: Notification | None) -> None:
        """Put in a point; None: it is unknown."""
        self._witnesses[key] = point
        if point is None or any(type(value) is tuple for value in point.attributes.values()):
            self._odd[key] = None
            return
        for name, value in point.attributes.items():
            axis = self._axes.setdefault((name, kind_of(value)), _Axis())  # type: ignore[arg-type]
            axis.add(value, key)

    def remove(self, key: K) -> None:
        """Take out a point."""
        point = self._witnesses.pop(key)
        if key in self._odd:
            del self._odd[key]
            return
        if point is None:
            return
        for name, value in point.attributes.items():
            place = (name, kind_of(value))  # type: ignore[arg-type]
            self._axes[place].remove(value, key)
            if not self._axes[place].count:
                del self._axes[place]

    def candidates(self, filter: Filter) -> list[K]:
        """The keys of all points that the filter accepts, and perhaps of others."""
        found: dict[K, None] = dict.fromkeys(self._odd)
        for conjunction in filter.conjunctions:
            found.update(dict.fromkeys(self._candidates(conjunction)))
        return list(found)

    def _candidates(self, conjunction: Conjunction) -> Iterable[K]:
        best: Iterable[K] = self._witnesses
        fewest = len(self._witnesses)
        for constraint in conjunction:
            kind = constraint.kind
            if kind is None or isinstance(constraint, (Negated, IsNull)):
                continue
            axis = self._axes.get((constraint.name, kind))
            if axis is None:
                return ()
            cost, keys = _select(axis, constraint)
            if cost < fewest:
                fewest, best = cost, keys
        return best


def _select(axis: _Axis[K], constraint: Constraint) -> tuple[int, Iterable[K]]:
    if (values := constraint.values) is not None:
        return sum(len(axis.at.get(value, ())) for value in values), axis.keys(values)
    if isinstance(constraint, Range):
        first, last = axis.between(constraint.low, constraint.high)
        return last - first, axis.keys(axis.order[first:last])
    if isinstance(constraint, Prefix) and constraint.text:
        first, last = axis.between(constraint.text, _beyond(constraint.text))
        return last - first, axis.keys(axis.order[first:last])
    return axis.count, axis.keys(axis.at)


def _beyond(prefix: str) -> str | None:
    """The smallest text above everything that starts so; None if there is none."""
    kept = prefix.rstrip("\U0010ffff")
    return kept[:-1] + chr(ord(kept[-1]) + 1) if kept else None
