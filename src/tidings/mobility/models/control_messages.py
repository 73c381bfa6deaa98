"""How many messages between brokers each operation takes; all subscriptions of a client count as one.

`n` is the number of neighbours of the client's broker. Messages are counted end to end, not per hop.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple


def connect(n: int) -> int:
    """Passive copies go to the neighbours."""
    return n


def disconnect(n: int, *, rate: float = 0.0, activation_seconds: float = 0.0) -> float:
    """Copies are activated and say so; with a rate, what is published meanwhile is forwarded to each."""
    return 2 * n + rate * activation_seconds * n


def reconnect(n: int) -> int:
    """Copies are deactivated."""
    return n


def unsubscribe(n: int) -> int:
    """Copies are deleted; the same at the end of the timeout."""
    return n


class HandOff(NamedTuple):
    """One move."""

    old: str
    new: str
    old_neighbours: Collection[str]
    """Those of the old broker, which have copies."""
    new_neighbours: Collection[str]
    """Those of the new one, with the edge that was learned just now."""


def hand_off_hit(move: HandOff) -> int:
    """Notice and reply, what happens to the copies of the old broker, and new copies where there are none."""
    let_go = len(set(move.old_neighbours) - {move.new})
    copied = len(set(move.new_neighbours) - set(move.old_neighbours) - {move.old})
    return 2 + let_go + copied


def hand_off_early(move: HandOff) -> int:
    """The client came before it was missed: the reply brings what it lacks, and nothing was activated before."""
    return hand_off_hit(move)


def hand_off_miss(move: HandOff, buffered: int) -> int:
    """The context is asked for, and each buffered message transferred."""
    return hand_off_hit(move) + 1 + buffered


def edge_changed(n: int, *, removed: bool = False) -> int:
    """The neighbour list goes to all neighbours, and to one that is none any more."""
    return n + int(removed)


def recovered(former: int) -> int:
    """A broker announces what it holds to its former neighbours, and each answers what is to be done."""
    return 2 * former


def propagation(subscriptions: int, neighbours: int) -> int:
    """Subscriptions times neighbours (3.2)."""
    return subscriptions * neighbours


def propagation_covered(covered: Sequence[Sequence[bool]]) -> int:
    """The same, less what is covered there (3.3): a row for each subscription, a column for each neighbour."""
    return sum(not one for row in covered for one in row)


def caching(rates: Sequence[float], seconds_away: float, covered: Sequence[Sequence[bool]]) -> float:
    """The messages that are buffered at neighbours (3.4); `rates`: matching messages a second, per subscription."""
    return sum(rate * seconds_away * sum(not one for one in row) for rate, row in zip(rates, covered, strict=True))


def overhead(rates: Sequence[float], seconds_away: float, covered: Sequence[Sequence[bool]]) -> float:
    """Both together (3.1)."""
    return propagation_covered(covered) + caching(rates, seconds_away, covered)
