"""Riding: on which messages to a neighbour what it must be told may ride, and how much of it did."""

from __future__ import annotations

import enum

from tidings.wire import Advertise, AnyMessage, Notify, Subscribe, Unadvertise, Unsubscribe

MAX_COUNTED = 1_000
"""The most pairs of an aggregate and a neighbour for which traffic is counted apart."""
OTHERS = "others"
"""Under which the rest is counted."""

_REGISTERING = (Subscribe, Unsubscribe, Advertise, Unadvertise)


class Riding(enum.Enum):
    """On which messages updates ride: the levels P0 to P3 of the theory."""

    NOTHING = "nothing"
    """P0: each update is a message of its own, at once."""
    REGISTRATIONS = "registrations"
    """P1: on subscriptions and advertisements that leave in the same turn."""
    CONTROL = "control"
    """P2: on whatever leaves in time and is no notification."""
    EVERYTHING = "everything"
    """P3: on whatever leaves in time."""

    def carries(self, message: AnyMessage) -> bool:
        """Whether updates may ride on a message."""
        if self is Riding.REGISTRATIONS:
            return isinstance(message, _REGISTERING)
        return self is Riding.EVERYTHING or (self is Riding.CONTROL and not isinstance(message, Notify))


class Traffic:
    """What was told of one aggregate on one link."""

    __slots__ = ("alone", "ridden", "sent", "suppressed")

    def __init__(self) -> None:
        self.sent = 0
        """Updates to the neighbour."""
        self.suppressed = 0
        """Changes that it did not have to be told."""
        self.ridden = 0
        """Updates from the neighbour that came with another message."""
        self.alone = 0
        """Updates from the neighbour that came by themselves."""


class Counted:
    """The traffic of one broker, by aggregate and neighbour."""

    def __init__(self) -> None:
        self._by_pair: dict[tuple[str, str], Traffic] = {}

    def of(self, aggregate: str, neighbour: str) -> Traffic:
        """What was told of an aggregate on the link to a neighbour."""
        found = self._by_pair.get((aggregate, neighbour))
        if found is None:
            if len(self._by_pair) >= MAX_COUNTED:
                aggregate = OTHERS
            found = self._by_pair.setdefault((aggregate, neighbour), Traffic())
        return found

    def rows(self) -> list[tuple[str, str, Traffic]]:
        """All of it."""
        return [(aggregate, neighbour, one) for (aggregate, neighbour), one in sorted(self._by_pair.items())]
