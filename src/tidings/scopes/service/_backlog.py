"""The backlog of a broker: events of rules that wait for the authority, within a bound that scopes share fairly.

When there is no room, one event is dropped: of the scope that has the most here, there of the trigger that has the
most, the latest one. So whoever makes very many events of one scope happen loses some of them, and no other scope does;
and among the members of a scope, those that make fewer happen than the others keep theirs.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import NamedTuple

from ._rule_messages import Fire

MAX_WAITING = 1_000
"""The most events of rules that wait for the authority at one broker."""


class Waiting(NamedTuple):
    """One event that a rule waits for."""

    fire: Fire
    since: int
    again: int = 0
    """When the authority may be asked, if it could not say anything before."""
    tries: int = 0
    """How often it could not."""


class Backlog:
    """What waits, in the order in which the authority is asked."""

    def __init__(self) -> None:
        self._waiting: deque[Waiting] = deque()
        self._scopes: Counter[str] = Counter()
        self._triggers: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._waiting)

    def __contains__(self, id: object) -> bool:
        return self.find(id) is not None

    def find(self, id: object) -> Waiting | None:
        """The event of this id, if it waits."""
        return next((waiting for waiting in self._waiting if waiting.fire.id == id), None)

    def next(self, now: int) -> Waiting | None:
        """The first event that the authority may be asked about."""
        return next((waiting for waiting in self._waiting if waiting.again <= now), None)

    def add(self, waiting: Waiting) -> None:
        """Let one more wait, as the last."""
        self._waiting.append(waiting)
        self._count(waiting.fire, 1)

    def remove(self, waiting: Waiting) -> None:
        """It waits no longer."""
        if self._waiting[-1] is waiting:
            self._waiting.pop()
        else:
            self._waiting.remove(waiting)
        self._count(waiting.fire, -1)

    def excess(self, asking: str | None) -> Waiting | None:
        """Which event has to go for want of room, if one has: never the one that the authority is asked about."""
        if len(self._waiting) <= MAX_WAITING:
            return None
        newest = self._waiting[-1].fire
        scope = max(self._scopes, key=lambda one: (self._scopes[one], one == newest.scope))
        trigger = max(
            (one for one in self._triggers if one[0] == scope),
            key=lambda one: (self._triggers[one], one[1] == newest.trigger),
        )
        theirs = (one for one in reversed(self._waiting) if (one.fire.scope, one.fire.trigger) == trigger)
        return next((one for one in theirs if one.fire.id != asking), self._waiting[-1])

    def _count(self, fire: Fire, more: int) -> None:
        """One more or fewer of this scope and trigger."""
        self._scopes[fire.scope] += more
        if not self._scopes[fire.scope]:
            del self._scopes[fire.scope]
        trigger = fire.scope, fire.trigger
        self._triggers[trigger] += more
        if not self._triggers[trigger]:
            del self._triggers[trigger]
