"""Patience: copies of a client that goes and comes all the time are activated later: it is mostly back before that."""

from __future__ import annotations

from collections import deque

from ._woven import SECOND

OFTEN = 10
"""How often a client may go in `OFTEN_TIME` before its copies are activated later."""
OFTEN_TIME = 60_000_000
"""Microseconds."""
MAX_PATIENCE = 30_000_000
"""Microseconds: the most by which they are."""
MAX_REMEMBERED = 100_000
"""The most clients whose departures are remembered."""


class Patience:
    """When the clients of one broker went lately."""

    def __init__(self) -> None:
        self._departures: dict[str, deque[int]] = {}
        """Who went last stands at the end."""

    def __len__(self) -> int:
        return len(self._departures)

    def with_one_that_goes(self, name: str, now: int) -> int:
        """Note a departure; for how many microseconds to wait before the copies of this client are activated."""
        times = self._departures.pop(name, None) or deque(maxlen=2 * OFTEN)
        times.append(now)
        while times[0] < now - OFTEN_TIME:
            times.popleft()
        self._departures[name] = times
        oldest = self._departures.values()
        while len(self._departures) > MAX_REMEMBERED or next(iter(oldest))[-1] < now - OFTEN_TIME:
            del self._departures[next(iter(self._departures))]
        return min(SECOND << (len(times) - OFTEN - 1), MAX_PATIENCE) if len(times) > OFTEN else 0
