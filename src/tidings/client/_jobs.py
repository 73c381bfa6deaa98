"""Jobs in the hands of an application: what an acknowledged group has given to this member."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any

from tidings.groups import MAX_ACK_WITHIN, MAX_DELAY, MIN_ACK_WITHIN, MOST_DELIVERIES, MOST_IN_FLIGHT
from tidings.model import AckRefused, ArgumentRefused, Identity, Notification, TidingsError
from tidings.wire import JobKey, Work

from ._arguments import integer_of, microseconds_of, name_of, seconds_of
from ._traced import Traced

log = logging.getLogger("tidings.client")


@dataclass(frozen=True, slots=True)
class Acks:
    """How an acknowledged group works; all its members give the same, but for `max_in_flight`.

    `within` is the number of seconds within which a member acknowledges a job, before it goes to another one. A job
    that was given to members `max_deliveries` times, and acknowledged by none, becomes a dead letter; None: it is given
    to members for ever. `max_in_flight` is how many jobs this member holds at once. `by` names an attribute: jobs with
    the same value are handled one after the other, in the order in which they were published.
    """

    within: float = 30.0
    max_deliveries: int | None = 5
    max_in_flight: int = 10
    by: str | None = None

    @property
    def work(self) -> Work:
        """What brokers are told; `ArgumentRefused` if something is wrong with it."""
        by = "" if self.by is None else name_of(self.by, "by", "name an attribute")
        most = (
            0 if self.max_deliveries is None else integer_of(self.max_deliveries, "max_deliveries", 1, MOST_DELIVERIES)
        )
        integer_of(self.max_in_flight, "max_in_flight", 1, MOST_IN_FLIGHT)
        seconds = seconds_of(self.within, "`within`", MAX_ACK_WITHIN / 1_000_000, MIN_ACK_WITHIN / 1_000_000)
        return Work(round(seconds * 1_000_000), most, by)


def acks_of(ack: bool | Acks, group: str | None) -> Acks | None:
    """What `subscribe` was given as `ack`; None: nothing is acknowledged."""
    if ack is False:
        return None
    if ack is not True and not isinstance(ack, Acks):
        raise ArgumentRefused(f"ack={ack!r}: give True, or tidings.Acks(...)")
    if group is None:
        raise ArgumentRefused('`ack` needs a group whose jobs are acknowledged; give one, as in group="billing"')
    acks = Acks() if ack is True else ack
    assert acks.work is not None
    return acks


class Acknowledgement(Awaitable[None]):
    """What becomes of an `ack` or `nack`. Awaiting it returns when the broker has it, or raises `AckRefused`.

    A refusal that nobody awaits is logged.
    """

    def __init__(self) -> None:
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaited = False

    def __await__(self) -> Generator[Any, None, None]:
        self._awaited = True
        return self._future.__await__()

    async def wait(self) -> None:
        """Wait until that is known."""
        await asyncio.wait([self._future])

    def answered(self, error: TidingsError | None, *, ended: bool = False) -> None:
        """Take note of what has become of it; with `ended`, nobody will ever know."""
        if self._future.done():
            return
        if error is None:
            self._future.set_result(None)
            return
        self._future.set_exception(error)
        self._future.exception()  # it is not forgotten: it is raised where this is awaited, or logged
        if not self._awaited and not ended:
            log.warning("an acknowledgement does not count: %s", error)


class Job(Traced):
    """A notification that this member of an acknowledged group has to handle."""

    __slots__ = ("_said", "_work", "deliveries", "key")

    key: JobKey
    """Names the job in the network."""
    deliveries: int
    """How often it has been given to a member, this time included."""
    _said: str
    _work: Jobs

    @classmethod
    def given(cls, work: Jobs, notification: Notification, identity: Identity, key: JobKey, deliveries: int) -> Job:
        """Return a notification as a job."""
        self = cls.__new__(cls)
        self._attributes = notification.attributes
        self.identity = identity
        self._from_past = False
        self.key, self.deliveries, self._work, self._said = key, deliveries, work, ""
        return self

    def ack(self) -> Acknowledgement:
        """Say that the job is done. Await the result to be sure that the broker knows."""
        self._say("acknowledged")
        return self._work.ack(self)

    def nack(self, delay: float = 0.0) -> Acknowledgement:
        """Give the job back: a member gets it again, `delay` seconds from now at the earliest."""
        microseconds = microseconds_of(delay, "a delay", MAX_DELAY)
        self._say("given back")
        return self._work.nack(self, microseconds)

    def _say(self, what: str) -> None:
        if self._said:
            raise AckRefused(
                f"job {self.key} of group '{self._work.group}' has been {self._said} already; say once what becomes of "
                "a job"
            )
        self._work.check(self)
        self._said = what

    def __repr__(self) -> str:
        return f"Job({self._attributes!r}, deliveries={self.deliveries})"


class Jobs:
    """What one subscription of an acknowledged group says about its jobs."""

    def __init__(self, group: str, ack: Callable[[JobKey], None], nack: Callable[[JobKey, int], None]) -> None:
        self.group = group
        self._ack = ack
        self._nack = nack
        self._ended = False
        self._waiting: dict[JobKey, Acknowledgement] = {}

    def check(self, job: Job) -> None:
        """Raise `AckRefused` if nothing can be said about a job any more."""
        if self._ended:
            raise AckRefused(
                f"job {job.key} went back to group '{self.group}' when its subscription ended; say what becomes of a "
                "job before that"
            )

    def ack(self, job: Job) -> Acknowledgement:
        """A job is done."""
        waiting = self._waiting[job.key] = Acknowledgement()
        self._ack(job.key)
        return waiting

    def nack(self, job: Job, delay: int) -> Acknowledgement:
        """A job goes back."""
        waiting = self._waiting[job.key] = Acknowledgement()
        self._nack(job.key, delay)
        return waiting

    def answered(self, key: JobKey, refused: str) -> None:
        """The broker has heard what was said about a job; or why that does not count."""
        if (waiting := self._waiting.pop(key, None)) is not None:
            waiting.answered(AckRefused(refused) if refused else None)

    async def drain(self) -> None:
        """Wait until everything that was said is answered."""
        for waiting in list(self._waiting.values()):
            await waiting.wait()

    def end(self) -> None:
        """The subscription has ended: what is not answered yet never will be."""
        self._ended = True
        for key, waiting in self._waiting.items():
            waiting.answered(
                AckRefused(
                    f"nobody knows whether job {key} of group '{self.group}' was acknowledged before its subscription "
                    "ended; await that before"
                ),
                ended=True,
            )
        self._waiting.clear()
