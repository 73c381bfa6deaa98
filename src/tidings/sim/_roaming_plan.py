"""Plans for roaming: everybody moves from broker to broker, and says nothing when it goes.

Such a client is here again before it is missed there, so that for a while two brokers have a client of the same name;
what was under way to it, or from it, is lost with its connection.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from ._actions import Action, Verb

SECOND = 1_000_000


def roaming(
    rng: random.Random, steps: tuple[Action, ...], clients: list[str], borders: tuple[str, ...]
) -> list[Action]:
    """The steps of a plan, and those of clients that roam meanwhile."""
    last = max((step.at for step in steps), default=0)
    wandering = [step for client in clients for step in _wanders(rng, client, borders, last)]
    return sorted([*steps, *wandering], key=lambda step: step.at)


def _wanders(rng: random.Random, client: str, borders: tuple[str, ...], last: int) -> Iterator[Action]:
    at = 0
    while True:
        at += rng.randrange(1, rng.choice((200_000, 2 * SECOND, 10 * SECOND)))
        if at > last:
            break
        if rng.random() < 0.5:  # it is nowhere for a while
            yield Action(at, Verb.VANISH, (client,))
            at += rng.randrange(1, rng.choice((20_000, SECOND, 8 * SECOND)))
        yield Action(at, Verb.ROAM, (client, rng.choice(borders)))
    for later in (1, 20, 200):  # whoever is without a broker finds one in the end
        yield Action(last + later * SECOND, Verb.ROAM, (client, rng.choice(borders)))
