"""Turns: messages that take long are handled one after the other, and everybody else is served in between.

Theory of operation
-------------------
A publication takes microseconds; a registration can take tens of milliseconds, and one read can bring hundreds of them.
So a read that has taken more than a *slice* ends after the message that it is at. Publications have a longer slice,
which a read of ordinary ones does not use up; but one that passes thousands of subscriptions takes milliseconds, too.
The rest of a read waits in a line, and nothing more is read from its connection meanwhile, so that the order of what a
peer says is kept. The line is served first come, first served, one connection in each round of the event loop: in
between, all the others are read.

While somebody stands in the line, whatever may take long goes to its end: a hundred connections with one expensive
message each get one turn each, and do not add up to one long turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from tidings.wire import DeliverAck, Mark, Notify, Publish

SLICE = 0.002
"""Seconds after which a read ends at the next message that may take long."""
LIGHT_SLICE = 0.02
"""Seconds after which a read ends at the next message of any kind."""
HEAVY_IDS = 20_000
"""Ids of subscriptions in what one read sends, after which it ends: to encode them takes long, too."""
LIGHT = frozenset({Publish, Notify, Mark, DeliverAck})
"""The messages that rarely take long."""
_LIGHT_TAGS = tuple(kind.__name__.encode() for kind in LIGHT)
_TAG_AT = 3
"""Where the type of a message stands in a frame, in both serialisers."""


def is_light(frame: bytes) -> bool:
    """Whether the message in these bytes rarely takes long; it is not decoded, which is what takes long in others."""
    return frame.startswith(_LIGHT_TAGS, _TAG_AT)


class Waiting(Protocol):
    """Somebody with parts that wait for a turn."""

    def take_turn(self) -> None:
        """Handle some of them; whoever has more gets into the line again."""


class Turns:
    """Who is to handle what takes long."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._line: deque[Waiting] = deque()
        self.busy = False
        """Whether the slice of this round has been used, or somebody waits: what may take long gets into the line."""

    def used_up(self) -> None:
        """Something took long."""
        if not self.busy:
            self.busy = True
            self._loop.call_soon(self._next)

    def wait(self, one: Waiting) -> None:
        """Stand at the end of the line."""
        self._line.append(one)
        self.used_up()

    def _next(self) -> None:
        if not self._line:
            self.busy = False
            return
        self._loop.call_soon(self._next)
        self._line.popleft().take_turn()
