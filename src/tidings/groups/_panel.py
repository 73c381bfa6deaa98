"""A scope at its deciding point: what its policy gives to one member goes to that one, once.

A policy that compares the members of a scope makes them a kind of group: one broker gets what is to be decided, gives
it to one of them, and hands over what was decided to the next point (see `_point`). Two things differ. The point
stands for no member, but has a *seat* in the scope: it sees what is there as it is there. And the policy says whose
turn it is, of those that would get the notification: the members of the version under which it was published, by the
interfaces and mappings of that version, that are there and subscribe to it. If there are none, nobody gets it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

from tidings.broker import SEAT, Passage
from tidings.model import EventKey, Filter
from tidings.wire import Envelope

from ._messages import Known
from ._names import GroupName
from ._point import Group
from ._point import Host as GroupHost
from ._roster import Place

MAX_GIVEN = 10_000
"""Of how many members a point remembers how much it gave to them."""


class Host(GroupHost, Protocol):
    """The broker of a point, as far as a scope needs it."""

    def passages(self, envelope: Envelope, client: str) -> Passage | None:
        """How a client was a member of the scope of a notification, when that was published."""
        ...

    def choose(self, envelope: Envelope, clients: list[str], load: Mapping[str, tuple[int, int]]) -> str | None:
        """Ask the policy which of these gets a notification; each with what is under way to it, and was given to it."""
        ...


class Panel(Group):
    """One scope at its point, or at a broker that was its point."""

    def __init__(self, host: Host, key: str) -> None:
        super().__init__(host, key)
        self._asking = host
        self._seat = SEAT + GroupName.of_key(key).scope
        self._given: Counter[str] = Counter()

    def begin(self, told: Mapping[str, Known]) -> None:
        """This broker decides from now on."""
        first = all(known.decided is None and known.heard is None for known in told.values())
        super().begin(told)
        present = (known.present for known in told.values() if known.present is not None)
        if first and any(member.was_told for one in present for member in one.members):
            # The policy is new, and there were subscribers before it: what was published meanwhile was not decided.
            self._warned = set()
            self._tell_all_lost(self._host.origins())

    def _stands(self) -> bool:
        return True

    def _eligible(self) -> str | None:
        return self._seat

    def _assign(self, event: EventKey, envelope: Envelope) -> None:
        """Ask the policy, and do as it says."""
        wanting = {place.member.client: place for place in self.roster.turn if self._wants(envelope, place)}
        while wanting:
            chosen = self._asking.choose(envelope, sorted(wanting), self._load(wanting))
            if chosen is None:
                return
            place = wanting.pop(chosen)
            if self._give(place, event, envelope):
                self._given[chosen] += 1
                if len(self._given) > MAX_GIVEN:
                    del self._given[min(self._given, key=self._given.__getitem__)]
                return
            self.roster.turn.remove(place)

    def _wants(self, envelope: Envelope, place: Place) -> bool:
        """Whether a member would get a notification, if nobody chose."""
        client = place.member.client
        if client == envelope.identity.publisher:
            return False
        passage = self._asking.passages(envelope, client)
        shown = None if passage is None else passage.inward(envelope.notification)
        return shown is not None and any(_parsed(text).matches(shown) for text in place.member.filters)

    def _load(self, wanting: Mapping[str, Place]) -> dict[str, tuple[int, int]]:
        under_way = Counter(one.place.member.client for one in self._open.values())
        return {client: (under_way[client], self._given[client]) for client in wanting}


@lru_cache(maxsize=4_096)
def _parsed(text: str) -> Filter:
    return Filter.parse(text)
