"""A neighbour's clock: how far it is off, as far as round trips tell.

A question carries the time at which it was asked, the answer also the time at which it was given. Whenever between
asking and hearing that was, the clock is off by the difference to the middle, give or take half of the round trip. Of
the latest answers the quickest counts: it errs least. One that contradicts it means that a clock was set, and what was
known before counts no more.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import NamedTuple

log = logging.getLogger("tidings.net")

SAMPLES = 8
"""The answers among which the quickest is chosen: clocks drift, so it must not be too old."""


class Offset(NamedTuple):
    """How far a clock is ahead of this broker's, in microseconds."""

    ahead: int
    """Negative: it is behind."""
    error: int
    """By how much that may be wrong, in either direction."""

    def excludes(self, other: Offset) -> bool:
        """Whether not both can be right."""
        return abs(self.ahead - other.ahead) > self.error + other.error

    def __str__(self) -> str:
        direction = "behind" if self.ahead < 0 else "ahead"
        return f"{abs(self.ahead) / 1e6:.3f} s {direction}, give or take {self.error / 1e6:.3f} s"


class Clock:
    """What is known of one neighbour's clock."""

    def __init__(self, neighbour: str, limit: float) -> None:
        """`limit`: the seconds it may be off before the log says so."""
        self._neighbour = neighbour
        self._limit = round(limit * 1_000_000)
        self._asked: int | None = None
        self._samples: deque[Offset] = deque(maxlen=SAMPLES)
        self.is_off = False
        """Whether it is certainly off by more than the limit."""

    @property
    def offset(self) -> Offset | None:
        """The best that is known; None: it has not answered yet."""
        return min(self._samples, key=lambda offset: offset.error, default=None)

    def ask(self, now: int) -> int:
        """The time to put into a question; the answer to an earlier one is not waited for any more."""
        self._asked = now
        return now

    def answered(self, asked: int, there: int, now: int) -> None:
        """The neighbour read `there` when it was asked at `asked`; what nobody asked, or long ago, does not count."""
        if asked != self._asked or now < asked:
            return
        self._asked = None
        known, heard = self.offset, Offset(there - (asked + now) // 2, (now - asked + 1) // 2)
        if known is not None and known.excludes(heard):
            self._samples.clear()
        self._samples.append(heard)
        self._judge()

    def _judge(self) -> None:
        offset = self.offset
        assert offset is not None
        is_off = abs(offset.ahead) - offset.error > self._limit
        if is_off and not self.is_off:
            log.warning(
                "the clock of broker %s is %s; bounds in time are wrong by as much: let both follow a time server",
                self._neighbour,
                offset,
            )
        elif self.is_off and not is_off:
            log.info("the clock of broker %s is right again: %s", self._neighbour, offset)
        self.is_off = is_off
