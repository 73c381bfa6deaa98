"""A suspension: the subscriptions that may have missed something of an origin, and what is held back from them.

`_recovery` makes suspensions, fetches what they are owed, and ends them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidings.broker.interest import Registration
from tidings.model import Matches, Position
from tidings.wire import Envelope

from ._backlog import Backlog

RETRY_INTERVAL = 2_000_000
"""Microseconds after which an unanswered fetch is sent again."""


@dataclass(slots=True, eq=False)
class Suspension:
    """Subscriptions that may have missed what an origin published after a position."""

    origin: str
    since: Position
    owed: dict[Registration, None]
    trees: int
    """How many trees there had been; the marks of the latest of them know nothing of these subscriptions."""
    owner: str = ""
    """Whose client has come back, if that is why."""
    held: Backlog = field(default_factory=Backlog)
    """What follows, and is kept back from them."""
    fetched: dict[Position, Envelope] = field(default_factory=dict)
    number: int | None = None
    """The number of the fetch under way."""
    watched: bool = False
    """Whether there is an end to waiting for the origin."""
    patience: int = RETRY_INTERVAL
    """Microseconds after which the fetch under way is sent again."""

    @property
    def filters(self) -> tuple[Matches, ...]:
        """Everything that those who are owed something want."""
        return tuple(dict.fromkeys(entry.filter for entry in self.owed))

    def replace(self, old: Registration, new: Registration) -> None:
        """Owe to one subscription what another was owed."""
        del self.owed[old]
        self.owed[new] = None
        self.held.replace(old, new)
