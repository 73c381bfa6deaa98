"""Plans for groups: who joins which group, and when it leaves."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from ._actions import Action, Verb
from ._workload import random_filter

SECOND = 1_000_000


class GroupPlan:
    """Draws the memberships of one run."""

    def __init__(self, rng: random.Random, clients: Sequence[str]) -> None:
        self._rng = rng
        self._clients = clients
        self._filters = {f"g{number}": random_filter(rng) for number in range(rng.randint(1, 3))}

    def steps(self, length: int) -> Iterator[Action]:
        """Everything about groups, in any order. In half of the runs, nobody comes or goes after the beginning."""
        for client in self._clients:
            for group in self._filters:
                if self._rng.random() < 0.6:
                    yield self._join(self._rng.choice((0, 0, self._rng.randrange(length + 1))), client, group)
        if self._rng.random() < 0.5:
            return
        for _ in range(self._rng.randint(1, 12)):
            client, group = self._rng.choice(self._clients), self._rng.choice(list(self._filters))
            at = self._rng.randrange(length + 1)
            if self._rng.random() < 0.5:
                yield self._join(at, client, group)
            else:
                yield Action(at, Verb.LEAVE, (client,), group)

    def _join(self, at: int, client: str, group: str) -> Action:
        return Action(at, Verb.JOIN, (client,), group, self._filters[group], group=group)
