"""The positions of acknowledged groups at one broker: what each of them has handled, on disk where there is one.

Every broker that has to do with a group keeps them: its point, and those of its members. They outlive the members, so a
group goes on where it was when all of them were away. What is written is a second behind: who reads it after a crash
knows a little less than was known, so a few jobs may be done twice, and none is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from tidings.broker import Log, Timer
from tidings.model import TidingsError
from tidings.wire import Ranges

from ._fair import FairShare
from ._handled import HandledFacts
from ._limits import KEEP_POSITIONS, MAX_POSITIONS, WRITE_AFTER

_TABLE = "work"


class _Record(msgspec.Struct, frozen=True, array_like=True):
    handled: Ranges
    at: int
    """When it was written, in microseconds since 1970 UTC."""
    lost: Ranges = {}


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Record).decode


class Host(Protocol):
    """The broker, as far as positions need it."""

    @property
    def log(self) -> Log | None:
        """The disk, if there is one."""
        ...

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        ...

    def call_later(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call `action` in a turn of its own."""
        ...

    def has(self, key: str) -> bool:
        """Whether a group has members, as far as this broker knows."""
        ...


class Positions:
    """What is known of each group."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._handled: dict[str, HandledFacts] = {}
        self._share = FairShare(MAX_POSITIONS)
        self._writing: Timer | None = None
        self.failed = 0
        """How often the disk has refused to write them."""

    def __len__(self) -> int:
        return len(self._handled)

    def read(self) -> None:
        """Read what is on disk; what is too old or cannot be read is left out."""
        log, now = self._host.log, self._host.now()
        for key, value in (log.items(_TABLE) if log is not None else {}).items():
            try:
                record = _decode(value)
            except msgspec.MsgspecError:
                self.failed += 1
                continue
            if log is not None and record.at < now - KEEP_POSITIONS:
                log.delete(_TABLE, key)
            else:
                facts = self._handled[key] = HandledFacts()
                self._share.add(key)
                facts.join(record.handled, record.lost)
                facts.take_news()
                facts.is_written = True

    def find(self, key: str) -> HandledFacts | None:
        """What is known of a group, if anything is."""
        return self._handled.get(key)

    def of(self, key: str) -> HandledFacts:
        """What is known of a group, to be added to."""
        facts = self._handled.get(key)
        if facts is None:
            facts = self._handled[key] = HandledFacts()
            self._share.add(key)
            self._make_room(key)
        if self._writing is None and self._host.log is not None:
            self._writing = self._host.call_later(WRITE_AFTER, self._write)
        return facts

    def _make_room(self, key: str) -> None:
        oldest = self._share.excess(lambda one: one == key or self._host.has(one))
        if oldest is not None:
            self._share.discard(oldest)
            del self._handled[oldest]
            if self._host.log is not None:
                self._host.log.delete(_TABLE, oldest)

    def _write(self) -> None:
        self._writing = None
        log = self._host.log
        for key, facts in self._handled.items():
            if log is None or facts.is_written:
                continue
            facts.is_written = True
            try:
                record = _Record(facts.told(), self._host.now(), facts.told_lost())
                log.put(_TABLE, key, _encode(record), failed=self._not_written)
            except TidingsError:
                self.failed += 1

    def _not_written(self, error: Exception) -> None:
        self.failed += 1
