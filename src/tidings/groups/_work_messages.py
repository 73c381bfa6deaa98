"""What brokers say to one another about acknowledged groups."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidings.broker import Term
from tidings.wire import Envelope, JobKey, Ranges, unpacker

from ._messages import Present, Said, Terms


class Give(msgspec.Struct, frozen=True, array_like=True, tag="give"):
    """From the point: give this job to a member."""

    key: str
    term: Term
    client: str
    id: str
    deliveries: int
    """How often it has been given to a member, this time included."""
    envelope: Envelope


class Revoke(msgspec.Struct, frozen=True, array_like=True, tag="revoke"):
    """From the point: a member was to have acknowledged this job by now; it has it no longer."""

    key: str
    client: str
    id: str
    job: JobKey


class Done(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """To the point: a member has acknowledged this job."""

    key: str
    client: str
    id: str
    job: JobKey


class Return(msgspec.Struct, frozen=True, array_like=True, tag="return"):
    """To the point: these jobs are to be given to a member again."""

    key: str
    client: str
    id: str
    jobs: tuple[JobKey, ...]
    delay: int = 0
    untouched: bool = False
    """Whether the member has never had them."""
    gone: bool = False
    """Whether there is no such member any more."""


class Claim(msgspec.Struct, frozen=True, array_like=True, tag="claim"):
    """To the point: a member that has come holds these jobs, and no others from before."""

    key: str
    client: str
    id: str
    jobs: tuple[JobKey, ...]


class Facts(msgspec.Struct, frozen=True, array_like=True, tag="facts"):
    """Either way: this has been handled, besides what was said before."""

    key: str
    handled: Ranges
    lost: Ranges = {}
    """Of that, what is lost: whoever has not heard of it is told."""


WorkSaid: TypeAlias = Said | Give | Revoke | Done | Return | Claim | Facts


class WorkSaying(msgspec.Struct, frozen=True, array_like=True):
    """One message between brokers."""

    said: WorkSaid


class Tried(msgspec.Struct, frozen=True, array_like=True):
    """A job that a point has given to a member, or more than one."""

    job: JobKey
    deliveries: int
    client: str = ""
    """Who holds it; "": nobody."""
    id: str = ""
    due: int = 0
    """When it is to go to another one, in microseconds since 1970 UTC."""


class Hand(msgspec.Struct, frozen=True, array_like=True):
    """What a member holds."""

    client: str
    id: str
    jobs: tuple[JobKey, ...]


class WorkKnown(msgspec.Struct, frozen=True, array_like=True):
    """The answer of one broker to a point that gathers."""

    epoch: int
    present: Present | None = None
    heard: Term | None = None
    handled: Ranges = {}
    hands: tuple[Hand, ...] = ()
    tried: tuple[Tried, ...] = ()
    lost: Ranges = {}
    terms: Terms | None = None
    """Of a point: what all members have in common."""


read_work = unpacker(WorkSaying)
read_work_known = unpacker(WorkKnown)
