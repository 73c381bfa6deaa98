"""A seat: what the deciding point of a scope has there, beside the members.

A policy that compares members is asked at one broker. A client inside that broker subscribes to what the policy decides
about, and sees it as the scope does: no interface, mapping or policy stands between them. It publishes nothing.
"""

from __future__ import annotations

from tidings.broker import SEAT
from tidings.model import NOTHING, ROOT_ROUTE, Duplicates, Filter, Identity, Matches, Notification


def seat_of(scope: str) -> str:
    """Who has the seat of a scope."""
    return SEAT + scope


class Seat:
    """The passage between a scope and its deciding point."""

    route = ROOT_ROUTE
    duplicates = Duplicates.DEFAULT
    since = 0
    ordered = exact = False
    chooses = decides = True
    outward_filters: tuple[Filter, ...] | None = (NOTHING,)

    def __init__(self, scope: str, *, incoming: bool, internal: bool) -> None:
        """What it gets: what came into the scope from above, what was published inside, or both."""
        self.member, self.scope = f"@{seat_of(scope)}", scope
        self._incoming, self._internal = incoming, internal

    def outward(self, notification: Notification) -> None:
        """It publishes nothing."""
        return

    def inward(self, notification: Notification) -> Notification:
        """Everything, as it is in the scope."""
        return notification

    def sends(self, notification: Notification, identity: Identity, path: tuple[str, ...]) -> None:
        """It publishes nothing."""
        return

    def compares(self, *, incoming: bool) -> bool:
        """It stands for who decides."""
        return False

    def takes(
        self, notification: Notification, identity: Identity, path: tuple[str, ...], *, incoming: bool
    ) -> int | None:
        """At once, if the policy decides about it."""
        return 0 if (self._incoming if incoming else self._internal) else None

    def wanted(self, filter: Matches) -> Matches:
        """The same."""
        return filter

    offered = wanted
