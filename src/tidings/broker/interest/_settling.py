"""Settling: whoever subscribes or advertises is told once everything behind this broker knows it.

A neighbour is told at once, a subscope in the same turn; a client only when what it asked for has settled in all its
scopes, and when the marks of the current tree are known (see `_recovery`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tidings.broker._links import Link
from tidings.model import ROOT_SCOPE, Position
from tidings.wire import Settled

from ._book import Book, Entry
from ._host import Host
from ._registration import Registration
from ._table import Gate

_Announced: TypeAlias = tuple[Book, Link, str, int]
"""What was announced: in which book, to whom, under which id and number."""


class Settling:
    """Who is to be told that its entry has settled."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._tables = host.scoping.tables
        self._touched = host.scoping.touched
        self._unreported: dict[Registration, bool] = {}
        """What has settled before the marks are known, and whether it is an advertisement."""
        self._waiters: list[tuple[list[_Announced], Callable[[], None]]] = []

    def confirmed(self, link: Link, message: Settled) -> None:
        """A neighbour says that what it was told has settled."""
        if (table := self._tables.get(message.scope)) is not None:
            book = table.advertisements if message.advertisement else table.subscriptions
            self.report(book, book.confirm(link, message.id, message.number))

    def end_turn(self) -> None:
        """At the end of a turn: tell those whose subscriptions and advertisements have settled in it."""
        while True:
            while self._touched:
                book, _ = self._touched.popitem()
                self.report(book, book.review())
            if not self._call_waiters() and not self._host.delivery.end_turn():
                break  # otherwise somebody who waited went on, and may have announced more or wait again
        if self._host.holds.all:
            self._host.holds.end_turn()
        if self._unreported and self._host.recovery.baseline:
            waiting, self._unreported = self._unreported, {}
            is_current = self._host.registrations.is_current
            for registration, advertisement in waiting.items():
                if is_current(registration) and self._still_settled(registration, advertisement):
                    self.tell(registration, advertisement=advertisement)

    def when_settled(self, action: Callable[[], None]) -> None:
        """Call `action` once everything that has been announced so far is settled or withdrawn."""
        self._waiters.append((self._announced(), action))

    def _announced(self) -> list[_Announced]:
        """Every announcement that waits for its confirmation."""
        found: list[_Announced] = []
        unconfirmed = self._host.scoping.unconfirmed
        for book in list(unconfirmed):
            table = self._tables.get(book.scope)
            pending = book.pending if table is not None and book in table.books else []
            found += [(book, *one) for one in pending]
            if not pending:
                del unconfirmed[book]
        return found

    def _call_waiters(self) -> bool:
        """Call those who wait for what has settled; whether there were any."""
        waiters, self._waiters = self._waiters, []
        called = False
        for announced, action in waiters:
            pending = [one for one in announced if one[0].is_pending(*one[1:])]
            if pending:
                self._waiters.append((pending, action))
            else:
                called = True
                action()
        return called

    def is_settled(self, registration: Registration) -> bool:
        """Whether a client could be told that its subscription has settled, marks and all."""
        return self._host.recovery.baseline and self._still_settled(registration, False) and registration.settled

    def _still_settled(self, registration: Registration, advertisement: bool) -> bool:
        for scope, entry in registration.entries.items():
            table = self._tables[scope]
            book = table.advertisements if advertisement else table.subscriptions
            if not book.still_settled(entry):
                return False
        return registration.placed

    def report(self, book: Book, entries: list[Entry]) -> None:
        """Tell the owners of these entries that they have settled."""
        for entry in entries:
            link = entry.link
            if link.is_broker:
                self._host.send(link, Settled(entry.id, book.scope, book.advertisement, number=entry.number))
            elif isinstance(link, Gate):
                self._confirm_inside(link, book, entry)
            elif entry.registration is not None and entry.registration.settled:
                self.tell(entry.registration, advertisement=book.advertisement)

    def _confirm_inside(self, gate: Gate, book: Book, entry: Entry) -> None:
        table = self._tables.get(gate.passage.member)
        if table is not None:
            inside = table.advertisements if book.advertisement else table.subscriptions
            self.report(inside, inside.confirm(gate, entry.id, entry.number))

    def tell(self, registration: Registration, *, advertisement: bool) -> None:
        """Tell a client that what it asked for has settled."""
        if registration in self._host.holds:
            return  # its holder sees it at the end of the turn
        link, id, number = registration.link, registration.id, registration.number
        registration.told = True
        if advertisement:
            registration.effective = self._host.delivery.ripe = True
        if not self._host.recovery.baseline:
            self._unreported[registration] = advertisement
        elif advertisement:
            self._host.send(link, Settled(id, ROOT_SCOPE, True, number=number))
        else:
            self.tell_with(registration, self._host.marks_of([registration]))

    def tell_with(self, registration: Registration, marks: dict[str, Position]) -> None:
        """Tell a client that its subscription has settled, and how far it has seen each origin."""
        registration.told = True
        self._host.send(registration.link, Settled(registration.id, ROOT_SCOPE, False, marks, registration.number))
        self._host.recovery.settled(registration)
