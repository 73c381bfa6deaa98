"""Decisions: what deciding points have given to clients of this broker.

Who gets something from a scope that chooses is decided once, and cannot be worked out again. So the broker that hands
it over remembers that it did. Whoever is asked later, for a past, goes by that: nobody decides a second time, and the
facts are there although the deciding point that has stated them may be another one by now, or gone.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import NamedTuple

from tidings.model import Identity

MAX_DECISIONS = 1_000
"""The most decisions that a broker remembers for one client, the latest ones."""
MAX_DECIDED = 1_000
"""The most clients of which a broker remembers decisions, those that were given something last."""


class Decision(NamedTuple):
    """A client was given this form of a publication, from this scope."""

    scope: str
    origin: str
    epoch: int
    seq: int
    version: int
    """Of the form, as the client sees it."""

    @classmethod
    def about(cls, scope: str, identity: Identity, version: int) -> Decision:
        """That a form of a publication was given to a client."""
        return cls(scope, identity.origin, identity.epoch, identity.seq, version)


class Decisions:
    """The latest decisions about the clients of one broker."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, deque[Decision]] = OrderedDict()
        self.forgotten = 0
        """How many had to be forgotten because of a limit."""

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def note(self, client: str, decision: Decision) -> None:
        """A client is handed what it was given."""
        known = self._of.get(client)
        if known is None:
            known = self._of[client] = deque(maxlen=MAX_DECISIONS)
        elif len(known) == MAX_DECISIONS:
            self.forgotten += 1
        known.append(decision)
        self._of.move_to_end(client)
        if len(self._of) > MAX_DECIDED:
            _, dropped = self._of.popitem(last=False)
            self.forgotten += len(dropped)

    def of(self, client: str) -> tuple[Decision, ...]:
        """What a client was given, the latest last."""
        return tuple(self._of.get(client, ()))
