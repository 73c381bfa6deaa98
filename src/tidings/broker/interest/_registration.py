"""What a client asks for once, and this broker keeps as one entry in each scope that the client is a member of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidings.broker._links import Link
from tidings.model import Duplicates, Matches, Position
from tidings.wire import Envelope, Past

from ._book import Entry


class Foreseen(NamedTuple):
    """What somebody who stood in for a client has kept for a subscription before the client came."""

    envelopes: tuple[Envelope, ...]
    """As they were delivered, in this order."""
    since: int | None
    """From when on everything that was published is among them, in microseconds since 1970 UTC; None: that is not
    known."""


class Registration:
    """A subscription or an advertisement of a client. Compared by identity."""

    __slots__ = (
        "after",
        "awaited",
        "begun",
        "duplicates",
        "effective",
        "entries",
        "filter",
        "foreseen",
        "id",
        "link",
        "meta",
        "number",
        "past",
        "placed",
        "receive_own",
        "template",
        "told",
    )

    def __init__(
        self,
        link: Link,
        id: str,
        filter: Matches,
        *,
        receive_own: bool = True,
        meta: Mapping[str, str] | None = None,
        number: int = 0,
        duplicates: Duplicates = Duplicates.DEFAULT,
        past: Past | None = None,
        after: Mapping[str, Position] | None = None,
        template: Matches | None = None,
        begun: int = 0,
    ) -> None:
        self.link = link
        self.id = id
        self.filter = filter
        self.receive_own = receive_own
        self.meta = meta or {}
        self.number = number
        """With which the client announced it last."""
        self.duplicates = duplicates
        """What counts as a second copy."""
        self.past = past
        """How far it reaches into the past; whoever takes it at SUBSCRIBE looks after that."""
        self.after = after
        """How far its client had come with it at another broker; None: it has taken the place of another one here."""
        self.template = template
        """What its client asked for, if that speaks of `myloc`: at another broker it means something else."""
        self.begun = begun
        """The number of the latest publication of its broker when it began; one that takes the place of another here
        has begun with that."""
        self.foreseen: Foreseen | None = None
        """What was kept for it before its client came; whoever looks after its past may use it."""
        self.entries: dict[str, Entry] = {}
        """By scope."""
        self.told = False
        """Whether the client has been told that it has settled."""
        self.effective = False
        """Of an advertisement: whether it has settled since it has its place in its scopes (see `_waiting`)."""
        self.awaited = False
        """Whether a deciding point must hear of it before it is settled."""
        self.placed = True
        """Whether this broker carries every scope of the client; until then it is not settled."""

    @property
    def located(self) -> bool:
        """Whether its client has asked for what is where it is."""
        return self.template is not None

    @property
    def settled(self) -> bool:
        """Whether everybody who must know it does, in every scope."""
        return self.placed and not self.awaited and all(entry.settled for entry in self.entries.values())

    def __repr__(self) -> str:
        return f"Registration({self.link.name!r}, {self.id!r}, {str(self.filter)!r})"
