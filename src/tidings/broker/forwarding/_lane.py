"""A lane: the plain path of a notification, from the link that it comes in on to the frames that go out.

Theory of operation
-------------------
Most notifications need nothing but this: one table says who wants them, and everybody gets them as they are. The *lane*
of a table does just that, from one end to the other. `take` gives the frames and the links that they go to, or None:
then nothing has happened, and the full path (`_delivery`, `_crossing`) does this one. It is the place for another
engine: a lane reads no clock and sends nothing by itself.

Whether a lane may be taken at all is not asked for each message: it is armed and disarmed when something changes (see
`_lanes`). What concerns a single notification is looked at for that one: a publication that was here before, whose
quality cannot be had, or that is not announced; one that crosses into another scope, or that comes to somebody in
another form. These go the full path.

What concerns a single client leaves the others alone: it leaves its group (see `_apart`), and is left over for the full
path. Where there are scopes, a notification with such a receiver goes the full path as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tidings.broker._bounds import MAX_NUMBER
from tidings.broker._links import Link
from tidings.broker._statistics import Statistics
from tidings.broker.interest import Passage, Registration, Table, View
from tidings.model import ROOT_ROUTE, Notification, Route, RouteState
from tidings.wire import Deliver, Envelope, Frame, Hop, Notify, Publish, PublishAck, Quality, checked_body

from ._apart import Apart, Left
from ._checks import Watching, why_not
from ._crossing import told
from ._feeding import Feeding, Terms
from ._publications import Publications
from ._targets import NOBODY, Forwarding, Targets

NO_HOP = Hop()  # clients know nothing of trees
_FIRE, _STORED, _DEFAULT = Quality.FIRE, Quality.STORED, Quality.DEFAULT  # as names of their own they are found faster


Advised: TypeAlias = tuple[Envelope, Targets | None]
"""A publication that has its identity, and goes on through steps that are advised; and where it goes, unless PUB_MATCH
says so."""
Taken: TypeAlias = tuple[Frame | None, Sequence[tuple[Mapping[Link, None], Frame]], Left | Advised | None]
"""What goes back to the publisher, the frames with their links, and what is left over for the full path: some of those
who get it, or all of it."""


class Marks(Protocol):
    """How far this broker has come."""

    @property
    def due(self) -> bool:
        """Whether the next mark is scheduled."""
        ...

    def published(self) -> None:
        """This broker has published: a mark is due."""
        ...

    def advance(self, origin: str, epoch: int, seq: int) -> None:
        """Everything of this origin up to here has passed."""
        ...


class Passed(Protocol):
    """Hears of what neighbours bring."""

    def __call__(self, envelope: Envelope, *, several: bool = False) -> None:
        """A notification of another origin has come; `several`: other forms of the same event may follow."""
        ...


@dataclass
class Surroundings:
    """What lanes use of the rest of a broker."""

    name: str
    publications: Publications
    statistics: Statistics
    progress: Marks
    apart: Apart
    forwarding: Forwarding
    leaving: Collection[Link]
    """Clients that have gone, and still have entries."""
    takes: Callable[[], bool]
    """Whether there is a store that takes another publication now."""
    passed: Passed
    reached: Callable[[str, int, int], None]
    """Hears of the last of many that neighbours bring: its origin, epoch and number."""
    standing_for: Callable[[str], Collection[Link]]
    """The links of the attached clients that stand for somebody."""
    hop: Callable[[], Hop]
    """What goes to neighbours belongs to the current tree."""
    announced: Callable[[Link, Notification], bool] | None
    """Whether a client has announced what it publishes; None: it need not."""
    advertised: Callable[[Link], Iterable[Registration]] | None = None
    """What a client advertises; None: it need not."""
    observed: Callable[[Envelope, Link], None] | None = None
    """Who observes publications, if anybody does."""
    watching: Watching | None = None
    """The same, if all who observe take many publications at once."""


class Lane:
    """The plain path of one table."""

    def __init__(self, table: Table, around: Surroundings) -> None:
        self.table = table
        self.armed = False
        """Whether it may be taken."""
        self.taken = 0
        """How many notifications it has taken."""
        self.fed = 0
        """How many of these it has taken as bytes."""
        self.feeding: Feeding | None = None
        """Takes many publications at once, if it may now; see `_feeding`."""
        self.unfed = ""
        """Why it does not, if it was armed and does not."""
        self._around = around
        self._publications = around.publications
        self._numbers = around.publications.numbers
        self._progress = around.progress
        self._apart = around.apart
        self._sent = around.statistics.sent
        self._publishers: dict[Link, Passage] = {}

    # --- arming ---------------------------------------------------------------------------------------

    def arm(self, view: View, *, flat: bool, woven: bool = False, matches: bool = True) -> None:
        """It may be taken from now on, by this version of the graph.

        `flat`: there are no scopes. `woven`: publications only enter by it, and go on through steps that are advised;
        `matches`: it still says where they go.
        """
        self.armed = True
        self._match, self._match_body = self.table.matching, self.table.match_body
        self._scoped, self._woven, self._matches = not flat, woven, matches
        if woven:
            self._match_body = None
        self._version, self._several, self._gateways = view.version, view.several, bool(view.gateways)
        self._supers = tuple(view.supers(self.table.scope).values())
        self._shown = told(view)
        self._sessions = view.sessions.keys()
        around = self._around
        self._announced, self._observed = around.announced, around.observed
        self._looked_into = not flat or self._announced is not None
        self._decoded = self._looked_into or woven or self._observed is not None
        plane = self.table.plane
        self.unfed = self._why_unfed(woven=woven) if plane is not None else "the engine is pure Python"
        terms = Terms(view.version, not flat, self._shown, self._supers, self._gateways, view.several)
        self.feeding = None
        if plane is not None and not self.unfed:
            self.feeding = Feeding(self.table, plane, around, terms, self._publishers)

    def _why_unfed(self, *, woven: bool) -> str:
        """Why publications are to come one by one; empty: they need not."""
        if woven:
            return "steps are advised, or notifications flood"
        if self._observed is not None and self._around.watching is None:
            return "publications are observed one by one"
        return why_not(self._supers)

    def disarm(self) -> None:
        """Everything goes the full path."""
        self.armed = False
        self.feeding = None
        self._publishers.clear()

    def admit(self, link: Link, passage: Passage) -> None:
        """A client publishes by this lane; it is a member of the scope by this passage."""
        self._publishers[link] = passage

    def dismiss(self, link: Link) -> None:
        """A client publishes no more."""
        self._publishers.pop(link, None)
        if self.feeding is not None:
            self.feeding.judges.forget(link)

    # --- what others ask ------------------------------------------------------------------------------

    @property
    def last(self) -> int:
        """The number of the latest publication of this broker."""
        return self._numbers.last

    def published(self, name: str) -> int:
        """The largest number of its own that a publisher has used; 0 if that is not remembered."""
        return self._numbers.publishers.get(name, 0)

    def recent(self, after: int = 0) -> list[Envelope]:
        """What is in memory with a larger number than this, in order."""
        return self._numbers.after(after)

    def counters(self) -> dict[str, int]:
        """How much has gone this way, and by this table at all."""
        return {"taken": self.taken, "lookups": self.table.lookups, "copies": self.table.copies}

    # --- the way --------------------------------------------------------------------------------------

    def take(self, link: Link, message: Publish | Notify, now: int) -> Taken | None:
        """Do all that a message of a client or a neighbour needs, but for sending; None: nothing, it is not plain.

        `now` is the time that a publication gets. `TidingsError` if the client may not publish this.
        """
        if not self.armed or self._apart.attached:
            return None
        if not isinstance(message, Publish):
            return self._pass_on(link, message)
        if message.cause or message.opens is not None or not self._may_enter(link, message):
            return None
        around, route, targets = self._around, ROOT_ROUTE, NOBODY
        notification = matching = None
        if self._match_body is not None:
            matching = self._match_body(message.body)
        if matching is None:
            notification = checked_body(message.body)
            if self._matches:
                matching = self._match(notification)
        if matching:
            targets = around.forwarding.targets(matching, link, around.leaving)
        if self._looked_into or link.guard is not None:
            if notification is None:
                notification = checked_body(message.body)
            if link.guard is not None:
                link.guard.check_publish(notification)
            if self._announced is not None and not self._announced(link, notification):
                return None
            if self._scoped:
                passage = self._publishers[link]
                route = passage.route
                if passage.outward(notification) is not notification:
                    return None
                if self._leaves(route, notification, link, targets) or self._apart.among(around.name, targets):
                    return None
        envelope = self._publications.enter(link, message, self._version, now, notification if self._decoded else None)
        identity, answer = envelope.identity, None
        if envelope.quality is not _FIRE and envelope.quality is not _STORED:
            answer = Frame(PublishAck(message.seq, identity.origin, identity.epoch, identity.seq), NO_HOP)
            self._sent[PublishAck] += 1
        if self._observed is not None:
            self._observed(envelope, link)
            if not self._looked_into and not self._woven:
                envelope.__dict__.clear()  # what is remembered is better kept as bytes
        if not self._progress.due:
            self._progress.published()
        if self._gateways:
            self._progress.advance(identity.origin, identity.epoch, identity.seq)
        if self._woven:
            if not self._matches:
                return answer, (), (envelope, None)
            self.table.lookups += 1
            return answer, (), (envelope, targets)
        return self._frames(answer, route, envelope, targets)

    def _may_enter(self, link: Link, message: Publish) -> bool:
        """Whether a publication is new, makes sense, and can have its quality: else others say what it gets."""
        publications, seq, ttl, quality = self._publications, message.seq, message.ttl, message.quality
        if not self._numbers.publishers.get(link.principal, 0) < seq <= MAX_NUMBER:
            return False
        if ttl is not None and not 0 <= ttl <= MAX_NUMBER:
            return False
        if publications.refused and publications.refusal(link.principal, seq) is not None:
            return False
        if quality is _STORED:
            return self._around.takes()
        return publications.open or (quality is _DEFAULT and self._around.takes())

    def _pass_on(self, link: Link, message: Notify) -> Taken | None:
        envelope, around = message.envelope, self._around
        identity, route = envelope.identity, envelope.routes[0]
        if self._scoped and (route.version or identity.graph_epoch != self._version or route.tags):
            return None
        if self._sessions and not self._sessions.isdisjoint(route.path):
            return None  # whoever gets it is told which sessions it belongs to
        matching = None if self._scoped or self._match_body is None else self._match_body(envelope.body)
        if matching is None:
            matching = self._match(envelope.notification)
        targets = around.forwarding.targets(matching, link, around.leaving)
        if self._scoped:
            notification = envelope.notification
            if self._leaves(route, notification, link, targets) or self._apart.among(identity.origin, targets):
                return None
            if any(own in targets for own in around.standing_for(identity.publisher)):
                return None  # it has published and moved: it gets what it published, not what its scope made of it
        around.passed(envelope, several=self._several)
        return self._frames(None, route, envelope, targets)

    def _leaves(self, route: Route, notification: Notification, source: Link, targets: Targets) -> bool:
        """Whether a notification leaves its scope, here or on the way to a gateway, or comes to somebody changed."""
        if not targets.inside:
            return True
        if route.state is RouteState.DOWNWARD or (source.is_broker and not self._gateways):
            return False
        for passage in self._supers:  # noqa: SIM110 - a generator costs more, every time
            if passage.outward(notification) is not None:
                return True
        return False

    def _frames(self, answer: Frame | None, route: Route, envelope: Envelope, targets: Targets) -> Taken:
        """One frame for those who get the same. Neighbours are told the route, clients what they may know of it."""
        self.taken += 1
        table = self.table
        table.lookups += 1
        if not targets:
            return answer, [], None
        table.copies += len(targets)
        apart, left = self._apart, None
        shown = envelope
        if self._scoped and envelope.routes != self._shown:
            shown = routed(envelope, self._shown)
        special = False  # as `among` says, and quickly, if it is somebody else who is held or advised
        if apart.held:
            special = not apart.held_keys.isdisjoint(targets.registrations_if_known or targets.registrations)
        if apart.advised and not special:
            for clients in apart.advised:
                if not targets.keys().isdisjoint(clients):
                    special = True
        if special or apart.owing or apart.riding:
            alone = apart.among(envelope.identity.origin, targets)
            if alone:
                left = Left(route, shown, targets, alone)
                targets = targets.without(alone)
        frames, sent = [], self._sent
        for ids, links in (targets.groups_if_known or targets.groups).items():
            if ids is None:
                known = envelope.routes[0] is route
                told_route = envelope if known else routed(envelope, (route,))
                frames.append((links, Frame(Notify(told_route), self._around.hop())))
                sent[Notify] += len(links)
            else:
                frames.append((links, Frame(Deliver(shown, ids), NO_HOP)))
                sent[Deliver] += len(links)
        return answer, frames, left


def routed(envelope: Envelope, routes: tuple[Route, ...]) -> Envelope:
    """The same with other routes; it has been decoded."""
    return Envelope.of(envelope.identity, routes, envelope.body, envelope.quality, envelope.notification)
