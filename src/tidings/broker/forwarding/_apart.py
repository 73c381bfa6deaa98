"""Who does not get the frame of its group: those that something is special about, each by itself.

A subscription that is held, or that is owed something by just this origin, a client for whom DELIVER is advised, a
neighbour for whom something is attached or waits to ride: each leaves its group, and the others stay in theirs.

The sets that say so are those of their owners, not copies: what begins to be held is left out of the next group
already, and nobody can forget to tell.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from typing import NamedTuple

from tidings.broker._links import Link
from tidings.broker.interest import Registration
from tidings.model import Route
from tidings.wire import Envelope

from ._targets import Targets

NOBODY_APART: frozenset[Link] = frozenset()


class Left(NamedTuple):
    """What a lane has left over for the full path: these get the same notification, each by itself."""

    route: Route
    envelope: Envelope
    targets: Targets
    apart: frozenset[Link]
    """Those of the targets that are meant."""


class Apart:
    """Who does not get the frame of its group now. What is given is looked at for each notification."""

    def __init__(
        self,
        held: Mapping[Registration, object],
        owing: Collection[str],
        owed: Callable[[str], Mapping[Registration, object]],
        attached: Mapping[Link, object],
        riding: Mapping[Link, object],
    ) -> None:
        """The subscriptions that are held, the origins that owe something, the subscriptions that one owes something;
        the links for which something is attached to the next message or waits for it."""
        self.held = held
        self.held_keys = held.keys()
        self.owing = owing
        self._owed = owed
        self.attached = attached
        self.riding = riding
        self.advised: tuple[Set[Link], ...] | None = ()
        """The clients for whom DELIVER is advised; None: for everybody."""

    def among(self, origin: str, targets: Targets) -> frozenset[Link]:
        """Those of the targets that get what an origin has published each by itself."""
        if self.advised is None:
            return frozenset(targets)
        apart = NOBODY_APART
        if self.held and not self.held_keys.isdisjoint(targets.registrations):
            apart = _links(self.held, targets)
        if self.owing and origin in self.owing:
            apart |= _links(self._owed(origin), targets)
        for links in self.advised:
            if not targets.keys().isdisjoint(links):
                apart |= links & targets.keys()
        if self.attached or self.riding:
            apart |= (self.attached.keys() | self.riding.keys()) & targets.keys()
        return apart


def _links(special: Mapping[Registration, object], targets: Targets) -> frozenset[Link]:
    """The clients among these that have one of these subscriptions; either may be many."""
    registrations = targets.registrations
    few, many = (special, registrations) if len(special) < len(registrations) else (registrations, special)
    return frozenset([one.link for one in few if one in many])
