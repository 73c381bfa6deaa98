"""What a client asks for once, and this broker keeps as one entry in each scope that the client is a member of."""

from __future__ import annotations

from collections.abc import Mapping

from tidings.broker._links import Link
from tidings.model import Duplicates, Matches, Position
from tidings.wire import Past

from ._book import Entry


class Registration:
    """A subscription or an advertisement of a client. Compared by identity."""

    __slots__ = (
        "after",
        "awaited",
        "duplicates",
        "effective",
        "entries",
        "filter",
        "id",
        "link",
        "located",
        "meta",
        "number",
        "past",
        "placed",
        "receive_own",
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
        located: bool = False,
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
        self.located = located
        """Whether its client has asked for what is where it is: at another broker it wants something else."""
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
    def settled(self) -> bool:
        """Whether everybody who must know it does, in every scope."""
        return self.placed and not self.awaited and all(entry.settled for entry in self.entries.values())

    def __repr__(self) -> str:
        return f"Registration({self.link.name!r}, {self.id!r}, {str(self.filter)!r})"
