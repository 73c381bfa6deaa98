"""Plans for aggregates: who watches what, how exactly, and for how long; and crowds that come and go.

Random changes take each other back, and rarely show that an error grows beyond its bound. So in half of the runs
everybody subscribes to the same at the end, those at the ends of the network first, or ends everything: then all
errors point in one direction.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from ._actions import Action, Verb
from ._topologies import Shape
from ._workload import random_filter, random_notification

SECOND = 1_000_000
IDS = 3
"""The ids that one client uses for what it watches, again and again."""
BOUNDS = (0, 0, 0, 1, 1, 2, 3, 4.5, 6, 9)
AGGREGATES = ("subscriber_count", "subscriber_count", "subscription_count")


class WatchPlan:
    """Draws what is watched in one run."""

    def __init__(
        self,
        rng: random.Random,
        shape: Shape,
        clients: Mapping[str, str],
        *,
        advertisements: bool,
        scopes: Sequence[str] = (),
    ) -> None:
        """`scopes`: in which something is watched, besides the root scope."""
        self._rng = rng
        self._shape = shape
        self._clients = clients
        self._aggregates = (*AGGREGATES, "publisher_count") if advertisements else AGGREGATES
        self._keys = [random_filter(rng) for _ in range(rng.randint(1, 4))]
        """Few, so that many watch the same."""
        self._where = random.Random(f"watched where {rng.random()}") if scopes else None
        self._scopes = ("", *scopes)

    def steps(self, length: int) -> Iterator[Action]:
        """Everything about watching, and the crowd at the end, in any order."""
        for _ in range(self._rng.randint(1, 12)):
            yield self._step(self._rng.randrange(length + 1))
        if self._rng.random() < 0.5:
            yield from self._crowd(length + self._rng.randrange(1, SECOND))

    def _step(self, at: int) -> Action:
        who, id = (self._rng.choice(list(self._clients)),), f"w{self._rng.randrange(IDS)}"
        draw = self._rng.random()
        if draw < 0.12:
            return Action(at, Verb.UNWATCH, who, id)
        if draw < 0.3:
            return Action(at, Verb.TUNE, who, id, bound=self._rng.choice(BOUNDS))
        probe = random_notification(self._rng) if self._rng.random() < 0.2 else None
        key = self._rng.choice(self._keys) if probe is None else None
        aggregate, bound = self._rng.choice(self._aggregates), self._rng.choice(BOUNDS)
        step = Action(at, Verb.WATCH, who, id, key, probe, aggregate=aggregate, bound=bound)
        if self._where is None:
            return step
        return step._replace(scope=self._where.choice(self._scopes), away=self._where.random() < 0.2)

    def _crowd(self, at: int) -> Iterator[Action]:
        degree = {broker: sum(broker in link for link in self._shape.links) for broker in self._shape.brokers}
        clients = sorted(self._clients, key=lambda client: degree[self._clients[client]])
        comes = self._rng.random() < 0.7
        everything = self._rng.choice(self._keys)
        for client in clients:
            for number in range(4):
                at += self._rng.choice((1, 1_000, 50_000))
                if comes:
                    yield Action(at, Verb.SUBSCRIBE, (client,), f"s{number}", everything)
                else:
                    yield Action(at, Verb.UNSUBSCRIBE, (client,), f"s{number}")
