"""Which notifications are the newest: one order for all brokers, so that it does not matter where the choice is made.

The notifications of one origin stay in the order of their positions. Between origins, times decide. A clock may have
been set back, so a notification counts as no newer than those that follow it at its origin. The choice of the newest of
some choices of the newest is the choice of the newest of all: answers can be cut on their way.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidings.wire import Envelope

ENVELOPE_OVERHEAD = 200
"""Bytes that an envelope takes in a message beside its body, about."""


def newest(envelopes: Iterable[Envelope], count: int | None = None, limit: int | None = None) -> list[Envelope]:
    """The last `count` of these, oldest first, and no more than fit into `limit` bytes; but one always does."""
    ordered = sorted(envelopes, key=lambda one: (one.identity.origin, one.identity.epoch, one.identity.seq))
    keys = []
    time, origin = 0, None
    for envelope in reversed(ordered):
        identity = envelope.identity
        time = identity.published_at if identity.origin != origin else min(time, identity.published_at)
        origin = identity.origin
        keys.append((time, origin, identity.epoch, identity.seq, envelope))
    keys.sort(key=lambda key: key[:4])
    chosen = [envelope for *_, envelope in keys[max(0, len(keys) - count) if count is not None else 0 :]]
    return chosen if limit is None else chosen[_fitting(chosen, limit) :]


def _fitting(envelopes: list[Envelope], limit: int) -> int:
    """Where the longest end of these begins that fits into so many bytes."""
    size = 0
    for at in range(len(envelopes) - 1, -1, -1):
        size += len(envelopes[at].body) + ENVELOPE_OVERHEAD
        if size > limit and at < len(envelopes) - 1:
            return at + 1
    return 0
