"""A suspension: the subscriptions that may have missed something of an origin, and what is held back from them.

`_recovery` makes suspensions, fetches what they are owed, and ends them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tidings.wire import Envelope

from ._progress import Position
from ._registration import Registration

RETRY_INTERVAL = 2_000_000
"""Microseconds after which an unanswered fetch is sent again."""
MAX_HELD = 10_000
"""The most notifications of one origin that are held back; older ones are left to the origin's answer."""
MAX_HELD_BYTES = 16_777_216
"""The most bytes that the bodies of these may have together."""


class Held(NamedTuple):
    """A notification, in one form, that is held back from some subscriptions."""

    envelope: Envelope
    subscriptions: list[Registration]


@dataclass(slots=True, eq=False)
class Suspension:
    """Subscriptions that may have missed what an origin published after a position."""

    origin: str
    since: Position
    owed: dict[Registration, None]
    trees: int
    """How many trees there had been; the marks of the latest of them know nothing of these subscriptions."""
    held: dict[Position, list[Held]] = field(default_factory=dict)
    held_bytes: int = 0
    fetched: dict[Position, Envelope] = field(default_factory=dict)
    number: int | None = None
    """The number of the fetch under way."""
    watched: bool = False
    """Whether there is an end to waiting for the origin."""
    patience: int = RETRY_INTERVAL
    """Microseconds after which the fetch under way is sent again."""

    def hold(self, envelope: Envelope, subscriptions: list[Registration]) -> None:
        """Hold a notification back from some of those that are owed earlier ones."""
        position = (envelope.identity.epoch, envelope.identity.seq)
        self.held.setdefault(position, []).append(Held(envelope, subscriptions))
        self.held_bytes += len(envelope.body)
        while len(self.held) > MAX_HELD or self.held_bytes > MAX_HELD_BYTES:
            self.let_go(next(iter(self.held)))

    def replace(self, old: Registration, new: Registration) -> None:
        """Owe to one subscription what another was owed."""
        del self.owed[old]
        self.owed[new] = None
        for held in self.held.values():
            held[:] = [Held(one.envelope, [new if it is old else it for it in one.subscriptions]) for one in held]

    def let_go(self, position: Position) -> list[Held]:
        """What is held of one event, and held no longer."""
        held = self.held.pop(position, [])
        self.held_bytes -= sum(len(one.envelope.body) for one in held)
        return held
