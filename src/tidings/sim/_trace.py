"""The trace: everything that applications do and everything that reaches them, in order.

The records are flat, so that the same checks can run over a small list here and over a large table elsewhere.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from tidings.model import Matches, Notification

from ._details import (
    Acknowledged,
    Activated,
    Asked,
    Attached,
    Broken,
    Detail,
    Enlisted,
    Given,
    Joined,
    Missing,
    Nothing,
    Notified,
    Presiding,
    Published,
    Refusal,
    Remembered,
    Ruled,
    Settlement,
    Subscribed,
    Taken,
    Unnoticed,
)
from ._scheduler import START, Scheduler


class Op(enum.Enum):
    """The kinds of records in a trace."""

    SUB = "sub"
    UNSUB = "unsub"
    ADV = "adv"
    UNADV = "unadv"
    SETTLED = "settled"
    PUB = "pub"
    ACK = "ack"
    REFUSED = "refused"
    NOTIFY = "notify"
    GAP = "gap"
    ATTACH = "attach"
    DETACH = "detach"
    LOST = "lost"
    """The border broker of a client has died, or, if one is named, does not know yet that the client has vanished; the
    client is without service until it is attached again."""
    ENDED = "ended"
    """The process of a client has ended, in order or not: it hands nothing over again, and nothing reaches it."""
    CHANGE = "change"
    """Somebody asks for a change of the scope graph, or is answered."""
    ACTIVE = "active"
    """A broker judges what is published from now on by a version of the scope graph."""
    TAKEN = "taken"
    """A broker has given a publication its identity."""
    PRESIDES = "presides"
    """A broker decides for a scope from now on, whose policy must be asked at one place."""
    RULED = "ruled"
    """It has asked that policy about a publication."""
    REMEMBERED = "remembered"
    """The past of a subscription has been delivered."""
    HOSTED = "hosted"
    """A broker has a client attached from now on, under an epoch. Recorded where names have one host."""
    RELEASED = "released"
    """A broker has it no longer."""
    COURIER = "courier"
    """A broker could have heard by now that a client of its own is hosted elsewhere; see `_couriers`."""
    JOIN = "join"
    """A client joins a group."""
    JOINED = "joined"
    """Its broker says that it is a member."""
    LEAVE = "leave"
    SHARE = "share"
    """A member gets a notification of its group."""
    MISSED = "missed"
    """A member is told that its group has lost something."""
    ENLIST = "enlist"
    """A client joins an acknowledged group."""
    ENLISTED = "enlisted"
    """Its broker says that it is a member."""
    QUIT = "quit"
    JOB = "job"
    """A member gets a job."""
    DONE = "done"
    """It acknowledges the job."""
    BACK = "back"
    """It gives the job back."""
    DIED = "died"
    """The process of a client has died, with all jobs that it had, and comes back."""
    FAULT = "fault"
    QUIESCE = "quiesce"


class Record(NamedTuple):
    """One line of a trace."""

    seq: int
    time: int
    op: Op
    component: str = ""
    subscription: str = ""
    """The id of the subscription or advertisement."""
    filter: Matches | None = None
    publication: int = 0
    """The publisher's own number of a publication."""
    publisher: str = ""
    notification: Notification | None = None
    detail: Detail = ()
    """What only records of this kind say; see `_details`."""


TYPES: dict[Op, Callable[..., Detail]] = {
    Op.SUB: Subscribed,
    Op.SETTLED: Settlement,
    Op.PUB: Published,
    Op.ACK: Acknowledged,
    Op.REFUSED: Refusal,
    Op.NOTIFY: Notified,
    Op.GAP: Missing,
    Op.JOIN: Joined,
    Op.JOINED: Settlement,
    Op.SHARE: Notified,
    Op.MISSED: Missing,
    Op.ENLIST: Enlisted,
    Op.ENLISTED: Settlement,
    Op.JOB: Given,
    Op.DONE: Notified,
    Op.BACK: Notified,
    Op.ATTACH: Attached,
    Op.HOSTED: Attached,
    Op.RELEASED: Attached,
    Op.COURIER: Attached,
    Op.LOST: Unnoticed,
    Op.ACTIVE: Activated,
    Op.TAKEN: Taken,
    Op.PRESIDES: Presiding,
    Op.RULED: Ruled,
    Op.REMEMBERED: Remembered,
    Op.FAULT: Broken,
}
"""The type of what each kind of record says; others say nothing more, or, CHANGE, one of two things."""


def typed(record: Record) -> Record:
    """Return a record whose detail has its type, for one that was written by hand as a plain tuple."""
    if type(record.detail) is not tuple or record.op is Op.CHANGE:
        return record
    make = TYPES.get(record.op)
    if make is None or (record.op is Op.LOST and not record.detail):
        return record._replace(detail=Nothing())
    return record._replace(detail=make(*record.detail))


def stretch(id: str, number: int) -> str:
    """How the trace calls a subscription that has begun anew so often, at another place each time."""
    return f"{id}@{number}" if number else id


def describe(record: Record) -> str:
    """Return one record as a readable line."""
    at = f"{record.seq:>5} {(record.time - START) / 1_000_000:>10.6f}s"
    parts = [record.op.value, record.component, record.subscription]
    if record.publisher:
        parts.append(f"{record.publisher}#{record.publication}")
    parts += [str(part) for part in (record.filter, record.notification) if part is not None]
    parts += [_word(part) for part in _parts(record.detail)]
    return f"{at}  {'  '.join(part for part in parts if part)}"


def _parts(detail: Detail) -> Iterable[object]:
    return (*detail[:2], *detail.changes) if isinstance(detail, Asked) else detail


def _word(part: object) -> str:
    if isinstance(part, enum.Enum):
        return part.name.lower()
    return " ".join(sorted(part)) or "nobody" if isinstance(part, frozenset) else str(part)


class Trace:
    """A list of records with the clock that stamps them."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.records: list[Record] = []

    def add(
        self,
        op: Op,
        component: str = "",
        *,
        subscription: str = "",
        filter: Matches | None = None,
        publication: int = 0,
        publisher: str = "",
        notification: Notification | None = None,
        detail: Detail = (),
    ) -> None:
        """Record that something happened now."""
        self.records.append(
            Record(
                len(self.records),
                self._scheduler.now,
                op,
                component,
                subscription,
                filter,
                publication,
                publisher,
                notification,
                detail,
            )
        )

    @property
    def begun(self) -> bool:
        """Whether anything has happened but that there are links."""
        return any(not (isinstance(one.detail, Broken) and one.detail.kind == "link") for one in self.records)

    def fault(self, kind: str, where: str) -> None:
        """Record that something was broken or mended, or that there is a link from the beginning."""
        self.add(Op.FAULT, detail=Broken(kind, where))

    def quiesce(self) -> None:
        """Record that nothing is left to happen."""
        self.add(Op.QUIESCE)

    def write(self, path: str | Path, run_id: str = "") -> int:
        """Write the trace as a Parquet file; return how many records it has. Needs pyarrow, the extra `archive`.

        `check` reads it, and `read_trace`.
        """
        from ._trace_file import write  # noqa: PLC0415 - it needs this module

        return write(path, self.records, run_id)
