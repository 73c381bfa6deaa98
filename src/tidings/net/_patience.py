"""Patience: for how many seconds of each minute a slow subscriber may hold up those who publish.

The seconds belong to the name of a subscriber and to its identity, not to a connection, so connecting again buys
nothing. Since an identity may have many names, all of its subscribers together have a bound of their own.
"""

from __future__ import annotations

from collections import deque

MINUTE = 60.0
"""Seconds after which what was spent is forgiven."""
IDENTITY_SHARE = 3
"""How many times the seconds of one subscriber all subscribers of one identity have together."""
MAX_REMEMBERED = 10_000
"""The most subscribers that held others up within a minute and are remembered; a further one has no seconds."""


class _Spent:
    """The seconds that one subscriber has held others up, by the second in which it stopped to."""

    __slots__ = ("_recent", "_total")

    def __init__(self) -> None:
        self._recent: deque[tuple[int, float]] = deque()
        self._total = 0.0

    def add(self, seconds: float, now: float) -> None:
        self._total += seconds
        if self._recent and self._recent[-1][0] == int(now):
            seconds += self._recent.pop()[1]
        self._recent.append((int(now), seconds))

    def within_a_minute(self, now: float) -> float:
        while self._recent and self._recent[0][0] + 1 + MINUTE <= now:
            self._total -= self._recent.popleft()[1]
        return self._total if self._recent else 0.0


class Patience:
    """What every subscriber has left of its seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._spent: dict[tuple[str, str | None], _Spent] = {}

    def left(self, identity: str, name: str, now: float) -> float:
        """The seconds for which a subscriber may hold others up now."""
        if (identity, name) not in self._spent and not self._has_room(now):
            return 0.0
        alone = self._seconds - self._within_a_minute((identity, name), now)
        together = self._seconds * IDENTITY_SHARE - self._within_a_minute((identity, None), now)
        return max(0.0, min(alone, together))

    def spend(self, identity: str, name: str, seconds: float, now: float) -> None:
        """A subscriber has held others up for so long."""
        for key in ((identity, name), (identity, None)):
            self._spent.setdefault(key, _Spent()).add(seconds, now)

    def _within_a_minute(self, key: tuple[str, str | None], now: float) -> float:
        spent = self._spent.get(key)
        return 0.0 if spent is None else spent.within_a_minute(now)

    def _has_room(self, now: float) -> bool:
        if len(self._spent) >= MAX_REMEMBERED:
            self._spent = {key: spent for key, spent in self._spent.items() if spent.within_a_minute(now)}
        return len(self._spent) < MAX_REMEMBERED
