"""Notifications that were found in several places, in one order.

Nobody promises an order between publishers at different brokers. What one origin published stays in its order, always.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TypeAlias

from tidings.history._strategy_options import MergeOrder
from tidings.model import Position
from tidings.wire import Envelope

Key: TypeAlias = tuple[str, int, int, int]
"""Origin, epoch, number, and which form of the event."""


def key_of(envelope: Envelope) -> Key:
    """What two copies of one notification share, and nothing else has."""
    identity = envelope.identity
    return (identity.origin, identity.epoch, identity.seq, envelope.routes[0].version)


def position(envelope: Envelope) -> Position:
    """Where a notification is among those of its origin."""
    identity = envelope.identity
    return Position(identity.epoch, identity.seq)


def in_origin_order(envelopes: Iterable[Envelope]) -> list[Envelope]:
    """The same notifications, each origin's in its order, in the places that the origin had."""
    given = list(envelopes)
    of_origin: dict[str, list[Envelope]] = {}
    for envelope in given:
        of_origin.setdefault(envelope.identity.origin, []).append(envelope)
    for own in of_origin.values():
        own.sort(key=position, reverse=True)
    return [of_origin[envelope.identity.origin].pop() for envelope in given]


def merged(order: MergeOrder, found: Sequence[Envelope], here: Sequence[Envelope]) -> list[Envelope]:
    """What a neighbour has found and what is here, in one order; each origin's stays as it is."""
    match order:
        case MergeOrder.FCFS:
            return [*found, *here]
        case MergeOrder.INTERLEAVE:
            backwards = zip_longest(reversed(here), reversed(found))  # the newest of both are near each other
            return in_origin_order(
                one for pair in reversed(list(backwards)) for one in reversed(pair) if one is not None
            )
        case MergeOrder.TIMESTAMP:
            return in_origin_order(sorted([*found, *here], key=lambda one: one.identity.published_at))
