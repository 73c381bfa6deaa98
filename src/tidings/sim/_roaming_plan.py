"""Plans for roaming: everybody moves from broker to broker, and says nothing when it goes.

Such a client is here again before it is missed there, so that for a while two brokers have a client of the same name;
what was under way to it, or from it, is lost with its connection. Who *walks* stays longer, is mostly missed before it
arrives, and mostly goes to a neighbour of where it was, so that brokers are often ready.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from tidings.model import EVERYTHING

from ._actions import Action, Verb
from ._workload import random_filter

SECOND = 1_000_000


def roaming(
    rng: random.Random, steps: tuple[Action, ...], clients: list[str], borders: tuple[str, ...]
) -> list[Action]:
    """The steps of a plan, and those of clients that roam meanwhile."""
    last = max((step.at for step in steps), default=0)
    wandering = [step for client in clients for step in _wanders(rng, client, borders, last)]
    return sorted([*steps, *wandering], key=lambda step: step.at)


def paths(rng: random.Random, borders: Sequence[str]) -> dict[str, list[str]]:
    """A connected graph of where clients go from each broker."""
    found: dict[str, set[str]] = {broker: set() for broker in borders}
    for at, broker in enumerate(borders[1:], 1):
        for other in {borders[rng.randrange(at)], *rng.sample(borders[:at], min(at, rng.choice((0, 0, 1, 2))))}:
            found[broker].add(other)
            found[other].add(broker)
    return {broker: sorted(others) for broker, others in found.items()}


def walking(
    rng: random.Random,
    steps: tuple[Action, ...],
    clients: Sequence[tuple[str, str]],
    neighbours: Mapping[str, Sequence[str]],
) -> list[Action]:
    """The steps of a plan, and those of clients that walk meanwhile."""
    last = max((step.at for step in steps), default=0)
    walks = [step for client, broker in clients for step in _walks(rng, client, broker, neighbours, last)]
    return sorted([*steps, *walks], key=lambda step: step.at)


def _walks(
    rng: random.Random, client: str, broker: str, neighbours: Mapping[str, Sequence[str]], last: int
) -> Iterator[Action]:
    at = rng.randrange(SECOND)
    wanted = EVERYTHING if rng.random() < 0.5 else random_filter(rng)
    yield Action(at, Verb.SUBSCRIBE, (client,), "walk", wanted)
    while True:
        at += rng.randrange(1, rng.choice((SECOND, 4 * SECOND, 12 * SECOND)))
        if at > last:
            break
        if rng.random() < 0.9:
            yield Action(at, Verb.VANISH, (client,))
            at += rng.randrange(1, rng.choice((SECOND // 5, 3 * SECOND, 8 * SECOND)))
        if (drawn := rng.random()) < 0.8 and neighbours[broker]:
            broker = rng.choice(neighbours[broker])
        elif drawn < 0.9:
            broker = rng.choice(sorted(neighbours))
        yield Action(at, Verb.ROAM, (client, broker))
    for later in (1, 20, 200):
        yield Action(last + later * SECOND, Verb.ROAM, (client, broker))


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
