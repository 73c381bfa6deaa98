"""Habits: what a simulated application does with the jobs of an acknowledged group."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from tidings.wire import JobKey, Work

from ._trace import Op

SECOND = 1_000_000
WORK_TERMS = Work(ack_within=30 * SECOND, max_deliveries=5)


class Act(NamedTuple):
    """What becomes of a job."""

    verb: Op | None
    """DONE, BACK; None: the application forgets it."""
    after: int = 0
    """Microseconds after it has come."""
    delay: int = 0
    """Of BACK: microseconds after which it may come again."""


Habit: TypeAlias = Callable[[str, JobKey, int], Act]
"""Given the client, the job and how often it has been given to a member."""


def prompt(client: str, job: JobKey, deliveries: int) -> Act:
    """Acknowledge everything at once."""
    return Act(Op.DONE)


def mixed(seed: int, slow: int, faulty: float) -> Habit:
    """Take a while, give some back, and forget a few; what has come for the third time is done."""

    def habit(client: str, job: JobKey, deliveries: int) -> Act:
        rng = random.Random(f"{seed} {client} {job} {deliveries}")
        after = rng.choice((0, rng.randrange(slow + 1)))
        if deliveries < 3 and rng.random() < faulty:
            if rng.random() < 0.2:
                return Act(None)
            return Act(Op.BACK, after, rng.choice((0, rng.randrange(3 * SECOND))))
        return Act(Op.DONE, after)

    return habit
