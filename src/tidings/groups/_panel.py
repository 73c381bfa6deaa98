"""A scope at its deciding point: what its policy gives to one member goes to that one, once.

A policy that compares the members of a scope makes them a kind of group: one broker gets what is to be decided, gives
it to those that the policy chooses, and hands over what was decided to the next point (see `_point`). The point
stands for no member, but has a *seat* in the scope: it sees what is there as it is there. And the policy says whose
turn it is, of those that would get the notification: the members of the version under which it was published, by the
interfaces and mappings of that version, that are there and subscribe to it. If there are none, nobody gets it, and
brokers that are out of reach are told when they come into reach: their members may have missed it (see `_unmet`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

import msgspec

from tidings.broker import SEAT, Choice, Passage, Term
from tidings.broker.forwarding import DETOUR
from tidings.model import EventKey, Filter, Notification, Position
from tidings.wire import Envelope, Gap

from ._copies import Copy, copy_of, event_of
from ._host import Host as GroupHost
from ._limits import OVERDUE
from ._messages import Decided, Known, Lost
from ._names import GroupName
from ._point import Group
from ._roster import Place
from ._succession import latest
from ._unmet import Unmet

MAX_HELD = 10_000
"""The most notifications that wait for a policy to decide; of the oldest ones members are told a `Gap`."""
MAX_GIVEN = 10_000
"""Of how many members a point remembers how much it gave to them."""


class Host(GroupHost, Protocol):
    """The broker of a point, as far as a scope needs it."""

    def passages(self, envelope: Envelope, client: str) -> Passage | None:
        """How a client was a member of the scope of a notification, when that was published."""
        ...

    def choose(
        self, envelope: Envelope, clients: list[str], load: Mapping[str, tuple[int, int]], *, waited: bool
    ) -> Choice:
        """Ask the policy which of these get a notification; each with what is under way to it, and was given to it.

        `waited`: whether it was asked before, and could not decide.
        """
        ...

    def remembered(self, key: str) -> dict[str, bytes]:
        """What the policies of a scope must know at its next deciding point."""
        ...

    def recall(self, key: str, states: list[dict[str, bytes]]) -> None:
        """Let the policies of a scope begin with what deciding points have remembered, the latest first."""
        ...


class Panel(Group):
    """One scope at its point, or at a broker that was its point."""

    def __init__(self, host: Host, key: str) -> None:
        super().__init__(host, key)
        self._asking = host
        self._seat = SEAT + GroupName.of_key(key).scope
        self._given: Counter[str] = Counter()
        self._held: OrderedDict[Copy, Envelope] = OrderedDict()
        """What the policy cannot decide yet, the oldest first."""
        self._unmet = Unmet()

    def decided(self, askers: list[tuple[str, int]]) -> Decided | None:
        """What this broker knows, with what its policies remember."""
        decided = super().decided(askers)
        if decided is None:
            return None
        states, unmet = self._asking.remembered(self.key), self._unmet.stretches()
        return msgspec.structs.replace(decided, states=states, unmet=unmet)

    def begin(self, told: Mapping[str, Known]) -> None:
        """This broker decides from now on."""
        known = latest(one.decided for one in told.values())
        self._asking.recall(self.key, [one.states for one in known])
        self._unmet.begin((one.unmet for one in known), told)
        first = all(known.decided is None and known.heard is None for known in told.values())
        super().begin(told)
        self._tell_unmet(told)
        present = (known.present for known in told.values() if known.present is not None)
        if first and any(member.was_told for one in present for member in one.members):
            # The policy is new, and there were subscribers before it: what was published meanwhile was not decided.
            self._warned = set()
            self._tell_all_lost(self._host.origins())

    def _tell_unmet(self, told: Mapping[str, Known]) -> None:
        """Tell members that were out of reach what was given to nobody meanwhile, or was lost."""
        if self._unmet.is_told:
            return
        origins = self._host.origins()
        for broker, known in told.items():
            if known.present is None or not any(member.was_told for member in known.present.members):
                continue
            for origin, (epoch, seq) in self._unmet.missed(broker).items():
                self._host.say(broker, Lost(self.key, Gap(origin, epoch, seq, None)))
                if origin in origins and epoch < (latest := origins[origin].epoch):
                    self._host.say(broker, Lost(self.key, Gap(origin, latest, 1, None)))
        term = self.term
        self._host.call_later(OVERDUE, lambda: self._has_told(term))

    def _tell_lost(self, gap: Gap) -> None:
        super()._tell_lost(gap)
        if gap.last is not None:  # without an end, it tells of what the facts leave open: others may decide that
            self._unmet.note(EventKey(gap.origin, gap.epoch, gap.first))

    def _has_told(self, term: Term | None) -> None:
        """If there has been no new tree since, what was said has arrived. Else it is said again."""
        if self.deciding and self.term == term:
            self._unmet.tell()

    def _stands(self) -> bool:
        return True

    def _eligible(self) -> str | None:
        return self._seat

    def _saw(self, envelope: Envelope, client: str) -> bool:
        return True

    def _assign(self, envelope: Envelope, *, waited: bool = False) -> None:
        """Ask the policy, and do as it says; what cannot be decided any more is told as lost."""
        if not self._asking.judges(envelope):
            identity = envelope.identity
            self._tell_lost(Gap(identity.origin, identity.epoch, identity.seq, identity.seq))
            return
        if (owed := self._owed.take(copy_of(envelope))) is not None:
            for client in owed:  # others were decided before, too
                self._give_only(client, envelope)
            return
        wanting = self._wanting(envelope)
        while True:
            choice = self._asking.choose(envelope, sorted(wanting), self._load(wanting), waited=waited)
            if choice.waits:
                self._hold(envelope)
                return
            chosen, again = choice.clients, choice.again
            given = [client for client in chosen if self._gives(wanting.pop(client), envelope, "" if again else client)]
            if choice.wakes:
                self._wake()
            if not given and not wanting:
                self._unmet.note(event_of(envelope))
            if given or not (chosen and again):
                return

    # --- what cannot be decided yet -------------------------------------------------------------------

    def _take(self, envelope: Envelope) -> None:
        if copy_of(envelope) not in self._held:
            super()._take(envelope)
            return
        event = event_of(envelope)
        self._progress.note(event, detour=DETOUR in envelope.routes[0].tags)
        self.facts.remove(event)

    def _mark(self, marks: Mapping[str, Position]) -> None:
        super()._mark(marks)
        for copy in self._held:
            self.facts.remove(copy.event)

    def _hold(self, envelope: Envelope) -> None:
        """Keep something until the policy can decide. It is no fact before, so the next point asks for it, too."""
        self._held[copy_of(envelope)] = envelope
        self.facts.remove(event_of(envelope))
        if len(self._held) > MAX_HELD:
            copy, _ = self._held.popitem(last=False)
            self.facts.take(copy.event, None)
            self._tell_lost(Gap(*copy.event, copy.event.seq))

    def _wake(self) -> None:
        """The policy may be able to decide what it could not decide before."""
        held, self._held = self._held, OrderedDict()
        for copy, envelope in held.items():
            self.facts.take(copy.event, None)
            self._assign(envelope, waited=True)

    def _forget(self) -> None:
        super()._forget()
        self._held.clear()

    def _give_only(self, client: str, envelope: Envelope) -> None:
        """Give something to one member, if it is still there."""
        place = next((one for one in self.roster.turn if one.member.client == client), None)
        if place is not None:
            self._gives(place, envelope, client)

    def _gives(self, place: Place, envelope: Envelope, only: str) -> bool:
        if not self._give(place, envelope, only):
            self.roster.turn.remove(place)
            return False
        self._given[place.member.client] += 1
        if len(self._given) > MAX_GIVEN:
            del self._given[min(self._given, key=self._given.__getitem__)]
        return True

    def _wanting(self, envelope: Envelope) -> dict[str, Place]:
        """The members that would get a notification, if nobody chose."""
        inside, passing = envelope.notification, dict[tuple[str, ...], bool]()
        found: dict[str, Place] = {}
        for place in self.roster.turn:
            client, filters = place.member.client, place.member.filters
            passage = self._asking.passages(envelope, client) if client != envelope.identity.publisher else None
            shown = None if passage is None else passage.inward(inside)
            if shown is inside:  # then those that want the same get the same
                if filters not in passing:
                    passing[filters] = _passes(filters, inside)
                wants = passing[filters]
            else:
                wants = shown is not None and _passes(filters, shown)
            if wants:
                found[client] = place
        return found

    def _load(self, wanting: Mapping[str, Place]) -> dict[str, tuple[int, int]]:
        return {client: (self._under_way.to(client), self._given[client]) for client in wanting}


def _passes(filters: tuple[str, ...], shown: Notification) -> bool:
    return any(_parsed(text).matches(shown) for text in filters)


@lru_cache(maxsize=4_096)
def _parsed(text: str) -> Filter:
    return Filter.parse(text)
