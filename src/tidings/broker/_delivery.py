"""Delivery: from the publication of a client, or the notification of a neighbour, to the links that it goes to.

Theory of operation
-------------------
Steps in capitals are joinpoints.

    Publish from a client      check, stamp the identity, keep, acknowledge, route
    Notify from a neighbour    note the progress, route
    route                      PUB-MATCH finds the links, PUB-SEND sends one copy to each, DELIVER to each client
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidings.model import ROOT_ROUTE, EventKey, Identity, NotAdvertised, Route
from tidings.wire import Deliver, Envelope, Frame, Gap, Hop, Notify, Publish, PublishAck, Quality, Refused, checked_body

from ._book import Entry
from ._bounds import check_publication
from ._links import Link
from ._table import advertises

if TYPE_CHECKING:
    from ._broker import Broker

NO_HOP = Hop()  # clients know nothing of trees


class Delivery:
    """What one broker does with notifications."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.plain = True
        """Whether nobody advises DELIVER."""

    def published(self, link: Link, message: Publish) -> None:
        """A client publishes."""
        broker = self._broker
        check_publication(message)
        if not broker.publications.is_new(link.name, message.seq):
            broker.statistics.repeated_publications += 1
            if (refusal := broker.publications.refusal(link.name, message.seq)) is not None:
                broker.send(link, refusal)
            elif message.quality is not Quality.FIRE and not broker.publications.is_unsynced(link.name, message.seq):
                broker.send(link, PublishAck(message.seq, broker.name, broker.epoch, 0))
            return
        notification = checked_body(message.body)
        if link.guard is not None:
            link.guard.check_publish(notification)
        if broker.routing.advertisements and not advertises(broker.root.advertisements.of(link), notification):
            raise NotAdvertised(
                f"client '{link.name}' has not advertised {notification!r}; advertise a filter that it passes"
            )
        if message.quality is Quality.STORED:
            broker.publications.check_room()
        number = broker.publications.number()
        identity = Identity(broker.name, broker.epoch, number, link.name, message.seq, broker.now(), ttl=message.ttl)
        envelope = Envelope.of(identity, (ROOT_ROUTE,), message.body, message.quality, notification)
        if message.quality is not Quality.FIRE:
            self._acknowledge(link, message, envelope)
        broker.publications.remember(envelope)
        broker.progress.published()
        self.route(envelope, link)

    def _acknowledge(self, link: Link, message: Publish, envelope: Envelope) -> None:
        """Acknowledge a publication as soon as it has reached its quality."""
        broker = self._broker
        acknowledgement = PublishAck(message.seq, broker.name, broker.epoch, envelope.identity.seq)
        if message.quality is Quality.ACCEPTED:
            broker.send(link, acknowledgement)
        else:
            broker.publications.store(
                envelope,
                lambda: self._answer_publisher(link.name, acknowledgement),
                lambda error: self._answer_publisher(link.name, _not_stored(message.seq, error)),
            )

    def _answer_publisher(self, publisher: str, answer: PublishAck | Refused) -> None:
        link = self._broker.client(publisher)  # it may have come back on another link meanwhile
        if link is not None:
            self._broker.send(link, answer)

    def notified(self, link: Link, message: Notify) -> None:
        """A notification has come from a neighbour."""
        self._broker.recovery.passed(message.envelope)
        self.route(message.envelope, link)

    def route(self, envelope: Envelope, source: Link) -> None:
        """Send a notification to whoever wants it, but not back to the neighbour that it came from."""
        for route in envelope.routes:
            targets = self._broker.at_pub_match(route, envelope, source)
            if targets:
                self._broker.at_pub_send(route, envelope, source, targets)
                self._broker.attachments.clear()

    def pub_match(self, route: Route, envelope: Envelope, source: Link) -> dict[Link, list[Entry]]:
        """The links that want a notification, each with its subscriptions."""
        targets: dict[Link, list[Entry]] = {}
        if self._broker.routing.algorithm == "flooding":
            targets = {link: [] for link in self._broker.adjacency.open_links if link is not source}
        for entry in self._broker.root.matching(envelope.notification):
            link = entry.link
            if link.is_broker:
                if link is not source:
                    targets[link] = []
            elif link is not source or entry.receive_own:
                targets.setdefault(link, []).append(entry)
        return targets

    def pub_send(self, route: Route, envelope: Envelope, source: Link, targets: dict[Link, list[Entry]]) -> None:
        """Send a notification to these links."""
        if self.plain and not self._broker.recovery.active and not self._broker.attachments:
            self._fan_out(envelope, targets)
            return
        for link, entries in targets.items():
            if link.is_broker:
                self._broker.send(link, Notify(envelope))
            else:
                self._broker.at_deliver(route, envelope, link, entries)

    def _fan_out(self, envelope: Envelope, targets: dict[Link, list[Entry]]) -> None:
        """What the loop above does when nothing stands between: those who get the same get the same frame."""
        send = self._broker.runtime.send
        frames: dict[tuple[str, ...] | None, Frame] = {}
        for link, entries in targets.items():
            if link.is_broker:
                ids = None
            else:
                ids = entries[0].ids if len(entries) == 1 else tuple([entry.id for entry in entries])
            frame = frames.get(ids)
            if frame is None:
                if ids is None:
                    frame = Frame(Notify(envelope), self._broker.adjacency.hop)
                else:
                    frame = Frame(Deliver(envelope, ids), NO_HOP)
                frames[ids] = frame
            send(link, frame)
        notified = sum(link.is_broker for link in targets) if None in frames else 0
        self._broker.statistics.sent[Notify] += notified
        self._broker.statistics.sent[Deliver] += len(targets) - notified

    def deliver(self, route: Route, envelope: Envelope, link: Link, entries: list[Entry]) -> None:
        """Hand a notification to a client."""
        if self._broker.recovery.active:
            entries = self._broker.recovery.hold(envelope, entries)
        if entries:
            self._broker.send(link, Deliver(envelope, tuple([entry.id for entry in entries])))

    def deliver_late(self, envelope: Envelope, owed: dict[Entry, None]) -> None:
        """Deliver a notification that was missed before, to the subscriptions that were owed it."""
        by_link: dict[Link, list[Entry]] = {}
        for entry in owed:
            if self._broker.root.subscriptions.get(entry.link, entry.id) is entry and entry.filter.matches(
                envelope.notification
            ):
                by_link.setdefault(entry.link, []).append(entry)
        for link, entries in by_link.items():
            self._broker.at_deliver(envelope.routes[0], envelope, link, entries)

    def congested(self, owed: Iterable[Entry]) -> bool:
        """Whether so much waits for one of these subscriptions that it should get no more for now."""
        return any(self._broker.crowded(link) for link in {entry.link for entry in owed})

    def report_gap(self, gap: Gap, owed: dict[Entry, None]) -> None:
        """Tell subscriptions that notifications are lost."""
        by_link: dict[Link, list[str]] = {}
        for entry in owed:
            if self._broker.root.subscriptions.get(entry.link, entry.id) is entry:
                by_link.setdefault(entry.link, []).append(entry.id)
        for link, ids in by_link.items():
            self._broker.statistics.gaps += 1
            self._broker.send(link, Gap(gap.origin, gap.epoch, gap.first, gap.last, tuple(ids)))

    def ack(self, link: Link, key: EventKey) -> None:
        """Nothing remembers deliveries in the plain broker."""


def _not_stored(seq: int, error: Exception) -> Refused:
    return Refused(type(error).__name__, f"it was published, but could not be stored: {error}", str(seq))
