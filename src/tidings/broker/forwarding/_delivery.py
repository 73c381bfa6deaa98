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

from collections.abc import Collection, Iterable, Set
from typing import Protocol

import msgspec

from tidings.broker._bounds import check_publication
from tidings.broker._causes import kept
from tidings.broker._links import Link
from tidings.broker.interest import Entry, Passage, Registration, advertises
from tidings.model import (
    ROOT_ROUTE,
    ROOT_SCOPE,
    EventKey,
    FeatureError,
    NotAdvertised,
    Notification,
    Route,
    TidingsError,
)
from tidings.wire import (
    HEADER,
    Advertise,
    Deliver,
    Envelope,
    Frame,
    Gap,
    Notify,
    Opening,
    Publish,
    PublishAck,
    Quality,
    Unadvertise,
    checked_body,
)

from ._answers import Answers
from ._apart import NOBODY_APART, Apart, Left
from ._crossing import DETOUR, Copy, shown_to, version_in
from ._decisions import Decision, Decisions
from ._feeding import Feeding, Passed
from ._following import Begin, Following
from ._host import Host
from ._lane import NO_HOP, Surroundings, Taken, routed
from ._lanes import Lanes
from ._owed import owed_when
from ._targets import Forwarding, Targets, found_for
from ._waiting import Release, Said, Waiting

_TAG, _NOTIFY, _TAG_AT = b"\xa7Publish", b"\xa6Notify", HEADER.size + 2
"""How a part with a publication is recognised before it is decoded."""
NOTE_INTERVAL = 1_000_000
"""Microseconds after which a disk is asked again to note that something is not stored, if it has failed to."""
_FIRE, _STORED, _DEFAULT = Quality.FIRE, Quality.STORED, Quality.DEFAULT  # as names of their own they are found faster


class Opener(Protocol):
    """Opens sessions for requests."""

    def opening(self, link: Link, opening: Opening) -> Opening:
        """A client asks for a session: the same, by the key that replies name. `TidingsError` if it cannot have it."""
        ...

    def unheard(self, key: str) -> None:
        """The request that has opened a session goes to nobody whom this broker knows of."""
        ...


class Delivery:
    """What one broker does with notifications."""

    def __init__(self, broker: Host) -> None:
        self._broker = broker
        self._now = broker.runtime.now
        self._advertised = broker.routing.advertisements
        self._floods = broker.routing.algorithm == "flooding"
        self._forwarding = Forwarding()
        self._tables, self._leaving = broker.scoping.tables, broker.registrations.leaving
        doors = broker.doors
        self._apart = Apart(broker.held, broker.owing, broker.owed, doors.attached, doors.riding)
        self.following = Following()
        self.decisions = Decisions()
        self.lanes = Lanes(
            self._surroundings(broker), broker.scoping, floods=self._floods, followed=self.following.awaited
        )
        broker.scoping.changed = self.lanes.changed
        self.waiting = Waiting(broker.name)
        self.release = Release(broker, self.waiting, self._lets_go)
        self._answers = Answers(broker, self._opened)
        self.opener: Opener | None = None
        """Who opens sessions for requests, if anybody does."""
        self.ripe = False
        """Whether an advertisement has settled in this turn, so that something may go that waited for it."""

    def _surroundings(self, broker: Host) -> Surroundings:
        """What lanes use of this broker."""
        return Surroundings(
            broker.name,
            broker.publications,
            broker.statistics,
            broker.progress,
            self._apart,
            self._forwarding,
            broker.registrations.leaving,
            takes=lambda: broker.remembering.takes,
            passed=broker.recovery.passed,
            reached=broker.recovery.reached,
            standing_for=broker.standing_for,
            hop=lambda: broker.adjacency.hop,
            announced=self._is_announced if self._advertised else None,
            advertised=self._advertisements if self._advertised else None,
        )

    def woven(self, *, matches: bool, sends: bool, advised: tuple[Set[Link], ...] | None) -> None:
        """The weaving has changed.

        `matches`, `sends`: whether nobody advises PUB-MATCH, or PUB-SEND; `advised`: the clients for whom DELIVER is
        advised, None: everybody.
        """
        self._apart.advised = advised
        self.lanes.plain = matches and sends and advised is not None
        self.lanes.matches = matches and not self._floods
        self.lanes.around.observed = self._broker.at_published
        self.lanes.around.watching = self._broker.watching
        self.lanes.changed()

    def published(self, link: Link, message: Publish) -> None:
        """A client publishes."""
        if link in self.waiting or not self._takes(link, message):
            self._publish(link, message)

    def _takes(self, link: Link, message: Publish) -> bool:
        """Let the lane of a publisher do all that there is to do; False: it has not."""
        try:
            lane = self.lanes.publishing[link]
        except KeyError:
            lane = self.lanes.for_publisher(link)
        if lane is None or (taken := lane.take(link, message, self._now())) is None:
            return False
        self._carry_out(link, taken)
        return True

    def feeding(self, link: Link, data: bytes) -> Feeding | None:
        """What takes many publications of a client at once; None: they are to come one by one.

        Who has not published yet has no lane, and gets one when its bytes begin with a publication.
        """
        if link.is_broker:
            scope = self.lanes.brought.get(link, ROOT_SCOPE)
            if scope not in self.lanes.passing and data.startswith(_NOTIFY, _TAG_AT):
                self.lanes.for_scope(scope)
            passing = self.lanes.passing.get(scope)
            return None if passing is None else passing.feeding
        lanes = self.lanes.publishing
        if link not in lanes and data.startswith(_TAG, _TAG_AT):
            self.lanes.for_publisher(link)
        lane = lanes.get(link)
        return None if lane is None or link in self.waiting else lane.feeding

    def feed(self, link: Link, data: bytes, at: int) -> Passed | None:
        """Take what a client or neighbour has sent, from this place on, as far as it is plain; None: it is not."""
        lanes = self.lanes
        lane = lanes.passing.get(lanes.brought.get(link, ROOT_SCOPE)) if link.is_broker else lanes.publishing.get(link)
        if lane is None or lane.feeding is None or link in self.waiting:
            return None
        if link.is_broker:
            passed = lane.feeding.pass_on(link, data, at)
        else:
            passed = lane.feeding.feed(link, data, at, self._now())
        if passed is None:
            return None
        lane.taken += passed.taken
        lane.fed += passed.taken
        runtime = self._broker.runtime
        if passed.answer is not None:
            runtime.send(link, passed.answer)
        for links, written in passed.written:
            runtime.send_written(links, written)
        if passed.left is not None:
            self._send_alone(passed.left)
        return passed

    def _carry_out(self, link: Link, taken: Taken) -> None:
        """Send what a lane has made of something that came in on a link."""
        answer, frames, left = taken
        runtime = self._broker.runtime
        if answer is not None:
            runtime.send(link, answer)
        for links, frame in frames:
            runtime.send_all(links, frame)
        if left is None:
            return
        if isinstance(left, Left):
            self._send_alone(left)
        else:
            envelope, targets = left
            broker = self._broker
            if targets is None:
                targets = broker.at_pub_match(ROOT_ROUTE, envelope, link)
            if targets:
                broker.scoping.root.copies += len(targets)
                broker.at_pub_send(ROOT_ROUTE, envelope, link, targets)

    def _publish(self, link: Link, message: Publish) -> None:
        check_publication(message)
        if self._broker.publications.is_known(link.principal, message.seq):
            self._answers.repeated(link, message)
            return
        notification = self._checked(link, message)
        if message.cause:
            message = msgspec.structs.replace(message, cause=kept(message.cause))
        if message.opens is not None and self.opener is None:
            raise TidingsError("this broker carries out no requests; publish, and subscribe to the answer")
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
        self._accept(link, message, notification, passages)
        return True

    def _is_announced(self, link: Link, notification: Notification) -> bool:
        """Whether an advertisement that has settled announces it; `NotAdvertised` if none does, settled or not."""
        advertisements = self._advertisements(link)
        if advertises((one for one in advertisements if one.effective), notification):
            return True
        if advertises(advertisements, notification):
            return False
        raise NotAdvertised(
            f"client '{link.name}' has not advertised {notification!r}; advertise a filter that it passes"
        )

    def _advertisements(self, link: Link) -> Collection[Registration]:
        """What a client has advertised. If it is away, whoever stands in for it has that, and what waits goes by it."""
        broker = self._broker
        own = broker.registrations.advertisements(link).values()
        if own or link not in self.waiting:
            return own
        others = broker.standing_for(link.principal)
        return [one for other in others for one in broker.registrations.advertisements(other).values()]

    def _accept(self, link: Link, message: Publish, notification: Notification, passages: tuple[Passage, ...]) -> None:
        """Give a publication its identity, and let it go."""
        broker, view, flat = self._broker, self._broker.scoping.active, self._broker.scoping.flat
        if message.opens is not None and self.opener is not None:  # only now: what is refused opens no session
            message = msgspec.structs.replace(message, opens=self.opener.opening(link, message.opens))
        envelope = broker.publications.enter(link, message, view.version, self._now(), notification)
        identity = envelope.identity
        if envelope.quality is not _STORED and envelope.quality is not _FIRE and message.opens is None:
            broker.send(link, PublishAck(message.seq, broker.name, broker.epoch, identity.seq))
        if broker.at_published is not None:
            broker.at_published(envelope, link)
        if not broker.progress.due:
            broker.progress.published()
        if view.gateways:
            broker.progress.advance(broker.name, broker.epoch, identity.seq)
        if self.following.awaited:
            self._begin(link, envelope)
        if flat:
            reached = self.route(envelope, link)
        else:
            copies = broker.crossing.entering(view, passages, envelope, link)
            reached = broker.crossing.spread(view, copies, envelope, link)
        self.following.noting = None
        if message.opens is not None and self.opener is not None and not reached:
            self.opener.unheard(message.opens.id)

    # --- following ------------------------------------------------------------------------------------

    def follow(self, link: Link, seq: int, begin: Begin) -> None:
        """Call `begin` when a client publishes something by this number; nobody else's publication is."""
        self.following.awaited.setdefault(link, {})[seq] = begin
        self.lanes.forget(link)

    def unfollow(self, link: Link, seq: int) -> None:
        """Wait for it no longer."""
        if self.following.take(link, seq) is not None:
            self.lanes.forget(link)

    def _begin(self, link: Link, envelope: Envelope) -> None:
        begin = self.following.take(link, envelope.identity.publisher_seq)
        if begin is not None:
            if link not in self.following.awaited:
                self.lanes.forget(link)
            begin(envelope)

    def followed(self, link: Link, message: Notify) -> None:
        """A notification has come from a neighbour that a feature follows: the full path notes who gets it."""
        try:
            self._pass_on(link, message.envelope)
        finally:
            self.following.noting = None

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
            elif broker.publications.is_known(link.principal, message.seq):
                self._answers.repeated(link, message)
            else:
                return self._takes(link, message) or self._goes(link, message, checked_body(message.body))
        except FeatureError:
            raise
        except TidingsError as error:
            broker.refuse(link, message, error)
        return True

    def _opened(self) -> None:
        """The log has noted that this epoch gives numbers to what is not on disk, or has failed to: in its own turn."""
        broker, publications = self._broker, self._broker.publications
        with broker.turn():
            if publications.unnoted:
                broker.call_later(NOTE_INTERVAL, lambda: publications.begin(self._opened))
            self._answers.opened()
            self.release()

    def abandon(self, link: Link) -> None:
        """A client has gone. What waits was never acknowledged: whoever wants to be sure hands it over again."""
        self.waiting.abandon(link)
        self.following.awaited.pop(link, None)
        self.lanes.forget(link)
        self.forget()

    def forget(self) -> None:
        """What is remembered of targets may hold a client that has gone, or has lost its subscriptions to another."""
        self._forwarding.forget()

    def notified(self, link: Link, message: Notify) -> None:
        """A notification has come from a neighbour."""
        routes = message.envelope.routes
        if len(routes) == 1:
            self.lanes.brought[link] = routes[0].scope
            try:
                lane = self.lanes.passing[routes[0].scope]
            except KeyError:
                lane = self.lanes.for_scope(routes[0].scope)
            if lane is not None and (taken := lane.take(link, message, 0)) is not None:
                self._carry_out(link, taken)
                return
        self._pass_on(link, message.envelope)

    def _pass_on(self, link: Link, envelope: Envelope) -> None:
        envelope.notification  # noqa: B018 - decoded here: whatever is wrong with it is the doing of this neighbour
        if self._broker.scoping.flat:
            self._broker.recovery.passed(envelope)
            self.route(envelope, link)
            return
        view = self._broker.scoping.view(envelope.identity.graph_epoch)
        self._broker.recovery.passed(envelope, several=view is None or view.several)
        if view is None:
            self._broker.statistics.unjudged += 1
        else:
            copies = [Copy(route, envelope, link) for route in envelope.routes]
            self._broker.crossing.spread(view, copies, envelope, link)

    def route(self, envelope: Envelope, source: Link) -> bool:
        """Send a notification to whoever wants it, but not back to the neighbour that it came from; is there one?"""
        broker, reached = self._broker, False
        for route in envelope.routes:
            targets = broker.at_pub_match(route, envelope, source)
            if targets:
                broker.scoping.root.copies += len(targets)
                broker.at_pub_send(route, envelope, source, targets)
                reached = True
        return reached

    def pub_match(self, route: Route, envelope: Envelope, source: Link) -> Targets:
        """The links that want a notification, each with its subscriptions."""
        matching: list[Entry] = []
        if (table := self._tables.get(route.scope)) is not None:
            matching = table.matching(envelope.notification)
            table.lookups += 1
        if self._floods:  # other links can come to be flooded, so there is nothing to remember
            return found_for(matching, source, self._leaving, self._broker.scoping.flooded(route.scope))
        return self._forwarding.targets(matching, source, self._leaving)

    def pub_send(self, route: Route, envelope: Envelope, source: Link, targets: dict[Link, list[Entry]]) -> None:
        """Send a notification to these links."""
        if type(targets) is not Targets:
            targets = Targets(targets)
        if (noting := self.following.noting) is not None:
            for link in targets:
                if link.is_broker:
                    self._broker.doors.add(link, noting.feature, noting.onward)
        special = self._apart
        if special.held or special.owing or special.advised != () or special.attached or special.riding:
            apart = special.among(envelope.identity.origin, targets)
        else:
            apart = NOBODY_APART
        if not apart:
            self._send_groups(envelope, targets, route)
            return
        self._send_groups(envelope, targets.without(apart), route)
        self._send_alone(Left(route, envelope, targets, apart))

    def _send_alone(self, left: Left) -> None:
        """Send to each by itself."""
        route, envelope, targets, apart = left
        for link, entries in targets.only(apart):
            if link.is_broker:
                self._broker.send(link, Notify(envelope))
            else:
                subscriptions = [entry.registration for entry in entries if entry.registration is not None]
                self.following.reached(link, sent=False)
                self._broker.at_deliver(route, envelope, link, subscriptions)

    def _send_groups(self, envelope: Envelope, targets: Targets, route: Route) -> None:
        """Send where nothing stands between: those who get the same get the same frame."""
        broker, runtime = self._broker, self._broker.runtime
        for ids, links in targets.groups.items():
            if ids is None:
                known = envelope.routes[0] is route
                frame = Frame(Notify(envelope if known else routed(envelope, (route,))), broker.adjacency.hop)
                broker.statistics.sent[Notify] += len(links)
            else:
                frame = Frame(Deliver(envelope, ids), NO_HOP)
                broker.statistics.sent[Deliver] += len(links)
                if self.following.noting is not None:
                    for link in links:
                        self.following.reached(link, sent=True)
            runtime.send_all(links, frame)

    def deliver(self, route: Route, envelope: Envelope, link: Link, subscriptions: list[Registration]) -> None:
        """Hand a notification to a client."""
        if self._broker.recovery.active:
            subscriptions = self._broker.recovery.hold(envelope, subscriptions, late=DETOUR in route.tags)
        if subscriptions:
            self.following.reached(link, sent=True)
            self._broker.send(link, Deliver(envelope, tuple([subscription.id for subscription in subscriptions])))

    def deliver_late(self, envelope: Envelope, owed: dict[Registration, None]) -> dict[Registration, None]:
        """Deliver a publication that was missed before, to the subscriptions that were owed it.

        Returned are those that do not get it, because it had to cross a border that checks, and nothing vouches for it.
        """
        unproven: dict[Registration, None] = {}
        view = self._broker.scoping.view(envelope.identity.graph_epoch)
        if view is None:
            self._broker.statistics.unjudged += 1
            identity = envelope.identity
            self.report_gap(Gap(identity.origin, identity.epoch, identity.seq, identity.seq), owed)
            return unproven
        handed: dict[tuple[Link, Route, bytes], tuple[Envelope, list[Registration]]] = {}
        for subscription in owed:
            if self._broker.registrations.is_current(subscription):
                for form, due, path, is_unproven in owed_when(subscription, envelope, view):
                    if is_unproven:
                        unproven[subscription] = None
                        self._broker.borders.late(envelope.identity, path)
                        continue
                    if due and self._broker.delaying.keeps(subscription.link, form, (subscription,), due, path):
                        continue
                    key = (subscription.link, form.routes[0], form.body)
                    handed.setdefault(key, (form, []))[1].append(subscription)
        for (link, route, _), (form, subscriptions) in handed.items():
            self._broker.at_deliver(route, form, link, subscriptions)
        return unproven

    def deliver_decided(self, envelope: Envelope, link: Link) -> bool:
        """Deliver what a deciding point has given to a client of this broker; False: the client does not want it."""
        view = self._broker.scoping.view(envelope.identity.graph_epoch)
        passage = view.memberships(link.principal).get(envelope.routes[0].scope) if view is not None else None
        if view is None or passage is None:
            return False
        forms: dict[Route, tuple[Envelope, list[Registration]]] = {}
        for subscription in self._broker.registrations.subscriptions(link).values():
            if (shown := shown_to(view, envelope, passage, subscription)) is not None:
                forms.setdefault(shown.routes[0], (shown, []))[1].append(subscription)
        if forms:
            version = version_in(envelope, passage)
            self.decisions.note(link.principal, Decision.about(envelope.routes[0].scope, envelope.identity, version))
        for route, (shown, subscriptions) in forms.items():
            self._broker.at_deliver(route, shown, link, subscriptions)
        return bool(forms)

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
