"""Table 4.1: what is varied in the experiments, and what everything else is meanwhile."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from tidings.mobility.models.ctmc import Times
from tidings.model import TidingsError

from ._walks import Pattern

SELECTORS = 100
"""Each publication has one number from 0 to 99, all equally likely."""
WIDTH = 20
"""Each subscriber wants so many in a row: one in five."""

TABLE_4_1: Mapping[str, tuple[float | Pattern, ...]] = {
    "subscribers": (10, 50, 100, 150, 200),
    "sleep": (2, 1.5, 1, 0.5, 0),
    "bandwidth": (1, 11),
    "queue_bytes": (1_000_000, 2_000_000, 3_000_000, 4_000_000),
    "disconnected": (12, 24),
    "connected": (60, 150),
    "handoff": (1.5, 3),
    "pattern": (Pattern.RANDOM, Pattern.NEIGHBOURING),
}
"""The values of each parameter."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One point of the experiments; its defaults are those of the documents."""

    subscribers: int = 200
    sleep: float = 0.0
    """Seconds between publications."""
    bandwidth: float = 11.0
    """Of the radio, in megabits a second."""
    queue_bytes: int = 1_000_000
    """What a broker may buffer."""
    disconnected: float = 12.0
    """Mean seconds,"""
    connected: float = 60.0
    handoff: float = 3.0
    pattern: Pattern = Pattern.RANDOM
    message_bytes: int = 1_024
    """Not given by the documents."""

    def __post_init__(self) -> None:
        """Raise `TidingsError` for a value that makes no sense."""
        for one in fields(self):
            value = getattr(self, one.name)
            least = 0 if one.name == "sleep" else 1e-9
            if not isinstance(value, Pattern) and not least <= value < float("inf"):
                raise TidingsError(f"{one.name}: {value}; give {'0 or more' if one.name == 'sleep' else 'more than 0'}")

    @property
    def times(self) -> Times:
        """How long clients are where."""
        return Times(self.connected, self.disconnected, self.handoff)

    def interests(self, rng: random.Random) -> list[tuple[int, int]]:
        """The first and the last number that each subscriber wants; where its range lies is random."""
        lows = [rng.randrange(SELECTORS - WIDTH + 1) for _ in range(self.subscribers)]
        return [(low, low + WIDTH - 1) for low in lows]

    def starts(self, brokers: Sequence[str]) -> list[str]:
        """Where each subscriber begins: evenly spread."""
        return [brokers[number % len(brokers)] for number in range(self.subscribers)]

    def selector(self, rng: random.Random) -> int:
        """The number of the next publication."""
        return rng.randrange(SELECTORS)
