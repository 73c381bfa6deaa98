"""Arrivals: tells a client that has moved when everything that it had missed has been sent.

Theory of operation
-------------------
A client that has come from another broker announces its subscriptions, and origins owe them what follows its positions.
Only its new broker knows when they owe nothing more. The client asks when all its subscriptions have settled; the
answer follows what was missed on the same link, so whoever hears it has everything. One question of a client is open at
a time, a newer one takes its place. Where an origin does not answer, neither does this one for ever: `LONGEST`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidings.broker import Feature, Link
from tidings.wire import ARRIVALS, CatchingUp, CaughtUp, WireError, pack, read_arrival

LONGEST = 10_000_000
"""Microseconds after which a client is told that something is still owed."""
LOOK = 20_000
"""Microseconds between two looks whether it is."""


class _Question(NamedTuple):
    number: int
    until: int


class Arrivals(Feature):
    """Answers clients that have moved."""

    name = ARRIVALS

    def __init__(self) -> None:
        self._open: dict[Link, _Question] = {}
        self._looking = False
        self.scheme_of: Callable[[Link], str] = lambda client: "origins"
        """Says how a client has got what it had missed."""

    def on_message(self, link: Link, body: bytes) -> None:
        """A client asks."""
        try:
            asked = read_arrival(body)
        except WireError:
            asked = None
        if not link.is_client or not isinstance(asked, CatchingUp):
            self.context.refused()
            return
        self._open[link] = _Question(asked.number, self.context.now() + LONGEST)
        if not self._looking:
            self._look()

    def _look(self) -> None:
        now = self.context.now()
        for link, question in list(self._open.items()):
            gone = self.context.client(link.name) is not link
            owed = not gone and self.context.is_owed(link)
            if not owed or now >= question.until:
                del self._open[link]
                if not gone:
                    self.context.send(link, pack(CaughtUp(question.number, not owed, self.scheme_of(link))))
        self._looking = bool(self._open)
        if self._looking:
            self.context.call_later(LOOK, self._look)
