"""A client that is attached to a broker, as that broker and others see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tidings.broker import Link

from ._admission import Admitted
from ._claims import Claim, Copies


class Wishes(NamedTuple):
    """Where a broker wants copies of a client that has come."""

    neighbours: tuple[str, ...] = ()
    warm: tuple[str, ...] = ()
    """Which of these are to listen while it is connected."""


NO_WISHES = Wishes()


@dataclass(slots=True, eq=False)
class Hosted:
    """A client that is attached here."""

    link: Link
    owner: str
    epoch: int
    at: int
    shown: int
    last: str
    sure: bool
    """Whether nobody else hosts it, as far as brokers could be reached."""
    away: bool = False
    away_since: int = 0
    ended: bool = False
    """Whether its connection is about to end."""
    overlap: bool = False
    """Whether it still takes what the broker sends that it left."""
    wishes: Wishes = NO_WISHES
    """Where this broker wants copies of it, when it came."""

    def claim(self, broker: str, *, fencing: bool = False) -> Claim:
        """What this broker tells others of it."""
        return Claim(
            self.link.name,
            self.owner,
            broker,
            self.at,
            self.epoch,
            self.shown,
            fencing=fencing,
            neighbours=self.wishes.neighbours,
            warm=self.wishes.warm,
            overlap=self.overlap,
        )


class HostedClient(NamedTuple):
    """A client that is attached here, for those who look."""

    client: str
    epoch: int
    since: int
    away: bool
    last: str


class Moved(NamedTuple):
    """A client has gone from one broker to another; the old one hosted it under the epoch that the client showed."""

    client: str
    owner: str
    old: str
    new: str
    epoch: int
    """Under which the new broker hosts it."""
    away: int
    """Microseconds for which it was away, as far as its old broker had noticed."""
    edge_known: bool = False
    """At the new broker: whether the old one knows the edge now,"""
    learned_at: int = 0
    """and when the client made its last new edge; 0: not lately."""
    stayed: int = 0
    """At the old broker: microseconds for which it was there, until it was missed."""


class Watcher(Protocol):
    """Who wants to know where clients go."""

    def arrived(self, link: Link, admitted: Admitted) -> Wishes:
        """A client has been attached here, and says nothing yet; where there should be copies of it."""
        ...

    def claimed(self, claim: Claim) -> Copies | None:
        """Another broker hosts a client; this one may have hosted it, and leaves copies to that one."""
        ...

    def inherited(self, name: str, copies: Copies | None) -> None:
        """The old broker of a client that has come has answered, and leaves copies to this one."""
        ...
