"""An acknowledged group at its deciding point: each job goes to a member, until one has acknowledged it.

Theory of operation
-------------------
The point of the group has a client inside its broker that subscribes with the filter of the group, as that of a plain
group has (`_arrivals`). What comes is a job (`_jobs`), and is given to the member whose turn it is, of those that hold
fewer jobs than they want to hold at once (`_giving`). The member's broker knows what its members hold. It hears from
them that a job is done, notes that as a fact (`_handled`), and tells the point, which tells the other brokers
(`_telling`).

What outlives a point is facts, nothing else. They mean "handled", they only grow, and they are joined, never replaced.
Everybody who has to do with the group keeps them: the point, the brokers of the members, the members themselves, and
the disks of brokers that have one. So whoever is the next point goes on before the first hole in what all of them know
together. Its subscription brings everything from there on; what is in the facts it leaves out.

What members hold is asked for when a point begins (`_taking_over`): every broker tells it for its own members, and a
member that comes to another broker brings it along (`Claim`). A job that nobody holds is given to the next one. A job
of a member that is nowhere waits for it a little while. So

    nothing is lost      a job that is in no facts is a hole, and a hole is asked for
    little comes twice   only what a member held that died, gave it back or was too slow; and what two parts of a
                         network did that were cut off from each other

A point that begins with nothing, because nobody was there who knew anything, begins with what is published from then
on. If somebody comes who knows more, that may be a hole before the beginning: then it subscribes once more, behind
that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from tidings.broker import Lineage, Term
from tidings.model import Position
from tidings.wire import Envelope, JobKey

from ._arrivals import Arrivals, Supply
from ._giving import Giving
from ._handled import HandledFacts
from ._jobs import Holder, Job, Jobs, JobState
from ._messages import Begun, Member, Present, Terms
from ._roster import Roster
from ._taking_over import settle_jobs, terms_told
from ._telling import Telling
from ._work_host import Host
from ._work_messages import Claim, Done, Facts, Return, Revoke, Tried, WorkKnown


class WorkQueue:
    """One acknowledged group at its point, or at a broker that was its point."""

    def __init__(self, host: Host, key: str) -> None:
        self._host = host
        self.key = key
        self.roster = Roster(key, host.say)
        self.jobs = Jobs()
        self.telling = Telling(host, key, self.roster)
        around = (host, key, self.roster, self.jobs, self.telling)
        self.arrivals = Arrivals(*around, settled=self._settled, come=self._come, heard=self._go_on)
        self.giving = Giving(
            *around, missing=self._ask, lost=self.arrivals.lose, handled=self._handled, changed=self._go_on
        )
        self.term: Term | None = None
        self.deciding = False
        self.taken = 0
        """How many jobs have come."""
        self.dropped = 0
        """How many were dropped when the group was reset last."""

    @property
    def facts(self) -> HandledFacts:
        """What is handled, as far as this broker knows."""
        return self.telling.facts

    @property
    def terms(self) -> Terms | None:
        """What all members have in common."""
        return self.roster.terms

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
        return self.arrivals.is_stale and self.deciding

    def overdue(self) -> bool:
        """Nothing here waits for a confirmation: jobs have deadlines."""
        return False

    # --- members --------------------------------------------------------------------------------------

    def places(self) -> Iterator[tuple[str, Member]]:
        """All members, each with its broker."""
        return self.roster.places()

    def present(self, broker: str, present: Present) -> None:
        """A broker says who is there."""
        if not self.roster.is_news(broker, present):
            return
        if broker not in self.roster.present:
            self.telling.everything(broker)
        self.roster.accept(broker, present)
        self.giving.miss()
        self._begun(broker)
        self._go_on()

    def look_again(self) -> None:
        """There is another version of the scope graph: stand for a member that sees what the group is to see."""
        self.arrivals.look_again()
        self._go_on()

    def _settled(self) -> None:
        for broker in list(self.roster.present):
            self._begun(broker)

    def _begun(self, broker: str) -> None:
        if self.term is not None:
            present = self.roster.present.get(broker)
            version = present.version if present is not None else -1
            settled = self.arrivals.state is Supply.SETTLED
            self._host.say(broker, Begun(self.key, self.term, version, settled))

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
        self.roster.gather(terms_told(told, self.terms), present)
        self.deciding = True
        work = self.terms.work if self.terms is not None else None
        if work is None and reset is None:
            return
        if work is not None:
            self.jobs.by = work.by
            self._take_over(told)
        if reset is not None:
            self._reset(reset)
        if work is not None and self.members:
            self.arrivals.subscribe()
        self.facts.take_news()
        for broker in told:
            if broker in self.roster.present or (reset is not None and broker != self._host.broker):
                self.telling.everything(broker)
            if work is not None:
                self._begun(broker)
        if work is not None:
            self._go_on()

    def _take_over(self, told: Mapping[str, WorkKnown]) -> None:
        there = {(member.client, member.id) for _, member in self.places()}
        now, deadline = self._host.now(), self.giving.deadline()
        settle_jobs(self.jobs, told, self.facts, there, self.giving.release, now=now, deadline=deadline)

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

    def suspend(self) -> None:
        """Give nothing to anybody for now."""
        self.deciding = False
        self.arrivals.suspend()

    def cease(self) -> None:
        """Decide nothing any more, and listen no longer; what is known is kept."""
        if self.deciding:
            self.telling.now()
        self.suspend()
        self.arrivals.close()
        self.arrivals.forget()
        self.jobs.lose_contents()
        self.giving.sleep()

    def tried(self) -> tuple[Tried, ...]:
        """What this broker knows of jobs that it has given to members."""
        return tuple(
            Tried(job.key, job.deliveries, *job.holder.member, job.deadline)
            if job.holder is not None
            else Tried(job.key, job.deliveries, due=job.due)
            for job in self.jobs
            if job.deliveries
        )

    def _go_on(self) -> None:
        """Give members what waits, and ask for more."""
        if not self.deciding:
            return
        assert self.term is not None
        self.giving.give(self.term)
        if self.members:
            self.arrivals.refill()
        self.giving.wake_later()

    # --- jobs -----------------------------------------------------------------------------------------

    def _come(self, key: JobKey, envelope: Envelope) -> None:
        """A notification of the group has come."""
        self.taken += self.jobs.get(key) is None
        job = self.jobs.come(key, envelope)
        if job.state is JobState.WAITING and job.deliveries:
            self.giving.release(job)

    def _ask(self) -> None:
        """A job is to be given to a member, and is not here."""
        if self.deciding and self.members and self.arrivals.misses_something():
            self.arrivals.subscribe()

    def _handled(self, job: Job) -> None:
        if job.envelope is not None:
            self.arrivals.handled(job.envelope)

    # --- what brokers of members say ------------------------------------------------------------------

    def acked(self, done: Done) -> None:
        """A member has acknowledged a job."""
        job = self.jobs.get(done.job)
        if job is not None:
            self.giving.finish(job)
        else:
            self.telling.handled(done.job.event)
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
            self.giving.release(job, self._host.now() + said.delay if said.delay else 0)
        self._go_on()

    def claimed(self, broker: str, claim: Claim) -> None:
        """A member has come to a broker, and says what it holds."""
        if self.terms is None or self.terms.work is None:
            return  # and has gone again: nobody is there
        holder, now = Holder(broker, claim.client, claim.id), self._host.now()
        for key in claim.jobs:
            if key.event in self.facts:
                continue
            job = self.jobs.expect(key)
            if job.state is JobState.DEAD or (job.holder is not None and job.holder.member != holder.member):
                self._host.say(broker, Revoke(self.key, claim.client, claim.id, key))
                continue
            job.deliveries = max(job.deliveries, 1)
            deadline = job.deadline if job.holder is not None else self.giving.deadline()
            self.jobs.hold(job, key, holder, max(deadline, now + 1))
        for job in self.jobs:
            elsewhere = job.holder is not None and job.holder.member == holder.member and job.holder.broker != broker
            if elsewhere and job.key not in claim.jobs:
                self.giving.release(job)
        self._go_on()

    def learned(self, broker: str, facts: Facts) -> None:
        """Somebody knows of more that is handled."""
        if not self.facts.join(facts.handled, facts.lost):
            return
        for job in self.jobs:
            if job.key.event in self.facts and job.state is not JobState.HELD:
                self.jobs.finish(job)
        self.telling.soon()
        if self.deciding and self.members:
            self.arrivals.subscribe()
            self._go_on()
