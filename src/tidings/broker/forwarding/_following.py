"""Following: notifications of which it is noted who gets them, at every broker that they come to.

A feature follows one publication of a client, by the number that the client gives it. Its publisher leaves its lane
until it has come. What is followed takes the full path, and carries what the feature gives along to the neighbours that
it goes to; there the same feature hears of it before the notification is handled, and goes on noting. Each client that
a step reaches is noted: as one that was sent it, or as one for which it is kept back.

    awaited   a publication of a client that is to be followed when it comes
    noting    who hears of the receivers of the notification that is handled in this step
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from tidings.broker._links import Link
from tidings.wire import Envelope

Begin: TypeAlias = Callable[[Envelope], None]
"""Called with a publication that is followed, when it has its identity and before it is sent."""
Noted: TypeAlias = Callable[[Link, bool], None]
"""Called with a client, and whether it was sent the notification; False: it is kept back, and may follow."""


class Noting(NamedTuple):
    """What is to be done with the notification of this step."""

    feature: str
    onward: bytes
    """What the notification carries to neighbours."""
    noted: Noted


class Following:
    """The notifications that one broker follows."""

    def __init__(self) -> None:
        self.awaited: dict[Link, dict[int, Begin]] = {}
        """By publisher, and the number that it gives."""
        self.noting: Noting | None = None
        """It lives for one step."""

    def take(self, link: Link, seq: int) -> Begin | None:
        """What awaits this publication of a client, if anything does; it awaits it no longer."""
        waiting = self.awaited.get(link)
        begin = waiting.pop(seq, None) if waiting is not None else None
        if waiting is not None and not waiting:
            del self.awaited[link]
        return begin

    def reached(self, link: Link, *, sent: bool) -> None:
        """A client gets the notification of this step, now or later."""
        if self.noting is not None:
            self.noting.noted(link, sent)
