"""The contracts of others, over our traces: what Maelstrom's workloads `broadcast` and `kafka` ask of a system.

They are written anew from their definitions and know nothing of docs/promises.md, so they are a second opinion: two
descriptions of the same thing that have nothing in common but the thing.

`broadcast`: a value that was acknowledged is read by everybody who wants it, and by nobody twice.

`kafka`: what is acknowledged stands at an offset of a log; here the log is one epoch of an origin, and the offset is
the number of the event. Whoever reads a log sees its offsets grow, and sees all that it wants.

A *reader* is a subscription from its beginning to its end. It *wants* what is published after it has settled towards
the publisher's broker and what passes each filter that it has from then on. Something that it was told is lost, by a
`Gap`, is not held against a run. Where there are scopes, forms differ from reader to reader, and these contracts do not
apply.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tidings.model import Matches

from ._details import Acknowledged, Missing, Notified, Settlement, Subscribed
from ._trace import Op, Record, Trace, describe, typed

Value: TypeAlias = tuple[str, int]
"""The publisher, and its number of a publication."""
Log: TypeAlias = tuple[str, int]
"""An origin, and its epoch."""

LOST = "lost"
DUPLICATED = "duplicated"
LOST_WRITE = "lost write"
UNOBSERVED = "unobserved"
NONMONOTONIC = "nonmonotonic"
SKIP = "skip"
INCONSISTENT = "inconsistent offsets"


class Anomaly(NamedTuple):
    """Something that a contract forbids."""

    kind: str
    record: Record
    """The publication that was not read, or the notification that should not be."""
    reason: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}\n    {describe(self.record)}"


@dataclass(slots=True)
class _Reader:
    """One subscription, from its beginning to its end."""

    client: str
    id: str
    filters: list[tuple[int, Matches, bool]]
    settled: list[tuple[int, frozenset[str]]] = field(default_factory=list)
    got: dict[Value, Record] = field(default_factory=dict)
    offsets: dict[Log, list[int]] = field(default_factory=dict)
    gaps: list[Missing] = field(default_factory=list)
    ended: bool = False

    @property
    def name(self) -> str:
        return f"{self.client}/{self.id}"

    def wants(self, write: _Write) -> bool:
        """Whether this was published for it, and it still wants it."""
        published = write.record
        assert published.notification is not None
        for seq, reach in self.settled:
            if self.ended or seq > published.seq or write.log[0] not in reach:
                continue
            before = [at for at, (since, _, _) in enumerate(self.filters) if since <= seq]
            if all(
                filter.matches(published.notification) and (receive_own or published.publisher != self.client)
                for _, filter, receive_own in self.filters[before[-1] if before else 0 :]
            ):
                return True
        return False

    def was_told(self, write: _Write) -> bool:
        """Whether it was told that this, or what follows something before it, is lost."""
        origin, epoch = write.log
        return any(
            gap.origin == origin
            and (
                (gap.epoch == epoch and gap.first <= write.offset and (gap.last is None or write.offset <= gap.last))
                or (gap.last is None and gap.epoch < epoch)
            )
            for gap in self.gaps
        )


class _Write(NamedTuple):
    """What was acknowledged."""

    record: Record
    log: Log
    offset: int


@dataclass(slots=True)
class History:
    """What a trace says about writes and reads."""

    writes: dict[Value, _Write] = field(default_factory=dict)
    readers: list[_Reader] = field(default_factory=list)
    at_once: list[Anomaly] = field(default_factory=list)
    """What is wrong whatever follows: a reader goes back, reads twice, or two read something else at one place."""

    @classmethod
    def of(cls, trace: Trace | Iterable[Record]) -> History:
        """Read a trace, which has come to rest at its end."""
        history = cls()
        _Reading(history).read(trace.records if isinstance(trace, Trace) else trace)
        return history


class _Reading:
    def __init__(self, history: History) -> None:
        self._history = history
        self._active: dict[tuple[str, str], _Reader] = {}
        self._published: dict[Value, Record] = {}
        self._places: dict[tuple[Log, int], Value] = {}
        self._connected: dict[str, bool] = {}

    def read(self, records: Iterable[Record]) -> None:
        for record in records:
            self._note(typed(record))
        for reader in self._active.values():
            reader.ended |= not self._connected.get(reader.client, False)  # nothing can reach it

    def _note(self, record: Record) -> None:
        reader = self._active.get((record.component, record.subscription))
        match record.op, record.detail:
            case Op.SUB, Subscribed(receive_own, _):
                assert record.filter is not None
                if reader is None:
                    reader = self._active[record.component, record.subscription] = _Reader(
                        record.component, record.subscription, []
                    )
                    self._history.readers.append(reader)
                reader.filters.append((record.seq, record.filter, receive_own))
            case Op.UNSUB, _ if reader is not None:
                reader.ended = True
                del self._active[record.component, record.subscription]
            case Op.SETTLED, Settlement(False, reach) if reader is not None:
                reader.settled.append((record.seq, reach))
            case Op.GAP, Missing() as gap if reader is not None:
                reader.gaps.append(gap)
            case Op.PUB, _:
                self._published[record.publisher, record.publication] = record
            case Op.ACK, Acknowledged(origin, epoch, number, _) if number:
                value = (record.publisher, record.publication)
                self._history.writes[value] = _Write(self._published[value], (origin, epoch), number)
                self._stands(record, (origin, epoch), number)
            case Op.NOTIFY, Notified() as event if reader is not None:
                self._read(reader, record, event)
            case Op.ATTACH, _:
                self._connected[record.component] = True
            case ((Op.LOST | Op.DETACH), _):
                self._connected[record.component] = False

    def _read(self, reader: _Reader, record: Record, event: Notified) -> None:
        value, log = (record.publisher, record.publication), (event.origin, event.epoch)
        if value in reader.got:
            self._wrong(DUPLICATED, record, f"{reader.name} has read it before")
        reader.got.setdefault(value, record)
        offsets = reader.offsets.setdefault(log, [])
        if offsets and event.number <= offsets[-1]:
            self._wrong(NONMONOTONIC, record, f"{reader.name} has read offset {offsets[-1]} of this log before")
        offsets.append(event.number)
        self._stands(record, log, event.number)

    def _stands(self, record: Record, log: Log, offset: int) -> None:
        value = (record.publisher, record.publication)
        if (other := self._places.setdefault((log, offset), value)) != value:
            self._wrong(INCONSISTENT, record, f"at this offset of the log stands number {other[1]} of {other[0]}, too")

    def _wrong(self, kind: str, record: Record, reason: str) -> None:
        self._history.at_once.append(Anomaly(kind, record, reason))


def broadcast(trace: Trace | Iterable[Record]) -> list[Anomaly]:
    """Return what the contract of `broadcast` forbids, in a trace that has come to rest."""
    history = History.of(trace)
    found = [anomaly for anomaly in history.at_once if anomaly.kind == DUPLICATED]
    for value, write in history.writes.items():
        found += [
            Anomaly(LOST, write.record, f"it was acknowledged, and {reader.name} has never read it")
            for reader in history.readers
            if value not in reader.got and reader.wants(write) and not reader.was_told(write)
        ]
    return found


def kafka(trace: Trace | Iterable[Record]) -> list[Anomaly]:
    """Return what the contract of `kafka` forbids, in a trace that has come to rest."""
    history = History.of(trace)
    found = [anomaly for anomaly in history.at_once if anomaly.kind != DUPLICATED]
    furthest: dict[Log, int] = {}
    for reader in history.readers:
        for log, offsets in reader.offsets.items():
            furthest[log] = max(furthest.get(log, 0), *offsets)
    for value, write in history.writes.items():
        wanted = [reader for reader in history.readers if reader.wants(write) and not reader.was_told(write)]
        for reader in wanted:
            offsets = reader.offsets.get(write.log, [])
            if value not in reader.got and offsets and min(offsets) < write.offset < max(offsets):
                reason = f"{reader.name} has read offsets before and behind {write.offset} of its log, and not this one"
                found.append(Anomaly(SKIP, write.record, reason))
        if wanted and not any(value in reader.got for reader in history.readers):
            is_behind = write.offset < furthest.get(write.log, 0)
            reason = "it was acknowledged, and nobody has read it"
            found.append(Anomaly(LOST_WRITE if is_behind else UNOBSERVED, write.record, reason))
    return found
