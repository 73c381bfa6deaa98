"""Two simpler memories, to compare the cache with: one ring for everything, and one ring for each filter."""

from __future__ import annotations

from collections import deque

from tidings.broker import Link
from tidings.model import Filter
from tidings.wire import Envelope

from ._provider import Question


class SingleRing:
    """The newest notifications of all kinds. What comes often pushes out what comes seldom."""

    def __init__(self, length: int) -> None:
        self._ring: deque[tuple[Envelope, Link]] = deque(maxlen=length)

    def __len__(self) -> int:
        return len(self._ring)

    def append(self, envelope: Envelope, link: Link) -> None:
        """A notification passes."""
        self._ring.append((envelope, link))

    def query(self, question: Question) -> list[Envelope]:
        """As `EventCache.query`."""
        return _newest(self._ring, question)


class ParallelRings:
    """One ring for each filter. Each has its own copies, and a new one is filled from all others, ring by ring: the
    order between copies of different rings is lost."""

    def __init__(self, max_filters: int, length: int) -> None:
        self._max_filters = max_filters
        self._length = length
        self._rings: dict[Filter, deque[tuple[Envelope, Link]]] = {}

    def __len__(self) -> int:
        """Copies that are held."""
        return sum(map(len, self._rings.values()))

    def retain(self, filter: Filter) -> bool:
        """Make a ring for a filter; False: there are too many."""
        filter = filter.canonical()
        if filter in self._rings or len(self._rings) == self._max_filters:
            return filter in self._rings
        ring: deque[tuple[Envelope, Link]] = deque(maxlen=self._length)
        for other in self._rings.values():
            ring.extend(copy for copy in other if filter.matches(copy[0].notification) and copy not in ring)
        self._rings[filter] = ring
        return True

    def release(self, filter: Filter) -> None:
        """Drop the ring of a filter."""
        self._rings.pop(filter.canonical(), None)

    def append(self, envelope: Envelope, link: Link) -> None:
        """A notification passes."""
        for filter, ring in self._rings.items():
            if filter.matches(envelope.notification):
                ring.append((envelope, link))

    def query(self, question: Question) -> list[Envelope]:
        """As `EventCache.query`."""
        return _newest(self._rings.get(question.filter.canonical(), deque()), question)


def _newest(ring: deque[tuple[Envelope, Link]], question: Question) -> list[Envelope]:
    found: list[Envelope] = []
    for envelope, link in reversed(ring):
        if question.is_satisfied(len(found)):
            break
        wanted = (question.exclude is None or link is not question.exclude) and question.wants(envelope)
        if wanted and question.filter.matches(envelope.notification):
            found.append(envelope)
    return found[::-1]
