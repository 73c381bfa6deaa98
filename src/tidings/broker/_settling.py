"""Settling: whoever subscribes or advertises is told once everything behind this broker knows it.

A neighbour is told at once; a client only when the marks of the current tree are known (see `_recovery`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidings.model import ROOT_SCOPE
from tidings.wire import Settled

from ._book import Book, Entry
from ._links import Link

if TYPE_CHECKING:
    from ._broker import Broker


class Settling:
    """Who is to be told that its entry has settled."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._root = broker.root
        self._books = (self._root.subscriptions, self._root.advertisements)
        self._unreported: dict[Entry, None] = {}

    def confirmed(self, link: Link, message: Settled) -> None:
        """A neighbour says that what it was told has settled."""
        book = self._root.advertisements if message.advertisement else self._root.subscriptions
        self.report(book, book.confirm(link, message.id, message.number))

    def end_turn(self) -> None:
        """At the end of a turn: tell those whose subscriptions and advertisements have settled in it."""
        for book in self._books:
            if book.changed:
                self.report(book, book.review())
        if self._unreported and self._broker.recovery.baseline:
            waiting, self._unreported = self._unreported, {}
            for entry in waiting:
                for book in self._books:
                    if book.get(entry.link, entry.id) is entry and book.still_settled(entry):
                        self.report(book, [entry])

    def report(self, book: Book, entries: list[Entry]) -> None:
        """Tell the owners of these entries that they have settled."""
        for entry in entries:
            advertisement = book is self._root.advertisements
            if entry.link.is_broker:
                self._broker.send(entry.link, Settled(entry.id, ROOT_SCOPE, advertisement, number=entry.number))
            elif not self._broker.recovery.baseline:
                self._unreported[entry] = None
            elif advertisement:
                self._broker.send(entry.link, Settled(entry.id, ROOT_SCOPE, True, number=entry.number))
            else:
                marks = self._broker.recovery.marks_of([entry])
                self._broker.send(entry.link, Settled(entry.id, ROOT_SCOPE, False, marks, entry.number))
                self._broker.recovery.settled(entry)
