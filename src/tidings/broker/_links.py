"""Links: the FIFO connections of a broker, to neighbours and to clients."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from tidings.model import Filter, Matches, Notification, Value

_NO_ATTRIBUTES: Mapping[str, Value] = {}


class LinkKind(enum.Enum):
    """Who is at the other end."""

    BROKER = "broker"
    CLIENT = "client"
    SCOPE = "scope"
    """A table of this same broker: what is wanted in a subscope is wanted, translated, in its superscope."""


class Guard(Protocol):
    """What the client at the other end may do. Each check raises a `TidingsError` that says what it may not."""

    @property
    def name(self) -> str:
        """Whose client it is: what all clients of one owner take is counted together."""
        ...

    @property
    def administer(self) -> bool:
        """Whether it may see and change everything."""
        ...

    def may_count(self, scope: str) -> bool:
        """May it ask how many there are in a scope? Small numbers are withheld from it."""
        ...

    @property
    def deploy(self) -> bool:
        """Whether it may deploy aggregates, and end them."""
        ...

    def check_publish(self, notification: Notification) -> None:
        """May it publish this?"""
        ...

    def check_subscribe(self, filter: Matches) -> None:
        """May it see everything that this filter accepts?"""
        ...

    def check_advertise(self, filter: Matches) -> None:
        """May it publish everything that this filter accepts?"""
        ...


@runtime_checkable
class Filtering(Protocol):
    """A guard that asks nothing of a publication but whether it passes a filter."""

    @property
    def publishes(self) -> Filter:
        """The filter: `check_publish` refuses whatever does not pass it, and nothing else."""
        ...


class Link:
    """One connection, while it lasts. Compared by identity: a new connection is a new link."""

    __slots__ = ("attributes", "guard", "is_broker", "is_client", "is_inside", "kind", "name", "principal")

    def __init__(
        self,
        name: str,
        kind: LinkKind,
        guard: Guard | None = None,
        principal: str = "",
        attributes: Mapping[str, Value] = _NO_ATTRIBUTES,
        *,
        inside: bool = False,
    ) -> None:
        self.name = name
        """The broker or client at the other end."""
        self.principal = principal or name
        """Who a client stands for: its memberships are those of the principal, and so is what it publishes."""
        self.kind = kind
        self.guard = guard
        self.attributes = attributes
        """Of a client: what it says about itself, for as long as this connection lasts."""
        self.is_broker = kind is LinkKind.BROKER
        self.is_client = kind is LinkKind.CLIENT
        self.is_inside = inside
        """Whether the client is a feature of this same broker."""

    @property
    def owner(self) -> str:
        """Whose it is; without a guard, its principal's own."""
        return self.guard.name if self.guard is not None else self.principal

    def __repr__(self) -> str:
        return f"Link({self.name!r}, {self.kind.value})"
