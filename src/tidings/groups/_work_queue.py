"""An acknowledged group at its deciding point: each job goes to a member, until one has acknowledged it.

Theory of operation
-------------------
The point of the group has a client inside its broker that subscribes with the filter of the group, as that of a plain
group has (`_point`). What comes is a job (`_jobs`), and is given to the member whose turn it is, of those that hold
fewer jobs than they want to hold at once. The member's broker knows what its members hold. It hears from them that a
job is done, notes that as a fact (`_handled`), and tells the point.

What outlives a point is facts, nothing else. They mean "handled", they only grow, and they are joined, never replaced.
Everybody who has to do with the group keeps them: the point, the brokers of the members, the members themselves, and
the disks of brokers that have one. So whoever is the next point goes on before the first hole in what all of them know
together. Its subscription brings everything from there on; what is in the facts it leaves out.

What members hold is asked for when a point begins: every broker tells it for its own members, and a member that comes
to another broker brings it along (`Claim`). A job that nobody holds is given to the next one. A job of a member that
is nowhere waits for it a little while. So

    nothing is lost      a job that is in no facts is a hole, and a hole is asked for
    little comes twice   only what a member held that died, gave it back or was too slow; and what two parts of a
                         network did that were cut off from each other

A point that begins with nothing, because nobody was there who knew anything, begins with what is published from then
on. If somebody comes who knows more, that may be a hole before the beginning: then it subscribes once more, behind
that.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Protocol

from tidings.broker import InnerClient, Lineage, Term, Timer
from tidings.broker.forwarding import DETOUR, ONE_OF_SEVERAL
from tidings.model import EventKey, Notification, Position
from tidings.wire import (
    AnyMessage,
    Deliver,
    Envelope,
    Frame,
    Gap,
    JobKey,
    Marks,
    Refused,
    Settled,
    Work,
)

from ._dead_letters import dead_letter, is_dead_letter_of
from ._handled import HandledFacts
from ._intake import Intake
from ._jobs import Holder, Job, Jobs, JobState
from ._limits import BACK_WITHIN, MAX_JOBS, MAX_KEYS_BY, MAX_RECENT, TELL_AFTER, TELL_MANY
from ._messages import Begun, Lost, Member, Present, Refuse, Terms
from ._roster import Place, Roster
from ._work_messages import Claim, Done, Facts, Give, Return, Revoke, Tried, WorkKnown, WorkSaid


class Host(Protocol):
    """The broker of a point, as far as an acknowledged group needs it."""

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

    def say(self, broker: str, said: WorkSaid) -> None:
        """Tell a broker something; this one hears it in the same turn."""
        ...

    def subscribe(self, key: str, receive: Callable[[Frame], None], principal: str) -> InnerClient:
        """Open a client inside this broker that stands for a member."""
        ...

    def sees(self, principal: str) -> tuple[str, ...]:
        """The scopes that a client is a member of."""
        ...

    def handled(self, key: str) -> HandledFacts:
        """What is known here to be handled."""
        ...

    def bury(self, letter: Notification, buried: Callable[[bool], None]) -> None:
        """Publish a dead letter; `buried` is called when it is published, or with False if it cannot be."""
        ...


class WorkQueue:
    """One acknowledged group at its point, or at a broker that was its point."""

    def __init__(self, host: Host, key: str) -> None:
        self._host = host
        self.key = key
        self.roster = Roster(key, host.say)
        self.intake = Intake(host, key, self._handle, self._heard)
        self.jobs = Jobs()
        self.term: Term | None = None
        self.settled = False
        self.deciding = False
        self._reached: dict[str, Position] = {}
        """How far the subscription has come with each origin."""
        self._asked: Set[str] = frozenset()
        """The origins that were asked for what follows a position."""
        self._ignored: dict[str, Position] | None = None
        """Of a subscription that begins with what is published from now on, until it has settled: what came before."""
        self._overflowed = False
        self._recent: OrderedDict[tuple[str, int, int], None] = OrderedDict()
        """What was handled lately, by publisher, its number, and form."""
        self._last: OrderedDict[object, tuple[str, str]] = OrderedDict()
        """Which member had the last job of each value that keeps jobs in order."""
        self._waking: Timer | None = None
        self._wakes_at = 0
        self._telling: Timer | None = None
        self._untold = 0
        self.taken = self.done = self.redelivered = self.dead = self.lost = 0
        """How many jobs have come; were handled; were given to a member again; became dead letters; were lost."""
        self.dropped = 0
        """How many were dropped when the group was reset last."""

    # --- members --------------------------------------------------------------------------------------

    @property
    def facts(self) -> HandledFacts:
        """What is handled, as far as this broker knows."""
        return self._host.handled(self.key)

    @property
    def terms(self) -> Terms | None:
        """What all members have in common."""
        return self.roster.terms

    @property
    def _work(self) -> Work:
        assert self.terms is not None
        assert self.terms.work is not None
        return self.terms.work

    @property
    def members(self) -> int:
        """How many members there are."""
        return len(self.roster)

    @property
    def open(self) -> int:
        """How much waits for a confirmation: nothing, because jobs have deadlines."""
        return 0

    @property
    def behind(self) -> bool:
        """Whether there is more than has come: it is asked for when there is room."""
        return self._overflowed and self.deciding

    def overdue(self) -> bool:
        """Nothing here waits for a confirmation: jobs have deadlines."""
        return False

    def places(self) -> Iterator[tuple[str, Member]]:
        """All members, each with its broker."""
        return self.roster.places()

    def present(self, broker: str, present: Present) -> None:
        """A broker says who is there."""
        if not self.roster.is_news(broker, present):
            return
        if broker not in self.roster.present:
            self._host.say(broker, Facts(self.key, self.facts.told(), self.facts.told_lost()))
        self.roster.accept(broker, present)
        self._miss()
        if self.term is not None:
            self._begun(broker)
        if self.deciding:
            self._go_on()

    def look_again(self) -> None:
        """There is another version of the scope graph: stand for a member that sees what the group is to see."""
        if self.intake.is_open and self.terms is not None:
            if self._host.sees(self.intake.principal) != self.terms.sees:
                self._unsubscribe()
            self._go_on()

    def _miss(self) -> None:
        """Whoever is nowhere must be back in time, or others get its jobs."""
        there = {(member.client, member.id) for _, member in self.places()}
        soon = self._host.now() + BACK_WITHIN
        for job in self.jobs:
            if job.holder is None:
                continue
            if job.holder.member in there:
                if job.due != job.deadline:
                    self.jobs.schedule(job, job.deadline)
            elif job.due > soon:
                self.jobs.schedule(job, soon)

    def _begun(self, broker: str) -> None:
        present = self.roster.present.get(broker)
        if self.term is not None:
            version = present.version if present is not None else -1
            self._host.say(broker, Begun(self.key, self.term, version, self.settled))

    # --- deciding -------------------------------------------------------------------------------------

    def begin(self, told: Mapping[str, WorkKnown], *, reset: Mapping[str, Position] | None = None) -> None:
        """This broker decides from now on; see the theory of operation.

        With `reset`, it drops what waits, and goes on behind these positions.
        """
        for known in told.values():
            self.facts.join(known.handled, known.lost)
        heard = [known.heard for known in told.values() if known.heard is not None]
        self.term, _ = Lineage().next(heard, self._host.broker, self._host.epoch)
        present = {broker: known.present for broker, known in told.items() if known.present is not None}
        self.roster.gather(self._terms_of(told), present)
        self.deciding = True
        works = self.terms is not None and self.terms.work is not None
        if not works and reset is None:
            return
        if works:
            self.jobs.by = self._work.by
            self._settle_jobs(told)
        if reset is not None:
            self._reset(reset)
        if works and self.members:
            self._subscribe()
        everything = self.facts.told()
        self.facts.take_news()
        for broker in told:
            if broker in self.roster.present or (reset is not None and broker != self._host.broker):
                self._host.say(broker, Facts(self.key, everything, self.facts.told_lost()))
            if works:
                self._begun(broker)
        if works:
            self._go_on()

    def _reset(self, upto: Mapping[str, Position]) -> None:
        """Everything up to here is handled, but for what members hold: they may finish that."""
        for origin, position in upto.items():
            self.facts.leave_out(origin, position)
        self.dropped = 0
        for job in self.jobs:
            self.facts.note(job.key.event)
            if job.state is JobState.HELD:
                job.is_last = True
            elif job.state is not JobState.DEAD:
                self.jobs.finish(job)
                self.dropped += 1

    def _terms_of(self, told: Mapping[str, WorkKnown]) -> Terms | None:
        """What the members of an earlier point had in common, if one of them is still there."""
        if not any(known.present is not None and known.present.members for known in told.values()):
            return self.terms
        there = [known.present.terms for known in told.values() if known.present is not None and known.present.members]
        known = (one.terms for one in told.values() if one.terms is not None)
        return next((terms for terms in known if terms in there), None)

    def _settle_jobs(self, told: Mapping[str, WorkKnown]) -> None:
        """Find out who holds what: members say it; what nobody holds, but for members that are nowhere, waits."""
        now, jobs = self._host.now(), self.jobs
        there = {(member.client, member.id) for _, member in self.places()}
        claimed = {
            job: Holder(broker, hand.client, hand.id)
            for broker, known in told.items()
            for hand in known.hands
            for job in hand.jobs
        }
        tried: dict[JobKey, Tried] = {}
        for one in (one for known in told.values() for one in known.tried):
            before = tried.get(one.job)
            if before is None or (one.deliveries, one.due) > (before.deliveries, before.due):
                tried[one.job] = one
        for key in {*claimed, *tried}:
            if key.event not in self.facts:
                jobs.expect(key)
        for job in jobs:
            last, holder = tried.get(job.key), claimed.get(job.key)
            if job.key.event in self.facts and not holder:
                jobs.finish(job)
                continue
            if last is not None:
                job.deliveries = max(job.deliveries, last.deliveries)
            if holder is not None:
                due = last.due if last is not None and last.client else now + self._work.ack_within
                job.deliveries = max(job.deliveries, 1)
                jobs.hold(job, holder, max(due, now + 1))
            elif last is not None and last.client and (last.client, last.id) not in there and last.due > now:
                if job.holder is None:
                    jobs.hold(job, Holder("", last.client, last.id), last.due)
                if job.due > now + BACK_WITHIN:
                    jobs.schedule(job, now + BACK_WITHIN)
            elif last is not None and not last.client and last.due > now:
                jobs.release(job, last.due)
            elif job.state in (JobState.HELD, JobState.DELAYED):
                self._release(job)

    def suspend(self) -> None:
        """Give nothing to anybody for now. The subscription may not have settled on the new tree: make another one.

        Until it has settled, some of what an origin publishes comes and some does not, so nothing may be passed over.
        """
        self.deciding = self.settled = False
        self._overflowed = True

    def cease(self) -> None:
        """Decide nothing any more, and listen no longer; what is known is kept."""
        if self.deciding:
            self.tell()
        self.suspend()
        self._unsubscribe()
        self.jobs.lose_contents()
        self._reached.clear()
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None

    def tried(self) -> tuple[Tried, ...]:
        """What this broker knows of jobs that it has given to members."""
        return tuple(
            Tried(job.key, job.deliveries, *job.holder.member, job.deadline)
            if job.holder is not None
            else Tried(job.key, job.deliveries, due=job.due)
            for job in self.jobs
            if job.deliveries
        )

    # --- the subscription -----------------------------------------------------------------------------

    def _subscribe(self) -> None:
        """Subscribe where the facts have their first hole, unless what is missing is here or will come."""
        assert self.terms is not None
        if self.intake.is_open and self._stands() and not self._overflowed and not self._misses_something():
            return
        clients = sorted({member.client for _, member in self.places()})
        principal = next((one for one in clients if self._host.sees(one) == self.terms.sees), None)
        if principal is None:
            return
        after = self.facts.resume()
        self._unsubscribe()
        self._overflowed = self.settled = False
        self._reached = dict(after)
        self._asked = after.keys()
        self._ignored = None if after else {}
        self.intake.open(principal, self.terms.filter, after)

    def _stands(self) -> bool:
        """Whether the subscription stands for somebody who is there."""
        return any(member.client == self.intake.principal for _, member in self.places())

    def _misses_something(self) -> bool:
        """Whether there is a hole that the subscription has passed, and that is no job which is here or held."""
        here = {job.key.event for job in self.jobs if job.envelope is not None or job.state is JobState.HELD}
        for origin, start in self.facts.resume().items():
            if origin not in self._reached:
                return True
            if self._reached[origin] <= start:
                continue
            for epoch, first, last in self.facts.holes(origin, self._reached[origin]):
                if last - first >= len(here):
                    return True
                if any(EventKey(origin, epoch, seq) not in here for seq in range(first, last + 1)):
                    return True
        return False

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
            for broker in list(self.roster.present):
                self._host.say(broker, Refuse(self.key, members, message.reason))

    def _has_settled(self, message: Settled) -> None:
        if self._overflowed:  # where the group begins with an origin is not noted now, but by the next subscription
            return
        self.settled = True
        marks, self._ignored = dict(self._ignored or {}), None
        for origin, mark in message.marks.items():
            marks[origin] = max(mark, marks.get(origin, mark))
        self._mark(marks)
        self._drop_handled()
        self.tell()
        if not marks.keys() <= self._asked:
            self._ask_for_the_rest()
            return
        for broker in list(self.roster.present):
            self._begun(broker)

    def _ask_for_the_rest(self) -> None:
        """Subscribe once more, behind what the group has just begun with.

        A mark is as far as this broker has seen an origin. What that has published since, before it knew the
        subscription, never comes; to say that it is none of the group's business is wrong if the group has begun with
        that origin earlier, and whoever knows so is out of reach now.
        """
        self._overflowed = True
        self._subscribe()

    def _mark(self, marks: Mapping[str, Position]) -> None:
        """Everything up to here has come."""
        if self._overflowed or self._ignored is not None:
            return
        for origin, mark in marks.items():
            reached = self._reached.get(origin)
            if reached is None:
                self.facts.begin(origin, mark)  # from here on everything comes
            elif mark > reached:
                self.facts.pass_over(origin, reached, mark)
            self._reached[origin] = max(mark, reached or mark)
        self._tell_soon()

    def _missed(self, gap: Gap) -> None:
        """The group itself has lost something."""
        self.facts.lose(gap)
        self.lost += 1
        for broker in list(self.roster.present):
            self._host.say(broker, Lost(self.key, gap))
        self._tell_soon()

    def _came(self, envelope: Envelope) -> None:
        if self._overflowed:
            return
        identity, route = envelope.identity, envelope.routes[0]
        position = Position(identity.epoch, identity.seq)
        if self._ignored is not None:  # nothing is promised yet
            self._ignored[identity.origin] = position
            return
        key = JobKey(identity.origin, identity.epoch, identity.seq, route.version)
        known = self.jobs.get(key)
        if len(self.jobs) >= MAX_JOBS and known is None:
            self._overflowed = True  # it is asked for again, when there is room
            return
        several = ONE_OF_SEVERAL in route.tags and self._reached.get(identity.origin) == position
        self._note(identity.origin, position, DETOUR in route.tags)
        if (key.event in self.facts and known is None and not several) or self._is_repeated(envelope):
            self.facts.note(key.event)
            return
        if is_dead_letter_of(self.key, envelope.notification):
            self.facts.note(key.event)
            return
        self.taken += known is None
        job = self.jobs.come(key, envelope)
        if job.state is JobState.WAITING and job.deliveries:
            self._release(job)

    def _is_repeated(self, envelope: Envelope) -> bool:
        """Whether this was handled under another number: its publisher has handed it over to two brokers."""
        return _form(envelope) in self._recent

    def _note(self, origin: str, position: Position, detour: bool) -> None:
        """Something has come: what lies before it, and has not come, is not for this group."""
        reached = self._reached.get(origin)
        before = Position(position.epoch, position.seq - 1)
        if detour or (reached is not None and position <= reached):
            if not self.facts.knows(origin):
                self.facts.begin(origin, before)
                self.tell()
            return
        if reached is None:
            self.facts.begin(origin, before)
            self.tell()  # before any member can acknowledge something of this origin
            if not self.settled:
                return
        else:
            self.facts.pass_over(origin, reached, before)
        self._reached[origin] = position

    # --- giving ---------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Give members what waits."""
        while self.deciding and (job := self.jobs.next()) is not None:
            if (place := self._whose_turn(job)) is None:
                break
            self._give(job, place)
        if self.deciding and self.members:
            room = self._overflowed and len(self.jobs) <= MAX_JOBS // 2
            if not self.intake.is_open or room:
                self._subscribe()
        self._wake_later()

    def _whose_turn(self, job: Job) -> Place | None:
        turn = self.roster.turn
        if job.line is not None and (member := self._last.get(job.line)) is not None:
            for place in turn:
                if (place.member.client, place.member.id) == member and self._has_room(place):
                    return place
        for _ in range(len(turn)):
            place = turn[0]
            turn.rotate(-1)
            if self._has_room(place):
                return place
        return None

    def _has_room(self, place: Place) -> bool:
        return self.jobs.held_by((place.member.client, place.member.id)) < place.member.most

    def _give(self, job: Job, place: Place) -> None:
        assert self.term is not None
        assert job.envelope is not None
        broker, member = place
        job.deliveries += 1
        self.redelivered += job.deliveries > 1
        self.jobs.hold(job, Holder(broker, member.client, member.id), self._host.now() + self._work.ack_within)
        if job.line is not None:
            self._last[job.line] = (member.client, member.id)
            self._last.move_to_end(job.line)
            if len(self._last) > MAX_KEYS_BY:
                self._last.popitem(last=False)
        self._host.say(broker, Give(self.key, self.term, member.client, member.id, job.deliveries, job.envelope))

    def _release(self, job: Job, until: int = 0) -> None:
        """A job is to be given to a member again, unless that has been done too often."""
        if job.is_last:
            self.jobs.finish(job)
            return
        most = self._work.max_deliveries
        if most and job.deliveries >= most and job.envelope is not None:
            self._bury(job)
            return
        if job.envelope is None and job.key.event in self.facts:
            self.jobs.finish(job)  # it is lost, and the members were told
            return
        self.jobs.release(job, until)
        if job.state is JobState.EXPECTED and self.deciding and self.members and self._misses_something():
            self._subscribe()

    def _bury(self, job: Job) -> None:
        """Publish a dead letter; the job is handled when the broker has taken that."""
        self.jobs.bury(job)
        self._host.bury(dead_letter(self.key, job), lambda taken: self._buried(job, taken=taken))

    def _buried(self, job: Job, *, taken: bool) -> None:
        if self.jobs.get(job.key) is not job or job.state is not JobState.DEAD:
            return
        if taken:
            self.dead += 1
            self._finish(job)
        else:  # and then once more
            self.jobs.release(job, self._host.now() + self._work.ack_within)
        if self.deciding:
            self._go_on()

    def _finish(self, job: Job) -> None:
        self.jobs.finish(job)
        if job.envelope is not None:
            self._recent[_form(job.envelope)] = None
            if len(self._recent) > MAX_RECENT:
                self._recent.popitem(last=False)
        self.done += 1
        self._note_handled(job.key.event)

    def _note_handled(self, event: EventKey) -> None:
        self.facts.note(event)
        self._untold += 1
        if self._untold >= TELL_MANY:
            self.tell()
        else:
            self._tell_soon()

    # --- what brokers of members say ------------------------------------------------------------------

    def acked(self, done: Done) -> None:
        """A member has acknowledged a job."""
        job = self.jobs.get(done.job)
        if job is not None:
            self._finish(job)
        else:
            self._note_handled(done.job.event)
        if self.deciding:
            self._go_on()

    def returned(self, broker: str, said: Return) -> None:
        """A member does not do these jobs."""
        if said.gone:  # it is in turn again when its broker says that it is there
            here = (broker, said.client, said.id)
            turn = self.roster.turn
            self.roster.turn = deque(one for one in turn if (one.broker, one.member.client, one.member.id) != here)
        for key in said.jobs:
            job = self.jobs.get(key)
            if job is None or job.holder is None or job.holder.member != (said.client, said.id):
                continue
            if said.untouched:
                if job.holder.broker != broker:
                    continue
                job.deliveries -= 1
            self._release(job, self._host.now() + said.delay if said.delay else 0)
        if self.deciding:
            self._go_on()

    def claimed(self, broker: str, claim: Claim) -> None:
        """A member has come to a broker, and says what it holds."""
        if self.terms is None or self.terms.work is None:
            return  # and has gone again: nobody is there
        holder = Holder(broker, claim.client, claim.id)
        for key in claim.jobs:
            if key.event in self.facts:
                continue
            job = self.jobs.expect(key)
            if job.state is JobState.DEAD or (job.holder is not None and job.holder.member != holder.member):
                self._host.say(broker, Revoke(self.key, claim.client, claim.id, key))
                continue
            job.deliveries = max(job.deliveries, 1)
            deadline = job.deadline if job.holder is not None else self._host.now() + self._work.ack_within
            self.jobs.hold(job, holder, max(deadline, self._host.now() + 1))
        for job in self.jobs:
            elsewhere = job.holder is not None and job.holder.member == holder.member and job.holder.broker != broker
            if elsewhere and job.key not in claim.jobs:
                self._release(job)
        if self.deciding:
            self._go_on()

    def learned(self, broker: str, facts: Facts) -> None:
        """Somebody knows of more that is handled."""
        if not self.facts.join(facts.handled, facts.lost):
            return
        self._drop_handled()
        self._tell_soon()
        if self.deciding and self.members:
            self._subscribe()
            self._go_on()

    def _drop_handled(self) -> None:
        for job in self.jobs:
            if job.key.event in self.facts and job.state is not JobState.HELD:
                self.jobs.finish(job)

    # --- time -----------------------------------------------------------------------------------------

    def _wake_later(self) -> None:
        at = self.jobs.next_due
        if self._waking is not None and (not at or at < self._wakes_at):
            self._waking.cancel()
            self._waking = None
        if at and self._waking is None:
            self._wakes_at = at
            self._waking = self._host.call_later(max(at - self._host.now(), 0), self._woken)

    def _woken(self) -> None:
        self._waking = None
        for job in self.jobs.take_due(self._host.now()):
            job.due = 0
            if job.state is JobState.HELD:
                holder = job.holder
                assert holder is not None
                if holder.broker:
                    self._host.say(holder.broker, Revoke(self.key, holder.client, holder.id, job.key))
                self._release(job)
            elif job.state is JobState.DELAYED:
                self._release(job)
        if self.deciding:
            self._go_on()
        else:
            self._wake_later()

    def _tell_soon(self) -> None:
        if self._telling is None and self.facts.has_news and self.roster.present:
            self._telling = self._host.call_later(TELL_AFTER, self._tell_now)

    def _tell_now(self) -> None:
        self._telling = None
        self.tell()

    def tell(self) -> None:
        """Tell the brokers of the members what is handled."""
        self._untold = 0
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        if self.facts.has_news:
            news = self.facts.take_news()
            for broker in self._brokers():
                self._host.say(broker, Facts(self.key, news, self.facts.told_lost()))

    def _brokers(self) -> Iterable[str]:
        return deque(self.roster.present)


def _form(envelope: Envelope) -> tuple[str, int, int]:
    identity = envelope.identity
    return identity.publisher, identity.publisher_seq, envelope.routes[0].version
