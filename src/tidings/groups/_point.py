"""A group at its deciding point: what comes for the group goes to one member, once.

Theory of operation
-------------------
The point of a group has a client inside its broker that subscribes with the filter of the group and stands for one of
its members. So routing, covering, scopes and recovery serve the group as they serve any client, and each notification
comes to one place once. There it is *taken*: noted in the facts (see `tidings.broker`), and *assigned* to the member
whose turn it is.

    a member at this broker       it gets the notification in the same turn
    a member at another broker    `Assign` goes to that broker, numbered; until `Confirm` comes back, it is *open*

What is open is settled when the point gathers the next time, by itself or another broker: each broker says up to which
number it has handed over what was assigned to it.

    it has handed it over                                 done
    it has not, or the member had gone                    it is taken back, and assigned to another member
    it cannot be asked, or has died since                 nobody knows: it is lost, and the members are told a `Gap`

The next point does not get notifications from the last one, but facts: what was taken back is a hole in them, and its
subscription goes on before the first hole. If the last point has died, its facts are lost with it. What it had taken,
nobody knows; so the next one begins with what is published from then on, and tells the members a `Gap` without an end.
That is what `plain` means: never two members, and never silence.

While a point gathers, what comes waits. If too much waits, the point lets go of its subscription, and begins anew where
it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from tidings.broker import Facts, InnerClient, Lineage, Term, Timer
from tidings.broker.forwarding import DETOUR, ONE_OF_SEVERAL
from tidings.model import EventKey, Position
from tidings.wire import AnyMessage, Deliver, Envelope, Frame, Gap, Marks, Refused, Settled

from ._intake import Intake
from ._limits import KEPT, MAX_OPEN, MAX_RECENT, MAX_WAITING
from ._messages import (
    Assign,
    Begun,
    Confirm,
    Decided,
    Known,
    Lost,
    Member,
    Open,
    Present,
    Refuse,
    Said,
    Taken,
    Terms,
)
from ._roster import Place, Roster


class Host(Protocol):
    """The broker of a point, as far as a group needs it."""

    @property
    def broker(self) -> str:
        """Its name."""
        ...

    @property
    def epoch(self) -> int:
        """Its incarnation."""
        ...

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        ...

    def call_later(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call `action` in a turn of its own."""
        ...

    def say(self, broker: str, said: Said) -> None:
        """Tell a broker something; this one hears it in the same turn."""
        ...

    def hand(self, key: str, client: str, id: str, envelope: Envelope) -> bool:
        """Give a notification to a member at this broker; False: it is not there any more."""
        ...

    def subscribe(self, key: str, receive: Callable[[Frame], None], principal: str) -> InnerClient:
        """Open a client inside this broker that stands for a member."""
        ...

    def sees(self, principal: str) -> tuple[str, ...]:
        """The scopes that a client is a member of."""
        ...

    def origins(self) -> Mapping[str, Position]:
        """How far this broker has seen each origin."""
        ...


class _Assigned(NamedTuple):
    term: Term
    place: Place
    epoch: int
    number: int
    envelope: Envelope


class _Stream:
    """What was assigned to members at one broker, under one term, and not confirmed."""

    def __init__(self) -> None:
        self.number = 0
        self.open: deque[tuple[int, EventKey]] = deque()


class Group:
    """One group at its point, or at a broker that was its point."""

    def __init__(self, host: Host, key: str) -> None:
        self._host = host
        self.key = key
        self.roster = Roster(key, host.say)
        self.intake = Intake(host, key, self._handle, self._heard)
        self.term: Term | None = None
        self.lineage = Lineage()
        self.facts = Facts()
        self.settled = False
        self.deciding = False
        self._waiting: deque[Envelope] = deque()
        self._open: dict[EventKey, _Assigned] = {}
        self._streams: dict[str, _Stream] = {}
        self._retaken: set[EventKey] = set()
        """What was taken, was given back, and waits to be assigned again."""
        self._reached: dict[str, Position] = {}
        """How far the subscription has come with each origin, in what was taken."""
        self._warned: set[str] | None = None
        """After a loss, until the subscription has settled: the origins of which members were told."""
        self._ghosts: dict[Term, int] = {}
        self._reach: list[str] = []
        self._anew = True
        """Whether the next subscription begins with what is published from then on."""
        self._ignored: dict[str, Position] | None = None
        """Of a subscription that begins with what is published from now on, until it has settled: what came before."""
        self._recent: set[tuple[str, int, int]] = set()
        self._latest: deque[tuple[str, int, int]] = deque()
        """The same, the oldest first."""
        self._overflowed = False
        self._changed = True
        """Whether something has been confirmed, or nothing was open, since this was asked last."""
        self.taken = self.repeated = 0
        """How many notifications were taken; how many came again."""
        self.lost = 0
        """How many times members were told of a loss."""

    # --- members --------------------------------------------------------------------------------------

    @property
    def terms(self) -> Terms | None:
        """What all members have in common."""
        return self.roster.terms

    @property
    def members(self) -> int:
        """How many members there are."""
        return len(self.roster)

    @property
    def waiting(self) -> int:
        """How many notifications wait, or are under way to members elsewhere."""
        return len(self._waiting) + len(self._open)

    @property
    def open(self) -> int:
        """How many are under way to members elsewhere."""
        return len(self._open)

    def places(self) -> Iterator[tuple[str, Member]]:
        """All members, each with its broker."""
        return self.roster.places()

    def present(self, broker: str, present: Present) -> None:
        """A broker says who is there."""
        if not self.roster.is_news(broker, present):
            return
        self.roster.accept(broker, present)
        if self.term is not None:
            self._begun(broker)
        if self.deciding:
            self._go_on()

    def _begun(self, broker: str) -> None:
        present = self.roster.present.get(broker)
        if self.term is not None:
            version = present.version if present is not None else -1
            self._host.say(broker, Begun(self.key, self.term, version, self.settled))

    # --- deciding -------------------------------------------------------------------------------------

    def begin(self, told: Mapping[str, Known]) -> None:
        """This broker decides from now on; see the theory of operation."""
        host = self._host
        decided = _latest([known.decided for known in told.values() if known.decided is not None])
        heard = [known.heard for known in told.values() if known.heard is not None]
        self.lineage = Lineage(term for one in decided for term in (*one.lineage, one.term))
        lost = self._notice_losses(decided, heard, told)
        present = {broker: known.present for broker, known in told.items() if known.present is not None}
        self.roster.gather(next((one.terms for one in decided), None), present)
        self.facts = facts = Facts()
        for one in decided:
            facts.merge(Facts(one.facts))
        again, gone = _undelivered([entry for one in decided for entry in one.open], told)
        self.term, self.lineage = self.lineage.next((*heard, *self._ghosts), host.broker, host.epoch)
        self.deciding = True
        self._anew = bool(lost) or all(one.ended or one.anew for one in decided)
        if lost:
            self._warned = set()
            self._tell_all_lost(self._host.origins())
        if self._anew:
            self._forget()
            self._unsubscribe()
        else:
            self._take_back(again)
            for event in gone:
                self._tell_lost(Gap(event.origin, event.epoch, event.seq, event.seq))
        self._open.clear()
        self._streams.clear()
        if self.members:
            self._subscribe()
        for broker in told:
            self._begun(broker)
        self._go_on()

    def _notice_losses(self, decided: list[Decided], heard: list[Term], told: Mapping[str, Known]) -> bool:
        """Whether something may have been decided that nobody here knows of.

        Terms that were lost before are *ghosts*. What was out of reach when they were noticed may be among what they
        have decided: as long as they are remembered, a broker that comes into reach makes them count again.
        """
        now = self._host.now()
        known, ghosts = set(self.lineage.terms), dict(ghost for one in decided for ghost in one.ghosts)
        self._ghosts = {term: at for term, at in ghosts.items() if term not in known and at > now - KEPT}
        new = self.lineage.lost(heard) - self._ghosts.keys()
        certain = not self._ghosts or (len(decided) == 1 and set(told) <= set(decided[0].reach))
        lost = bool(new) or _out_of_date(decided, told) or not certain
        self._ghosts.update(dict.fromkeys(new, now))
        self._reach = sorted(told) if lost or not self._ghosts else decided[0].reach
        return lost

    def _take_back(self, events: Iterable[EventKey]) -> None:
        """These have reached nobody: assign them again, or, if they are not here, ask for them."""
        kept = [one for one in self._waiting if _key(one) in self._retaken and _key(one) not in self.facts]
        kept += [self._open[event].envelope for event in events if event in self._open]
        self._retaken = set(map(_key, kept))
        for event in events:
            if event not in self._retaken:
                self.facts.remove(event)
        for event in self._retaken:
            self.facts.take(event, None)
        self._waiting = deque([*kept, *(one for one in self._waiting if _key(one) not in self._retaken)])

    def _forget(self) -> None:
        """What was taken or came under earlier terms means nothing any more."""
        self._waiting.clear()
        self._retaken.clear()
        self._recent.clear()
        self._latest.clear()
        self._reached.clear()

    def suspend(self) -> None:
        """Decide nothing for now. What has come while this waited before may have been decided elsewhere."""
        if not self.deciding:
            self._waiting = deque(one for one in self._waiting if _key(one) in self._retaken)
            self._overflowed = True
            self.intake.clear()
        self.deciding = False

    def cease(self) -> None:
        """Decide nothing any more, and listen no longer; what is known is kept."""
        self.suspend()
        for event in self._retaken:
            self.facts.remove(event)
        self._forget()
        self._unsubscribe()

    def decided(self, askers: list[tuple[str, int]]) -> Decided | None:
        """What this broker knows; None: it has never decided."""
        if self.term is None or self.terms is None:
            return None
        open = tuple(
            Open(event, one.term, one.place.broker, one.epoch, one.number) for event, one in self._open.items()
        )
        facts = Facts(self.facts.told())
        for event in self._retaken:
            facts.remove(event)
        return Decided(
            self.term,
            self.lineage.terms,
            self.terms,
            facts.told(),
            open,
            not self.members,
            self._anew,
            list(self._ghosts.items()),
            self._reach,
            askers,
        )

    # --- the subscription -----------------------------------------------------------------------------

    def _subscribe(self) -> None:
        """Subscribe where the facts have their first hole, unless that subscription is there already."""
        assert self.terms is not None
        after = {} if self._anew else self.facts.resume()
        reached = self._reached
        whole = all(origin in reached and position >= reached[origin] for origin, position in after.items())
        if self.intake.is_open and whole and self._stands() and not self._overflowed:
            return
        if (principal := self._eligible()) is None:
            return
        self._unsubscribe()
        self._overflowed = self.settled = False
        self._reached = dict(after)
        self._ignored = {} if self._anew else None
        self.intake.open(principal, self.terms.filter, after)

    def _stands(self) -> bool:
        """Whether the subscription stands for somebody who is there."""
        return any(member.client == self.intake.principal for _, member in self.places())

    def _eligible(self) -> str | None:
        """A member that sees here what the group is to see."""
        assert self.terms is not None
        clients = sorted({member.client for _, member in self.places()})
        return next((one for one in clients if self._host.sees(one) == self.terms.sees), None)

    def _unsubscribe(self) -> None:
        if self.intake.is_open:
            self.intake.close()
            self.settled = False

    def _heard(self) -> None:
        if self.deciding:
            self._go_on()

    def _handle(self, message: AnyMessage) -> None:
        if type(message) is Deliver:
            self._came(message.envelope)
        elif isinstance(message, Settled):
            self._has_settled(message)
        elif isinstance(message, Marks):
            self._mark(message.marks)
        elif isinstance(message, Gap):
            self._missed(message)
        elif isinstance(message, Refused):
            members = tuple(member for _, member in self.places())
            for broker in self.roster.present:
                self._host.say(broker, Refuse(self.key, members, message.reason))

    def _has_settled(self, message: Settled) -> None:
        self.settled = True
        marks, self._ignored = dict(self._ignored or {}), None
        for origin, mark in message.marks.items():
            marks[origin] = max(mark, marks.get(origin, mark))
        if self._anew:
            self._anew = False
            if self._warned is not None:  # those that this broker had not heard of when it began
                self._tell_all_lost({origin: one for origin, one in marks.items() if origin not in self._warned})
                self._warned = None
            for origin, mark in marks.items():
                self.facts.close(origin, mark)
                self._reached[origin] = mark
        else:
            self._mark(marks)
        for broker in self.roster.present:
            self._begun(broker)

    def _mark(self, marks: Mapping[str, Position]) -> None:
        """Everything up to here has come. What comes may wait, so it is no fact before it is taken."""
        if self._waiting or self._overflowed or self._ignored is not None:
            return
        for origin, mark in marks.items():
            reached = self._reached.get(origin)
            if reached is None:
                self.facts.add(origin, mark.epoch, mark.seq + 1, mark.seq)  # from here on everything comes
            elif mark > reached:
                self.facts.take(EventKey(origin, *mark), reached)
            self._reached[origin] = max(mark, reached or mark)

    def _missed(self, gap: Gap) -> None:
        """The group itself has lost something."""
        if gap.last is not None:
            self.facts.add(gap.origin, gap.epoch, gap.first, gap.last)
        self._tell_lost(gap)

    def _came(self, envelope: Envelope) -> None:
        if self._overflowed:
            return
        if self._ignored is not None:  # it may have been taken under a term that is lost; nothing is promised yet
            identity = envelope.identity
            self._ignored[identity.origin] = Position(identity.epoch, identity.seq)
            return
        if len(self._waiting) >= MAX_WAITING:
            self._overflowed = True  # it is asked for again, behind what was taken
            self._waiting = deque(one for one in self._waiting if _key(one) in self._retaken)
            return
        self._waiting.append(envelope)

    def _go_on(self) -> None:
        """Take what waits."""
        while self._waiting and self.roster.turn and len(self._open) < MAX_OPEN:
            self._take(self._waiting.popleft())
        if self.deciding and self.members and (not self.intake.is_open or (self._overflowed and not self._waiting)):
            self._subscribe()

    def _take(self, envelope: Envelope) -> None:
        """Decide: this one goes to one member, now and for ever."""
        identity, tags = envelope.identity, envelope.routes[0].tags
        event = EventKey(identity.origin, identity.epoch, identity.seq)
        if event in self._retaken:
            self._retaken.discard(event)
            self._assign(event, envelope)
            return
        reached = self._reached.get(event.origin)
        form = (identity.publisher, identity.publisher_seq, envelope.routes[0].version)
        if form in self._recent or (event in self.facts and not (ONE_OF_SEVERAL in tags and reached == event[1:])):
            self.repeated += 1
            self._note(event, reached, DETOUR in tags)
            return
        self._recent.add(form)
        self._latest.append(form)
        if len(self._latest) > MAX_RECENT:
            self._recent.discard(self._latest.popleft())
        self.taken += 1
        self._note(event, reached, DETOUR in tags)
        self._assign(event, envelope)

    def _note(self, event: EventKey, reached: Position | None, detour: bool) -> None:
        position = Position(event.epoch, event.seq)
        if detour or (reached is not None and position <= reached):
            self.facts.take(event, None)
        else:
            self.facts.take(event, reached)
            if reached is not None or self.settled:
                self._reached[event.origin] = position

    def _assign(self, event: EventKey, envelope: Envelope) -> None:
        """Give it to whose turn it is."""
        turn = self.roster.turn
        while turn:
            place = turn[0]
            turn.rotate(-1)
            if self._give(place, event, envelope):
                return
            turn.remove(place)
        self._retaken.add(event)
        self._waiting.appendleft(envelope)

    def _give(self, place: Place, event: EventKey, envelope: Envelope) -> bool:
        """Let a member have something; False: it is not there any more."""
        broker, member = place
        if broker == self._host.broker:
            return self._host.hand(self.key, member.client, member.id, envelope)
        assert self.term is not None
        stream = self._streams.setdefault(broker, _Stream())
        stream.number = number = stream.number + 1
        stream.open.append((number, event))
        epoch = self.roster.present[broker].epoch
        self._open[event] = _Assigned(self.term, place, epoch, number, envelope)
        self._host.say(broker, Assign(self.key, self.term, number, member.client, member.id, envelope))
        return True

    # --- what brokers confirm -------------------------------------------------------------------------

    def confirmed(self, broker: str, confirm: Confirm) -> None:
        """A broker has handed over what was assigned to it, but for what it gives back."""
        stream = self._streams.get(broker)
        if confirm.term != self.term or stream is None:
            return
        back = set(confirm.back)
        returned: list[Envelope] = []
        while stream.open and stream.open[0][0] <= confirm.upto:
            number, event = stream.open.popleft()
            assigned = self._open.pop(event)
            if number in back:
                returned.append(assigned.envelope)
        self._changed = True
        self._retaken.update(map(_key, returned))
        self._waiting.extendleft(reversed(returned))
        if self.deciding:
            self._go_on()

    def overdue(self) -> bool:
        """Whether something is open, and nothing has been confirmed since this was asked last."""
        changed, self._changed = self._changed, False
        return bool(self._open) and not changed

    # --- losses ---------------------------------------------------------------------------------------

    def _tell_lost(self, gap: Gap) -> None:
        self.lost += 1
        for broker in self.roster.present:
            self._host.say(broker, Lost(self.key, gap))

    def _tell_all_lost(self, origins: Mapping[str, Position]) -> None:
        """Who has decided is gone, and with it what was decided: tell that anything may be missing."""
        known = self.facts.resume()
        if self._warned is not None:
            self._warned.update(origins)
        for origin, (epoch, _) in origins.items():
            since = known.get(origin, Position(epoch, 0))
            self._tell_lost(Gap(origin, since.epoch, since.seq + 1, None))
            if since.epoch < epoch:
                self._tell_lost(Gap(origin, epoch, 1, None))


def _key(envelope: Envelope) -> EventKey:
    identity = envelope.identity
    return EventKey(identity.origin, identity.epoch, identity.seq)


def _latest(decided: list[Decided]) -> list[Decided]:
    """Those that no other one has taken up already."""
    taken_up = {term for one in decided for term in one.lineage if term != one.term}
    return sorted((one for one in decided if one.term not in taken_up), key=lambda one: one.term, reverse=True)


def _out_of_date(decided: Iterable[Decided], told: Mapping[str, Known]) -> bool:
    """Whether somebody may have gone on with what was told, and cannot be heard."""
    there = {(broker, known.epoch) for broker, known in told.items()}
    return any(asker not in there for one in decided for asker in one.askers)


def _undelivered(open: Collection[Open], told: Mapping[str, Known]) -> tuple[list[EventKey], list[EventKey]]:
    """What was assigned and has certainly reached no member; and what nobody knows about."""
    again: list[EventKey] = []
    gone: list[EventKey] = []
    for event, term, broker, epoch, number in ((o.event, o.term, o.broker, o.epoch, o.number) for o in open):
        known = told.get(broker)
        if known is None or known.epoch != epoch:
            gone.append(event)
            continue
        taken = dict(known.taken).get(term, Taken(0))
        if number > taken.upto or number in taken.back:
            again.append(event)
    return again, gone
