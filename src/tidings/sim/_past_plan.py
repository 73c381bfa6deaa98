"""Plans for history: which subscriptions of a random scenario reach into the past, and how far."""

from __future__ import annotations

import random

from tidings.model import Bound
from tidings.wire import Consistency, Past

from ._actions import Action, Verb
from ._scheduler import START

SECOND = 1_000_000


def with_past(rng: random.Random, steps: tuple[Action, ...]) -> tuple[Action, ...]:
    """The same steps, but most subscriptions reach back."""
    return tuple(
        step._replace(past=_past(rng, step.at + SECOND)) if step.verb is Verb.SUBSCRIBE and rng.random() < 0.7 else step
        for step in steps
    )


def _past(rng: random.Random, length: int) -> Past:
    count = rng.choice((None, 0, 1, 1, 2, 3, 5, 8, 20, 1_000))
    within = instant = None
    if count is None or rng.random() < 0.3:
        if rng.random() < 0.5:
            within = rng.randint(1, length)
        else:
            instant = START + rng.randrange(length)
    consistency = Consistency.BEST_EFFORT if rng.random() < 0.2 else Consistency.STRICT
    timeout = rng.choice((0, 1_000, 100_000, SECOND)) if rng.random() < 0.1 else None
    return Past(Bound(count, within, instant), consistency, timeout)
