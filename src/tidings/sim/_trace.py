"""The trace: everything that applications do and everything that reaches them, in order.

The records are flat, so that the same checks can run over a small list here and over a large table elsewhere.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from tidings.model import Matches, Notification

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
    """The border broker of a client has died; the client is without service until it is attached again."""
    CHANGE = "change"
    """Somebody asks for a change of the scope graph, or is answered."""
    ACTIVE = "active"
    """A broker judges what is published from now on by a version of the scope graph."""
    TAKEN = "taken"
    """A broker has given a publication its identity. Recorded where there is history."""
    REMEMBERED = "remembered"
    """The past of a subscription has been delivered."""
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
    detail: tuple[object, ...] = ()


def describe(record: Record) -> str:
    """Return one record as a readable line."""
    at = f"{record.seq:>5} {(record.time - START) / 1_000_000:>10.6f}s"
    parts = [record.op.value, record.component, record.subscription]
    if record.publisher:
        parts.append(f"{record.publisher}#{record.publication}")
    parts += [str(part) for part in (record.filter, record.notification) if part is not None]
    parts += [_word(part) for part in record.detail]
    return f"{at}  {'  '.join(part for part in parts if part)}"


def _word(part: object) -> str:
    if isinstance(part, enum.Enum):
        return part.name.lower()
    return " ".join(sorted(part)) if isinstance(part, frozenset) else str(part)


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
        detail: tuple[object, ...] = (),
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

    def fault(self, kind: str, where: str) -> None:
        """Record that something was broken or mended."""
        self.add(Op.FAULT, detail=(kind, where))

    def quiesce(self) -> None:
        """Record that nothing is left to happen."""
        self.add(Op.QUIESCE)
