"""What clients ask for: their subscriptions and advertisements, and where these belong in the scopes.

A client names no scope. What it asks for is a `Registration`, with an entry in the table of each scope that it is a
member of; `_place` makes these entries agree with its memberships whenever either changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

import msgspec

from tidings.broker._bounds import (
    MAX_COST,
    TURN_STEPS,
    check_filter,
    check_place,
    check_request,
    is_located,
    resolved,
)
from tidings.broker._links import Link
from tidings.model import Effort, FeatureError, Filter, TidingsError
from tidings.model.operators import Member
from tidings.wire import Advertise, Past, Settled, Subscribe, Unadvertise, Unsubscribe

from ._book import Entry
from ._host import Host
from ._registration import Registration
from ._returning import Returning
from ._table import Table
from ._visibility import Passage, same_passage

COMPARISON_BYTES = 2_000
"""What a comparison or wildcard of a registered filter takes, with its share of the tables."""
CHARACTER_BYTES = 45
"""What a character of its text takes: the values of an IN stand in several tables."""
LEAVING_COST = 2 * MAX_COST
"""The cost of the filters of a client that is gone that are taken out of the tables in one turn."""


class Registrations:
    """What the clients of one broker subscribe to and advertise."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._entries = host.entries
        self._tables = host.scoping.tables
        self._subscriptions: dict[Link, dict[str, Registration]] = {}
        self._advertisements: dict[Link, dict[str, Registration]] = {}
        self.leaving: dict[Link, deque[tuple[Registration, bool]]] = {}
        """What clients that are gone still have in the tables, and whether it is an advertisement."""
        self.unplaced: dict[Registration, None] = {}
        """What waits for this broker to carry the scopes of its client."""
        self.returning = Returning(host)

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
        """A client wants what passes a filter from now on."""
        check_filter(message.filter)
        if (waited := self.returning.waits(link, message.id)) is not None and not message.after:
            message = msgspec.structs.replace(message, after=waited.after, early=waited.early)
        asked, located = message, is_located(message.filter)
        if located:
            here = resolved(message.filter, self._host.place, self._host.name)
            message = msgspec.structs.replace(message, filter=here)
        self._entries.check(message.filter)
        check_request(message, self.subscriptions(link), self._host.now())
        if link.guard is not None:
            link.guard.check_subscribe(message.filter)
        self.returning.drop(link, message.id)
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
            template=asked.filter if located else None,
            begun=self._host.publications.last if known is None else known.begun,
        )
        if new.past is not None:
            self._host.holds.check_room(link)
        goes_on = known is None and (message.after or located)
        if goes_on and (adopted := self._host.stand_in(link, message)) is not None:
            self._stood_in(adopted, new)
            return
        if known is None and message.after and not self._host.recovery.has_room(link, len(message.after)):
            self.returning.add(link, asked)
            return
        size = _size(new) - (_size(known) if known is not None else 0)
        self._host.register(link, size)
        try:
            self._host.at_subscribe(new)
        except TidingsError:
            self._host.register(link, -size)
            raise
        if known is not None:
            self._replaced(known, new)
        elif message.after and new not in self._host.holds:
            self._host.recovery.resume(new, message.after, early=message.early)
        self._subscriptions.setdefault(link, {})[message.id] = new
        self._place(new, known, advertisement=False)

    def _stood_in(self, adopted: Registration, new: Registration) -> None:
        """A client goes on with what somebody had subscribed to in its place; if it has a past, this comes first."""
        adopted.after, adopted.past = new.after, new.past
        if adopted.past is None:
            self._repeated(adopted, new.number, advertisement=False)
            return
        adopted.number, adopted.told = new.number, False
        try:
            self._host.at_subscribe(adopted)
        except TidingsError:
            self._end(adopted, advertisement=False)
            raise

    def _asks_again(self, known: Registration, message: Subscribe) -> bool:
        """Whether a client asks for a past that it has got already, but has not heard of."""
        return _past(message) is not None and known not in self._host.holds

    def _replaced(self, known: Registration, new: Registration) -> None:
        """A subscription has a new filter; if its past has to come first, it begins anew."""
        recovery, holds = self._host.recovery, self._host.holds
        if new in holds:
            holds.end(known)
            recovery.ended(known)
        else:
            recovery.replaced(known, new)
            holds.replace(known, new)

    def unsubscribed(self, link: Link, message: Unsubscribe) -> None:
        """A subscription has ended."""
        self.returning.drop(link, message.id)
        if (known := self.subscriptions(link).get(message.id)) is not None:
            self._end(known, advertisement=False)

    def advertised(self, link: Link, message: Advertise) -> None:
        """A client will publish what passes a filter."""
        check_filter(message.filter)
        check_place(message.filter)
        if link.guard is not None:
            link.guard.check_advertise(message.filter)
        if not self._host.routing.advertisements:
            check_request(message, self.advertisements(link), self._host.now())
            self._host.send(link, Settled(message.id, message.scope, True, number=message.number))  # nobody must know
            return
        self._entries.check(message.filter)
        if not self._host.delivery.defers(link, message):
            self.changed(link, message)

    def unadvertised(self, link: Link, message: Unadvertise) -> None:
        """An advertisement has ended."""
        if not self._host.delivery.defers(link, message):
            self.changed(link, message)

    def changed(self, link: Link, message: Advertise | Unadvertise) -> None:
        """An advertisement of a client begins, changes or ends now, whatever has waited before it."""
        known = self.advertisements(link).get(message.id)
        if isinstance(message, Unadvertise):
            if known is not None:
                self._end(known, advertisement=True)
            return
        check_request(message, self.advertisements(link), self._host.now())
        if known is not None and known.filter == message.filter:
            self._repeated(known, message.number, advertisement=True)
            return
        if known is None and (adopted := self._host.stand_in(link, message)) is not None:
            self._repeated(adopted, message.number, advertisement=True)
            return
        new = Registration(link, message.id, message.filter, number=message.number)
        self._host.register(link, _size(new) - (_size(known) if known is not None else 0))
        self._advertisements.setdefault(link, {})[message.id] = new
        self._place(new, known, advertisement=True)

    def _repeated(self, known: Registration, number: int, *, advertisement: bool) -> None:
        """A client says again what it said before; it is told again."""
        known.number = number
        if known.settled:
            self._host.settling.tell(known, advertisement=advertisement)

    def _end(self, registration: Registration, *, advertisement: bool) -> None:
        self._withdraw(registration, advertisement=advertisement)
        self._take_out(registration, advertisement=advertisement)

    def _withdraw(self, registration: Registration, *, advertisement: bool) -> None:
        """The client no longer asks for it."""
        self.unplaced.pop(registration, None)
        of_link = (self._advertisements if advertisement else self._subscriptions)[registration.link]
        del of_link[registration.id]
        if not of_link:
            del (self._advertisements if advertisement else self._subscriptions)[registration.link]
        if not advertisement:
            self._host.holds.end(registration)
            self._host.recovery.ended(registration)
            self._host.delaying.ended(registration)

    def _take_out(self, registration: Registration, *, advertisement: bool) -> None:
        """Remove it from the tables."""
        self._host.register(registration.link, -_size(registration))
        for scope in list(registration.entries):
            self._entries.remove(self._entries.book(scope, advertisement), registration.entries.pop(scope))

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
        scoping = self._host.scoping
        memberships = scoping.memberships(new.link.principal) if scoping.ready else {}
        parts = new.entries if old is None else old.entries
        settled = old is None and new.settled and new.told
        placed, new.placed = new.placed, scoping.places(new.link.principal)
        if new.placed:
            self.unplaced.pop(new, None)
        else:
            self.unplaced[new] = None
        if old is not None:
            self.unplaced.pop(old, None)
        if placed and new.told and not new.placed and not advertisement:
            self._host.recovery.displaced(new)
        for scope, passage in memberships.items():
            if scope not in self._tables:
                continue
            known = parts.get(scope)
            if known is None or known.registration is not new or not _is(known.passage, passage):
                entry = self._part(new, passage, advertisement)
                new.entries[scope] = entry
                new.effective = False
                self._entries.exchange(self._entries.book(scope, advertisement), known, entry)
        for scope in [scope for scope in parts if scope not in memberships]:
            self._entries.remove(self._entries.book(scope, advertisement), parts.pop(scope))
        if new.settled and not settled:
            # What it waited for is gone, or there is nothing to wait for: a member of abstract scopes only.
            self._host.settling.tell(new, advertisement=advertisement)

    def _part(self, registration: Registration, passage: Passage, advertisement: bool) -> Entry:
        translate = passage.offered if advertisement else passage.wanted
        return Entry(
            registration.link,
            registration.id,
            translate(registration.filter),
            public_id=self._entries.public_id(),
            receive_own=registration.receive_own,
            meta=registration.meta,
            number=registration.number,
            registration=registration,
            passage=passage,
        )

    def end(self, link: Link) -> None:
        """A client has gone: it gets nothing more. The tables forget what it asked for in this turn and later ones."""
        self.returning.abandon(link)
        ending = [(one, False) for one in self.subscriptions(link).values()]
        ending += [(one, True) for one in self.advertisements(link).values()]
        for registration, advertisement in ending:
            self._withdraw(registration, advertisement=advertisement)
        if ending:
            self.leaving[link] = deque(ending)
            self._leave(link)

    def _leave(self, link: Link) -> None:
        """Take some of what a gone client asked for out of the tables: the rest in another turn."""
        left, cost = self.leaving[link], 0
        with Effort(TURN_STEPS):
            while left and cost < LEAVING_COST:
                registration, advertisement = left.popleft()
                self._take_out(registration, advertisement=advertisement)
                cost += _cost(registration)
        if left:
            self._host.call_later(0, lambda: self._leave(link))
        else:
            del self.leaving[link]

    def check_adoption(self, old: Link, new: Link, only: frozenset[Registration] | None) -> None:
        """Raise `TidingsError` if what one client asks for cannot become another's."""
        for mine, theirs in ((self._subscriptions, "subscription"), (self._advertisements, "advertisement")):
            for id in _chosen(mine.get(old, {}), only).keys() & mine.get(new, {}).keys():
                raise FeatureError(
                    f"client '{new.name}' has a {theirs} '{id}' already, so it cannot adopt that of '{old.name}'; "
                    "end one of them first"
                )

    def adopt(self, old: Link, new: Link, only: frozenset[Registration] | None = None) -> None:
        """What one client asks for becomes another's: in every scope, under the same ids, settled or owed as it is."""
        for mine, advertisement in ((self._subscriptions, False), (self._advertisements, True)):
            for id, registration in _chosen(mine.get(old, {}), only).items():
                del mine[old][id]
                if not mine[old]:
                    del mine[old]
                if old.owner != new.owner:
                    size = _size(registration)
                    self._host.register(old, -size)
                    self._host.register(new, size)
                registration.link = new
                mine.setdefault(new, {})[id] = registration
                for scope, entry in registration.entries.items():
                    self._entries.book(scope, advertisement).adopt(entry, new)

    def dissolved(self, table: Table) -> None:
        """A table is gone, and what clients had in it."""
        for book in table.books:
            for entry in book:
                if entry.registration is not None and entry.registration.entries.get(table.scope) is entry:
                    del entry.registration.entries[table.scope]

    # --- the step that features advise ----------------------------------------------------------------

    def subscribe(self, registration: Registration) -> None:
        """Take a subscription of a client. What reaches into the past needs somebody who remembers."""
        if registration.past is not None:
            raise TidingsError(
                f"broker '{self._host.name}' keeps no history, so it cannot answer {registration.past.bound}; "
                "subscribe without `past`, or switch history on in its configuration"
            )


def _chosen(known: Mapping[str, Registration], only: frozenset[Registration] | None) -> dict[str, Registration]:
    return {id: one for id, one in known.items() if only is None or one in only}


def _size(registration: Registration) -> int:
    """About how many bytes it takes, with its share of the tables."""
    told = sum([len(key) + len(value) for key, value in registration.meta.items()])
    filter, comparisons = registration.filter, _cost(registration)
    if isinstance(filter, Filter):  # the values of an IN count by their characters
        comparisons -= sum(
            [one.cost - 1 for each in filter.conjunctions for one in each.constraints if type(one) is Member]
        )
    return comparisons * COMPARISON_BYTES + len(str(filter)) * CHARACTER_BYTES + len(registration.id) + told


def _cost(registration: Registration) -> int:
    return registration.filter.cost if isinstance(registration.filter, Filter) else 1


def _past(message: Subscribe) -> Past | None:
    """What is asked of the past; whoever says how far it has come goes on from there instead."""
    if message.past is None or message.after or message.past.bound.asks_for_nothing:
        return None
    return message.past


def _is(known: Passage | None, passage: Passage) -> bool:
    return known is not None and same_passage(known, passage)
