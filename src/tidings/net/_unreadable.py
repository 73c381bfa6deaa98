"""Frames of clients that cannot be read: each costs the request that it was, not the connection.

The framing is intact, so what follows can be read. The client gets a `Refused`, under the id or number that it used if
so much of the frame can be made out, else under none. A peer that sends little else is no client: it is disconnected.
The frames are counted for the identity of a client, so connecting again buys nothing.
Neighbours are held to the protocol more strictly. A frame of theirs that is left out could be a subscription, and would
make a hole in the routing; with a new connection they say everything again.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import msgspec

from tidings.broker import MAX_ID, Link
from tidings.wire import MSGPACK, UNREADABLE, Refused, Serialiser, WireError

log = logging.getLogger("tidings.net")

MAX_UNREADABLE = 100
"""The most unreadable frames of one identity within `UNREADABLE_SECONDS`; with more the client is disconnected."""
UNREADABLE_SECONDS = 60.0
"""For how long they are counted together, and how often the log speaks of them."""
MAX_REMEMBERED = 10_000
"""The most identities whose frames are counted at a time; beyond, the count that began first is forgotten."""


class _Message(msgspec.Struct, frozen=True, array_like=True):
    """How every request begins; the decoder skips the rest."""

    tag: str
    reference: str | int


class _Frame(msgspec.Struct, frozen=True, array_like=True):
    message: _Message


class _Count(NamedTuple):
    since: float
    frames: int


class Unreadable:
    """What the clients of a broker have sent that could not be read."""

    def __init__(self) -> None:
        self._counts: dict[str, _Count] = {}
        """By owner, in the order in which they began."""

    def refuse(self, link: Link, payload: bytes, serialiser: Serialiser, error: WireError, now: float) -> Refused:
        """The answer to such a frame; `WireError` if there were too many."""
        count = self._counts.get(link.owner)
        if count is None or now - count.since > UNREADABLE_SECONDS:
            self._begin(link.owner, now)
            count = _Count(now, 0)
            log.warning("a frame of client %s cannot be read, and is refused: %s", link.name, error)
        self._counts[link.owner] = count = _Count(count.since, count.frames + 1)
        if count.frames > MAX_UNREADABLE:
            raise WireError(f"more than {MAX_UNREADABLE} frames that cannot be read; the last one: {error}")
        reason = f"the broker cannot read this request: {error}"
        return Refused(WireError.__name__, reason, reference_in(payload, serialiser))

    def _begin(self, owner: str, now: float) -> None:
        """Make room for a count at the end of the table."""
        self._counts.pop(owner, None)
        while self._counts:
            oldest = next(iter(self._counts))
            if len(self._counts) < MAX_REMEMBERED and now - self._counts[oldest].since <= UNREADABLE_SECONDS:
                return
            del self._counts[oldest]


def reference_in(payload: bytes, serialiser: Serialiser) -> str:
    """The id or number of a request whose other fields cannot be read; "": it cannot be made out.

    >>> reference_in(b"\\x91\\x92\\xa9Subscribe\\xa2s1", MSGPACK)
    's1'
    """
    try:
        frame = (msgspec.msgpack if serialiser is MSGPACK else msgspec.json).decode(payload, type=_Frame)
    except UNREADABLE:
        return ""
    reference = str(frame.message.reference)
    return reference if len(reference) <= MAX_ID else ""
