"""Frames of clients that cannot be read: each costs the request that it was, not the connection.

The framing is intact, so what follows can be read. The client gets a `Refused`, under the id or number that it used if
so much of the frame can be made out, else under none. A peer that sends little else is no client: it is disconnected.
Neighbours are held to the protocol more strictly. A frame of theirs that is left out could be a subscription, and would
make a hole in the routing; with a new connection they say everything again.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from tidings.broker import MAX_ID
from tidings.wire import MSGPACK, UNREADABLE, Refused, Serialiser, WireError

log = logging.getLogger("tidings.net")

MAX_UNREADABLE = 100
"""The most frames of one client that cannot be read, within `UNREADABLE_SECONDS`; with more it is disconnected."""
UNREADABLE_SECONDS = 60.0
"""For how long they are counted together, and how often the log speaks of them."""


class Unreadable:
    """What one client has sent that could not be read."""

    def __init__(self) -> None:
        self._since = 0.0
        self._count = 0

    def refuse(self, client: str, payload: bytes, serialiser: Serialiser, error: WireError, now: float) -> Refused:
        """The answer to such a frame; `WireError` if there were too many."""
        if not self._count or now - self._since > UNREADABLE_SECONDS:
            self._since, self._count = now, 0
            log.warning("a frame of client %s cannot be read, and is refused: %s", client, error)
        self._count += 1
        if self._count > MAX_UNREADABLE:
            raise WireError(f"more than {MAX_UNREADABLE} frames that cannot be read; the last one: {error}")
        reason = f"the broker cannot read this request: {error}"
        return Refused(WireError.__name__, reason, reference_in(payload, serialiser))


def reference_in(payload: bytes, serialiser: Serialiser) -> str:
    """The id or number of a request whose other fields cannot be read; "": it cannot be made out.

    >>> reference_in(b"\\x91\\x92\\xa9Subscribe\\xa2s1", MSGPACK)
    's1'
    """
    try:
        content: Any = (msgspec.msgpack if serialiser is MSGPACK else msgspec.json).decode(payload)
    except UNREADABLE:
        return ""
    match content:
        case [[str(), str() as id, *_], *_] if len(id) <= MAX_ID:
            return id
        case [[str(), int() as number, *_], *_] if not isinstance(number, bool):
            return str(number)
    return ""
