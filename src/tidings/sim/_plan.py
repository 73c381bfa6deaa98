"""Plans: the steps of a random scenario.

Everything is decided before anything happens, so that a scenario is data. The plan keeps account of what an application
would know, its own subscriptions and advertisements, and of nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tidings.wire import Quality

from ._actions import Action, Verb
from ._topologies import Shape
from ._workload import random_filter, random_notification

SECOND = 1_000_000
IDS = 4
"""The ids that one client uses for its subscriptions, again and again."""


class RandomPlan:
    """Draws the steps of one run."""

    def __init__(self, rng: random.Random, shape: Shape, clients: list[str], advertisements: bool) -> None:
        self._rng = rng
        self._aside = random.Random()  # for what came later, so that old seeds still draw the rest as they did
        self._aside.setstate(rng.getstate())
        self._shape = shape
        self._clients = clients
        self._advertisements = advertisements
        self._length = rng.choice((SECOND // 2, 5 * SECOND, 30 * SECOND))
        self.mended = True

    def steps(self, count: int, *, faults: bool) -> list[Action]:
        """All steps, in the order of their times."""
        times = sorted(self._rng.randrange(self._length) for _ in range(count))
        steps = [*self._opening(), *(self._step(at) for at in times)]
        if faults:
            steps += self._faults()
        return sorted(steps, key=lambda step: step.at)

    def _opening(self) -> Iterator[Action]:
        """Something to start with: most clients want something, and may publish something."""
        for client in self._clients:
            if self._advertisements and self._rng.random() < 0.8:
                yield Action(0, Verb.ADVERTISE, (client,), "a0", random_filter(self._rng))
            if self._rng.random() < 0.7:
                yield self._subscription(0, client)

    def _step(self, at: int) -> Action:
        client = self._rng.choice(self._clients)
        draw = self._rng.random()
        if draw < 0.15:
            return self._subscription(at, client)
        if draw < 0.22:
            return Action(at, Verb.UNSUBSCRIBE, (client,), self._id("s"))
        if draw < 0.24 and len(self._shape.borders) > 1:
            return Action(at, Verb.MOVE, (client, self._rng.choice(self._shape.borders)))
        if draw < 0.34 and self._advertisements:
            if self._rng.random() < 0.6:
                return Action(at, Verb.ADVERTISE, (client,), self._id("a"), random_filter(self._rng))
            return Action(at, Verb.UNADVERTISE, (client,), self._id("a"))
        return self._publication(at, client)

    def _subscription(self, at: int, client: str) -> Action:
        receive_own = self._rng.random() < 0.9
        return Action(at, Verb.SUBSCRIBE, (client,), self._id("s"), random_filter(self._rng), receive_own=receive_own)

    def _publication(self, at: int, client: str) -> Action:
        quality = self._rng.choice((Quality.FIRE, Quality.ACCEPTED, Quality.STORED))
        if self._aside.random() < 0.25:
            quality = Quality.DEFAULT
        return Action(at, Verb.PUBLISH, (client,), notification=random_notification(self._rng), quality=quality)

    def _id(self, prefix: str) -> str:
        return f"{prefix}{self._rng.randrange(IDS)}"

    # --- what breaks ----------------------------------------------------------------------------------

    def _faults(self) -> Iterator[Action]:
        """Cuts and crashes, one after the other at each place; the last of a place may stay unmended."""
        links = list(self._shape.links)
        for _ in range(self._rng.randint(0, min(4, len(links)))):
            link = links.pop(self._rng.randrange(len(links)))
            yield from self._outages(Verb.CUT, Verb.HEAL, link)
        brokers = list(self._shape.brokers)
        for _ in range(self._rng.randint(0, min(3, len(brokers)))):
            broker = brokers.pop(self._rng.randrange(len(brokers)))
            yield from self._outages(Verb.CRASH, Verb.RESTART, (broker,))
        for broker in self._shape.brokers:
            if self._aside.random() < 0.2:
                yield from self._full_disk(broker)

    def _full_disk(self, broker: str) -> Iterator[Action]:
        """A disk takes nothing more for a while."""
        at = self._aside.randrange(self._length)
        yield Action(at, Verb.FILL, (broker,))
        yield Action(at + self._aside.randrange(1, 5 * SECOND), Verb.EMPTY, (broker,))

    def _outages(self, breaks: Verb, mends: Verb, who: tuple[str, ...]) -> Iterator[Action]:
        at = self._rng.randrange(self._length)
        for _ in range(self._rng.randint(1, 3)):
            yield Action(at, breaks, who)
            if self._rng.random() < 0.05:
                self.mended = False
                return
            longest = self._rng.choice((20_000, SECOND, 5 * SECOND, 5 * SECOND, 100 * SECOND))
            at += self._rng.randrange(1, longest)
            yield Action(at, mends, who)
            at += self._rng.randrange(1, self._rng.choice((20_000, 2 * SECOND)))
