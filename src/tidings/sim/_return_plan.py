"""Plans for a return: a broker dies and comes back, and so do its clients, full of what they could not publish.

Such a client advertises anew and hands over everything that nobody has acknowledged, in one breath, at a broker that
knows nothing, while others believe that they have caught up with it. Ordinary random runs are too thin here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tidings.model import Filter
from tidings.wire import Quality

from ._actions import Action, Verb
from ._workload import random_filter, random_notification

SECOND = 1_000_000
SETTLED = 20 * SECOND
"""By then everything of the opening has settled, even on slow links."""
QUALITIES = (Quality.STORED, Quality.STORED, Quality.STORED, Quality.ACCEPTED, Quality.FIRE)


class ReturnPlan:
    """Draws the steps of one run."""

    def __init__(self, rng: random.Random, clients: tuple[tuple[str, str], ...]) -> None:
        self._rng = rng
        self._aside = random.Random()  # for what came later, so that old seeds still draw the rest as they did
        self._aside.setstate(rng.getstate())
        self._clients = clients
        self._origin = rng.choice(clients)[1]
        self._publishers = [client for client, broker in clients if broker == self._origin]

    def steps(self) -> list[Action]:
        """All steps, in the order of their times."""
        return sorted([*self._opening(), *self._outages()], key=lambda step: step.at)

    def _opening(self) -> Iterator[Action]:
        for client, _ in self._clients:
            offered = random_filter(self._rng) if self._rng.random() < 0.3 else Filter.parse("TRUE")
            yield Action(0, Verb.ADVERTISE, (client,), "a0", offered)
            yield Action(0, Verb.SUBSCRIBE, (client,), "s0", random_filter(self._rng))
            for _ in range(self._rng.randint(0, 3)):
                yield self._publication(self._rng.randrange(SETTLED), client)

    def _outages(self) -> Iterator[Action]:
        at = SETTLED
        for _ in range(self._rng.randint(1, 3)):
            away = self._rng.randrange(1, self._rng.choice((20_000, SECOND, 5 * SECOND)))
            yield from self._last_words(at)
            yield Action(at, Verb.CRASH, (self._origin,))
            yield Action(at + away, Verb.RESTART, (self._origin,))
            until = at + away + 12 * SECOND
            for _ in range(self._rng.randint(5, 40)):
                yield self._publication(self._rng.randrange(at, until), self._rng.choice(self._publishers))
            for _ in range(self._rng.randint(0, 3)):
                yield from self._change(self._rng.randrange(at, until))
            if self._aside.random() < 0.4:
                yield from self._full_disk(at, until)
            at = until + self._rng.randrange(SECOND)

    def _last_words(self, until: int) -> Iterator[Action]:
        """What is published right before a crash is under way then, and some of it is acknowledged."""
        for _ in range(self._aside.randrange(20)):
            at = until - self._aside.randrange(1, self._aside.choice((10_000, 200_000)))
            client, quality = self._aside.choice(self._publishers), self._aside.choice(tuple(Quality))
            notification = random_notification(self._aside)
            yield Action(at, Verb.PUBLISH, (client,), notification=notification, quality=quality)

    def _full_disk(self, since: int, until: int) -> Iterator[Action]:
        """The disk of the origin takes nothing more for a while, before it dies or when it is back."""
        at = self._aside.randrange(since - 5 * SECOND, until)
        yield Action(at, Verb.FILL, (self._origin,))
        yield Action(at + self._aside.randrange(1, 8 * SECOND), Verb.EMPTY, (self._origin,))

    def _change(self, at: int) -> Iterator[Action]:
        """Something else that clients do: what they offer and want changes in the middle of it."""
        client, _ = self._rng.choice(self._clients)
        id = f"a{self._rng.randrange(2)}"
        match self._rng.randrange(3):
            case 0:
                yield Action(at, Verb.ADVERTISE, (client,), id, random_filter(self._rng))
                yield self._publication(at, client)
            case 1:
                yield self._publication(at, client)
                yield Action(at, Verb.UNADVERTISE, (client,), id)
            case _:
                yield Action(at, Verb.SUBSCRIBE, (client,), f"s{self._rng.randrange(2)}", random_filter(self._rng))

    def _publication(self, at: int, client: str) -> Action:
        notification, quality = random_notification(self._rng), self._rng.choice(QUALITIES)
        if self._aside.random() < 0.25:
            quality = Quality.DEFAULT
        return Action(at, Verb.PUBLISH, (client,), notification=notification, quality=quality)
