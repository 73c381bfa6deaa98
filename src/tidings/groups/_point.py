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

from collections import Counter, OrderedDict, deque
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
        """The scopes that a client is a member of, by the newest version."""
        ...

    def always_sees(self, principal: str, scopes: tuple[str, ...]) -> bool:
        """Whether a client is a member of these scopes by every version that something may be judged by."""
        ...

    def judges(self, envelope: Envelope) -> bool:
        """Whether the version under which a notification was published is known here."""
        ...

    def saw(self, envelope: Envelope, client: str) -> tuple[str, ...]:
        """The scopes that a client was a plain member of when a notification was published."""
        ...

    def reaches(self, broker: str) -> bool:
        """Whether the tree leads to a broker."""
        ...

    def origins(self) -> Mapping[str, Position]:
        """How far each origin is at least; what follows that is still to come."""
        ...


class _Copy(NamedTuple):
    """One form of an event: mappings may show a group several, and each of them goes to a member."""

    event: EventKey
    version: int


class _Assigned(NamedTuple):
    copy: _Copy
    term: Term
    place: Place
    epoch: int
    envelope: Envelope
    only: str = ""
    """The client that gets it, if nobody else may."""


class _Stream:
    """What was assigned to members at one broker, under one term, and not confirmed."""

    def __init__(self) -> None:
        self.number = 0
        self.open: deque[int] = deque()


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
        self._open: dict[tuple[str, int], _Assigned] = {}
        """What was assigned and not confirmed, by broker and number."""
        self._streams: dict[str, _Stream] = {}
        self._retaken: set[_Copy] = set()
        """What was taken, was given back, and waits to be assigned again."""
        self._due: OrderedDict[EventKey, dict[int, set[str]]] = OrderedDict()
        """What was decided and has not reached everybody: by event and form, who is still to get it."""
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
        self._began: dict[str, Position] = {}
        """How far each origin was when the subscription began: where there are gateways, no marks say so at first."""
        self._recent: dict[tuple[str, int, int], EventKey] = {}
        """What was taken here, the oldest first: publisher, its number and form, each with its event."""
        self._events: Counter[EventKey] = Counter()
        """How many forms of each event are among these: others of them may follow, also by a detour."""
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

    @property
    def behind(self) -> bool:
        """Whether there is more than has come: it is asked for when there is room."""
        return self._overflowed and self.deciding

    def places(self) -> Iterator[tuple[str, Member]]:
        """All members, each with its broker."""
        return self.roster.places()

    def present(self, broker: str, present: Present) -> None:
        """A broker says who is there."""
        if not self.roster.is_news(broker, present):
            return
        self.roster.accept(broker, present)
        self.look_again()
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
        self.roster.gather(next((one.terms for one in decided if not one.ended), None), present)
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

    def _take_back(self, again: Iterable[Open]) -> None:
        """These have reached nobody: assign them again, or, if they are not here, ask for them."""
        kept = [one for one in self._waiting if _copy(one) in self._retaken and _copy(one).event not in self.facts]
        for one in again:
            assigned = self._open.get((one.broker, one.number))
            if assigned is not None and assigned.term == one.term:
                kept.append(assigned.envelope)
        self._retaken = set(map(_copy, kept))
        here = {copy.event for copy in self._retaken}
        for one in again:
            if one.client:
                self._owe(_Copy(one.event, one.version), one.client)
            if one.event not in here:
                self.facts.remove(one.event)
        for event in here:
            self.facts.take(event, None)
        self._waiting = deque([*kept, *(one for one in self._waiting if _copy(one) not in self._retaken)])

    def _owe(self, copy: _Copy, client: str) -> None:
        """Let a client get what was decided for it, and has not arrived."""
        self._due.setdefault(copy.event, {}).setdefault(copy.version, set()).add(client)
        if len(self._due) > MAX_RECENT:
            self._due.popitem(last=False)

    def _forget(self) -> None:
        """What was taken or came under earlier terms means nothing any more."""
        self._due.clear()
        self._waiting.clear()
        self._retaken.clear()
        self._recent.clear()
        self._events.clear()
        self._reached.clear()

    def suspend(self) -> None:
        """Decide nothing for now. What has come while this waited before may have been decided elsewhere."""
        if not self.deciding:
            self._waiting = deque(one for one in self._waiting if _copy(one) in self._retaken)
            self._overflowed = True
            self.intake.clear()
        self.deciding = False

    def cease(self) -> None:
        """Decide nothing any more, and listen no longer; what is known is kept."""
        self.suspend()
        for copy in self._retaken:
            self.facts.remove(copy.event)
        self._forget()
        self._unsubscribe()

    def decided(self, askers: list[tuple[str, int]]) -> Decided | None:
        """What this broker knows; None: it has never decided."""
        if self.term is None or self.terms is None:
            return None
        open = tuple(
            Open(one.copy.event, one.term, broker, one.epoch, number, one.only, one.copy.version)
            for (broker, number), one in self._open.items()
        )
        facts = Facts(self.facts.told())
        for copy in self._retaken:
            facts.remove(copy.event)
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
        self._began = dict(self._host.origins())
        self.intake.open(principal, self.terms.filter, after)

    def _stands(self) -> bool:
        """Whether the subscription stands for somebody who is there, and sees what the group is to see."""
        assert self.terms is not None
        principal, scopes = self.intake.principal, self.terms.sees
        there = any(member.client == principal for _, member in self.places())
        if not there or self._host.sees(principal) != scopes:
            return False
        if self._host.always_sees(principal, scopes):
            return True
        return not any(self._host.always_sees(member.client, scopes) for _, member in self.places())

    def _eligible(self) -> str | None:
        """A member that sees here what the group is to see, if possible by every version."""
        assert self.terms is not None
        scopes = self.terms.sees
        clients = sorted({member.client for _, member in self.places()})
        seeing = [one for one in clients if self._host.sees(one) == scopes]
        return next((one for one in seeing if self._host.always_sees(one, scopes)), seeing[0] if seeing else None)

    def look_again(self) -> None:
        """Members or the graph have changed: whom the subscription stands for may be gone, or see something else."""
        if self.deciding and self.intake.is_open and self.members and not self._stands():
            self._subscribe()

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
        if self._overflowed:  # where the group begins with an origin is not noted now, but by the next subscription
            return
        self.settled = True
        marks, self._ignored = dict(self._ignored or {}), None
        for origin, mark in message.marks.items():
            marks[origin] = max(mark, marks.get(origin, mark))
        for origin, mark in {**self._host.origins(), **self._began}.items():
            if origin not in self._reached:
                marks.setdefault(origin, mark)
        if self._anew:
            self._anew = False
            if self._warned is not None:  # those that this broker had not heard of when it began
                self._tell_all_lost({origin: one for origin, one in marks.items() if origin not in self._warned})
                self._warned = None
            for origin, mark in marks.items():
                if self._host.reaches(origin):
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
                if not self._host.reaches(origin):
                    continue  # it may be further, and others may have decided what it has published since
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
        if not self._saw(envelope, self.intake.principal):
            return  # whom the subscription stands for saw more or less then than the group is to see
        if len(self._waiting) >= MAX_WAITING:
            self._overflowed = True  # it is asked for again, behind what was taken
            self._waiting = deque(one for one in self._waiting if _copy(one) in self._retaken)
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
        if _copy(envelope) in self._retaken:
            self._retaken.discard(_copy(envelope))
            self._assign(envelope)
            return
        reached = self._reached.get(event.origin)
        form = (identity.publisher, identity.publisher_seq, envelope.routes[0].version)
        if form in self._recent or (event in self.facts and not (ONE_OF_SEVERAL in tags and event in self._events)):
            self.repeated += 1
            self._note(event, reached, DETOUR in tags)
            return
        self._remember(form, event)
        self.taken += 1
        self._note(event, reached, DETOUR in tags)
        self._assign(envelope)

    def _remember(self, form: tuple[str, int, int], event: EventKey) -> None:
        self._recent[form] = event
        self._events[event] += 1
        if len(self._recent) > MAX_RECENT:
            oldest = self._recent.pop(next(iter(self._recent)))
            self._events[oldest] -= 1
            if not self._events[oldest]:
                del self._events[oldest]

    def _note(self, event: EventKey, reached: Position | None, detour: bool) -> None:
        position = Position(event.epoch, event.seq)
        if detour or (reached is not None and position <= reached):
            self.facts.take(event, None)
        else:
            self.facts.take(event, reached)
            if reached is not None or self.settled:
                self._reached[event.origin] = position

    def _assign(self, envelope: Envelope) -> None:
        """Give it to whose turn it is, of those that see it."""
        turn, passed = self.roster.turn, 0
        while len(turn) > passed:
            place = turn[0]
            turn.rotate(-1)
            if not self._saw(envelope, place.member.client):
                passed += 1
            elif self._give(place, envelope):
                return
            else:
                turn.remove(place)
        if not turn:
            self._retaken.add(_copy(envelope))
            self._waiting.appendleft(envelope)
        elif not self._host.judges(envelope) or any(self._saw(envelope, one.client) for _, one in self.places()):
            identity = envelope.identity  # nobody knows who saw it, or nobody is there who did
            self._tell_lost(Gap(identity.origin, identity.epoch, identity.seq, identity.seq))

    def _saw(self, envelope: Envelope, client: str) -> bool:
        """Whether a client saw what the group is to see, when a notification was published."""
        assert self.terms is not None
        return self._host.saw(envelope, client) == self.terms.sees

    def _give(self, place: Place, envelope: Envelope, only: str = "") -> bool:
        """Let a member have something; False: it is not there any more. `only`: its client, if nobody else may."""
        broker, member = place
        if broker == self._host.broker:
            return self._host.hand(self.key, member.client, member.id, envelope)
        assert self.term is not None
        stream = self._streams.setdefault(broker, _Stream())
        stream.number = number = stream.number + 1
        stream.open.append(number)
        epoch = self.roster.present[broker].epoch
        self._open[broker, number] = _Assigned(_copy(envelope), self.term, place, epoch, envelope, only)
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
        while stream.open and stream.open[0] <= confirm.upto:
            number = stream.open.popleft()
            assigned = self._open.pop((broker, number))
            if number in back:
                returned.append(assigned.envelope)
                if assigned.only:
                    self._owe(assigned.copy, assigned.only)
        self._changed = True
        self._retaken.update(map(_copy, returned))
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


def envelope_key(envelope: Envelope) -> EventKey:
    """Which event a notification tells of."""
    identity = envelope.identity
    return EventKey(identity.origin, identity.epoch, identity.seq)


def _copy(envelope: Envelope) -> _Copy:
    return _Copy(envelope_key(envelope), envelope.routes[0].version)


def _latest(decided: list[Decided]) -> list[Decided]:
    """Those that no other one has taken up already."""
    taken_up = {term for one in decided for term in one.lineage if term != one.term}
    return sorted((one for one in decided if one.term not in taken_up), key=lambda one: one.term, reverse=True)


def _out_of_date(decided: Iterable[Decided], told: Mapping[str, Known]) -> bool:
    """Whether somebody may have gone on with what was told, and cannot be heard."""
    there = {(broker, known.epoch) for broker, known in told.items()}
    return any(asker not in there for one in decided for asker in one.askers)


def _undelivered(open: Collection[Open], told: Mapping[str, Known]) -> tuple[list[Open], list[EventKey]]:
    """What was assigned and has certainly reached no member; and what nobody knows about."""
    again: list[Open] = []
    gone: list[EventKey] = []
    for one in open:
        known = told.get(one.broker)
        if known is None or known.epoch != one.epoch:
            gone.append(one.event)
            continue
        taken = dict(known.taken).get(one.term, Taken(0))
        if one.number > taken.upto or one.number in taken.back:
            again.append(one)
    return again, gone
