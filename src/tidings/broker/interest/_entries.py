"""Entries come and go: subscriptions and advertisements, of clients, neighbours and subscopes.

Theory of operation
-------------------
Steps in capitals are joinpoints.

    Subscribe, Advertise       SUB-ADD / AD-ADD change the book and tell what each neighbour must hear, then
    and their opposites        SUB-SEND / AD-SEND announce, UNSUB-SEND / UNAD-SEND withdraw, in this order

What a table tells the table of a superscope goes through a `Gate` and becomes an entry there, in the same turn. What
clients ask for becomes entries by `_registrations`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tidings.broker._bounds import check_readable
from tidings.broker._links import Link
from tidings.model import ROOT_SCOPE, Matches
from tidings.wire import Advertise, Settled, Subscribe, Unadvertise, Unsubscribe

from ._book import Book, Entry
from ._host import Host
from ._reduction import Announcement, Delta, algebraic
from ._table import Gate, Table, Tap


class _Steps(NamedTuple):
    """What is done with subscriptions, and with advertisements alike; each is a joinpoint."""

    add: Callable[[str, Entry], dict[Link, Delta]]
    remove: Callable[[str, Entry], dict[Link, Delta]]
    send: Callable[[str, Announcement, Link, list[Link]], None]
    withdraw: Callable[[str, str, Link, list[Link]], None]


class Entries:
    """What links subscribe to and advertise at one broker, and what its neighbours hear of it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._tables = host.scoping.tables
        self._count = 0

    # --- what neighbours say --------------------------------------------------------------------------

    def check(self, filter: Matches) -> None:
        """Raise `TidingsError` for a filter that the routing algorithm cannot work with."""
        if self._host.routing.algorithm not in ("flooding", "simple"):
            algebraic(filter)

    def subscribed(self, link: Link, message: Subscribe) -> None:
        """A neighbour wants what passes a filter from now on."""
        check_readable(message.filter)
        self.check(message.filter)
        if (table := self._table(link, message.scope)) is not None:
            self._put(table.subscriptions, link, message.id, message.filter, message.number)

    def unsubscribed(self, link: Link, message: Unsubscribe) -> None:
        if (table := self._table(link, message.scope)) is not None:
            self._end(table.subscriptions, link, message.id)

    def advertised(self, link: Link, message: Advertise) -> None:
        """A neighbour may bring what passes a filter."""
        check_readable(message.filter)
        if not self._host.routing.advertisements:
            self._host.send(link, Settled(message.id, message.scope, True, number=message.number))  # nobody must know
            return
        self.check(message.filter)
        if (table := self._table(link, message.scope)) is not None:
            self._put(table.advertisements, link, message.id, message.filter, message.number)

    def unadvertised(self, link: Link, message: Unadvertise) -> None:
        if (table := self._table(link, message.scope)) is not None:
            self._end(table.advertisements, link, message.id)

    def _table(self, link: Link, scope: str) -> Table | None:
        """The table that a neighbour speaks of; None: it has not heard yet that this broker no longer carries it."""
        table = self._tables.get(scope)
        if table is None or link not in table.subscriptions.opened:
            self._host.statistics.stale_frames += 1
            return None
        return table

    def book(self, scope: str, advertisement: bool) -> Book:
        """The book of a scope that this broker carries."""
        table = self._tables[scope]
        return table.advertisements if advertisement else table.subscriptions

    def public_id(self) -> str:
        """The id under which the whole network may know an entry: a client's own id is known here only."""
        self._count += 1
        return f"{self._host.name}/{self._count}"

    # --- entries --------------------------------------------------------------------------------------

    def _put(self, book: Book, link: Link, id: str, filter: Matches, number: int) -> None:
        """A neighbour or a subscope wants, or offers, something; perhaps something else than before."""
        known = book.get(link, id)
        if known is not None and known.filter == filter:
            known.number = number
            if known.settled:
                self._host.settling.report(book, [known])
            return
        public_id = id if link.is_broker else self.public_id()
        self.exchange(book, known, Entry(link, id, filter, public_id=public_id, number=number))

    def _end(self, book: Book, link: Link, id: str) -> None:
        if (entry := book.get(link, id)) is not None:
            self.remove(book, entry)

    def _steps(self, book: Book) -> _Steps:
        """The steps for a book, as they are woven now."""
        host = self._host
        if book.advertisement:
            return _Steps(host.at_ad_add, host.at_ad_del, host.at_ad_send, host.at_unad_send)
        return _Steps(host.at_sub_add, host.at_sub_del, host.at_sub_send, host.at_unsub_send)

    def exchange(self, book: Book, old: Entry | None, new: Entry) -> None:
        """Take in an entry in the place of another: neighbours hear the difference, announced before withdrawn."""
        steps = self._steps(book)
        changes: dict[Link, Delta] = steps.remove(book.scope, old) if old is not None else {}
        for other, delta in steps.add(book.scope, new).items():
            changes[other] = changes[other].then(delta) if other in changes else delta
        self._announce(book, new.link, changes)
        if book.advertisement:
            self._advertisements_changed(book.scope, new.link)

    def remove(self, book: Book, entry: Entry) -> None:
        """Take an entry out."""
        self._announce(book, entry.link, self._steps(book).remove(book.scope, entry))
        if book.advertisement:
            self._advertisements_changed(book.scope, entry.link)

    def _advertisements_changed(self, scope: str, link: Link) -> None:
        """Other subscriptions may be worth announcing to a neighbour now, in this scope and all below it."""
        if not link.is_broker:
            return
        below = [scope]
        for other in below:
            table = self._tables[other]
            self._announce(table.subscriptions, link, table.subscriptions.reconsider(link))
            below += [sub for sub, table in self._tables.items() if other in table.supers and sub not in below]

    def reconsider(self, table: Table, entries: list[Entry]) -> None:
        """Tell each neighbour what has become relevant to it of these subscriptions, and withdraw what no longer is."""
        for link in table.subscriptions.opened:
            if link.is_broker:
                self._announce(table.subscriptions, link, table.subscriptions.reconsider(link, entries))

    def reconsider_gate(self, table: Table, gate: Gate) -> None:
        """A superscope has to hear of other advertisements than before: this is its gateway now, or is no longer."""
        self._announce(table.advertisements, gate, table.advertisements.reconsider(gate))

    # --- neighbours -----------------------------------------------------------------------------------

    def tell_all(self, link: Link) -> None:
        """A neighbour is ready: tell it everything, in every scope that it carries, too."""
        for scope in list(self._tables):
            if link in self._host.scoping.links(scope):
                self.tell(self._tables[scope], link)

    def tell(self, table: Table, link: Link) -> None:
        """Tell a neighbour, or the table of a superscope, everything in one scope."""
        self._announce(table.advertisements, link, table.advertisements.open(link))
        self._announce(table.subscriptions, link, table.subscriptions.open(link))

    def tell_tap(self, tap: Tap) -> None:
        """Tell a tap everything in the root scope."""
        book = self._tables[ROOT_SCOPE].subscriptions
        self._announce(book, tap, book.open(tap))

    def retranslate(self, table: Table, gate: Gate) -> None:
        """The passage to a superscope has changed: what was told there means something else now."""
        for book in table.books:
            for id, filter in book.told(gate).items():
                self._tell_scope(book, gate, id, filter, self._number(book, gate, id))

    def _number(self, book: Book, gate: Gate, id: str) -> int:
        known = self.book(gate.passage.scope, book.advertisement).get(gate, id)
        return known.number if known is not None else 0

    def end_in(self, table: Table, link: Link) -> None:
        """Everything that a link has said in one scope ends."""
        for book in table.books:
            for entry in book.of(link):
                self.remove(book, entry)

    def forget(self, link: Link) -> None:
        """Drop what a neighbour has said and what it was told; the others hear the difference."""
        for table in list(self._tables.values()):
            self.forget_in(table, link)

    def forget_in(self, table: Table, link: Link) -> None:
        """The same, in one scope."""
        for book in table.books:
            book.close(link)
        self.end_in(table, link)

    # --- announcing -----------------------------------------------------------------------------------

    def _announce(self, book: Book, source: Link, changes: dict[Link, Delta]) -> None:
        if not changes:
            return
        steps = self._steps(book)
        book.tell(changes)
        for announcement, targets, inside in _announcements(changes):
            if targets:
                steps.send(book.scope, announcement, source, targets)
            for one in inside:
                number = book.number(one, announcement.id)
                if isinstance(one, Tap):
                    one.told(announcement.id, announcement.filter, number)
                else:
                    self._tell_scope(book, one, announcement.id, announcement.filter, number)
        for id, targets, inside in _withdrawals(changes):
            if targets:
                steps.withdraw(book.scope, id, source, targets)
            for one in inside:
                if isinstance(one, Tap):
                    one.withdrawn(id)
                else:
                    self._end(self.book(one.passage.scope, book.advertisement), one, id)

    def _tell_scope(self, book: Book, gate: Gate, id: str, filter: Matches, number: int) -> None:
        """What a table announces to the table of a superscope becomes an entry there, translated."""
        passage = gate.passage
        translated = passage.offered(filter) if book.advertisement else passage.wanted(filter)
        self._put(self.book(passage.scope, book.advertisement), gate, id, translated, number)

    # --- the steps that features advise ---------------------------------------------------------------

    def sub_add(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        return self._tables[scope].subscribe(entry)

    def sub_del(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        return self._tables[scope].unsubscribe(entry)

    def ad_add(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        return self._tables[scope].advertisements.add(entry)

    def ad_del(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        return self._tables[scope].advertisements.remove(entry)

    def sub_send(self, scope: str, announcement: Announcement, source: Link, targets: list[Link]) -> None:
        """Announce a subscription to neighbours."""
        for link in targets:
            number = self._tables[scope].subscriptions.number(link, announcement.id)
            self._host.send(link, Subscribe(announcement.id, announcement.filter, scope, number=number))

    def unsub_send(self, scope: str, id: str, source: Link, targets: list[Link]) -> None:
        """Withdraw what was announced."""
        for link in targets:
            self._host.send(link, Unsubscribe(id, scope))

    def ad_send(self, scope: str, announcement: Announcement, source: Link, targets: list[Link]) -> None:
        """Announce an advertisement to neighbours."""
        for link in targets:
            number = self._tables[scope].advertisements.number(link, announcement.id)
            self._host.send(link, Advertise(announcement.id, announcement.filter, scope, number))

    def unad_send(self, scope: str, id: str, source: Link, targets: list[Link]) -> None:
        """Withdraw what was advertised."""
        for link in targets:
            self._host.send(link, Unadvertise(id, scope))


def _announcements(changes: dict[Link, Delta]) -> Iterator[tuple[Announcement, list[Link], list[Gate | Tap]]]:
    """Each announcement once, with all the links that it goes to, and all superscopes and taps."""
    targets: dict[str, tuple[Announcement, list[Link], list[Gate | Tap]]] = {}
    for link, delta in changes.items():
        for id, filter in delta.announce.items():
            _, links, inside = targets.setdefault(id, (Announcement(id, filter), [], []))
            if isinstance(link, Gate | Tap):
                inside.append(link)
            else:
                links.append(link)
    yield from targets.values()


def _withdrawals(changes: dict[Link, Delta]) -> Iterator[tuple[str, list[Link], list[Gate | Tap]]]:
    targets: dict[str, tuple[list[Link], list[Gate | Tap]]] = {}
    for link, delta in changes.items():
        for id in delta.withdraw:
            links, inside = targets.setdefault(id, ([], []))
            if isinstance(link, Gate | Tap):
                inside.append(link)
            else:
                links.append(link)
    yield from ((id, *both) for id, both in targets.items())
