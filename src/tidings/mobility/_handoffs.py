"""Hand-offs: what is remembered of a client's move, for the journal and for those who look."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from ._hosted import Moved
from ._neighbour_graph import Outcome

PSEUDONYM_DIGITS = 16


class HandOff(NamedTuple):
    """One move, as the new broker saw it. Times are in microseconds."""

    client: str
    owner: str
    old: str
    new: str
    at: int
    away: int
    """For how long the client was away, as far as its old broker had noticed."""
    outcome: Outcome | None = None
    """What it found; None: nothing is kept ready for clients that move."""
    missed: int = 0
    """Notifications that were handed over."""
    pause: int = 0
    """From its arrival to the end of the hand-over."""


def seen(moved: Moved, at: int) -> HandOff:
    """What is known of a move before anybody has said what came of it."""
    return HandOff(moved.client, moved.owner, moved.old, moved.new, at, moved.away)


def pseudonym(owner: str, client: str) -> str:
    """A name for a client that is the same at all brokers and not its own.

    It hides nothing from those who know the names of clients and try them.
    """
    said = "\0".join(("tidings hand-off", owner, client)).encode()
    return hashlib.sha256(said).hexdigest()[:PSEUDONYM_DIGITS]
