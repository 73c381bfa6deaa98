"""A group at its deciding point: what comes for the group goes to one member, once.

Theory of operation
-------------------
The point of a group has a client inside its broker that subscribes with the filter of the group and stands for one of
its members. So routing, covering, scopes and recovery serve the group as they serve any client, and each notification
comes to one place once. There it is *taken*: noted in the facts (see `tidings.broker`), and *assigned* to the member
whose turn it is.

    a member at this broker       it gets the notification in the same turn
    a member at another broker    `Assign` goes to that broker, numbered; until `Confirm` comes back, it is *open*

What is open is settled when the point gathers the next time, by itself or another broker (`_succession`).

The next point does not get notifications from the last one, but facts: what was taken back is a hole in them, and its
subscription goes on before the first hole. If the last point has died, its facts are lost with it. What it had taken,
nobody knows; so the next one begins with what is published from then on, and tells the members a `Gap` without an end.
That is what `plain` means: never two members, and never silence.

While a point gathers, what comes waits. If too much waits, the point lets go of its subscription, and begins anew where
it was.

What has come to the point, copy by copy:

    before      event                                            after       what happens
    -           it comes                                         WAITING
    WAITING     the point decides, members are there, and        TAKEN       it becomes a fact
                it was not taken before
    WAITING     the same, but it was taken before                -
    WAITING     too much waits, or another tree before all       -           it is asked for again
                were heard on the last one
    TAKEN       a member is there that sees it                   ASSIGNED    `_under_way`, if the member is elsewhere
    TAKEN       there are members, and none of them sees it      -           it is told as lost, if one saw it
    TAKEN       no member is there any more                      RETAKEN     it waits before all others
    ASSIGNED    it is given back, or was not handed over         RETAKEN     or, if it is not here, a hole in the facts
    RETAKEN     members are there                                TAKEN
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from tidings.broker import Facts, Term
from tidings.broker.forwarding import DETOUR, ONE_OF_SEVERAL
from tidings.model import EventKey, Position
from tidings.wire import AnyMessage, Deliver, Envelope, Gap, Marks, Refused, Settled

from ._copies import Copy, Recent, copy_of, event_of
from ._host import Host
from ._intake import Intake
from ._limits import MAX_OPEN, MAX_WAITING
from ._messages import Assign, Begun, Confirm, Decided, Due, Known, Lost, Member, Open, Present, Refuse, Terms
from ._progress import Progress, Reading
from ._roster import Place, Roster
from ._succession import Succession
from ._under_way import Assigned, Owed, UnderWay


class Group:
    """One group at its point, or at a broker that was its point."""

    def __init__(self, host: Host, key: str) -> None:
        self._host = host
        self.key = key
        self.roster = Roster(key, host.say)
        self.intake = Intake(host, key, self._handle, self._heard)
        self.deciding = False
        self._succession = Succession()
        self._progress = Progress()
        self._under_way = UnderWay()
        self._waiting: deque[Envelope] = deque()
        self._retaken: set[Copy] = set()
        """What was taken, was given back, and waits to be assigned again."""
        self._owed = Owed()
        self._recent = Recent()
        self._warned: set[str] | None = None
        """After a loss, until the subscription has settled: the origins of which members were told."""
        self.taken = self.repeated = 0
        """How many notifications were taken; how many came again."""
        self.lost = 0
        """How many times members were told of a loss."""

    # --- members --------------------------------------------------------------------------------------

    @property
    def term(self) -> Term | None:
        """Under which this broker decides, or has decided."""
        return self._succession.term

    @property
    def facts(self) -> Facts:
        """What was decided."""
        return self._progress.facts

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
        return len(self._waiting) + self.open

    @property
    def open(self) -> int:
        """How many are under way to members elsewhere."""
        return len(self._under_way)

    @property
    def behind(self) -> bool:
        """Whether there is more than has come: it is asked for when there is room."""
        return self._progress.dropped and self.deciding

    def places(self) -> Iterator[tuple[str, Member]]:
        """All members, each with its broker."""
        return self.roster.places()

    def present(self, broker: str, present: Present) -> None:
        """A broker says who is there."""
        if not self.roster.is_news(broker, present):
            return
        self.roster.accept(broker, present)
        self.look_again()
        self._begun(broker)
        if self.deciding:
            self._go_on()

    def _begun(self, broker: str) -> None:
        present = self.roster.present.get(broker)
        if self.term is not None:
            version = present.version if present is not None else -1
            self._host.say(broker, Begun(self.key, self.term, version, self._progress.settled))

    # --- deciding -------------------------------------------------------------------------------------

    def begin(self, told: Mapping[str, Known]) -> None:
        """This broker decides from now on; see the theory of operation."""
        host = self._host
        estate = self._succession.begin(told, host.broker, host.epoch, host.now())
        self._entered(told)
        present = {broker: known.present for broker, known in told.items() if known.present is not None}
        self.roster.gather(estate.terms, present)
        self._progress.facts, self._progress.anew = estate.facts, estate.is_new
        self.deciding = True
        if estate.is_lost:
            self._warned = set()
            self._tell_all_lost(host.origins())
        if estate.is_new:
            self._forget()
            self._unsubscribe()
        else:
            self._owe(estate.owed)
            self._take_back(estate.again)
            for event in estate.gone:
                self._tell_lost(gap_of(event))
        self._under_way.clear()
        if self.members:
            self._subscribe()
        for broker in told:
            self._begun(broker)
        self._go_on()

    def _entered(self, told: Mapping[str, Known]) -> None:
        """A term has begun; nothing is decided under it yet."""

    def _owe(self, owed: Iterable[Due]) -> None:
        """Points before this one, perhaps at this broker, owed this to certain clients."""
        self._owed.clear()
        for one in owed:
            self._owed.settle(Copy(one.event, one.version))
            for client in one.clients:
                self._owed.add(Copy(one.event, one.version), client)

    def _take_back(self, again: Iterable[Open]) -> None:
        """These have reached nobody: assign them again, or, if they are not here, ask for them."""
        kept = [one for one in self._waiting if self._is_retaken(one) and event_of(one) not in self.facts]
        kept += [envelope for one in again if (envelope := self._under_way.envelope(one)) is not None]
        self._retaken = set(map(copy_of, kept))
        here = {copy.event for copy in self._retaken}
        for one in again:
            self._came_back(Copy(one.event, one.version), one.client)
            if one.event not in here:
                self.facts.remove(one.event)
        for event in here:
            self.facts.take(event, None)
        self._waiting = deque([*kept, *(one for one in self._waiting if not self._is_retaken(one))])

    def _came_back(self, copy: Copy, only: str) -> None:
        """Something has not reached the member that it was assigned to."""
        if only:
            self._owed.add(copy, only)
        else:
            self._owed.reopen(copy)

    def _is_retaken(self, envelope: Envelope) -> bool:
        return copy_of(envelope) in self._retaken

    def _drop(self) -> None:
        """Let go of what waits and is no fact: it is asked for again."""
        self._progress.dropped = True
        self._waiting = deque(filter(self._is_retaken, self._waiting))

    def _forget(self) -> None:
        """What was taken or came under earlier terms means nothing any more."""
        self._owed.clear()
        self._let_go()

    def _let_go(self) -> None:
        """What waits is asked for again, by whoever decides next."""
        self._waiting.clear()
        self._retaken.clear()
        self._recent.clear()
        self._progress.reached.clear()

    def suspend(self) -> None:
        """Decide nothing for now. What has come while this waited before may have been decided elsewhere."""
        if not self.deciding:
            self._drop()
            self.intake.clear()
        self.deciding = False

    def cease(self) -> None:
        """Decide nothing any more, and listen no longer; what is known is kept."""
        self.suspend()
        for copy in self._retaken:
            self.facts.remove(copy.event)
        self._unsubscribe()
        self._let_go()

    def decided(self, askers: list[tuple[str, int]]) -> Decided | None:
        """What this broker knows; None: it has never decided."""
        if self.term is None or self.terms is None:
            return None
        facts, succession = Facts(self.facts.told()), self._succession
        for copy in self._retaken:
            facts.remove(copy.event)
        open = self._under_way.told()
        return Decided(
            self.term,
            succession.lineage.terms,
            self.terms,
            facts.told(),
            open,
            not self.members,
            self._progress.anew,
            list(succession.ghosts.items()),
            succession.reach,
            askers,
            owed=self._owed.told(facts, open),
        )

    # --- the subscription -----------------------------------------------------------------------------

    def _subscribe(self) -> None:
        """Subscribe where the facts have their first hole, unless that subscription is there already."""
        assert self.terms is not None
        after = self._progress.resume()
        if self.intake.is_open and self._progress.is_whole(after) and self._stands():
            return
        if (principal := self._eligible()) is None:
            return
        self._unsubscribe()
        self._progress.open(after, self._host.origins())
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
            self._progress.close()

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
        progress = self._progress
        if progress.dropped:  # where the group begins with an origin is not noted now, but by the next subscription
            return
        marks = progress.settle(message.marks, self._host.origins())
        if progress.anew:
            progress.anew = False
            if self._warned is not None:  # those that this broker had not heard of when it began
                self._tell_all_lost({origin: one for origin, one in marks.items() if origin not in self._warned})
                self._warned = None
            progress.close_up_to({origin: one for origin, one in marks.items() if self._host.reaches(origin)})
        else:
            self._mark(marks)
        for broker in self.roster.present:
            self._begun(broker)

    def _mark(self, marks: Mapping[str, Position]) -> None:
        """Everything up to here has come. What comes may wait, so it is no fact before it is taken."""
        progress = self._progress
        if not self._waiting and not progress.dropped and progress.state is not Reading.BEGINNING:
            progress.mark(marks, self._host.reaches)

    def _missed(self, gap: Gap) -> None:
        """The group itself has lost something."""
        if gap.last is not None:
            self.facts.add(gap.origin, gap.epoch, gap.first, gap.last)
        self._tell_lost(gap)

    def _came(self, envelope: Envelope) -> None:
        if self._progress.dropped:
            return
        if self._progress.state is Reading.BEGINNING:
            self._progress.ignore(envelope)
        elif not self._saw(envelope, self.intake.principal):
            pass  # whom the subscription stands for saw more or less then than the group is to see
        elif len(self._waiting) >= MAX_WAITING:
            self._drop()
        else:
            self._waiting.append(envelope)

    def _go_on(self) -> None:
        """Take what waits."""
        while self._waiting and self.roster.turn and len(self._under_way) < MAX_OPEN:
            self._take(self._waiting.popleft())
        if self.deciding and self.members and (not self.intake.is_open or (self.behind and not self._waiting)):
            self._subscribe()

    def _take(self, envelope: Envelope) -> None:
        """Decide: this one goes to one member, now and for ever."""
        tags, event = envelope.routes[0].tags, event_of(envelope)
        if self._is_retaken(envelope):
            self._retaken.discard(copy_of(envelope))
            self._decide(envelope)
            return
        another = ONE_OF_SEVERAL in tags and self._recent.has_another_form(event)
        if self._recent.has(envelope) or (event in self.facts and not another):
            self.repeated += 1
            self._progress.note(event, detour=DETOUR in tags)
            return
        self._recent.add(envelope, event)
        self.taken += 1
        self._progress.note(event, detour=DETOUR in tags)
        self._decide(envelope)

    def _decide(self, envelope: Envelope) -> None:
        """Assign it, unless this form of it was decided before, and comes because of others."""
        owed = self._owed.take(copy_of(envelope))
        if owed is None:
            self._assign(envelope)
        else:
            self._give_to(owed, envelope)

    def _give_to(self, clients: frozenset[str], envelope: Envelope) -> None:
        """Give something to those that it was decided for, and have not got it. Members of a group are equal."""

    def _has_given(self, envelope: Envelope) -> None:
        """This form of it is decided."""
        if ONE_OF_SEVERAL in envelope.routes[0].tags:
            self._owed.settle(copy_of(envelope))

    def _assign(self, envelope: Envelope) -> None:
        """Give it to whose turn it is, of those that see it."""
        turn, passed = self.roster.turn, 0
        while len(turn) > passed:
            place = turn[0]
            turn.rotate(-1)
            if not self._saw(envelope, place.member.client):
                passed += 1
            elif self._give(place, envelope):
                self._has_given(envelope)
                return
            else:
                turn.remove(place)
        if not turn:
            self._retaken.add(copy_of(envelope))
            self._waiting.appendleft(envelope)
        elif not self._host.judges(envelope) or any(self._saw(envelope, one.client) for _, one in self.places()):
            self._tell_lost(gap_of(event_of(envelope)))  # nobody knows who saw it, or nobody is there who did

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
        epoch = self.roster.present[broker].epoch
        number = self._under_way.add(Assigned(copy_of(envelope), self.term, place, epoch, envelope, only))
        self._host.say(broker, Assign(self.key, self.term, number, member.client, member.id, envelope))
        return True

    # --- what brokers confirm -------------------------------------------------------------------------

    def confirmed(self, broker: str, confirm: Confirm) -> None:
        """A broker has handed over what was assigned to it, but for what it gives back."""
        returned = self._under_way.confirmed(broker, confirm) if confirm.term == self.term else None
        if returned is None:
            return
        for one in returned:
            self._came_back(one.copy, one.only)
        self._retaken.update(one.copy for one in returned)
        self._waiting.extendleft(one.envelope for one in reversed(returned))
        if self.deciding:
            self._go_on()

    def overdue(self) -> bool:
        """Whether something is open, and nothing has been confirmed since this was asked last."""
        return self._under_way.overdue()

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


def gap_of(event: EventKey) -> Gap:
    """What says that one event is lost."""
    return Gap(event.origin, event.epoch, event.seq, event.seq)
