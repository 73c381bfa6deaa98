"""The lives of subscriptions, read from the journal of a broker: what each was owed, and what it was sent.

Theory of operation
-------------------
Clocks differ, so an audit measures in positions wherever it can. A broker tells a client that a subscription has
settled, and later how far everything of each origin has been sent; the client acknowledges that. So for each origin a
subscription has *windows* `(after, upto]`: what was published in one and passes the filter must have been sent, or a
gap that contains it must have been told. What follows the last acknowledgement of a client that has gone is nobody's
fault: nobody knows whether it arrived.

Where a window begins is known at once for what is published at the subscriber's own broker, and for a client that says
how far it has come. Of other origins, a broker has seen less when a subscription settles than was published until then.
What it sees afterwards has passed an origin that knew the filter: behind the first acknowledgement of that, a window is
*sure*. Before, only what was published later than the settling, by the clocks of two brokers, is owed.

A filter that is changed leaves no hole: from the last acknowledgement under the old filter until the new one is sure
lies a window in which both count.

What was sent may be anything that passes one of the filters of the subscription, from the moment at which it was made
until it ended. It comes in the order of its numbers; what does not is *late*.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from tidings.store import JournalKind, JournalRecord, Sent, decode_deliveries

Position: TypeAlias = tuple[int, int]
"""An epoch of an origin, and a number in it."""


class Window(NamedTuple):
    """What was published after one position, up to another, and passes all these filters of a life, is owed."""

    after: Position
    upto: Position
    filters: tuple[int, ...]
    sure: Position
    """Behind this it is owed, whatever clocks say."""
    settled_at: int = 0
    """Before, only what was published later than this."""


class ToldGap(NamedTuple):
    """What a subscription was told to be lost."""

    origin: str
    epoch: int
    first: int
    last: int | None

    def contains(self, origin: str, epoch: int, seq: int) -> bool:
        """Whether an event is in it; one without an end reaches into later epochs."""
        if origin != self.origin:
            return False
        if self.last is None:
            return (epoch, seq) >= (self.epoch, self.first)
        return epoch == self.epoch and self.first <= seq <= self.last


class Life(msgspec.Struct):
    """One subscription at one broker, from its beginning to its end."""

    broker: str
    client: str
    id: str
    filters: list[str]
    """Every filter that it has had, in their order."""
    receive_own: bool = True
    duplicates: int = 0
    windows: dict[str, list[Window]] = {}
    """By origin."""
    gaps: list[ToldGap] = []
    since: int = 0
    """When it began, by the broker's clock."""


class Timeliness(enum.IntEnum):
    """How a notification came, compared with what had come before it from the same origin."""

    IN_ORDER = 0
    LATE = 1
    """Behind one with a larger number."""
    AGAIN = 2
    """Its client had come further before, at another broker."""
    PAST = 3
    """It is from the past, which comes in an order of its own."""


class Sink(Protocol):
    """Takes what was sent to subscriptions."""

    def add(self, source: tuple[str, int], life: int, sent: Sent, timeliness: Timeliness) -> None:
        """A notification was sent to a subscription."""

    def stray(self, broker: str, client: str, id: str, source: tuple[str, int], sent: Sent) -> None:
        """A notification was sent to a subscription that its client did not have."""


class _Open:
    """A life that has not ended."""

    def __init__(self, place: int, life: Life, number: int, after: dict[str, Position]) -> None:
        self.place = place
        self.life = life
        self.number = number
        self.scopes: set[str] = set()
        self.ended = False
        self.floor = after
        """How far its client had come before."""
        self.last: dict[str, Position] = {}
        self._filter = 0
        self._settled_at: int | None = None
        self._start = dict(after)
        self._sure = dict(after)
        self._upto: dict[str, Position] = {}
        self._between: dict[str, Position] = {}
        """How far the filter before had come."""

    def changed(self, text: str, number: int) -> None:
        """It has another filter from now on."""
        reached = {origin: self._upto.get(origin, sure) for origin, sure in self._sure.items()}
        before = {} if self._settled_at is None else reached
        self.close()
        self._between = before
        self.life.filters.append(text)
        self._filter += 1
        self._settled_at, self.number, self.ended = None, number, False

    def settle(self, at: int, number: int, marks: dict[str, Position]) -> None:
        """Everybody knows the filter; the broker has seen each origin so far."""
        if self.ended or number < self.number:
            return  # of the filter before
        if self._settled_at is None:
            self._settled_at = at
        for origin, mark in marks.items():
            if self._start.setdefault(origin, mark) is mark and origin == self.life.broker:
                self._sure[origin] = mark

    def acknowledge(self, origin: str, position: Position) -> None:
        """The client has everything up to here."""
        if self.ended or self._settled_at is None:
            return
        start = self._start.setdefault(origin, position)
        if position > start:
            self._sure.setdefault(origin, position)
            self._upto[origin] = max(position, self._upto.get(origin, position))

    def close(self) -> None:
        """What follows is not owed, until more is known."""
        for origin, upto in self._upto.items():
            sure, at = self._sure[origin], self._settled_at or 0
            self._owe(origin, Window(self._start[origin], upto, (self._filter,), sure, at))
            reached = self._between.get(origin)
            if reached is not None and reached < sure:
                self._owe(origin, Window(reached, sure, (self._filter - 1, self._filter), reached))
        self._start, self._sure, self._upto, self._between = {}, {}, {}, {}

    def _owe(self, origin: str, window: Window) -> None:
        self.life.windows.setdefault(origin, []).append(window)

    def timeliness(self, source: tuple[str, int], seq: int) -> Timeliness:
        origin, position = source[0], (source[1], seq)
        if position <= self.floor.get(origin, (0, 0)):
            return Timeliness.AGAIN
        last = self.last.get(origin)
        if last is not None and position < last:
            return Timeliness.LATE
        self.last[origin] = position
        return Timeliness.IN_ORDER


class Chronicle:
    """Reads the journals of brokers, one after the other."""

    def __init__(self, sink: Sink) -> None:
        self.lives: list[Life] = []
        self.silent: list[str] = []
        """Brokers that had subscriptions and did not note what they sent."""
        self.holes: dict[str, int] = {}
        """Records that the disk of a broker has refused."""
        self._sink = sink
        self._clients: dict[str, dict[str, _Open]] = {}
        self._broker = ""

    def read(self, broker: str, journal: Iterable[JournalRecord], *, sent_from: int = 0) -> None:
        """Take in a whole journal; deliveries from before an instant are left out."""
        self._broker, self._clients = broker, {}
        count, notes = len(self.lives), False
        for record in journal:
            match record.kind:
                case JournalKind.DELIVER:
                    notes = True
                    if record.at >= sent_from:
                        self._delivered(record)
                case JournalKind.START:
                    self._end_all()
                    self._clients = {}
                case JournalKind.HOLE:
                    self.holes[broker] = int(record.what["missed"] or 0)
                    self._end_all()
                case JournalKind.ATTACH:
                    self._clients[record.who] = {}
                case JournalKind.DETACH:
                    for one in self._clients.pop(record.who, {}).values():
                        one.close()
                case _:
                    self._of_client(record, self._clients.setdefault(record.who, {}))
        self._end_all()
        if not notes and len(self.lives) > count:
            self.silent.append(broker)

    def _end_all(self) -> None:
        for subscriptions in self._clients.values():
            for one in subscriptions.values():
                one.close()

    def _of_client(self, record: JournalRecord, subscriptions: dict[str, _Open]) -> None:
        what: dict[str, Any] = dict(record.what)
        match record.kind:
            case JournalKind.SUBSCRIBE:
                self._subscribed(record, what, subscriptions)
            case JournalKind.UNSUBSCRIBE if (known := subscriptions.get(what["id"])) is not None:
                if what.get("number", 0) >= known.number:
                    known.scopes.discard(what["scope"])
                    known.close()
                    known.ended = bool(what.get("ended", True)) and not known.scopes
            case JournalKind.SETTLED if (known := subscriptions.get(what["id"])) is not None:
                known.settle(record.at, what["number"], _positions(what["marks"]))
            case JournalKind.ACKNOWLEDGE:
                for one in subscriptions.values():
                    one.acknowledge(what["origin"], (what["epoch"], what["seq"]))
            case JournalKind.GAP:
                gap = ToldGap(what["origin"], what["epoch"], what["first"], what["last"])
                for id in json.loads(what["ids"]):
                    if id in subscriptions:
                        subscriptions[id].life.gaps.append(gap)
            case _:
                pass

    def _subscribed(self, record: JournalRecord, what: dict[str, Any], subscriptions: dict[str, _Open]) -> None:
        id, number, after = what["id"], what.get("number", 0), what.get("after", "{}")
        known = subscriptions.get(id)
        if known is not None and not known.ended and number <= known.number:
            known.scopes.add(what["scope"])  # the same in another scope
            return
        if known is not None and after is None:
            known.changed(what["filter"], number)
        else:
            life = Life(
                self._broker,
                record.who,
                id,
                [what["filter"]],
                what.get("receive_own", True),
                what.get("duplicates", 0),
                {},
                [],
                record.at,
            )
            known = subscriptions[id] = _Open(len(self.lives), life, number, _positions(after or "{}"))
            self.lives.append(life)
        known.scopes = {what["scope"]}

    def _delivered(self, record: JournalRecord) -> None:
        deliveries = decode_deliveries(record.data)
        groups = [list(self._meant(group.clients, group.subscriptions)) for group in deliveries.groups]
        for sent in deliveries.rows():
            source = deliveries.sources[sent.source]
            for client, id, known in groups[sent.group]:
                if known is None:
                    self._sink.stray(self._broker, client, id, source, sent)
                elif deliveries.groups[sent.group].past:
                    self._sink.add(source, known.place, sent, Timeliness.PAST)
                else:
                    self._sink.add(source, known.place, sent, known.timeliness(source, sent.seq))

    def _meant(self, clients: Iterable[str], ids: Iterable[str]) -> Iterator[tuple[str, str, _Open | None]]:
        for client in clients:
            subscriptions = self._clients.get(client, {})
            for id in ids:
                known = subscriptions.get(id)
                yield client, id, None if known is None or known.ended else known


def _positions(text: str) -> dict[str, Position]:
    return {origin: (epoch, seq) for origin, (epoch, seq) in json.loads(text).items()}
