"""The lives of subscriptions, read from the journal of a broker: what each was owed.

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
until it ended.

Reading is a fold: record by record, and what is known at any point is all that the rest needs. So an audit reads it
from the beginning, and retention reads the part that is to be forgotten and keeps what is known then (see
`_journal_retention`).
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec

from tidings.model import Position

from ._records import JournalKind, JournalRecord


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


class Open(msgspec.Struct, array_like=True):
    """A life that may go on. On disk, too: fields are added at the end only."""

    life: Life
    number: int
    """Of the registration: that of a changed filter is larger."""
    floor: dict[str, Position]
    """How far its client had come before."""
    start: dict[str, Position]
    sure: dict[str, Position]
    scopes: set[str] = set()
    ended_at: int | None = None
    """When it ended; a change ends the old filter, and begins the new one at once."""
    filter: int = 0
    """Which of the filters it has."""
    settled_at: int | None = None
    upto: dict[str, Position] = {}
    between: dict[str, Position] = {}
    """How far the filter before had come."""
    place: int = 0
    """Of the life in the list of all."""

    def changed(self, text: str, number: int) -> None:
        """It has another filter from now on."""
        reached = {origin: self.upto.get(origin, sure) for origin, sure in self.sure.items()}
        before = {} if self.settled_at is None else reached
        self.close()
        self.between = before
        self.life.filters.append(text)
        self.filter += 1
        self.settled_at, self.number, self.ended_at = None, number, None

    def settle(self, at: int, number: int, marks: dict[str, Position]) -> None:
        """Everybody knows the filter; the broker has seen each origin so far."""
        if self.ended_at is not None or number < self.number:
            return  # of the filter before
        if self.settled_at is None:
            self.settled_at = at
        for origin, mark in marks.items():
            if self.start.setdefault(origin, mark) is mark and origin == self.life.broker:
                self.sure[origin] = mark

    def acknowledge(self, origin: str, position: Position) -> None:
        """The client has everything up to here."""
        if self.settled_at is None or self.ended_at is not None:
            return
        start = self.start.setdefault(origin, position)
        if position > start:
            self.sure.setdefault(origin, position)
            self.upto[origin] = max(position, self.upto.get(origin, position))

    def close(self) -> None:
        """What follows is not owed, until more is known."""
        for origin, upto in self.upto.items():
            sure, at = self.sure[origin], self.settled_at or 0
            self._owe(origin, Window(self.start[origin], upto, (self.filter,), sure, at))
            reached = self.between.get(origin)
            if reached is not None and reached < sure:
                self._owe(origin, Window(reached, sure, (self.filter - 1, self.filter), reached))
        self.start, self.sure, self.upto, self.between = {}, {}, {}, {}

    def _owe(self, origin: str, window: Window) -> None:
        self.life.windows.setdefault(origin, []).append(window)

    def forget_the_past(self) -> None:
        """Keep what counts for publications to come, which is bounded however long it lives."""
        life = self.life
        life.windows.clear()
        life.filters = life.filters[-2:]  # what passes the one before and this one may still be owed
        self.filter = len(life.filters) - 1
        endless = sorted((gap for gap in life.gaps if gap.last is None), key=lambda gap: gap[:3], reverse=True)
        life.gaps = list({gap.origin: gap for gap in endless}.values())  # the first one holds the later ones


class Lives:
    """Everybody's subscriptions at one broker, as far as its journal has been read."""

    def __init__(self, broker: str, lives: list[Life]) -> None:
        self.clients: dict[str, dict[str, Open]] = {}
        """Whoever is there, with what they have; what has ended stays until its client goes."""
        self.notes = False
        """Whether it notes what it sends."""
        self.missed = 0
        """Records that the disk has refused."""
        self.damaged = 0
        """Rows of the journal that could not be read."""
        self.unsure = False
        """Whether records are missing since the broker started: clients may have what nothing tells of."""
        self._broker = broker
        self._lives = lives
        """Every life that has begun; those of other brokers may be there already."""

    def resume(self, client: str, subscriptions: list[Open]) -> None:
        """Go on with what a client had."""
        self.clients[client] = {one.life.id: one for one in subscriptions}
        for one in subscriptions:
            one.place = len(self._lives)
            self._lives.append(one.life)

    def take(self, record: JournalRecord) -> None:
        """The next record."""
        match record.kind:
            case JournalKind.DELIVER:
                self.notes = True
            case JournalKind.HANDOFF:
                pass  # its client has no name there, and nothing changes for its subscriptions
            case JournalKind.START:
                self.close()
                self.clients = {}
                self.unsure = False
            case JournalKind.HOLE:
                self.missed = int(record.what.get("missed") or self.missed)  # a broker counts all of them
                self.damaged += int(record.what.get("damaged") or 0)
                self.unsure = True
                self.close()
            case JournalKind.ATTACH:
                self.clients[record.who] = {}
            case JournalKind.DETACH:
                for one in self.clients.pop(record.who, {}).values():
                    one.close()
            case _:
                self._of_client(record, self.clients.setdefault(record.who, {}))

    def close(self) -> None:
        """Nothing more is known of anybody, for now."""
        for subscriptions in self.clients.values():
            for one in subscriptions.values():
                one.close()

    def _of_client(self, record: JournalRecord, subscriptions: dict[str, Open]) -> None:
        what: dict[str, Any] = dict(record.what)
        match record.kind:
            case JournalKind.SUBSCRIBE:
                self._subscribed(record, what, subscriptions)
            case JournalKind.UNSUBSCRIBE if (known := subscriptions.get(what["id"])) is not None:
                if what.get("number", 0) >= known.number:
                    known.scopes.discard(what["scope"])
                    known.close()
                    known.ended_at = record.at if what.get("ended", True) and not known.scopes else None
            case JournalKind.SETTLED if (known := subscriptions.get(what["id"])) is not None:
                known.settle(record.at, what["number"], _positions(what["marks"]))
            case JournalKind.ACKNOWLEDGE:
                for one in subscriptions.values():
                    one.acknowledge(what["origin"], Position(what["epoch"], what["seq"]))
            case JournalKind.GAP:
                gap = ToldGap(what["origin"], what["epoch"], what["first"], what["last"])
                for id in json.loads(what["ids"]):
                    if id in subscriptions:
                        subscriptions[id].life.gaps.append(gap)
            case _:
                pass

    def _subscribed(self, record: JournalRecord, what: dict[str, Any], subscriptions: dict[str, Open]) -> None:
        id, number, after = what["id"], what.get("number", 0), what.get("after", "{}")
        known = subscriptions.get(id)
        if known is not None and known.ended_at is None and number <= known.number:
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
            floor = _positions(after or "{}")
            known = subscriptions[id] = Open(life, number, floor, dict(floor), dict(floor), place=len(self._lives))
            self._lives.append(life)
        known.scopes = {what["scope"]}


def _positions(text: str) -> dict[str, Position]:
    return {origin: Position(epoch, seq) for origin, (epoch, seq) in json.loads(text).items()}
