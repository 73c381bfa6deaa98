"""The ledger: what each client was sent and has acknowledged, noted in the journal for an audit.

Theory of operation
-------------------
Whatever the broker hands to the link of a client is noted here: a notification as a row in memory, a settled
subscription or a gap as a record at once. Rows go to the journal many at a time, after `FLUSH_SECONDS` or
`FLUSH_ROWS`, and always before any other record. So the journal has them in an order that an audit can trust: behind an
acknowledgement nothing is missing that was sent before it, and nothing is sent to a subscription outside of its life.

A row costs as much for a thousand clients that get the same as for one. A disk that refuses costs records; then a
record of kind `HOLE` says so as soon as it can be written, and nobody takes the rest for the whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from tidings.broker import FROM_PAST, Link
from tidings.model import EventKey, Position
from tidings.store import (
    Deliveries,
    Group,
    JournalKind,
    JournalRecord,
    Plain,
    Sent,
    Store,
    StoreError,
    encode_deliveries,
    form_of,
)
from tidings.wire import AnyMessage, Deliver, Gap, Settled, Written

FLUSH_ROWS = 4_096
"""Rows in memory after which they go to the journal."""
FLUSH_SECONDS = 1.0
"""The longest time that a row waits."""


class Ledger:
    """Writes the journal of one broker."""

    def __init__(
        self, store: Store, now: Callable[[], int], later: Callable[[int, Callable[[], None]], object]
    ) -> None:
        self._store = store
        self._now = now
        self._later = later
        self._groups: dict[tuple[object, tuple[str, ...], bool], int] = {}
        self._members: list[Group] = []
        self._kept: list[object] = []
        """What the keys of groups were made of: an identity must not be used again."""
        self._sources: dict[tuple[str, int], int] = {}
        self._rows: list[Sent] = []
        self._acknowledged: dict[tuple[str, str], Position] = {}
        self._due = False
        self._hole = False
        self.missed = 0
        """Records that the disk has refused."""

    # --- what is sent ---------------------------------------------------------------------------------

    def sent(self, link: Link, message: AnyMessage) -> None:
        """Something is on its way to a client."""
        if type(message) is Deliver:
            self._note((link,), link, message)
        elif type(message) is Settled and not message.advertisement:
            marks = json.dumps(message.marks)
            self.write(JournalKind.SETTLED, link.name, id=message.id, number=message.number, marks=marks)
        elif type(message) is Gap:
            self.gap(link, message)

    def sent_to_all(self, links: Iterable[Link], message: AnyMessage) -> None:
        """The same for several."""
        if type(message) is Deliver:
            self._note(links, id(links), message)

    def sent_written(self, links: Iterable[Link], written: Written) -> None:
        """The same for what the data plane has written: one origin, the same subscriptions, one time."""
        message = written.first.message
        if type(message) is Deliver:
            self._note(links, id(links), message, memoryview(written.numbers).cast("Q"))

    def gap(self, link: Link, gap: Gap) -> None:
        """A client is told that notifications are lost for some of its subscriptions."""
        what: dict[str, Plain] = {"origin": gap.origin, "epoch": gap.epoch, "first": gap.first, "last": gap.last}
        self.write(JournalKind.GAP, link.name, ids=json.dumps(gap.subscriptions), **what)

    def acknowledged(self, link: Link, key: EventKey) -> None:
        """A client has handled everything up to here; the last word of each second is enough."""
        self._acknowledged[link.name, key.origin] = Position(key.epoch, key.seq)
        self._soon()

    def _note(self, links: Iterable[Link], key: object, message: Deliver, numbers: Iterable[int] = ()) -> None:
        """Note a notification, or all those of its origin with these numbers that went with it."""
        ids, route = message.subscriptions, message.envelope.routes[0]
        past = FROM_PAST in route.tags
        group = self._groups.get((key, ids, past))
        if group is None:
            group = self._groups[key, ids, past] = len(self._members)
            self._members.append(Group(tuple(link.name for link in links), ids, past))
            self._kept.append(links)
        identity = message.envelope.identity
        source = self._sources.setdefault((identity.origin, identity.epoch), len(self._sources))
        now, form = self._now(), form_of(route)
        self._rows += [Sent(group, source, number, now, form) for number in numbers or (identity.seq,)]
        if len(self._rows) >= FLUSH_ROWS:
            self.flush()
        else:
            self._soon()

    def _soon(self) -> None:
        if not self._due:
            self._due = True
            self._later(int(FLUSH_SECONDS * 1_000_000), self._tick)

    def _tick(self) -> None:
        self._due = False
        self.flush()

    # --- what is written ------------------------------------------------------------------------------

    def flush(self) -> None:
        """Have everything in the journal that is in memory."""
        if self._rows:
            rows, self._rows = self._rows, []
            data = encode_deliveries(Deliveries.of(self._members, list(self._sources), rows))
            self._groups, self._members, self._kept, self._sources = {}, [], [], {}
            self._record(JournalRecord(JournalKind.DELIVER, rows[-1].at, "", data=data))
        if self._acknowledged:
            acknowledged, self._acknowledged = self._acknowledged, {}
            for (client, origin), (epoch, seq) in acknowledged.items():
                what: dict[str, Plain] = {"origin": origin, "epoch": epoch, "seq": seq}
                self._record(JournalRecord(JournalKind.ACKNOWLEDGE, self._now(), client, what))

    def write(self, kind: JournalKind, who: str, **what: Plain) -> None:
        """Add a record behind everything that happened before it."""
        self.flush()
        self._record(JournalRecord(kind, self._now(), who, what))

    def _record(self, record: JournalRecord) -> None:
        try:
            if self._hole:
                hole = JournalRecord(JournalKind.HOLE, record.at, "", {"missed": self.missed})
                self._store.record(hole, failed=self._failed)
                self._hole = False
            self._store.record(record, failed=self._failed)
        except StoreError as error:
            self._failed(error)

    def _failed(self, error: StoreError) -> None:
        self.missed += 1
        self._hole = True
