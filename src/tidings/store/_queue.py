"""What waits for the disk: a bounded queue between the broker's thread and the writer's.

The broker's thread puts operations in and never waits. The writer takes them out in order, as many as one commit may
hold; what it has taken still counts, and is still seen by readers, until it says that it is `done`: so nothing is ever
invisible between memory and disk.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

import msgspec

from tidings.model import Position
from tidings.wire import Envelope, Run

from ._errors import StoreClosed, StoreError, StoreFull

QUEUE_COUNT = 50_000
"""The most operations that wait for the disk. More are refused with `StoreFull`."""
QUEUE_BYTES = 67_108_864
"""The most bytes that wait for the disk. More are refused with `StoreFull`."""
COMMIT_COUNT = 4_000
"""The most operations in one commit: bounds the time of a commit, and of the turn that hears its answers."""


class Put(NamedTuple):
    """A piece of small state; None deletes it."""

    table: str
    key: str
    value: bytes | None


class Line(NamedTuple):
    """A journal record, encoded where it came in: one that cannot be encoded must not spoil a commit."""

    at: int
    record: msgspec.Raw


class Retain(NamedTuple):
    """Forget the oldest publications and journal records beyond these limits."""

    max_bytes: int | None
    older_than: int | None
    archived: Position | None = None
    """Epoch and number up to which an archive holds everything; None: there is no archive to wait for."""
    journal_before: int | None = None
    """The journal forgets what is older."""


Synced: TypeAlias = Callable[[], None]
Failed: TypeAlias = Callable[[StoreError], None]
Heard: TypeAlias = Callable[[Sequence[Envelope | Run], StoreError | None], None]


class Operation(msgspec.Struct):
    """Something for the disk, and who wants to hear of it. As a struct it is made in a fifth of the time of a tuple."""

    what: Envelope | Run | Line | Put | Retain
    size: int
    synced: Synced | None
    failed: Failed | None = None
    heard: Heard | None = None
    """Of an envelope or a run: called once for all that follow one another and have the same."""
    count: int = 1
    """How many writes it stands for."""


class WriteQueue:
    """Operations in order; one thread puts, one takes, any may look."""

    def __init__(self, max_count: int, max_bytes: int) -> None:
        self.max_count = max_count
        self.max_bytes = max_bytes
        self.count = 0
        self.bytes = 0
        self.total = 0
        """Operations ever put in."""
        self.commit_bytes = max_bytes
        """The bytes after which a commit takes no more: a store with a small limit must not pass it by one commit."""
        self._waiting: deque[Operation] = deque()
        self._ahead: deque[Operation] = deque()
        self._taken: list[Operation] = []
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._idle = False
        self._closed = False

    @property
    def full(self) -> bool:
        """Whether the next operation would be refused."""
        return self.count >= self.max_count or self.bytes >= self.max_bytes

    def has_room(self, count: int, size: int) -> bool:
        """Whether so many operations of this size fit."""
        return self.count + count <= self.max_count and self.bytes + size <= self.max_bytes

    def put(self, operation: Operation, *, first: bool = False) -> None:
        """Add an operation at the end, or raise `StoreFull`.

        With `first` it goes ahead of all that waits, in a commit of its own, and has its place in a full queue.
        """
        with self._lock:  # for the condition itself Python is called twice
            if self._closed:
                raise StoreClosed("the store has been closed; open it again to write")
            if not first and (self.count >= self.max_count or self.bytes >= self.max_bytes):
                raise StoreFull(
                    f"{self.count:,} writes of {self.bytes:,} bytes wait for the disk, "
                    f"at most {self.max_count:,} and {self.max_bytes:,} may; wait until some are synced"
                )
            (self._ahead if first else self._waiting).append(operation)
            self.count += operation.count
            self.bytes += operation.size
            self.total += operation.count
            if self._idle:
                self._idle = False
                self._changed.notify()

    def take(self) -> list[Operation] | None:
        """Everything that waits, as far as it fits into one commit; waits for the first. None: closed and empty."""
        with self._changed:
            while not self._waiting and not self._ahead:
                if self._closed:
                    return None
                self._idle = True
                self._changed.wait()
            if self._ahead:
                self._taken = [self._ahead.popleft()]
                return self._taken
            waiting = self._waiting
            if self.bytes <= self.commit_bytes and self.count <= COMMIT_COUNT:
                self._taken = list(waiting)
                waiting.clear()
                return self._taken
            taken = [waiting.popleft()]
            room, count = self.commit_bytes - taken[0].size, COMMIT_COUNT - taken[0].count
            while waiting and (count := count - waiting[0].count) >= 0 and (room := room - waiting[0].size) >= 0:
                taken.append(waiting.popleft())
            self._taken = taken
            return taken

    def done(self) -> None:
        """What was taken last is on disk, or has failed."""
        with self._changed:
            self.count -= sum(operation.count for operation in self._taken)
            self.bytes -= sum(operation.size for operation in self._taken)
            self._taken = []

    def pending(self) -> list[Operation]:
        """Everything that is not done, in order."""
        with self._changed:
            return list(chain(self._taken, self._ahead, self._waiting))

    def abandon(self) -> int:
        """Forget what waits and is in no commit yet; how many that were."""
        with self._changed:
            dropped = [*self._ahead, *self._waiting]
            self._ahead.clear()
            self._waiting.clear()
            count = sum(operation.count for operation in dropped)
            self.count -= count
            self.bytes -= sum(operation.size for operation in dropped)
            return count

    def close(self) -> None:
        """Take no more; what waits is still written."""
        with self._changed:
            self._closed = True
            self._changed.notify()
