"""The publications of this broker's own clients: numbered, kept in memory for a while, on disk if asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from tidings.wire import Envelope, Quality

from ._runtime import Log

MEMORY_PUBLICATIONS = 10_000
"""How many of its latest publications a broker keeps in memory, for brokers that missed them."""


class Publications:
    """What entered the network here, in the order of its numbers."""

    def __init__(self, epoch: int, log: Log | None, limit: int = MEMORY_PUBLICATIONS) -> None:
        self.epoch = epoch
        self.last = 0
        """The number of the latest publication of this epoch."""
        self._log = log
        self._recent: deque[Envelope] = deque(maxlen=limit)

    @property
    def durable(self) -> bool:
        """Whether publications can be stored at all."""
        return self._log is not None

    def number(self) -> int:
        """The next number."""
        self.last += 1
        return self.last

    def keep(self, envelope: Envelope, synced: Callable[[], None]) -> None:
        """Keep a publication as its quality demands; `synced` is called once it is stored."""
        self._recent.append(envelope)
        if envelope.quality is Quality.STORED and self._log is not None:
            self._log.append(envelope, synced)

    def since(self, epoch: int, after: int) -> Iterator[Envelope]:
        """What is held of one epoch with numbers above `after`, in order."""
        oldest = self._recent[0].identity.seq if self._recent else self.last + 1
        in_memory = epoch == self.epoch and oldest <= after + 1
        if not in_memory and self._log is not None:
            for envelope in self._log.read(epoch, after):
                if epoch == self.epoch and envelope.identity.seq >= oldest:
                    break
                yield envelope
        if epoch == self.epoch:
            yield from (envelope for envelope in self._recent if envelope.identity.seq > after)
