"""Who gets the jobs of an acknowledged group, at its deciding point; what becomes of them then; and when time is up."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from tidings.broker import Term, Timer
from tidings.wire import Gap, Work

from ._dead_letters import dead_letter
from ._jobs import Holder, Job, Jobs, JobState
from ._limits import BACK_WITHIN, MAX_KEYS_BY
from ._messages import Member
from ._roster import Place, Roster
from ._telling import Telling
from ._work_host import Host
from ._work_messages import Give, Revoke


class Giving:
    """Gives each job to the member whose turn it is, of those that hold fewer than they want to hold at once."""

    def __init__(
        self,
        host: Host,
        key: str,
        roster: Roster,
        jobs: Jobs,
        telling: Telling,
        *,
        missing: Callable[[], None],
        lost: Callable[[Gap], None],
        handled: Callable[[Job], None],
        changed: Callable[[], None],
    ) -> None:
        """`missing`: a job has to be asked for; `lost`: the group has lost something; `handled`: a job is handled;
        `changed`: another job may be given now.
        """
        self._host = host
        self._key = key
        self._roster = roster
        self._jobs = jobs
        self._telling = telling
        self._missing = missing
        self._lost = lost
        self._handled = handled
        self._changed = changed
        self._last: OrderedDict[object, tuple[str, str]] = OrderedDict()
        """Which member had the last job of each value that keeps jobs in order."""
        self._timer: Timer | None = None
        self._at = 0
        self.done = self.redelivered = self.dead = 0
        """How many jobs were handled; were given to a member again; became dead letters."""

    @property
    def _work(self) -> Work:
        terms = self._roster.terms
        assert terms is not None
        assert terms.work is not None
        return terms.work

    def deadline(self) -> int:
        """When a job that is given to a member now must be acknowledged."""
        return self._host.now() + self._work.ack_within

    # --- to members -----------------------------------------------------------------------------------

    def give(self, term: Term) -> None:
        """Give members what waits."""
        while (job := self._jobs.next()) is not None:
            if (place := self._whose_turn(job)) is not None:
                self._give(job, place, term)
            elif len(self._roster) and not any(self._saw(job, member) for _, member in self._roster.places()):
                self._pass_over(job)
            else:
                break

    def _whose_turn(self, job: Job) -> Place | None:
        turn = self._roster.turn
        if job.line is not None and (last := self._last.get(job.line)) is not None:
            for place in turn:
                member = place.member
                if (member.client, member.id) == last and self._has_room(place) and self._saw(job, member):
                    return place
        for _ in range(len(turn)):
            place = turn[0]
            turn.rotate(-1)
            if self._has_room(place) and self._saw(job, place.member):
                return place
        return None

    def _saw(self, job: Job, member: Member) -> bool:
        """Whether a member saw what the group is to see, when a job was published."""
        assert job.envelope is not None
        assert self._roster.terms is not None
        return self._host.saw(job.envelope, member.client) == self._roster.terms.sees

    def _pass_over(self, job: Job) -> None:
        """No member that is there may have this. If nobody knows who may, the members are told that it is lost."""
        assert job.envelope is not None
        self._jobs.finish(job)
        if self._host.judges(job.envelope):
            self._telling.handled(job.key.event)
        else:
            self._lost(Gap(*job.key.event, job.key.seq))

    def _has_room(self, place: Place) -> bool:
        return self._jobs.held_by((place.member.client, place.member.id)) < place.member.most

    def _give(self, job: Job, place: Place, term: Term) -> None:
        assert job.envelope is not None
        broker, member = place
        job.deliveries += 1
        self.redelivered += job.deliveries > 1
        key = job.key._replace(version=job.envelope.routes[0].version)
        self._jobs.hold(job, key, Holder(broker, member.client, member.id), self.deadline())
        if job.line is not None:
            self._last[job.line] = (member.client, member.id)
            self._last.move_to_end(job.line)
            if len(self._last) > MAX_KEYS_BY:
                self._last.popitem(last=False)
        self._host.say(broker, Give(self._key, term, member.client, member.id, job.deliveries, job.envelope))

    # --- from members ---------------------------------------------------------------------------------

    def release(self, job: Job, until: int = 0) -> None:
        """A job is to be given to a member again, unless that has been done too often."""
        if job.is_last or job.key.event in self._telling.facts:  # dropped, lost, or others have done it meanwhile
            self._jobs.finish(job)
            return
        most = self._work.max_deliveries
        if most and job.deliveries >= most and job.envelope is not None:
            self._bury(job)
            return
        self._jobs.release(job, until)
        if job.state is JobState.EXPECTED:
            self._missing()

    def finish(self, job: Job) -> None:
        """A job is handled."""
        self._jobs.finish(job)
        self._handled(job)
        self.done += 1
        self._telling.handled(job.key.event)

    def _bury(self, job: Job) -> None:
        """Publish a dead letter; the job is handled when the broker has taken that."""
        self._jobs.bury(job)
        self._host.bury(dead_letter(self._key, job), lambda taken: self._buried(job, taken=taken))

    def _buried(self, job: Job, *, taken: bool) -> None:
        if self._jobs.get(job.key) is not job or job.state is not JobState.DEAD:
            return
        if taken:
            self.dead += 1
            self.finish(job)
        else:  # and then once more
            self._jobs.release(job, self.deadline())
        self._changed()

    # --- time -----------------------------------------------------------------------------------------

    def miss(self) -> None:
        """Whoever is nowhere must be back in time, or others get its jobs."""
        there = {(member.client, member.id) for _, member in self._roster.places()}
        soon = self._host.now() + BACK_WITHIN
        for job in self._jobs:
            if job.holder is None:
                continue
            if job.holder.member in there:
                if job.due != job.deadline:
                    self._jobs.schedule(job, job.deadline)
            elif job.due > soon:
                self._jobs.schedule(job, soon)

    def wake_later(self) -> None:
        """Be called when something is to happen to a job."""
        at = self._jobs.next_due
        if self._timer is not None and (not at or at < self._at):
            self.sleep()
        if at and self._timer is None:
            self._at = at
            self._timer = self._host.call_later(max(at - self._host.now(), 0), self._woken)

    def sleep(self) -> None:
        """Be called no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _woken(self) -> None:
        self._timer = None
        for job in self._jobs.take_due(self._host.now()):
            job.due = 0
            if job.state is JobState.HELD:
                holder = job.holder
                assert holder is not None
                if holder.broker:
                    self._host.say(holder.broker, Revoke(self._key, holder.client, holder.id, job.key))
                self.release(job)
            elif job.state is JobState.DELAYED:
                self.release(job)
        self._changed()
        self.wake_later()
