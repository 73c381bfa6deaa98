"""Faults as data: what goes wrong in a world, where, from when to when.

A plan is drawn from a seed before anything happens, so it can be printed, repeated, and made smaller by leaving some of
it out. Each fault is a pair, the trouble and its end; two at the same place do not overlap. Everything is mended before
the plan ends, so that a world that has come to rest owes everything that `docs/promises.md` promises.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass


class Trouble(enum.Enum):
    """The kinds of faults."""

    CUT = "cut"
    """A link between brokers is cut, or a client from a broker."""
    CRASH = "crash"
    """A broker dies and starts again, with what its disk had synced; or an application is killed and started again."""
    VANISH = "vanish"
    """A broker or a client can no longer be reached, and nobody is told."""
    SLOW_DISK = "slow_disk"
    """A disk needs long for a sync."""
    FULL_DISK = "full_disk"
    """A disk takes nothing more."""
    CLOCK_JUMP = "clock_jump"
    """The clock of a broker jumps, and back at the end."""


ALL = tuple(Trouble)
DEFAULT = (Trouble.CUT, Trouble.CRASH, Trouble.SLOW_DISK)
"""What `World.random_faults` draws from unless it is told more."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong for a while."""

    trouble: Trouble
    who: tuple[str, ...]
    """A broker or client, or the two ends of a link."""
    at: float
    """Seconds after the plan began."""
    until: float
    amount: float = 0.0
    """Seconds that a sync takes, or that a clock jumps by."""

    def __str__(self) -> str:
        amount = f" by {self.amount:g} s" if self.amount else ""
        return f"{self.at:.6f} s to {self.until:.6f} s: {self.trouble.value} {' - '.join(self.who)}{amount}"


def draw(
    rng: random.Random,
    brokers: Sequence[str],
    links: Sequence[tuple[str, str]],
    applications: Sequence[str] = (),
    *,
    seconds: float,
    kinds: Iterable[Trouble] = DEFAULT,
) -> tuple[Fault, ...]:
    """Draw a plan: for each place some faults, one after the other, in the order of their times."""
    wanted = list(kinds)
    faults: list[Fault] = []
    if Trouble.CUT in wanted:
        for link in links:
            faults += _at_one_place(rng, (Trouble.CUT,), link, seconds)
    # A dead broker has no disk that could be full: what happens to one broker happens one after the other.
    of_brokers = [kind for kind in wanted if kind is not Trouble.CUT]
    if of_brokers:
        for broker in brokers:
            faults += _at_one_place(rng, of_brokers, (broker,), seconds)
    if Trouble.CRASH in wanted:
        for application in applications:
            faults += _at_one_place(rng, (Trouble.CRASH,), (application,), seconds)
    return tuple(sorted(faults, key=lambda fault: fault.at))


def _at_one_place(
    rng: random.Random, kinds: Sequence[Trouble], who: tuple[str, ...], seconds: float
) -> Iterator[Fault]:
    at = rng.uniform(0, seconds)
    while rng.random() < 0.6:
        kind = rng.choice(kinds)
        until = at + rng.choice((0.02, 0.5, 2.0, 8.0)) * rng.random()
        amount = 0.0
        if kind is Trouble.SLOW_DISK:
            amount = rng.choice((0.05, 0.5, 3.0))
        elif kind is Trouble.CLOCK_JUMP:
            amount = rng.choice((-60.0, -0.5, 0.5, 60.0))
        if until >= seconds:
            return
        yield Fault(kind, who, round(at, 6), round(until, 6), amount)
        at = until + rng.uniform(0.001, seconds / 4)


def shrunk(plan: Sequence[Fault], fails: Callable[[tuple[int, ...]], bool], *, most: int = 60) -> tuple[int, ...]:
    """Find few faults of a plan, by their places in it, that are enough to fail.

    `fails` runs the world again with these faults only. Halves are left out first, then quarters, then single faults
    (delta debugging); after `most` runs, the smallest plan so far is returned.
    """
    kept = tuple(range(len(plan)))
    runs = 0
    size = max(1, len(kept) // 2)
    while kept:
        smaller: tuple[int, ...] | None = None
        for start in range(0, len(kept), size):
            if runs >= most:
                return kept
            runs += 1
            rest = kept[:start] + kept[start + size :]
            if fails(rest):
                smaller = rest
                break
        if smaller is not None:
            kept = smaller
            size = max(1, min(size, len(kept) // 2))
        elif size == 1:
            return kept
        else:
            size = max(1, size // 2)
    return kept
