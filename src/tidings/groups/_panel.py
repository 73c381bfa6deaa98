"""A scope at its deciding point: what its policy gives to one member goes to that one, once.

A policy that compares the members of a scope makes them a kind of group: one broker gets what is to be decided, gives
it to those that the policy chooses, and hands over what was decided to the next point (see `_point`). The point
stands for no member, but has a *seat* in the scope: it sees what is there as it is there. And the policy says whose
turn it is, of those that would get the notification: the members of the version under which it was published, by the
interfaces and mappings of that version, that are there and subscribe to it. If there are none, nobody gets it, and
brokers that are out of reach are told when they come into reach: their members may have missed it (see `_unmet`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol

import msgspec

from tidings.broker import SEAT, Choice, Passage, Term
from tidings.broker.forwarding import DETOUR
from tidings.model import EventKey, Filter, Notification, Position
from tidings.wire import Envelope, Gap

from ._copies import Copy, copy_of, event_of
from ._host import Host as GroupHost
from ._limits import OVERDUE
from ._messages import Decided, Known, Lost, Present
from ._names import GroupName
from ._point import Group, gap_of
from ._roster import Place
from ._succession import latest
from ._unmet import Unmet

MAX_HELD = 10_000
"""The most notifications that wait for a policy to decide; of the oldest ones members are told a `Gap`."""
MAX_GIVEN = 10_000
"""Of how many members a point remembers how much it gave to them."""


class Host(GroupHost, Protocol):
    """The broker of a point, as far as a scope needs it."""

    def decides(self, envelope: Envelope) -> bool:
        """Whether the policy under which a notification was published is there, with its state."""
        ...

    def passages(self, envelope: Envelope, client: str) -> Passage | None:
        """How a client was a member of the scope of a notification, when that was published."""
        ...

    def choose(
        self,
        term: Term,
        envelope: Envelope,
        clients: list[str],
        load: Callable[[str], tuple[int, int]],
        *,
        waited: bool,
    ) -> Choice:
        """Ask the policy, under a term, which of these get a notification.

        `load`: what is under way to each of them, and was given to it.
        `waited`: whether it was asked before, and could not decide.
        """
        ...

    def gives_to_several(self, key: str) -> bool:
        """Whether a policy of a scope may give something to several of its members."""
        ...

    def remembered(self, key: str) -> dict[str, bytes]:
        """What the policies of a scope must know at its next deciding point."""
        ...

    def recall(self, key: str, states: list[dict[str, bytes]]) -> None:
        """Let the policies of a scope begin with what deciding points have remembered, the latest first."""
        ...

    def began(self, key: str, term: Term, before: list[Term]) -> None:
        """This broker decides from now on, with the states of the points of these terms."""
        ...


class _Audience(NamedTuple):
    """The members of one version that are there."""

    turn: deque[Place]
    size: int
    version: int
    places: list[tuple[Place, Passage]]

    def is_of(self, turn: deque[Place], version: int) -> bool:
        """Whether nobody has come or gone since. A roster makes another one for who comes, and takes out who goes."""
        return self.turn is turn and self.size == len(turn) and self.version == version


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
        self._audience: _Audience | None = None

    def decided(self, askers: list[tuple[str, int]]) -> Decided | None:
        """What this broker knows, with what its policies remember."""
        decided = super().decided(askers)
        if decided is None:
            return None
        states, unmet = self._asking.remembered(self.key), self._unmet.stretches()
        return msgspec.structs.replace(decided, states=states, unmet=unmet)

    def begin(self, told: Mapping[str, Known]) -> None:
        """This broker decides from now on."""
        super().begin(told)
        self._tell_unmet(told)
        self._warn(known.present for known in told.values() if known.present is not None)

    def present(self, broker: str, present: Present) -> None:
        """A broker says who is there."""
        before = {member.client for _, member in self.places()}
        super().present(broker, present)
        if self.deciding and not before.issuperset(member.client for member in present.members):
            self._warn((present,))

    def _warn(self, present: Iterable[Present]) -> None:
        """Tell of a loss if there were subscribers before this begins: what was published meanwhile is not decided."""
        if self._progress.anew and any(member.was_told for one in present for member in one.members):
            self._warned = set()
            self._tell_all_lost(self._host.origins())

    def _entered(self, told: Mapping[str, Known]) -> None:
        """Go on with what the points before this one remember."""
        assert self.term is not None
        known = latest(one.decided for one in told.values())
        self._asking.recall(self.key, [one.states for one in known])
        self._asking.began(self.key, self.term, [one.term for one in known])
        self._unmet.begin((one.unmet for one in known), told)

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
        # Without an end, it tells of what the facts leave open: others may decide that, unless it goes to several.
        if gap.last is not None or self._asking.gives_to_several(self.key):
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

    def _decide(self, envelope: Envelope) -> None:
        """What cannot be decided any more is told as lost."""
        if self._asking.decides(envelope):
            super()._decide(envelope)
        else:
            self._tell_lost(gap_of(event_of(envelope)))

    def look_again(self) -> None:
        """There may be another version: what waits for a policy that no version has any more is lost."""
        super().look_again()
        if self.deciding:
            for copy in [copy for copy, envelope in self._held.items() if not self._asking.decides(envelope)]:
                del self._held[copy]
                self.facts.take(copy.event, None)
                self._tell_lost(gap_of(copy.event))

    def _give_to(self, clients: frozenset[str], envelope: Envelope) -> None:
        wanting = self._wanting(envelope)
        for client in clients & wanting.keys():
            self._gives(wanting[client], envelope, client)

    def _assign(self, envelope: Envelope, *, waited: bool = False) -> None:
        """Ask the policy, and do as it says."""
        assert self.term is not None
        wanting = self._wanting(envelope)
        while True:
            choice = self._asking.choose(self.term, envelope, sorted(wanting), self._load, waited=waited)
            if choice.waits:
                self._hold(envelope)
                return
            chosen, again = choice.clients, choice.again
            given = [client for client in chosen if self._gives(wanting.pop(client), envelope, "" if again else client)]
            if choice.wakes:
                self._wake()
            if not again or not (given or wanting):  # it might have gone to members that are out of reach, too
                self._unmet.note(event_of(envelope))
            if given or not (chosen and again):
                self._has_given(envelope)
                return

    @property
    def holds(self) -> bool:
        """Whether something waits for the policy to decide."""
        return bool(self._held)

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
            self._tell_lost(gap_of(copy.event))

    def _wake(self) -> None:
        """The policy may be able to decide what it could not decide before."""
        held, self._held = self._held, OrderedDict()
        for copy, envelope in held.items():
            self.facts.take(copy.event, None)
            self._assign(envelope, waited=True)

    def _let_go(self) -> None:
        super()._let_go()
        self._held.clear()

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
        publisher, found = envelope.identity.publisher, dict[str, Place]()
        for place, passage in self._audience_of(envelope):
            client, filters = place.member.client, place.member.filters
            shown = passage.inward(inside) if client != publisher else None
            if shown is inside:  # then those that want the same get the same
                if filters not in passing:
                    passing[filters] = _passes(filters, inside)
                wants = passing[filters]
            else:
                wants = shown is not None and _passes(filters, shown)
            if wants:
                found[client] = place
        return found

    def _audience_of(self, envelope: Envelope) -> list[tuple[Place, Passage]]:
        """Those who are there and were members when it was published: the same until another one comes or goes."""
        turn, version = self.roster.turn, envelope.identity.graph_epoch
        if self._audience is None or not self._audience.is_of(turn, version):
            seen = ((place, self._asking.passages(envelope, place.member.client)) for place in turn)
            places = [(place, passage) for place, passage in seen if passage is not None]
            self._audience = _Audience(turn, len(turn), version, places)
        return self._audience.places

    def _load(self, client: str) -> tuple[int, int]:
        return self._under_way.to(client), self._given[client]


def _passes(filters: tuple[str, ...], shown: Notification) -> bool:
    return any(_parsed(text).matches(shown) for text in filters)


@lru_cache(maxsize=4_096)
def _parsed(text: str) -> Filter:
    return Filter.parse(text)
