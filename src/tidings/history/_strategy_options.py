"""What can be set about the caching strategies."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from tidings.model import TidingsError

from ._cache_limits import CacheLimits


class Align(enum.Enum):
    """How a broker finds out what it knows already of what a neighbour has found."""

    ID = "id"
    """By the identity of each notification."""
    ORIGIN = "origin"
    """By count for each origin: of what came from there, as many of the newest are left out as are here."""
    COUNT = "count"
    """By count for each link, as the documents' first algorithms do. It loses and repeats notifications where caches
    are unequal or filters overlap; it is here to be compared with."""


class MergeOrder(enum.Enum):
    """Where what a neighbour has found goes among what is there."""

    FCFS = "fcfs"
    """In front of it: whoever answers first is taken for the newest."""
    INTERLEAVE = "interleave"
    """One from here, one from there."""
    TIMESTAMP = "timestamp"
    """By the time of publication, as the clocks of the border brokers tell it."""


class TimerScheme(enum.Enum):
    """How long brokers that were asked wait for those that they have asked."""

    PER_LEVEL = "per_level"
    """Each level has its own period, half of the one before."""
    FRACTION = "fraction"
    """Each passes on a fraction of the time that it has."""


class IndexScope(enum.Enum):
    """Whose filters a broker remembers."""

    ATTACHED = "attached"
    """Those of its own clients."""
    ALL = "all"
    """Those of neighbours, too."""


class ReplayVariant(enum.Enum):
    """The replay algorithms, each one step further than the one before."""

    BASIC = "basic"
    """The nearest broker that has the filter answers."""
    LARGEST = "largest"
    """If it has too few, what one further on has is taken instead."""
    MERGED = "merged"
    """What several have is put together, aligned by count."""
    JUNCTION = "junction"
    """Where paths meet, alignment is by count for each origin."""
    SEQUENCE = "sequence"
    """Whoever asks says what it has, and gets only what is older."""
    FULL = "full"
    """All together: every broker answers for itself, and says how many more answers to expect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyOptions:
    """How a caching strategy works; see `docs/history-strategies.md`. Times are in microseconds."""

    limits: CacheLimits = field(default_factory=CacheLimits)
    timer: int = 10_000_000
    """After this long a subscription goes on with what has been found."""
    timer_scheme: TimerScheme = TimerScheme.FRACTION
    max_depth: int | None = None
    """How many levels are searched: 1 is the client's own, 2 its border broker. None: all."""
    force_forwards: bool | None = None
    """Whether neighbours are asked to whom routing sends no subscription; None: if routing is above simple."""
    merge_order: MergeOrder = MergeOrder.FCFS
    align: Align = Align.ID
    replay_variant: ReplayVariant = ReplayVariant.FULL
    producer_history: int = 0
    """How many publications of each attached client are kept, whether or not anybody wants them."""
    index_scope: IndexScope | None = None
    """None: `attached` for border broker caching, `all` for the others."""
    max_answer: int = 1_000
    """The most notifications from the past that one subscription gets."""

    def __post_init__(self) -> None:
        if self.timer < 1:
            raise TidingsError(f"timer = {self.timer} microseconds; a subscription waits at least 1")
        if self.max_depth is not None and self.max_depth < 1:
            raise TidingsError(f"max_depth = {self.max_depth}; 1 is the client's own level, 2 its border broker")
        if not 0 <= self.producer_history <= self.limits.max_per_filter:
            raise TidingsError(
                f"producer_history = {self.producer_history} is not within 0 and max_per_filter = "
                f"{self.limits.max_per_filter}: publications of clients are kept within the limits of the cache"
            )
        if self.max_answer < 1:
            raise TidingsError(f"max_answer = {self.max_answer}; give at least 1, or switch history off")


FRACTION = 0.7
"""The part of its time that a broker passes on: what is left is for the way there and back."""
LEAST_PERIOD = 1_000
"""Microseconds that anybody waits at least."""


def period(scheme: TimerScheme, timer: int, level: int, given: int) -> int:
    """How long a broker at this level waits for those that it asks; `given` is what it was given itself.

    Whoever asks waits longer than whom it asks, so that an answer that came late there is not late here.
    """
    if scheme is TimerScheme.PER_LEVEL:
        return max(timer >> max(0, level - 2), LEAST_PERIOD)
    return max(given, LEAST_PERIOD)


def passed_on(given: int) -> int:
    """What a broker that has been given so much time gives to those that it asks."""
    return int(given * FRACTION)
