"""The two headers that travel with a notification. (The third, the hop, lives on one link: see wire.)

They are never mixed: identity is stamped once by the border broker and kept for ever; a route belongs
to one copy on its way through the scopes.
"""

from __future__ import annotations

import enum
from typing import Annotated, NamedTuple

import msgspec

ROOT_SCOPE = ""
"""The scope that everything belongs to while no other is defined."""


class EventKey(NamedTuple):
    """The name of an event for ever: border broker, its incarnation, counter."""

    origin: str
    epoch: int
    seq: int


Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""What disks and other languages can hold; anything else is refused where it is decoded."""


class Position(NamedTuple):
    """How far one has come in what an origin published: all of earlier epochs, and of this one up to a number."""

    epoch: Number
    seq: Number

    def __str__(self) -> str:
        return f"({self.epoch}, {self.seq})"


NOWHERE = Position(0, 0)
"""Before everything that any origin published."""


class Identity(msgspec.Struct, frozen=True, array_like=True, gc=False):  # no part of it can lead back to it
    """The identity of a publication: its number, its publisher and its time.

    The border broker stamps it; a client cannot forge it.
    """

    origin: str
    epoch: Number
    seq: Number
    publisher: str
    publisher_seq: Number
    published_at: Number
    """Microseconds since 1970 UTC, by the clock of the border broker."""
    graph_epoch: Number = 0
    ttl: Number | None = None
    """Microseconds after `published_at` for which live delivery still makes sense."""

    @property
    def key(self) -> EventKey:
        """The key that names the event for ever."""
        return EventKey(self.origin, self.epoch, self.seq)

    @property
    def position(self) -> Position:
        """Where it is among the publications of its origin."""
        return Position(self.epoch, self.seq)


class RouteState(enum.IntEnum):
    """How a copy moves through the scope graph; once downward, never back."""

    INTERNAL = 0
    UPWARD = 1
    DOWNWARD = 2


class Route(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where one copy is in the scope graph. One envelope may carry several routes over one body."""

    scope: str = ROOT_SCOPE
    state: RouteState = RouteState.INTERNAL
    source: str = ""
    path: tuple[str, ...] = ()
    version: int = 0
    """0 as published, else a digest of what it was mapped to."""
    tags: tuple[str, ...] = ()


class Duplicates(enum.IntEnum):
    """What counts as a second copy, where a notification may arrive along several paths through the scopes."""

    DEFAULT = 0
    """The rule of the scope that it comes from; `SUPPRESS` if that has none."""
    PER_PATH = 1
    """Nothing: a copy that arrives along another path is another notification."""
    EVENT = 2
    """The same event in any form: the first one counts."""
    SUPPRESS = 3
    """The same event in the same form."""


ROOT_ROUTE = Route()
"""The route of a notification in a system without scopes."""
