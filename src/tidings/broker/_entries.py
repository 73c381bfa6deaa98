"""Entries come and go: subscriptions and advertisements, of clients, neighbours and subscopes.

Theory of operation
-------------------
Steps in capitals are joinpoints.

    Subscribe, Advertise       SUB-ADD / AD-ADD change the book and tell what each neighbour must hear, then
    and their opposites        SUB-SEND / AD-SEND announce, UNSUB-SEND / UNAD-SEND withdraw, in this order

A client names no scope. What it asks for is a `Registration`, with an entry in the table of each scope that it is a
member of; `place` makes these entries agree with its memberships whenever either changes. What a table tells the table
of a superscope goes through a `Gate` and becomes an entry there, in the same turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from tidings.model import Matches, TidingsError
from tidings.wire import Advertise, Past, Settled, Subscribe, Unadvertise, Unsubscribe

from ._book import Book, Entry
from ._bounds import check_filter, check_request
from ._links import Link
from ._reduction import Announcement, Delta, algebraic
from ._registration import Registration
from ._table import Gate, Table
from ._visibility import Passage

if TYPE_CHECKING:
    from ._broker import Broker


class Entries:
    """What links subscribe to and advertise at one broker, and what its neighbours hear of it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tables = broker.scoping.tables
        self._count = 0
        self._subscriptions: dict[Link, dict[str, Registration]] = {}
        self._advertisements: dict[Link, dict[str, Registration]] = {}

    # --- what clients ask for -------------------------------------------------------------------------

    def subscriptions(self, client: Link) -> Mapping[str, Registration]:
        """What a client subscribes to."""
        return self._subscriptions.get(client, {})

    def advertisements(self, client: Link) -> Mapping[str, Registration]:
        """What a client advertises."""
        return self._advertisements.get(client, {})

    def is_current(self, registration: Registration) -> bool:
        """Whether a client still subscribes to or advertises just this."""
        link, id = registration.link, registration.id
        return self.subscriptions(link).get(id) is registration or self.advertisements(link).get(id) is registration

    def subscribed(self, link: Link, message: Subscribe) -> None:
        """A client or neighbour wants what passes a filter from now on."""
        check_filter(message.filter)
        if self._broker.routing.algorithm not in ("flooding", "simple"):
            algebraic(message.filter)
        if link.is_broker:
            if (table := self._table(link, message.scope)) is not None:
                self._put(table.subscriptions, link, message.id, message.filter, message.number)
            return
        check_request(message, len(self.subscriptions(link)), self._broker.now())
        if link.guard is not None:
            link.guard.check_subscribe(message.filter)
        known = self.subscriptions(link).get(message.id)
        same = (message.filter, message.receive_own, message.duplicates)
        unchanged = known is not None and (known.filter, known.receive_own, known.duplicates) == same
        if known is not None and unchanged and not self._asks_again(known, message):
            self._repeated(known, message.number, advertisement=False)
            return
        new = Registration(
            link,
            message.id,
            message.filter,
            receive_own=message.receive_own,
            meta=message.meta,
            number=message.number,
            duplicates=message.duplicates,
            past=_past(message),
            after=message.after if known is None else None,
        )
        if new.past is not None:
            self._broker.holds.check_room()
        self._broker.at_subscribe(new)
        if known is not None:
            self._replaced(known, new)
        elif message.after:
            self._broker.recovery.resume(new, message.after)
        self._subscriptions.setdefault(link, {})[message.id] = new
        self._place(new, known, advertisement=False)

    def _asks_again(self, known: Registration, message: Subscribe) -> bool:
        """Whether a client asks for a past that it has got already, but has not heard of."""
        return _past(message) is not None and known not in self._broker.holds

    def _replaced(self, known: Registration, new: Registration) -> None:
        """A subscription has a new filter; if its past has to come first, it begins anew."""
        recovery, holds = self._broker.recovery, self._broker.holds
        holds.end(known)
        if new in holds:
            recovery.ended(known)
        else:
            recovery.replaced(known, new)

    def unsubscribed(self, link: Link, message: Unsubscribe) -> None:
        """A subscription has ended."""
        if link.is_broker:
            if (table := self._table(link, message.scope)) is not None:
                self._end(table.subscriptions, link, message.id)
        elif (known := self.subscriptions(link).get(message.id)) is not None:
            self._end_registration(known, advertisement=False)

    def advertised(self, link: Link, message: Advertise) -> None:
        """A client or neighbour will publish what passes a filter."""
        check_filter(message.filter)
        if not link.is_broker:
            check_request(message, len(self.advertisements(link)), self._broker.now())
        if link.guard is not None:
            link.guard.check_advertise(message.filter)
        if not self._broker.routing.advertisements:
            self._broker.send(link, Settled(message.id, message.scope, True, number=message.number))  # nobody must know
            return
        if self._broker.routing.algorithm not in ("flooding", "simple"):
            algebraic(message.filter)
        if link.is_broker:
            if (table := self._table(link, message.scope)) is not None:
                self._put(table.advertisements, link, message.id, message.filter, message.number)
            return
        known = self.advertisements(link).get(message.id)
        if known is not None and known.filter == message.filter:
            self._repeated(known, message.number, advertisement=True)
            return
        new = Registration(link, message.id, message.filter, number=message.number)
        self._advertisements.setdefault(link, {})[message.id] = new
        self._place(new, known, advertisement=True)

    def unadvertised(self, link: Link, message: Unadvertise) -> None:
        """An advertisement has ended."""
        if link.is_broker:
            if (table := self._table(link, message.scope)) is not None:
                self._end(table.advertisements, link, message.id)
        elif (known := self.advertisements(link).get(message.id)) is not None:
            self._end_registration(known, advertisement=True)

    def _repeated(self, known: Registration, number: int, *, advertisement: bool) -> None:
        """A client says again what it said before; it is told again."""
        known.number = number
        if known.settled:
            self._broker.settling.tell(known, advertisement=advertisement)

    def _end_registration(self, registration: Registration, *, advertisement: bool) -> None:
        of_link = (self._advertisements if advertisement else self._subscriptions)[registration.link]
        del of_link[registration.id]
        if not of_link:
            del (self._advertisements if advertisement else self._subscriptions)[registration.link]
        if not advertisement:
            self._broker.holds.end(registration)
            self._broker.recovery.ended(registration)
        for scope in list(registration.entries):
            self._remove(self._book(scope, advertisement), registration.entries.pop(scope))

    def _table(self, link: Link, scope: str) -> Table | None:
        """The table that a neighbour speaks of; None: it has not heard yet that this broker no longer carries it."""
        table = self._tables.get(scope)
        if table is None or link not in table.subscriptions.opened:
            self._broker.statistics.stale_frames += 1
            return None
        return table

    def _book(self, scope: str, advertisement: bool) -> Book:
        table = self._tables[scope]
        return table.advertisements if advertisement else table.subscriptions

    # --- the scopes of clients ------------------------------------------------------------------------

    def place_clients(self, links: Iterable[Link]) -> None:
        """Memberships may have changed: what clients asked for moves with them."""
        for link in links:
            for registration in self.advertisements(link).values():
                self._place(registration, None, advertisement=True)
            for registration in self.subscriptions(link).values():
                self._place(registration, None, advertisement=False)

    def _place(self, new: Registration, old: Registration | None, *, advertisement: bool) -> None:
        """Have one entry in each scope of the client; what `old` had there is replaced without a hole."""
        scoping = self._broker.scoping
        memberships = scoping.memberships(new.link.name) if scoping.ready else {}
        parts = new.entries if old is None else old.entries
        settled = old is None and new.settled and new.told
        placed, new.placed = new.placed, scoping.places(new.link.name)
        if placed and new.told and not new.placed and not advertisement:
            self._broker.recovery.displaced(new)
        for scope, passage in memberships.items():
            if scope not in self._tables:
                continue
            known = parts.get(scope)
            if known is None or known.registration is not new or _changed(known.passage, passage):
                entry = self._part(new, passage, advertisement)
                new.entries[scope] = entry
                self._exchange(self._book(scope, advertisement), known, entry)
        for scope in [scope for scope in parts if scope not in memberships]:
            self._remove(self._book(scope, advertisement), parts.pop(scope))
        if new.settled and not settled:
            # What it waited for is gone, or there is nothing to wait for: a member of abstract scopes only.
            self._broker.settling.tell(new, advertisement=advertisement)

    def _part(self, registration: Registration, passage: Passage, advertisement: bool) -> Entry:
        translate = passage.offered if advertisement else passage.wanted
        return Entry(
            registration.link,
            registration.id,
            translate(registration.filter),
            public_id=self._public_id(),
            receive_own=registration.receive_own,
            meta=registration.meta,
            number=registration.number,
            registration=registration,
            passage=passage,
        )

    def _public_id(self) -> str:
        """The id under which the whole network may know an entry: a client's own id is known here only."""
        self._count += 1
        return f"{self._broker.name}/{self._count}"

    # --- entries --------------------------------------------------------------------------------------

    def _put(self, book: Book, link: Link, id: str, filter: Matches, number: int) -> None:
        """A neighbour or a subscope wants, or offers, something; perhaps something else than before."""
        known = book.get(link, id)
        if known is not None and known.filter == filter:
            known.number = number
            if known.settled:
                self._broker.settling.report(book, [known])
            return
        public_id = id if link.is_broker else self._public_id()
        self._exchange(book, known, Entry(link, id, filter, public_id=public_id, number=number))

    def _end(self, book: Book, link: Link, id: str) -> None:
        if (entry := book.get(link, id)) is not None:
            self._remove(book, entry)

    def _exchange(self, book: Book, old: Entry | None, new: Entry) -> None:
        """Take in an entry in the place of another: neighbours hear the difference, announced before withdrawn."""
        broker = self._broker
        add, remove = (
            (broker.at_ad_add, broker.at_ad_del)
            if book.advertisement
            else (
                broker.at_sub_add,
                broker.at_sub_del,
            )
        )
        changes: dict[Link, Delta] = remove(book.scope, old) if old is not None else {}
        for other, delta in add(book.scope, new).items():
            changes[other] = changes[other].then(delta) if other in changes else delta
        self._announce(book, new.link, changes)
        if book.advertisement:
            self._advertisements_changed(book.scope, new.link)

    def _remove(self, book: Book, entry: Entry) -> None:
        remove = self._broker.at_ad_del if book.advertisement else self._broker.at_sub_del
        self._announce(book, entry.link, remove(book.scope, entry))
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

    # --- neighbours -----------------------------------------------------------------------------------

    def tell_all(self, link: Link) -> None:
        """A neighbour is ready: tell it everything, in every scope that it carries, too."""
        for scope in list(self._tables):
            if link in self._broker.scoping.links(scope):
                self.tell(self._tables[scope], link)

    def tell(self, table: Table, link: Link) -> None:
        """Tell a neighbour, or the table of a superscope, everything in one scope."""
        self._announce(table.advertisements, link, table.advertisements.open(link))
        self._announce(table.subscriptions, link, table.subscriptions.open(link))

    def retranslate(self, table: Table, gate: Gate) -> None:
        """The passage to a superscope has changed: what was told there means something else now."""
        for book in table.books:
            for id, filter in book.told(gate).items():
                self._tell_scope(book, gate, id, filter, self._number(book, gate, id))

    def _number(self, book: Book, gate: Gate, id: str) -> int:
        known = self._book(gate.passage.scope, book.advertisement).get(gate, id)
        return known.number if known is not None else 0

    def end(self, link: Link) -> None:
        """Everything that a link has said ends."""
        for registration in list(self.subscriptions(link).values()):
            self._end_registration(registration, advertisement=False)
        for registration in list(self.advertisements(link).values()):
            self._end_registration(registration, advertisement=True)
        for table in list(self._tables.values()):
            self.end_in(table, link)

    def end_in(self, table: Table, link: Link) -> None:
        """Everything that a link has said in one scope ends."""
        for book in table.books:
            for entry in book.of(link):
                self._remove(book, entry)

    def forget(self, link: Link) -> None:
        """Drop what a neighbour has said and what it was told; the others hear the difference."""
        for table in list(self._tables.values()):
            self.forget_in(table, link)

    def forget_in(self, table: Table, link: Link) -> None:
        """The same, in one scope."""
        for book in table.books:
            book.close(link)
        self.end_in(table, link)

    def dissolved(self, table: Table) -> None:
        """A table is gone, and what clients had in it."""
        for book in table.books:
            for entry in book:
                if entry.registration is not None and entry.registration.entries.get(table.scope) is entry:
                    del entry.registration.entries[table.scope]

    # --- announcing -----------------------------------------------------------------------------------

    def _announce(self, book: Book, source: Link, changes: dict[Link, Delta]) -> None:
        if not changes:
            return
        broker = self._broker
        send, withdraw = (
            (broker.at_ad_send, broker.at_unad_send)
            if book.advertisement
            else (
                broker.at_sub_send,
                broker.at_unsub_send,
            )
        )
        book.tell(changes)
        for announcement, targets, gates in _announcements(changes):
            if targets:
                send(book.scope, announcement, source, targets)
            for gate in gates:
                self._tell_scope(book, gate, announcement.id, announcement.filter, book.number(gate, announcement.id))
        for id, targets, gates in _withdrawals(changes):
            if targets:
                withdraw(book.scope, id, source, targets)
            for gate in gates:
                self._end(self._book(gate.passage.scope, book.advertisement), gate, id)
        broker.attachments.clear()

    def _tell_scope(self, book: Book, gate: Gate, id: str, filter: Matches, number: int) -> None:
        """What a table announces to the table of a superscope becomes an entry there, translated."""
        passage = gate.passage
        translated = passage.offered(filter) if book.advertisement else passage.wanted(filter)
        self._put(self._book(passage.scope, book.advertisement), gate, id, translated, number)

    # --- the steps that features advise ---------------------------------------------------------------

    def subscribe(self, registration: Registration) -> None:
        """Take a subscription of a client. What reaches into the past needs somebody who remembers."""
        if registration.past is not None:
            raise TidingsError(
                f"broker '{self._broker.name}' keeps no history, so {registration.past.bound} cannot be had here; "
                "subscribe without `past`, or switch history on in its configuration"
            )

    def sub_add(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        """Take a subscription into the table."""
        return self._tables[scope].subscribe(entry)

    def sub_del(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        """Take a subscription out of the table."""
        return self._tables[scope].unsubscribe(entry)

    def ad_add(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        """Take an advertisement into the table."""
        return self._tables[scope].advertisements.add(entry)

    def ad_del(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        """Take an advertisement out of the table."""
        return self._tables[scope].advertisements.remove(entry)

    def sub_send(self, scope: str, announcement: Announcement, source: Link, targets: list[Link]) -> None:
        """Announce a subscription to neighbours."""
        for link in targets:
            number = self._tables[scope].subscriptions.number(link, announcement.id)
            self._broker.send(link, Subscribe(announcement.id, announcement.filter, scope, number=number))

    def unsub_send(self, scope: str, id: str, source: Link, targets: list[Link]) -> None:
        """Withdraw what was announced."""
        for link in targets:
            self._broker.send(link, Unsubscribe(id, scope))

    def ad_send(self, scope: str, announcement: Announcement, source: Link, targets: list[Link]) -> None:
        """Announce an advertisement to neighbours."""
        for link in targets:
            number = self._tables[scope].advertisements.number(link, announcement.id)
            self._broker.send(link, Advertise(announcement.id, announcement.filter, scope, number))

    def unad_send(self, scope: str, id: str, source: Link, targets: list[Link]) -> None:
        """Withdraw what was advertised."""
        for link in targets:
            self._broker.send(link, Unadvertise(id, scope))


def _past(message: Subscribe) -> Past | None:
    """What is asked of the past; whoever says how far it has come goes on from there instead."""
    if message.past is None or message.after or message.past.bound.asks_for_nothing:
        return None
    return message.past


def _changed(known: Passage | None, passage: Passage) -> bool:
    return known is None or known.since != passage.since


def _announcements(changes: dict[Link, Delta]) -> Iterator[tuple[Announcement, list[Link], list[Gate]]]:
    """Each announcement once, with all the links that it goes to, and all the superscopes."""
    targets: dict[str, tuple[Announcement, list[Link], list[Gate]]] = {}
    for link, delta in changes.items():
        for id, filter in delta.announce.items():
            _, links, gates = targets.setdefault(id, (Announcement(id, filter), [], []))
            if isinstance(link, Gate):
                gates.append(link)
            else:
                links.append(link)
    yield from targets.values()


def _withdrawals(changes: dict[Link, Delta]) -> Iterator[tuple[str, list[Link], list[Gate]]]:
    targets: dict[str, tuple[list[Link], list[Gate]]] = {}
    for link, delta in changes.items():
        for id in delta.withdraw:
            links, gates = targets.setdefault(id, ([], []))
            if isinstance(link, Gate):
                gates.append(link)
            else:
                links.append(link)
    yield from ((id, *both) for id, both in targets.items())
