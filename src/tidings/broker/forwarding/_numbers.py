"""The numbers of publications: those that this broker gives, and those that publishers give themselves.

Every publication gets the next number of this broker's epoch. Its publisher has numbered it, too, so that one that
comes again is recognised: the latest number of each publisher is remembered, from disk after a restart. The latest
publications themselves are kept in memory, for brokers that missed them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping

from tidings.wire import Envelope, Run

MEMORY_PUBLICATIONS = 10_000
"""How many of its latest publications a broker keeps in memory, for brokers that missed them."""
MEMORY_BYTES = 67_108_864
"""How many bytes of bodies these may have together."""
MAX_PUBLISHERS = 100_000
"""How many publishers' latest numbers a broker remembers."""
PUBLISHERS_SHARE = 10_000
"""How many of these may belong to one owner."""


class Numbers:
    """What entered the network at one broker, by its numbers."""

    def __init__(self, on_disk: Mapping[str, list[int]], limit: int = MEMORY_PUBLICATIONS) -> None:
        """`on_disk`: of each publisher whose publications are there, its own numbers, in ascending order."""
        self.last = 0
        """The number of the latest publication of this epoch."""
        self.publishers = {publisher: numbers[-1] for publisher, numbers in on_disk.items()}
        """The largest number of its own of each publisher that is remembered."""
        self.newest: str | None = None
        """The publisher that came last."""
        self._recent: deque[Envelope | Run] = deque()
        """What is in memory, in the order of the numbers."""
        self._count = 0
        """How many publications these are."""
        self._gone = 0
        """How many of the first run are forgotten."""
        self._gapped = {publisher: numbers for publisher, numbers in on_disk.items() if _has_gaps(numbers)}
        """The numbers of publishers of which earlier epochs do not have all: the others were refused, or are lost."""
        self._names: dict[str, dict[str, None]] = {}
        """The names of those that have several, the newest last."""
        self._limit = limit
        self._bytes = 0

    def is_used(self, publisher: str, seq: int) -> bool:
        """Whether the publisher has used this number of its own."""
        return seq <= self.publishers.get(publisher, 0) and not self._is_gap(publisher, seq)

    def _is_gap(self, publisher: str, seq: int) -> bool:
        """Whether a number is known not to be on disk, though later ones of an earlier epoch are."""
        numbers = self._gapped.get(publisher)
        if numbers is None or not numbers[0] < seq < numbers[-1]:
            return False
        at = bisect_left(numbers, seq)
        return numbers[at] != seq

    def use(self, publisher: str, seq: int, owner: str) -> None:
        """From now on the publisher has used this number of its own, and those before it."""
        if self._is_gap(publisher, seq):
            insort(self._gapped[publisher], seq)
            return
        publishers = self.publishers
        if publisher != self.newest:
            self.newest = publisher
            publishers.pop(publisher, None)  # the newest publisher is the last one
            if owner != publisher:
                self._keep_to_share(publisher, owner)
            if len(publishers) >= MAX_PUBLISHERS:
                self._forget(next(iter(publishers)))
        publishers[publisher] = seq

    def use_many(self, publisher: str, seq: int, owner: str, count: int) -> None:
        """So many new numbers of its own, up to this one, and as many of this broker."""
        self.use(publisher, seq, owner)
        self.last += count

    def _keep_to_share(self, publisher: str, owner: str) -> None:
        """An owner with more names than its share pushes out its own: others must not be forgotten because of it."""
        names = self._names.setdefault(owner, {})
        names.pop(publisher, None)
        names[publisher] = None
        if len(names) > PUBLISHERS_SHARE:
            oldest = next(iter(names))
            del names[oldest]
            self._forget(oldest)

    def _forget(self, publisher: str) -> None:
        self.publishers.pop(publisher, None)
        self._gapped.pop(publisher, None)

    def remember(self, envelope: Envelope) -> None:
        """Keep a publication in memory for a while."""
        self._recent.append(envelope)
        self._count += 1
        self._bytes += len(envelope.body)
        if self._count > self._limit or self._bytes > MEMORY_BYTES:
            self._make_room()

    def remember_run(self, run: Run) -> None:
        """Keep publications in memory for a while, each as long as if it had come alone."""
        self._recent.append(run)
        self._count += len(run)
        self._bytes += run.size
        if self._count > self._limit or self._bytes > MEMORY_BYTES:
            self._make_room()

    def _make_room(self) -> None:
        recent = self._recent
        while self._count > self._limit or self._bytes > MEMORY_BYTES:
            oldest = recent[0]
            if isinstance(oldest, Run):
                left = len(oldest) - self._gone
                many = max(1, min(left, self._count - self._limit))
                self._bytes -= oldest.size_of(self._gone, self._gone + many)
                self._gone += many
                if many == left:
                    self._gone = 0
                    recent.popleft()
            else:
                many = 1
                self._bytes -= len(oldest.body)
                recent.popleft()
            self._count -= many

    @property
    def oldest(self) -> int | None:
        """The smallest number in memory."""
        if not self._recent:
            return None
        first = self._recent[0]
        return first.first.seq + self._gone if isinstance(first, Run) else first.identity.seq

    def after(self, number: int) -> list[Envelope]:
        """What is in memory with a larger number, in order."""
        found: list[Envelope] = []
        gone = self._gone
        for one in self._recent:
            if isinstance(one, Run):
                if one.last > number:
                    found += one.envelopes(max(gone, number + 1 - one.first.seq))
            elif one.identity.seq > number:
                found.append(one)
            gone = 0
        return found


def _has_gaps(numbers: list[int]) -> bool:
    return numbers[-1] - numbers[0] + 1 != len(numbers)
