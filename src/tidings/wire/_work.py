"""What clients and their brokers say to one another about acknowledged groups, in extensions of the feature `work`.

Jobs come to a member as notifications come to any subscription, in a `Deliver` under the id of `Enlist`. One that has
been given to a member before is announced by an `Again`, right before it.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec

from tidings.model import EventKey

from ._errors import UNREADABLE, WireError, brief
from ._messages import Gap

WORK = "work"
"""The feature, and how a welcome says that a broker has it."""

Ranges: TypeAlias = dict[str, dict[int, list[tuple[int, int]]]]
"""By origin and epoch, the first and last number of each range; see `tidings.broker.Facts`."""


class JobKey(NamedTuple):
    """One form of an event, as a job of a group."""

    origin: str
    epoch: int
    seq: int
    version: int = 0

    @property
    def event(self) -> EventKey:
        """The event."""
        return EventKey(self.origin, self.epoch, self.seq)

    def __str__(self) -> str:
        return f"{self.origin}/{self.epoch}/{self.seq}" + (f"/{self.version}" if self.version else "")


class Work(msgspec.Struct, frozen=True, array_like=True):
    """How a group works; all its members say the same."""

    ack_within: int
    """Microseconds within which a job must be acknowledged; then it goes to another member."""
    max_deliveries: int
    """How often a job is given to a member, before it becomes a dead letter; 0: for ever."""
    by: str = ""
    """The attribute by whose value jobs are kept in order; "": no order is kept."""


class Enlist(msgspec.Struct, frozen=True, array_like=True, tag="enlist"):
    """Be a member of an acknowledged group."""

    id: str
    """Names the subscription on this link, as in `Subscribe`."""
    group: str
    """A name, for a group of the client's identity; "scope/name" for one of a scope."""
    filter: str
    work: Work
    max_in_flight: int
    """The most jobs that this member holds at once."""
    number: int = 0
    """`Settled` repeats it."""
    held: tuple[JobKey, ...] = ()
    """What it was given by an earlier broker, and still works on."""
    handled: Ranges = {}
    """What it knows to be handled, by itself and by others."""


class Quit(msgspec.Struct, frozen=True, array_like=True, tag="quit"):
    """Be a member no longer; what it holds goes to others."""

    id: str


class Ack(msgspec.Struct, frozen=True, array_like=True, tag="ack"):
    """A job is done."""

    id: str
    job: JobKey


class Nack(msgspec.Struct, frozen=True, array_like=True, tag="nack"):
    """A job is to be done by somebody else, or later."""

    id: str
    job: JobKey
    delay: int = 0
    """Microseconds after which it may be given to a member again."""


class Unread(msgspec.Struct, frozen=True, array_like=True, tag="unread"):
    """What its broker had for a member was dropped, because too much waited: these numbers, but for some jobs."""

    id: str
    origin: str
    epoch: int
    first: int
    last: int | None
    held: tuple[JobKey, ...] = ()
    """What the member has got of them."""


class Again(msgspec.Struct, frozen=True, array_like=True, tag="again"):
    """To a member: the job that follows is given to a member for this time: 2, 3, ..."""

    id: str
    job: JobKey
    deliveries: int


class Acked(msgspec.Struct, frozen=True, array_like=True, tag="acked"):
    """To a member: what it said about a job counts, or why it does not."""

    id: str
    job: JobKey
    refused: str = ""


class Handled(msgspec.Struct, frozen=True, array_like=True, tag="handled"):
    """To a member: this has been handled, besides what it was told before."""

    id: str
    handled: Ranges


class Missed(msgspec.Struct, frozen=True, array_like=True, tag="missed"):
    """To a member: the group has lost something."""

    id: str
    gap: Gap


FromWorker: TypeAlias = Enlist | Quit | Ack | Nack | Unread
ToWorker: TypeAlias = Again | Acked | Handled | Missed

_from = msgspec.msgpack.Decoder(FromWorker).decode
_to = msgspec.msgpack.Decoder(ToWorker).decode


def read_from_worker(body: bytes) -> FromWorker:
    """What a member said, or `WireError`."""
    try:
        said: FromWorker = _from(body)
    except UNREADABLE as error:
        raise WireError(f"not about an acknowledged group: {brief(error)}") from None
    return said


def read_to_worker(body: bytes) -> ToWorker:
    """What a member is told, or `WireError`."""
    try:
        said: ToWorker = _to(body)
    except UNREADABLE as error:
        raise WireError(f"not about an acknowledged group: {brief(error)}") from None
    return said
