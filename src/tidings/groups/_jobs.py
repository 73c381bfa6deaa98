"""The jobs of an acknowledged group, at its deciding point: what has come and is not handled yet.

Theory of operation
-------------------
A job is one event of the group, from when it comes until it is handled. `WAYS` says which states it goes through, and
what leads from one to another; a way that is not there is an error of the program. Where mappings make several forms
of an event, it is one job all the same: the group handles it in one of them.

Of jobs with the same value of the attribute that keeps them in order, the first one must be handled before the next is
given to anybody. They stand in one *line*; others stand in no line.
"""

from __future__ import annotations

import enum
import heapq
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from tidings.model import EventKey
from tidings.wire import Envelope, JobKey

SPARE = 64
"""How many instants are kept at least, though nothing is to happen then any more."""


class Holder(NamedTuple):
    """A member that holds a job, and where it was when it got that."""

    broker: str
    client: str
    id: str

    @property
    def member(self) -> tuple[str, str]:
        """The member, wherever it is."""
        return self.client, self.id


class JobState(enum.Enum):
    """What becomes of a job."""

    EXPECTED = "expected"
    """Something is known about it, and it has not come: it is asked for."""
    WAITING = "waiting"
    """Any member may have it that has room."""
    HELD = "held"
    """A member has it, for `ack_within`."""
    DELAYED = "delayed"
    """A member may have it when a delay is over."""
    DEAD = "dead"
    """A dead letter is published for it."""


class Way(NamedTuple):
    """One way from a state to another; None: there is no such job, or it is handled."""

    before: JobState | None
    event: str
    after: JobState | None


_EXPECTED, _WAITING, _HELD, _DELAYED, _DEAD = JobState

WAYS = (
    Way(None, "it is about to come; a member claims it; an earlier point has given it to one", _EXPECTED),
    Way(_EXPECTED, "it comes", _WAITING),
    Way(_EXPECTED, "a member claims it, or an earlier point has given it to one", _HELD),
    Way(_EXPECTED, "an earlier point knew of a delay", _DELAYED),
    Way(_WAITING, "a member has room, and it is its turn; a member claims it", _HELD),
    Way(_WAITING, "it has just come, and was given to a member before: it comes before all others", _WAITING),
    Way(_WAITING, "an earlier point knew of a delay", _DELAYED),
    Way(_WAITING, "it was given to members too often", _DEAD),
    Way(_WAITING, "this broker is the point no longer", _EXPECTED),
    Way(_HELD, "its member comes to another broker", _HELD),
    Way(_HELD, "its member gives it back, leaves, is gone for too long, or does not answer in time", _WAITING),
    Way(_HELD, "the same, and it has not come yet", _EXPECTED),
    Way(_HELD, "its member gives it back, for later", _DELAYED),
    Way(_HELD, "its member does not do it, and it was given to members too often", _DEAD),
    Way(_DELAYED, "the delay is over", _WAITING),
    Way(_DELAYED, "the delay is over, and it has not come yet", _EXPECTED),
    Way(_DELAYED, "an earlier point knew of a longer delay", _DELAYED),
    Way(_DELAYED, "a member claims it", _HELD),
    Way(_DELAYED, "it was given to members too often", _DEAD),
    Way(_DEAD, "the dead letter cannot be published", _DELAYED),
    Way(_DEAD, "a member claims it", _HELD),
    Way(_DEAD, "this broker is the point no longer", _EXPECTED),
    Way(_EXPECTED, "it is handled, as others know; it is lost; the group is reset", None),
    Way(_WAITING, "it is handled, as others know; the group is reset; this broker is the point no longer", None),
    Way(_HELD, "its member acknowledges it; after a reset, its member does not do it", None),
    Way(_DELAYED, "it is handled, as others know; the group is reset", None),
    Way(_DEAD, "the dead letter is published; it is handled, as others know", None),
)
_WAYS = frozenset((way.before, way.after) for way in WAYS)


def _become(job: Job, after: JobState | None) -> None:
    assert (job.state, after) in _WAYS, f"job {job.key} cannot become {after}: it is {job.state}"
    job.state = after


class Job:
    """One that is not handled."""

    __slots__ = ("deadline", "deliveries", "due", "envelope", "holder", "is_last", "key", "line", "state")

    def __init__(self, key: JobKey) -> None:
        self.key = key
        """Of the form that its holder has, or that has come."""
        self.envelope: Envelope | None = None
        self.state: JobState | None = JobState.EXPECTED
        """None: it is handled, or forgotten here."""
        self.holder: Holder | None = None
        self.deliveries = 0
        self.deadline = 0
        """Of a job that is held: when it must be acknowledged."""
        self.due = 0
        """When something is to happen to it, in microseconds since 1970 UTC; 0: nothing."""
        self.line: object = None
        self.is_last = False
        """Whether it is given to nobody after its holder."""


class Jobs:
    """All of one group."""

    def __init__(self, by: str = "") -> None:
        self.by = by
        self._jobs: dict[EventKey, Job] = {}
        self._ready: deque[Job] = deque()
        """Those that may be given to a member; some of them are not WAITING any more."""
        self._lines: dict[object, list[Job]] = {}
        self._due: list[tuple[int, int, Job]] = []
        self._stamp = 0
        self._held: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(list(self._jobs.values()))

    def get(self, key: JobKey) -> Job | None:
        """One that is not handled, in whatever form."""
        return self._jobs.get(key.event)

    def held_by(self, member: tuple[str, str]) -> int:
        """How many jobs a member holds."""
        return self._held.get(member, 0)

    def count(self, *states: JobState) -> int:
        """How many are in one of these states."""
        return sum(job.state in states for job in self._jobs.values())

    # --- transitions ----------------------------------------------------------------------------------

    def come(self, key: JobKey, envelope: Envelope) -> Job:
        """A notification has come."""
        job = self.expect(key)
        if job.envelope is not None:
            return job
        job.envelope = envelope
        if job.state is not JobState.HELD:
            job.key = key
        if self.by:
            job.line = envelope.notification.get(self.by)
        if job.line is not None:
            self._lines.setdefault(job.line, []).append(job)
        if job.state is JobState.EXPECTED:
            _become(job, JobState.WAITING)
            self._get_ready(job)
        return job

    def expect(self, key: JobKey) -> Job:
        """Something is known about a job that may not have come."""
        return self._jobs.setdefault(key.event, Job(key))

    def hold(self, job: Job, key: JobKey, holder: Holder, deadline: int) -> None:
        """A member has it from now on, in the form that the key names."""
        self._let_go(job)
        _become(job, JobState.HELD)
        job.key, job.holder, job.deadline = key, holder, deadline
        self._held[holder.member] = self.held_by(holder.member) + 1
        self.schedule(job, deadline)

    def release(self, job: Job, until: int = 0) -> None:
        """Nobody has it any more; it may be given to a member again, from an instant on if there is one."""
        self._let_go(job)
        if until:
            _become(job, JobState.DELAYED)
            self.schedule(job, until)
            return
        job.due = 0
        if job.envelope is None:
            _become(job, JobState.EXPECTED)
        else:
            _become(job, JobState.WAITING)
            self._get_ready(job, first=True)

    def bury(self, job: Job) -> None:
        """It becomes a dead letter."""
        self._let_go(job)
        _become(job, JobState.DEAD)
        job.due = 0

    def finish(self, job: Job) -> None:
        """It is handled."""
        self._let_go(job)
        del self._jobs[job.key.event]
        job.due = 0
        line = self._lines.get(job.line) if job.line is not None else None
        if line is not None and job in line:
            line.remove(job)
            if not line:
                del self._lines[job.line]
            elif line[0].state is JobState.WAITING:
                self._ready.append(line[0])
        _become(job, None)

    def lose_contents(self) -> None:
        """Nothing comes here any more: keep what others must know of each job, and nothing else."""
        self._ready.clear()
        self._lines.clear()
        for job in self:
            job.envelope, job.line = None, None
            if job.state is JobState.WAITING and not job.deliveries:
                del self._jobs[job.key.event]
                _become(job, None)
            elif job.state in (JobState.WAITING, JobState.DEAD):
                _become(job, JobState.EXPECTED)
                job.due = 0

    def _let_go(self, job: Job) -> None:
        if job.holder is not None:
            left = self._held[job.holder.member] - 1
            if left:
                self._held[job.holder.member] = left
            else:
                del self._held[job.holder.member]
            job.holder = None

    def _get_ready(self, job: Job, *, first: bool = False) -> None:
        if job.line is not None and self._lines[job.line][0] is not job:
            return
        if first:
            self._ready.appendleft(job)
        else:
            self._ready.append(job)

    # --- what is next ---------------------------------------------------------------------------------

    def next(self) -> Job | None:
        """The next one that may be given to a member."""
        while self._ready:
            job = self._ready[0]
            if job.state is JobState.WAITING:
                return job
            self._ready.popleft()
        return None

    def schedule(self, job: Job, at: int) -> None:
        """Something is to happen to a job at an instant."""
        job.due = at
        self._stamp += 1
        heapq.heappush(self._due, (at, self._stamp, job))
        if len(self._due) > 2 * len(self._jobs) + SPARE:  # most are of jobs that are handled
            self._due = [one for one in self._due if one[2].due == one[0]]
            heapq.heapify(self._due)

    @property
    def next_due(self) -> int:
        """When something is to happen; 0: nothing is."""
        while self._due and self._due[0][2].due != self._due[0][0]:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else 0

    def take_due(self, now: int) -> Iterator[Job]:
        """Those to which something is to happen by now."""
        while (at := self.next_due) and at <= now:
            yield heapq.heappop(self._due)[2]
