"""Delivery: from the publication of a client, or the notification of a neighbour, to the links that it goes to.

Theory of operation
-------------------
Steps in capitals are joinpoints.

    Publish from a client      check, stamp the identity, keep, acknowledge, route
    Notify from a neighbour    note the progress, route
    route                      PUB-MATCH finds the links, PUB-SEND sends one copy to each, DELIVER to each client

Where there are scopes, `_crossing` does this for each scope that a notification is visible in.

What may not go yet waits (see `_waiting`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from tidings.model import (
    ROOT_ROUTE,
    Duplicates,
    EventKey,
    FeatureError,
    Identity,
    NotAdvertised,
    Notification,
    Route,
    RouteState,
    TidingsError,
)
from tidings.wire import (
    Advertise,
    Deliver,
    Envelope,
    Frame,
    Gap,
    Hop,
    Notify,
    Publish,
    PublishAck,
    Quality,
    Unadvertise,
    checked_body,
)

from ._answers import Answers
from ._book import Entry
from ._bounds import check_publication
from ._crossing import Copy, hand_over_late, told
from ._links import Link, LinkKind
from ._registration import Registration
from ._table import advertises
from ._visibility import Passage, View
from ._waiting import Release, Said, Waiting

if TYPE_CHECKING:
    from ._broker import Broker

NOTE_INTERVAL = 1_000_000
"""Microseconds after which a disk is asked again to note that something is not stored, if it has failed to."""
NO_HOP = Hop()  # clients know nothing of trees
_ROOT_ONLY = (ROOT_ROUTE,)
_FIRE, _STORED, _DEFAULT = Quality.FIRE, Quality.STORED, Quality.DEFAULT  # as names of their own they are found faster

_Groups: TypeAlias = dict[tuple[str, ...] | None, dict[Link, None]]
"""The links that get the same: by the ids of their subscriptions, None for neighbours."""


class Delivery:
    """What one broker does with notifications."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._now = broker.runtime.now
        self._advertised = broker.routing.advertisements
        self._floods = broker.routing.algorithm == "flooding"
        self.plain = True
        """Whether nobody advises PUB-MATCH, PUB-SEND and DELIVER."""
        self._envelope: Envelope | None = None
        self._notification = Notification()
        """The latest publication, decoded. Envelopes are kept for a while, and thousands are better kept as bytes."""
        self._matching: list[Entry] = []
        self._source: Link | None = None
        self._targets: dict[Link, list[Entry]] = {}
        """What followed from the latest matching subscriptions; often the next notification passes the same."""
        self._aimed: dict[Link, list[Entry]] | None = None
        self._groups: _Groups = {}
        """The groups of the latest targets."""
        self._told_by: View | None = None
        self._told: tuple[Route, ...] = _ROOT_ONLY
        """What clients are told of the route of what stays in its scope, by the graph as it is now."""
        self._inside: dict[Link, list[Entry]] | None = None
        """The latest targets that get a notification of their own scope as it is there."""
        self.waiting = Waiting(broker.name)
        self.release = Release(broker, self.waiting, self._lets_go)
        self._answers = Answers(broker, self._opened)
        self.ripe = False
        """Whether an advertisement has settled in this turn, so that something may go that waited for it."""

    def published(self, link: Link, message: Publish) -> None:
        check_publication(message)
        if self._broker.publications.is_known(link.name, message.seq):
            self._answers.repeated(link, message)
            return
        notification = self._checked(link, message)
        if link in self.waiting or not self._goes(link, message, notification):
            self.waiting.add(link, message)

    def _checked(self, link: Link, message: Publish) -> Notification:
        """What is published, if the client may publish it at all."""
        notification = checked_body(message.body)
        if link.guard is not None:
            link.guard.check_publish(notification)
        return notification

    def _goes(self, link: Link, message: Publish, notification: Notification) -> bool:
        """Publish what may be published now; False: it has to wait."""
        publications = self._broker.publications
        passages = self._broker.scoping.passages(link)
        if passages is None or (self._advertised and not self._is_announced(link, notification)):
            return False
        if message.quality is _STORED:
            publications.check_room()
        elif message.quality is _DEFAULT and self._broker.remembering.takes:
            pass  # it will be on disk
        elif not publications.open:
            publications.begin(self._opened)
            return False
        publications.use(link.name, message.seq, link.owner)
        self._accept(link, message, notification, passages)
        return True

    def _is_announced(self, link: Link, notification: Notification) -> bool:
        """Whether an advertisement that has settled announces it; `NotAdvertised` if none does, settled or not."""
        advertisements = self._broker.registrations.advertisements(link).values()
        if advertises((one for one in advertisements if one.effective), notification):
            return True
        if advertises(advertisements, notification):
            return False
        raise NotAdvertised(
            f"client '{link.name}' has not advertised {notification!r}; advertise a filter that it passes"
        )

    def _accept(self, link: Link, message: Publish, notification: Notification, passages: tuple[Passage, ...]) -> None:
        """Give a publication its identity, and let it go."""
        broker, publications, view = self._broker, self._broker.publications, self._broker.scoping.active
        number, now, ttl, quality = publications.number(), self._now(), message.ttl, message.quality
        if quality is _DEFAULT:
            quality = broker.remembering.choose(link.name, message.seq, number)
        identity = Identity(broker.name, broker.epoch, number, link.name, message.seq, now, view.version, ttl)
        flat = broker.scoping.flat
        if flat and self.plain:
            envelope = Envelope(identity, _ROOT_ONLY, message.body, quality)
            self._envelope, self._notification = envelope, notification
        else:  # advice and other scopes may look into it
            envelope = Envelope.of(identity, _ROOT_ONLY, message.body, quality, notification)
        if quality is _STORED:
            publications.store(envelope, insists=message.quality is _STORED)
        elif quality is not _FIRE:
            broker.send(link, PublishAck(message.seq, broker.name, broker.epoch, number))
        publications.remember(envelope)
        if not broker.progress.due:
            broker.progress.published()
        if view.gateways:
            broker.progress.advance(broker.name, broker.epoch, number)
        if flat:
            self.route(envelope, link)
        elif len(passages) != 1 or not self._enters(passages[0], envelope, link):
            copies = broker.crossing.entering(passages, envelope, link)
            broker.crossing.spread(view, copies, envelope, link)

    # --- what waits -----------------------------------------------------------------------------------

    def defers(self, link: Link, message: Advertise | Unadvertise) -> bool:
        """Whether a change of an advertisement waits behind publications, which are judged without it."""
        if link not in self.waiting:
            return False
        self.waiting.add(link, message)
        return True

    def end_turn(self) -> bool:
        """At the end of a turn: publish what waited for advertisements that have settled in it; whether there were."""
        if not self.ripe:
            return False
        self.ripe = False
        self.release()
        return True

    def _lets_go(self, link: Link, message: Said) -> bool:
        """Whether what has waited longest has gone, or has been refused."""
        broker = self._broker
        try:
            if not isinstance(message, Publish):
                broker.registrations.changed(link, message)
            elif broker.publications.is_known(link.name, message.seq):
                self._answers.repeated(link, message)
            else:
                return self._goes(link, message, checked_body(message.body))
        except FeatureError:
            raise
        except TidingsError as error:
            broker.refuse(link, message, error)
        return True

    def _opened(self) -> None:
        """The log has noted that this epoch gives numbers to what is not on disk, or has failed to: in its own turn."""
        publications = self._broker.publications
        if publications.unnoted:
            self._broker.call_later(NOTE_INTERVAL, lambda: publications.begin(self._opened))
        self._answers.opened()
        self.release()
        self._broker.settling.end_turn()

    def abandon(self, link: Link) -> None:
        """A client has gone. What waits was never acknowledged: whoever wants to be sure hands it over again."""
        self.waiting.abandon(link)
        self._matching, self._targets = [], {}  # it may be in there

    def notified(self, link: Link, message: Notify) -> None:
        """A notification has come from a neighbour."""
        envelope = message.envelope
        envelope.notification  # noqa: B018 - decoded here: whatever is wrong with it is the doing of this neighbour
        if self._broker.scoping.flat:
            self._broker.recovery.passed(envelope)
            self.route(envelope, link)
            return
        view = self._broker.scoping.view(envelope.identity.graph_epoch)
        self._broker.recovery.passed(envelope, several=view is None or view.several)
        if view is None:
            self._broker.statistics.unjudged += 1
        elif len(envelope.routes) != 1 or not self._stays(envelope, link, envelope.routes[0]):
            copies = [Copy(route, envelope, link) for route in envelope.routes]
            self._broker.crossing.spread(view, copies, envelope, link)

    # --- what stays in its scope ----------------------------------------------------------------------

    def _enters(self, passage: Passage, envelope: Envelope, publisher: Link) -> bool:
        """Publish what is in its publisher's only scope, and would be back at its publisher, what it is."""
        notification = envelope.notification
        return (
            passage.exact
            and passage.outward(notification) is notification
            and self._stays(envelope, publisher, passage.route)
        )

    def _stays(self, envelope: Envelope, source: Link, route: Route) -> bool:
        """Send a notification that is seen in its own scope only, as if there were no others; False: it is not."""
        scoping, recovery = self._broker.scoping, self._broker.recovery
        if not self.plain or self._floods or route.version or not scoping.steady or recovery.active:
            return False
        if envelope.identity.graph_epoch != scoping.active.version or self._rises(envelope, source, route):
            return False
        targets = self.pub_match(route, envelope, source)
        if targets is not self._inside:
            if not _all_inside(targets):
                return False
            self._inside = targets
        if source.is_broker and self._broker.client(envelope.identity.publisher) in targets:
            return False  # it has published and moved: it gets what it published, not what its scope made of it
        if targets:
            if scoping.active is not self._told_by:
                self._told_by, self._told = scoping.active, told(scoping.active)
            shown = envelope if envelope.routes == self._told else _routed(envelope, self._told)
            scoping.tables[route.scope].copies += len(targets)
            self._send_groups(shown, targets, route)
        return True

    def _rises(self, envelope: Envelope, source: Link, route: Route) -> bool:
        """Whether a notification goes up from its scope, here or on the way to a gateway."""
        view = self._broker.scoping.active
        if route.state is RouteState.DOWNWARD or (source.is_broker and not view.gateways):
            return False
        for passage in view.supers(route.scope).values():  # noqa: SIM110 - a generator costs more, every time
            if passage.outward(envelope.notification) is not None:
                return True
        return False

    def route(self, envelope: Envelope, source: Link) -> None:
        """Send a notification to whoever wants it, but not back to the neighbour that it came from."""
        for route in envelope.routes:
            targets = self._broker.at_pub_match(route, envelope, source)
            if targets:
                self._broker.scoping.root.copies += len(targets)
                self._broker.at_pub_send(route, envelope, source, targets)
                self._broker.attachments.clear()

    def pub_match(self, route: Route, envelope: Envelope, source: Link) -> dict[Link, list[Entry]]:
        """The links that want a notification, each with its subscriptions."""
        notification = self._notification if envelope is self._envelope else envelope.notification
        table = self._broker.scoping.tables.get(route.scope)
        if table is None:
            matching = []
        else:
            matching = table.matching(notification)
            table.lookups += 1
        if matching == self._matching and source is self._source:
            return self._targets
        targets: dict[Link, list[Entry]] = {}
        if self._floods:
            targets = {link: [] for link in self._broker.scoping.flooded(route.scope) if link is not source}
        leaving = self._broker.registrations.leaving
        for entry in matching:
            link = entry.link
            if not link.is_client:
                if link is not source:
                    targets[link] = []
            elif link in leaving:
                continue
            elif link is not source or entry.receive_own:
                targets.setdefault(link, []).append(entry)
        if self.plain and not self._floods:  # advice could change the targets; other links can come to be flooded
            self._matching, self._source, self._targets = matching, source, targets
        return targets

    def pub_send(self, route: Route, envelope: Envelope, source: Link, targets: dict[Link, list[Entry]]) -> None:
        """Send a notification to these links."""
        if self.plain and not self._broker.recovery.active and not self._broker.attachments:
            self._send_groups(envelope, targets, route)
            return
        for link, entries in targets.items():
            if link.is_broker:
                self._broker.send(link, Notify(envelope))
            else:
                subscriptions = [entry.registration for entry in entries if entry.registration is not None]
                self._broker.at_deliver(route, envelope, link, subscriptions)

    def _send_groups(self, envelope: Envelope, targets: dict[Link, list[Entry]], route: Route) -> None:
        """What the loop above does when nothing stands between: those who get the same get the same frame.

        Neighbours are told the route; what clients are told of it is in the envelope.
        """
        if targets is not self._aimed:
            self._aimed, self._groups = targets, _groups(targets)
        broker, runtime = self._broker, self._broker.runtime
        for ids, links in self._groups.items():
            if ids is None:
                known = envelope.routes[0] is route
                frame = Frame(Notify(envelope if known else _routed(envelope, (route,))), broker.adjacency.hop)
                broker.statistics.sent[Notify] += len(links)
            else:
                frame = Frame(Deliver(envelope, ids), NO_HOP)
                broker.statistics.sent[Deliver] += len(links)
            runtime.send_all(links, frame)

    def deliver(self, route: Route, envelope: Envelope, link: Link, subscriptions: list[Registration]) -> None:
        """Hand a notification to a client."""
        if self._broker.recovery.active:
            subscriptions = self._broker.recovery.hold(envelope, subscriptions)
        if subscriptions:
            self._broker.send(link, Deliver(envelope, tuple([subscription.id for subscription in subscriptions])))

    def deliver_late(self, envelope: Envelope, owed: dict[Registration, None]) -> None:
        """Deliver a publication that was missed before, to the subscriptions that were owed it."""
        view = self._broker.scoping.view(envelope.identity.graph_epoch)
        if view is None:
            self._broker.statistics.unjudged += 1
            identity = envelope.identity
            self.report_gap(Gap(identity.origin, identity.epoch, identity.seq, identity.seq), owed)
            return
        handed: dict[tuple[Link, Route, bytes], tuple[Envelope, list[Registration]]] = {}
        for subscription in owed:
            if self._broker.registrations.is_current(subscription):
                for form in hand_over_late(view, envelope, subscription):
                    key = (subscription.link, form.routes[0], form.body)
                    handed.setdefault(key, (form, []))[1].append(subscription)
        for (link, route, _), (form, subscriptions) in handed.items():
            self._broker.at_deliver(route, form, link, subscriptions)

    def deliver_held(self, envelope: Envelope, subscriptions: Iterable[Registration]) -> None:
        """Deliver a notification that was held back, to those of its subscriptions that still want it."""
        by_link: dict[Link, list[Registration]] = {}
        for subscription in subscriptions:
            if self._broker.registrations.is_current(subscription) and subscription.filter.matches(
                envelope.notification
            ):
                by_link.setdefault(subscription.link, []).append(subscription)
        for link, wanting in by_link.items():
            self._broker.at_deliver(envelope.routes[0], envelope, link, wanting)

    def congested(self, owed: Iterable[Registration]) -> bool:
        """Whether so much waits for one of these subscriptions that it should get no more for now."""
        return any(self._broker.crowded(link) for link in {subscription.link for subscription in owed})

    def report_gap(self, gap: Gap, owed: dict[Registration, None]) -> None:
        """Tell subscriptions that notifications are lost."""
        by_link: dict[Link, list[str]] = {}
        for subscription in owed:
            if self._broker.registrations.is_current(subscription):
                by_link.setdefault(subscription.link, []).append(subscription.id)
        for link, ids in by_link.items():
            self._broker.statistics.gaps += 1
            self._broker.send(link, Gap(gap.origin, gap.epoch, gap.first, gap.last, tuple(ids)))

    def ack(self, link: Link, key: EventKey) -> None:
        """Nothing remembers deliveries in the plain broker."""


def _groups(targets: dict[Link, list[Entry]]) -> _Groups:
    groups: _Groups = {}
    for link, entries in targets.items():
        ids = None if link.is_broker else tuple([entry.id for entry in entries])
        groups.setdefault(ids, {})[link] = None
    return groups


def _all_inside(targets: dict[Link, list[Entry]]) -> bool:
    """Whether these are neighbours, and clients to whom their scope shows everything as it is."""
    for link, entries in targets.items():
        if link.kind is LinkKind.SCOPE:
            return False
        for entry in entries:
            if entry.passage is None or not entry.passage.exact or entry.registration is None or entry.passage.ordered:
                return False
            if (entry.registration.duplicates or entry.passage.duplicates) is Duplicates.PER_PATH:
                return False
    return True


def _routed(envelope: Envelope, routes: tuple[Route, ...]) -> Envelope:
    return Envelope.of(envelope.identity, routes, envelope.body, envelope.quality, envelope.notification)
