"""A membership of an acknowledged group, as the local broker keeps it: what the application holds, and what is handled.

Both go with the client to its next broker. What the application has acknowledged is a fact from then on, whether or not
a broker has heard of it: the next one does.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tidings.model import Identity
from tidings.wire import Ack, Acked, Again, Enlist, FromWorker, Gap, Handled, JobKey, Nack, ToWorker, Unread

from ._facts import Facts
from ._local_subscription import Callback

MAX_HOLES = 10_000
"""The most ranges of one epoch of an origin that a member knows to be handled."""


class Working:
    """One membership."""

    def __init__(self, enlist: Enlist, callback: Callback, answered: Callable[[JobKey, str], None]) -> None:
        """`answered` is called with each job that the application has said something about, and why it does not count.

        An empty reason: it counts.
        """
        self.enlist = enlist
        self.callback = callback
        self.answered = answered
        self.held: dict[JobKey, int] = {}
        """What the application holds, and how often each has been given to a member."""
        self._facts = Facts(most=MAX_HOLES)
        self._again: dict[JobKey, int] = {}
        self._said: set[JobKey] = set()
        """About what the application has said something, and was not answered."""

    def takes_over(self, earlier: Working) -> None:
        """Go on with what an earlier membership of the same group had."""
        self.held, self._facts = earlier.held, earlier._facts

    @property
    def announced(self) -> Enlist:
        """What the next broker is told."""
        return msgspec.structs.replace(self.enlist, held=tuple(self.held), handled=self._facts.told())

    def comes(self, identity: Identity, version: int) -> tuple[JobKey, int]:
        """A job has come: its key, and how often it has been given to a member."""
        job = JobKey(identity.origin, identity.epoch, identity.seq, version)
        deliveries = self.held[job] = self._again.pop(job, 1)
        return job, deliveries

    def ack(self, job: JobKey) -> FromWorker:
        """The application has done a job: what its broker is told."""
        self.held.pop(job, None)
        self._said.add(job)
        if self._facts.knows(job.origin):
            self._facts.add(job.origin, job.epoch, job.seq, job.seq)
        return Ack(self.enlist.id, job)

    def nack(self, job: JobKey, delay: int) -> FromWorker:
        """The application does not do a job: what its broker is told."""
        self.held.pop(job, None)
        self._said.add(job)
        return Nack(self.enlist.id, job, delay)

    def unread(self, gap: Gap) -> FromWorker:
        """Something was dropped before it came: what its broker is told."""
        return Unread(self.enlist.id, gap.origin, gap.epoch, gap.first, gap.last, tuple(self.held))

    def hear(self, said: ToWorker) -> None:
        """The broker says something."""
        match said:
            case Again():
                self._again = {said.job: said.deliveries}
            case Handled():
                self._facts.merge(Facts(said.handled, MAX_HOLES))
            case Acked():
                if said.job in self._said:
                    self._said.discard(said.job)
                    self.answered(said.job, said.refused)

    def settled(self) -> None:
        """A broker knows of everything that was said to an earlier one."""
        for job in list(self._said):
            self._said.discard(job)
            self.answered(job, "")
