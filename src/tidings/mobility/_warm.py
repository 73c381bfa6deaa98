"""Warm copies at one broker: those that listen although their clients are connected elsewhere.

They share a buffer that holds what came within a while. It is a buffer of its own, so that they take nothing from
copies whose clients are away; what an activated copy holds is moved to the other one.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ._buffer import SharedBuffer
from ._copy import Copy
from ._options import MobilityOptions
from ._room import Room
from ._woven import SECOND, Woven

PARTS = 8
"""Into how many parts the time is divided for which something is held: it is held for one of them longer at most."""


class _Look(NamedTuple):
    at: int
    latest: int
    """The number of what had been added last."""


class WarmCopies:
    """Those of one broker, and what they hold."""

    def __init__(self, feature: Woven, options: MobilityOptions, room: Room) -> None:
        self._feature = feature
        self._most = options.max_warm_copies
        self._window = int(options.warm_window * SECOND)
        self.buffer = SharedBuffer(options.warm_buffer_bytes, room)
        self.buffer.filled = self._filled
        self._copies: set[Copy] = set()
        self._looks: deque[_Look] = deque()
        self._looking = False
        self.refused = 0
        """How many rest because there were too many."""

    def __len__(self) -> int:
        return len(self._copies)

    def take(self, copy: Copy) -> bool:
        """Let a copy hold what comes lately; False: there are too many."""
        if len(self._copies) >= self._most:
            self.refused += 1
            return False
        self._copies.add(copy)
        copy.warm = True
        copy.buffer.move(copy, self.buffer)
        copy.buffer = self.buffer
        return True

    def give(self, copy: Copy, buffer: SharedBuffer) -> None:
        """Let a copy hold everything, in another buffer."""
        self.forget(copy)
        copy.warm = False
        self.buffer.move(copy, buffer)
        copy.buffer = buffer

    def forget(self, copy: Copy) -> None:
        """A copy is none any more."""
        self._copies.discard(copy)

    def _filled(self) -> None:
        """Something is held, after there was nothing."""
        if not self._looking:
            self._look_later()

    def _look_later(self) -> None:
        self._looking = True
        self._feature.context.call_later(self._window // PARTS, self._look)

    def _look(self) -> None:
        """Overwrite what is old."""
        now = self._feature.context.now()
        self._looks.append(_Look(now, self.buffer.latest))
        while self._looks[0].at <= now - self._window:
            self.buffer.overwrite_until(self._looks.popleft().latest)
        self._looking = False
        if len(self.buffer):
            self._look_later()
        else:
            self._looks.clear()
