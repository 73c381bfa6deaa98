"""Plans for acknowledged groups: who joins which group, leaves it, or dies; and how long it takes over its jobs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidings.model import Filter
from tidings.wire import Work

from ._actions import Action, Verb
from ._habits import Habit, mixed
from ._workload import random_filter

SECOND = 1_000_000


class _Kind(NamedTuple):
    filter: Filter
    work: Work


class WorkPlan:
    """Draws the memberships of one run."""

    def __init__(
        self, rng: random.Random, seed: int, clients: Sequence[str], brokers: Sequence[str], *, scoped: bool = False
    ) -> None:
        """`scoped`: members are in scopes, and have no dead letters."""
        self._rng = rng
        self._limits = (0,) if scoped else (0, 8)
        self._clients = clients
        self._brokers = sorted(brokers)
        self._groups = {f"q{number}": self._kind() for number in range(rng.randint(1, 2))}
        slow = rng.choice((0, 100_000, 2 * SECOND))
        self._habit: Habit = mixed(seed, slow, rng.choice((0.0, 0.0, 0.1)))

    def _kind(self) -> _Kind:
        within = self._rng.choice((10, 30, 30)) * SECOND
        by = self._rng.choice(("", "", "symbol"))
        return _Kind(random_filter(self._rng), Work(within, self._rng.choice(self._limits), by))

    def steps(self, length: int) -> Iterator[Action]:
        """Everything about acknowledged groups, in any order. In half of the runs, nobody comes or goes later."""
        for client in self._clients:
            for group in self._groups:
                if self._rng.random() < 0.6:
                    yield self._join(self._rng.choice((0, 0, self._rng.randrange(length + 1))), client, group)
        if self._rng.random() < 0.5:
            return
        for _ in range(self._rng.randint(1, 12)):
            client, group = self._rng.choice(self._clients), self._rng.choice(list(self._groups))
            at = self._rng.randrange(length + 1)
            if (kind := self._rng.random()) < 0.5:
                yield self._join(at, client, group)
            elif kind < 0.7:
                yield Action(at, Verb.QUIT, (client,), group)
            else:
                yield Action(at, Verb.DIE, (client,))
                back = at + self._rng.choice((1, 100_000, self._rng.randrange(20 * SECOND)))
                yield Action(back, Verb.MOVE, (client, self._rng.choice(self._brokers)))

    def _join(self, at: int, client: str, group: str) -> Action:
        filter, work = self._groups[group]
        most = self._rng.choice((1, 2, 10, 100))
        return Action(at, Verb.ENLIST, (client,), group, filter, group=group, work=work, habit=self._habit, times=most)
