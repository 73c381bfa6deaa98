"""Links: the FIFO connections of a broker, to neighbours and to clients."""

from __future__ import annotations

import enum


class LinkKind(enum.Enum):
    """Who is at the other end."""

    BROKER = "broker"
    CLIENT = "client"


class Link:
    """One connection, while it lasts. Compared by identity: a new connection is a new link."""

    __slots__ = ("is_broker", "kind", "name")

    def __init__(self, name: str, kind: LinkKind) -> None:
        self.name = name
        """The broker or client at the other end."""
        self.kind = kind
        self.is_broker = kind is LinkKind.BROKER

    def __repr__(self) -> str:
        return f"Link({self.name!r}, {self.kind.value})"
