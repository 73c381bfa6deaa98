"""Retention of the journal: its oldest records go, and what they tell of subscriptions that still stand is carried on.

Theory of operation
-------------------
The journal tells what happened, and an audit follows it from its beginning. Before a record is forgotten it is read the
way an audit reads it (`_subscription_lives`), and what is known then is kept in the small state, by client. What was
carried and the records that are left give the same reading as the whole journal, for everything that is published
from then on.

A slice at a time: reading happens before the commit begins; within it the rows go, and the clients that they were about
are written. So a crash leaves the journal before a slice or behind it. A slice is bounded by rows, bytes and records,
and by what those clients have; only a `HOLE`, which is about everybody, has all of them read.

What is carried is bounded, too: clients that have gone and subscriptions that have ended are not in it, of a filter
that was changed many times the last two are, and of each origin one gap.

A row whose checksum is wrong goes unread, is counted, and is a `HOLE`, as it is for an audit. What cannot be followed
for another reason stays, with everything behind it: what it tells of those who are still there would be lost. Rows
before it go.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from ._file import owner_of
from ._packing import Unreadable, records_in, unpack
from ._records import JournalKind, JournalRecord, damaged
from ._subscription_lives import Lives, Open

SLICE_ROWS = 500
"""The most rows that one commit forgets."""
SLICE_BYTES = 1_048_576
"""The bytes of rows after which a slice ends."""
SLICE_RECORDS = 500
"""The records after which a slice ends."""
CHANGE_SECONDS = 60.0
"""So long, at least, an ended subscription is known: if it was a change, the new filter follows at once."""

LIVES = "lives"
"""The table of the small state in which clients stand."""
TABLE, KEY = "journal", "horizon"
"""Where the horizon stands in the small state."""

_OLDEST = "SELECT id, latest, length(batch) FROM journal ORDER BY id LIMIT ?"
_ROW = "SELECT checksum, batch FROM journal WHERE id = ?"
_VALUE = "SELECT value FROM state WHERE name = ? AND key = ?"
_PUT = "INSERT OR REPLACE INTO state VALUES (?, ?, ?)"
_DELETE = "DELETE FROM state WHERE name = ? AND key = ?"


class Horizon(msgspec.Struct, frozen=True, array_like=True):
    """How far back a journal goes."""

    at: int = 0
    """Everything from this instant on is there, in microseconds; 0: nothing was ever forgotten."""
    notes: bool = False
    """Whether deliveries were noted before it."""
    unsure: bool = False
    """Whether records were missing, before it, since the broker had started."""


class Carried(NamedTuple):
    """What is known of the time before the oldest record of a journal."""

    horizon: int
    notes: bool
    unsure: bool
    clients: dict[str, list[Open]]

    def resume(self, lives: Lives) -> None:
        """Let somebody who reads the journal go on from here."""
        lives.notes, lives.unsure = self.notes, self.unsure
        for client, subscriptions in self.clients.items():
            lives.resume(client, subscriptions)


class Slice(NamedTuple):
    """What a commit has to do."""

    last: int
    """The id of the last row that goes."""
    horizon: Horizon
    started: bool
    """Whether the broker has started: whoever was there before has gone."""
    clients: dict[str, bytes]
    """What the clients have that it was about; empty: nothing."""
    more: bool
    """Whether there may be more to forget."""
    damaged: int
    """Rows among them that could not be read."""

    @property
    def size(self) -> int:
        """Bytes that are written, about."""
        return sum(map(len, self.clients.values()))


class _Row(NamedTuple):
    id: int
    latest: int
    records: list[JournalRecord]
    damaged: bool


encode = msgspec.msgpack.Encoder().encode
_horizon_in = msgspec.msgpack.Decoder(Horizon).decode
_open_in = msgspec.msgpack.Decoder(list[Open]).decode


def carried_in(journal: dict[str, bytes], lives: dict[str, bytes]) -> Carried:
    """What the two tables of the small state tell."""
    horizon = _horizon(journal.get(KEY))
    clients = {client: _open_in(value) for client, value in lives.items()}
    return Carried(horizon.at, horizon.notes, horizon.unsure, clients)


def next_slice(connection: sqlite3.Connection, before: int) -> Slice | None:
    """Read the next rows whose records are all from before an instant; None: there are none.

    Raises whatever keeps the first row from being read.
    """
    rows, more = _oldest(connection, before)
    while rows:
        try:
            return _read(connection, rows, more=more)
        except Exception:
            if len(rows) == 1:
                raise
            rows, more = rows[: len(rows) // 2], True  # as far as it goes; the rest is the next slice's
    return None


def _read(connection: sqlite3.Connection, rows: list[_Row], *, more: bool) -> Slice:
    records = [record for row in rows for record in row.records]
    latest = max(row.latest for row in rows)
    horizon = _horizon(*connection.execute(_VALUE, (TABLE, KEY)).fetchone() or (None,))
    kinds = {record.kind for record in records}
    about = {record.who for record in records}
    lives = Lives(owner_of(connection), [])
    lives.notes, lives.unsure = horizon.notes, horizon.unsure
    for client, value in _carried(connection, None if JournalKind.HOLE in kinds else about):
        about.add(client)
        lives.resume(client, _open_in(value))
    for record in records:
        lives.take(record)
    started = JournalKind.START in kinds
    clients = {} if started else dict.fromkeys(about, b"")
    for client, subscriptions in lives.clients.items():
        if standing := _standing(subscriptions.values(), latest):
            clients[client] = encode(standing)
    behind = Horizon(max(horizon.at, latest + 1), lives.notes, lives.unsure)
    return Slice(rows[-1].id, behind, started, clients, more, sum(row.damaged for row in rows))


def forget_journal(connection: sqlite3.Connection, slice: Slice) -> bool:
    """Within a transaction: what was read goes, what is known stays. Whether there may be more of it."""
    connection.execute("DELETE FROM journal WHERE id <= ?", (slice.last,))
    if slice.started:
        connection.execute("DELETE FROM state WHERE name = ?", (LIVES,))
    connection.executemany(_DELETE, [(LIVES, client) for client, value in slice.clients.items() if not value])
    connection.executemany(_PUT, [(LIVES, client, value) for client, value in slice.clients.items() if value])
    connection.execute(_PUT, (TABLE, KEY, encode(slice.horizon)))
    return slice.more


def _horizon(kept: bytes | None) -> Horizon:
    return Horizon() if kept is None else _horizon_in(kept)


def _oldest(connection: sqlite3.Connection, before: int) -> tuple[list[_Row], bool]:
    """The rows of a slice, and whether its bounds ended it."""
    rows: list[_Row] = []
    count = size = 0
    for id, latest, length in connection.execute(_OLDEST, (SLICE_ROWS,)).fetchall():
        if latest >= before:
            return rows, False
        try:
            checksum, batch = connection.execute(_ROW, (id,)).fetchone()
            row = _Row(id, latest, unpack(batch, checksum, records_in), damaged=False)
        except Unreadable:
            row = _Row(id, latest, [damaged(latest)], damaged=True)
        except sqlite3.Error:
            if not rows:
                raise
            return rows, True
        rows.append(row)
        size += length
        count += len(row.records)
        if size >= SLICE_BYTES or count >= SLICE_RECORDS:
            return rows, True
    return rows, len(rows) == SLICE_ROWS


def _carried(connection: sqlite3.Connection, clients: Iterable[str] | None) -> list[tuple[str, bytes]]:
    if clients is None:
        return connection.execute("SELECT key, value FROM state WHERE name = ?", (LIVES,)).fetchall()
    found = ((client, connection.execute(_VALUE, (LIVES, client)).fetchone()) for client in clients)
    return [(client, row[0]) for client, row in found if row is not None]


def _standing(subscriptions: Iterable[Open], latest: int) -> list[Open]:
    """What goes on, without what is over."""
    ended = latest - int(CHANGE_SECONDS * 1e6)
    standing = [one for one in subscriptions if one.ended_at is None or one.ended_at >= ended]
    for one in standing:
        one.forget_the_past()
    return standing
