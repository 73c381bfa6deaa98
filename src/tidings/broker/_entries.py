"""Entries come and go: subscriptions and advertisements, of clients and neighbours.

Theory of operation
-------------------
Steps in capitals are joinpoints.

    Subscribe, Advertise       SUB-ADD / AD-ADD change the book and tell what each neighbour must hear, then
    and their opposites        SUB-SEND / AD-SEND announce, UNSUB-SEND / UNAD-SEND withdraw, in this order
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidings.model import ROOT_SCOPE
from tidings.wire import Advertise, Settled, Subscribe, Unadvertise, Unsubscribe

from ._book import Entry
from ._bounds import check_filter, check_request
from ._links import Link
from ._reduction import Announcement, Delta, algebraic

if TYPE_CHECKING:
    from ._broker import Broker


class Entries:
    """What links subscribe to and advertise at one broker, and what its neighbours hear of it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._root = broker.root
        self._count = 0

    def subscribed(self, link: Link, message: Subscribe) -> None:
        """A client or neighbour wants what passes a filter from now on."""
        check_filter(message.filter)
        if not link.is_broker:
            check_request(message, self._root.subscriptions.count(link))
        if self._broker.routing.algorithm not in ("flooding", "simple"):
            algebraic(message.filter)
        if link.guard is not None:
            link.guard.check_subscribe(message.filter)
        known = self._root.subscriptions.get(link, message.id)
        if known is not None and (known.filter, known.receive_own) == (message.filter, message.receive_own):
            known.number = message.number
            if known.settled:
                self._broker.settling.report(self._root.subscriptions, [known])
            return
        entry = Entry(
            link,
            message.id,
            message.filter,
            public_id=self._public_id(link, message.id),
            receive_own=message.receive_own,
            meta=message.meta,
            number=message.number,
        )
        if known is None:
            if message.after and not link.is_broker:
                self._broker.recovery.resume(entry, message.after)
            self._announce_subscriptions(link, self._broker.at_sub_add(ROOT_SCOPE, entry))
            return
        # A new filter under an old id: what the neighbours hear is the difference, announced before withdrawn.
        self._broker.recovery.replaced(known, entry)
        changes = self._broker.at_sub_del(ROOT_SCOPE, known)
        for other, delta in self._broker.at_sub_add(ROOT_SCOPE, entry).items():
            changes[other] = changes[other].then(delta) if other in changes else delta
        self._announce_subscriptions(link, changes)

    def unsubscribed(self, link: Link, message: Unsubscribe) -> None:
        """A subscription has ended."""
        entry = self._root.subscriptions.get(link, message.id)
        if entry is not None:
            self._announce_subscriptions(link, self._broker.at_sub_del(ROOT_SCOPE, entry))

    def advertised(self, link: Link, message: Advertise) -> None:
        """A client or neighbour will publish what passes a filter."""
        check_filter(message.filter)
        if not link.is_broker:
            check_request(message, self._root.advertisements.count(link))
        if link.guard is not None:
            link.guard.check_advertise(message.filter)
        if not self._broker.routing.advertisements:
            self._broker.send(link, Settled(message.id, ROOT_SCOPE, True, number=message.number))  # nobody has to know
            return
        if self._broker.routing.algorithm not in ("flooding", "simple"):
            algebraic(message.filter)
        known = self._root.advertisements.get(link, message.id)
        if known is not None and known.filter == message.filter:
            known.number = message.number
            if known.settled:
                self._broker.settling.report(self._root.advertisements, [known])
            return
        if known is not None:
            self._end_advertisement(link, known)
        entry = Entry(
            link, message.id, message.filter, public_id=self._public_id(link, message.id), number=message.number
        )
        self._announce_advertisements(link, self._broker.at_ad_add(ROOT_SCOPE, entry))
        self._announce_subscriptions(link, self._root.subscriptions.reconsider(link))

    def unadvertised(self, link: Link, message: Unadvertise) -> None:
        """An advertisement has ended."""
        entry = self._root.advertisements.get(link, message.id)
        if entry is not None:
            self._end_advertisement(link, entry)

    def _end_advertisement(self, link: Link, entry: Entry) -> None:
        self._announce_advertisements(link, self._broker.at_ad_del(ROOT_SCOPE, entry))
        self._announce_subscriptions(link, self._root.subscriptions.reconsider(link))

    def _public_id(self, link: Link, id: str) -> str:
        """The id under which the whole network may know an entry: a client's own id is known here only."""
        if link.is_broker:
            return id
        self._count += 1
        return f"{self._broker.name}/{self._count}"

    # --- neighbours -----------------------------------------------------------------------------------

    def tell_all(self, link: Link) -> None:
        """A neighbour is ready: tell it everything."""
        self._announce_advertisements(link, self._root.advertisements.open(link))
        self._announce_subscriptions(link, self._root.subscriptions.open(link))

    def end(self, link: Link) -> None:
        """Everything that a link has said ends."""
        for entry in self._root.subscriptions.of(link):
            self._announce_subscriptions(link, self._broker.at_sub_del(ROOT_SCOPE, entry))
        for entry in self._root.advertisements.of(link):
            self._end_advertisement(link, entry)

    def forget(self, link: Link) -> None:
        """Drop what a neighbour has said and what it was told; the others hear the difference."""
        self._root.subscriptions.close(link)
        self._root.advertisements.close(link)
        self.end(link)

    def _announce_subscriptions(self, source: Link, changes: dict[Link, Delta]) -> None:
        self._root.subscriptions.tell(changes)
        for announcement, targets in _announcements(changes):
            self._broker.at_sub_send(ROOT_SCOPE, announcement, source, targets)
        for id, targets in _withdrawals(changes):
            self._broker.at_unsub_send(ROOT_SCOPE, id, source, targets)
        self._broker.attachments.clear()

    def _announce_advertisements(self, source: Link, changes: dict[Link, Delta]) -> None:
        self._root.advertisements.tell(changes)
        for announcement, targets in _announcements(changes):
            self._broker.at_ad_send(ROOT_SCOPE, announcement, source, targets)
        for id, targets in _withdrawals(changes):
            self._broker.at_unad_send(ROOT_SCOPE, id, source, targets)
        self._broker.attachments.clear()

    # --- the steps that features advise ---------------------------------------------------------------

    def sub_add(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        """Take a subscription into the table."""
        return self._root.subscribe(entry)

    def sub_del(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        """Take a subscription out of the table."""
        self._broker.recovery.ended(entry)
        return self._root.unsubscribe(entry)

    def ad_add(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        """Take an advertisement into the table."""
        return self._root.advertisements.add(entry)

    def ad_del(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        """Take an advertisement out of the table."""
        return self._root.advertisements.remove(entry)

    def sub_send(self, scope: str, announcement: Announcement, source: Link, targets: list[Link]) -> None:
        """Announce a subscription to neighbours."""
        for link in targets:
            number = self._root.subscriptions.number(link, announcement.id)
            self._broker.send(link, Subscribe(announcement.id, announcement.filter, scope, number=number))

    def unsub_send(self, scope: str, id: str, source: Link, targets: list[Link]) -> None:
        """Withdraw what was announced."""
        for link in targets:
            self._broker.send(link, Unsubscribe(id, scope))

    def ad_send(self, scope: str, announcement: Announcement, source: Link, targets: list[Link]) -> None:
        """Announce an advertisement to neighbours."""
        for link in targets:
            number = self._root.advertisements.number(link, announcement.id)
            self._broker.send(link, Advertise(announcement.id, announcement.filter, scope, number))

    def unad_send(self, scope: str, id: str, source: Link, targets: list[Link]) -> None:
        """Withdraw what was advertised."""
        for link in targets:
            self._broker.send(link, Unadvertise(id, scope))


def _announcements(changes: dict[Link, Delta]) -> Iterator[tuple[Announcement, list[Link]]]:
    """Each announcement once, with all the links that it goes to."""
    targets: dict[str, tuple[Announcement, list[Link]]] = {}
    for link, delta in changes.items():
        for id, filter in delta.announce.items():
            targets.setdefault(id, (Announcement(id, filter), []))[1].append(link)
    yield from targets.values()


def _withdrawals(changes: dict[Link, Delta]) -> Iterator[tuple[str, list[Link]]]:
    targets: dict[str, list[Link]] = {}
    for link, delta in changes.items():
        for id in delta.withdraw:
            targets.setdefault(id, []).append(link)
    yield from targets.items()
