"""Plans for sessions: which scopes are session scopes and when, and who reacts to what.

Reactions cause reactions, so each client reacts a few times only.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from tidings.scopes import SESSION_ID, SESSION_MODE, SessionMode, SetAttributes

from ._actions import Action, Verb
from ._workload import random_filter, random_notification


class SessionPlan:
    """Draws the sessions of one run."""

    def __init__(
        self, rng: random.Random, brokers: Sequence[str], clients: Sequence[str], scopes: Sequence[str]
    ) -> None:
        self._rng = rng
        self._brokers = brokers
        self._clients = clients
        self._scopes = scopes

    def steps(self, length: int) -> Iterator[Action]:
        """Sessions from the start, some that begin, change or end later, and reactions all the time."""
        for scope in self._scopes:
            if self._rng.random() < 0.6:
                yield self._session(scope, 1)
        for _ in range(self._rng.choice((0, 0, 2, 5))):
            yield self._session(self._rng.choice(self._scopes), self._rng.randrange(length + 1))
        for client in self._clients:
            for _ in range(self._rng.randint(0, 3)):
                notification = random_notification(self._rng)
                at, times = self._rng.randrange(length // 2 + 1), self._rng.randint(1, 4)
                filter = random_filter(self._rng)
                yield Action(at, Verb.REACT, (client,), filter=filter, notification=notification, times=times)

    def _session(self, scope: str, at: int) -> Action:
        draw, id, mode = self._rng.random(), f"session of {scope}", None
        if draw < 0.3:
            mode = SessionMode.ORIGIN_ONLY.value
        elif draw < 0.5:
            id = "auto"
        ended = at > 1 and draw > 0.75
        said = {SESSION_ID: None, SESSION_MODE: None} if ended else {SESSION_ID: id, SESSION_MODE: mode}
        change = SetAttributes(scope, said)
        return Action(at, Verb.CHANGE, (self._rng.choice(self._brokers),), changes=(change,))
