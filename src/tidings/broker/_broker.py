"""The broker: a message comes in on a link, messages go out on links. No I/O, no clock, no randomness.

Theory of operation
-------------------
Everything happens in *turns*: the runtime calls one public method (a frame came, a link came or went, a timer
expired), the broker changes its state and sends frames through the runtime, the turn ends. Nothing else runs
in between, so a turn needs no locks and leaves no half-done state.

    Publish from a client      check, stamp the identity, keep, acknowledge, route
    Notify from a neighbour    note the progress, route
    route                      PUB-MATCH finds the links, PUB-SEND sends one copy to each, DELIVER to each client
    Subscribe, Advertise       SUB-ADD / AD-ADD change the book and tell what each neighbour must hear, then
    and their opposites        SUB-SEND / AD-SEND announce, UNSUB-SEND / UNAD-SEND withdraw, in this order
    LinkState, Attach          topology and adjacency: which links the tree uses, and who on them is ready
    Wave, Mark, Fetch          waves, progress, recovery: what the features build on

Each step in capitals is a joinpoint. What a neighbour says is heard only if it belongs to the current tree
(see `_adjacency`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tidings.model import (
    ROOT_ROUTE,
    ROOT_SCOPE,
    EventKey,
    FeatureError,
    Identity,
    NotAdvertised,
    Route,
    TidingsError,
    TopologyError,
)
from tidings.wire import (
    Advertise,
    AnyMessage,
    Attach,
    Deliver,
    DeliverAck,
    Envelope,
    Extension,
    Fetch,
    Fetched,
    Frame,
    Gap,
    Hop,
    LinkState,
    Mark,
    Message,
    Notify,
    Publish,
    PublishAck,
    Quality,
    Refused,
    Settled,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Wave,
    WaveAnswer,
    checked_body,
)

from ._adjacency import Adjacency
from ._book import Book, Entry
from ._bounds import check_filter, check_publication, check_request
from ._context import Context
from ._joinpoints import Failures, Feature, Joinpoint, Step, ordered, weave
from ._links import Link
from ._progress import Progress
from ._publications import Publications
from ._recovery import Recovery
from ._reduction import ALGORITHMS, Announcement, Delta, RoutingOptions, algebraic
from ._runtime import Runtime, Timer
from ._statistics import Statistics
from ._table import Table, advertises
from ._topology import Tree
from ._waves import Waves


class Role(enum.Enum):
    """What a broker is for."""

    BORDER = "border"
    """Serves clients and neighbours."""
    INNER = "inner"
    """Serves neighbours only."""


_NO_HOP = Hop()  # clients know nothing of trees


class Broker:
    """One broker of the network."""

    def __init__(
        self,
        name: str,
        runtime: Runtime,
        *,
        routing: RoutingOptions | None = None,
        role: Role = Role.BORDER,
        strict_topology: bool = False,
        features: Iterable[Feature] = (),
        shuffle: Callable[[list[Feature]], None] | None = None,
    ) -> None:
        self.name = name
        self.role = role
        self.routing = routing or RoutingOptions()
        if self.routing.algorithm not in ALGORITHMS:
            known = ", ".join(sorted(ALGORITHMS))
            raise FeatureError(f"no routing algorithm is called '{self.routing.algorithm}'; choose one of {known}")
        self.epoch = runtime.epoch
        self._runtime = runtime
        self.statistics = Statistics()
        self.crowded: Callable[[Link], bool] = lambda link: False
        """Whether so much waits on a link that what can wait should wait; whoever runs this broker knows."""
        self._attachments: dict[Link, dict[str, bytes]] = {}
        self._arrived: dict[str, bytes] = {}
        self._clients: dict[str, Link] = {}
        self._unreported: dict[Entry, None] = {}
        self._entries = 0
        self.root = Table(ROOT_SCOPE, self.routing)
        self._books = (self.root.subscriptions, self.root.advertisements)
        self.publications = Publications(self.epoch, runtime.log)
        self.adjacency = Adjacency(self, self.epoch, strict=strict_topology)
        self.waves = Waves(self)
        self.progress = Progress(self)
        self.recovery = Recovery(self)
        self._handlers: dict[type, Callable[[Link, Any], None]] = {
            Notify: self._notified,
            Mark: self.progress.receive,
            Subscribe: self._subscribed,
            Unsubscribe: self._unsubscribed,
            Advertise: self._advertised,
            Unadvertise: self._unadvertised,
            Settled: self._confirmed,
            Wave: self.waves.receive,
            WaveAnswer: self.waves.answer,
            Fetch: lambda link, message: self.recovery.requested(message),
            Fetched: lambda link, message: self.recovery.answered(message),
            Extension: self._extension,
        }
        self._client_handlers: dict[type, Callable[[Link, Any], None]] = {
            Publish: self._published,
            Subscribe: self._subscribed,
            Unsubscribe: self._unsubscribed,
            Advertise: self._advertised,
            Unadvertise: self._unadvertised,
            DeliverAck: lambda link, ack: self.at_ack(link, EventKey(ack.origin, ack.epoch, ack.seq)),
            Extension: self._extension,
        }
        self._weave(ordered(features), shuffle)

    def _weave(self, features: list[Feature], shuffle: Callable[[list[Feature]], None] | None) -> None:
        self.failures = Failures()
        self.features = {feature.name: feature for feature in features}
        for feature in features:
            feature.context = Context(self, feature)
            for kind, handler in feature.wave_kinds().items():
                self.waves.register(f"{feature.name}.{kind}", handler)
        if shuffle is not None:
            shuffle(features)

        def woven(joinpoint: Joinpoint, default: Step) -> Step:
            return weave(joinpoint, default, features, self.failures)

        self.at_ad_add = woven(Joinpoint.AD_ADD, self._ad_add)
        self.at_sub_add = woven(Joinpoint.SUB_ADD, self._sub_add)
        self.at_ad_del = woven(Joinpoint.AD_DEL, self._ad_del)
        self.at_sub_del = woven(Joinpoint.SUB_DEL, self._sub_del)
        self.at_pub_match = woven(Joinpoint.PUB_MATCH, self._pub_match)
        self.at_pub_send = woven(Joinpoint.PUB_SEND, self._pub_send)
        self.at_sub_send = woven(Joinpoint.SUB_SEND, self._sub_send)
        self.at_unsub_send = woven(Joinpoint.UNSUB_SEND, self._unsub_send)
        self.at_ad_send = woven(Joinpoint.AD_SEND, self._ad_send)
        self.at_unad_send = woven(Joinpoint.UNAD_SEND, self._unad_send)
        self.at_attach = woven(Joinpoint.ATTACH, self._attach)
        self.at_detach = woven(Joinpoint.DETACH, self._detach)
        self.at_deliver = woven(Joinpoint.DELIVER, self._deliver)
        self._plain_delivery = self.at_deliver == self._deliver
        self.at_ack = woven(Joinpoint.ACK, self._ack)
        self.at_link = woven(Joinpoint.LINK, self._link)
        self.at_tree = woven(Joinpoint.TREE, self._tree)

    def on_client_message(self, kind: type[Message], handler: Callable[[Link, Any], None]) -> None:
        """Let whoever runs this broker answer one more type of client message; a `TidingsError` refuses it."""
        if kind in self._client_handlers:
            raise FeatureError(f"{kind.__name__} has a handler already; choose another message type")
        self._client_handlers[kind] = handler

    # --- turns: what the runtime calls ----------------------------------------------------------------

    def link_up(self, link: Link) -> None:
        """A link to a neighbour broker has come up; frames may be sent on it from now on."""
        self.adjacency.link_up(link)
        self.at_link(link, True)
        self.settle()

    def has_link(self, link: Link) -> bool:
        """Whether this link to a neighbour broker is up."""
        return self.adjacency.neighbours.get(link.name) is link

    def link_down(self, link: Link) -> None:
        """A link to a neighbour broker is lost, and with it what was under way on it."""
        self.at_link(link, False)
        self.adjacency.link_down(link)
        self.settle()

    def attach(self, link: Link) -> None:
        """A client has come. It stays attached to this broker until `detach`."""
        if self.role is Role.INNER:
            raise TopologyError(f"broker '{self.name}' is an inner broker and takes no clients; use a border broker")
        if link.name in self._clients:
            raise TopologyError(f"a client '{link.name}' is attached to '{self.name}' already; choose another name")
        self.at_attach(link)

    def detach(self, link: Link) -> None:
        """A client has gone for good."""
        self.at_detach(link)
        self.settle()

    def receive(self, link: Link, frame: Frame) -> None:
        """A frame has come in on a link."""
        message = frame.message
        kind = type(message)
        self.statistics.received[kind] += 1
        if link.is_broker:
            self._neighbour_turn(link, frame, message, kind)
        elif self._clients.get(link.name) is link:
            try:
                self._client_handlers[kind](link, message)
            except FeatureError:
                raise
            except TidingsError as error:
                self.refuse(link, message, error)
            except KeyError:
                if kind in self._client_handlers:
                    raise
                self.refuse(link, message, TidingsError(f"a client may not send {kind.__name__}"))
        self.settle()

    def _neighbour_turn(self, link: Link, frame: Frame, message: AnyMessage, kind: type) -> None:
        if type(message) is LinkState:
            self.adjacency.learn(link, message)
        elif type(message) is Attach:
            self.adjacency.attach(link, message)
        elif not self.adjacency.accepts(link, frame.hop.tree_epoch):
            self.statistics.stale_frames += 1
        elif (handler := self._handlers.get(kind)) is not None:
            self._arrived = frame.hop.attachments or {}
            handler(link, message)
            self._arrived = {}
        else:
            self.statistics.refused += 1

    def refuse(self, link: Link, message: AnyMessage, error: TidingsError) -> None:
        """Tell a client that what it asked for was not done."""
        self.statistics.refused += 1
        reference = str(getattr(message, "id", getattr(message, "seq", "")))
        refusal = Refused(type(error).__name__, str(error), reference)
        if isinstance(message, Publish):
            self.publications.refuse(link.name, message.seq, refusal)
        self.send(link, refusal)

    # --- what the parts of the broker use -------------------------------------------------------------

    def send(self, link: Link, message: AnyMessage) -> None:
        """Put a message on a link, with what features attached for this link in this step."""
        self.statistics.sent[type(message)] += 1
        if self._attachments and link in self._attachments:
            hop = Hop(self.adjacency.tree.epoch, None, self._attachments.pop(link))
        else:
            hop = self.adjacency.hop if link.is_broker else _NO_HOP
        self._runtime.send(link, Frame(message, hop))

    def call_later(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call `action` in a turn of its own."""

        def turn() -> None:
            action()
            self.settle()

        return self._runtime.call_later(delay, turn)

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        return self._runtime.now()

    @property
    def clients(self) -> list[Link]:
        """The attached clients."""
        return list(self._clients.values())

    def client_subscriptions(self) -> list[Entry]:
        """The subscriptions of attached clients."""
        return [entry for link in self.clients for entry in self.root.subscriptions.of(link)]

    def arrived(self, feature: str) -> bytes | None:
        """What a feature attached to the message of this turn on the neighbour's side."""
        return self._arrived.get(feature)

    def attach_to_next(self, link: Link, feature: str, data: bytes) -> None:
        """Let the next message to a link carry something for a feature on the other side."""
        self._attachments.setdefault(link, {})[feature] = data

    # --- publications ---------------------------------------------------------------------------------

    def _published(self, link: Link, message: Publish) -> None:
        check_publication(message)
        if not self.publications.is_new(link.name, message.seq):
            self.statistics.repeated_publications += 1
            if (refusal := self.publications.refusal(link.name, message.seq)) is not None:
                self.send(link, refusal)
            elif message.quality is not Quality.FIRE and not self.publications.is_unsynced(link.name, message.seq):
                self.send(link, PublishAck(message.seq, self.name, self.epoch, 0))
            return
        notification = checked_body(message.body)
        if link.guard is not None:
            link.guard.check_publish(notification)
        if self.routing.advertisements and not advertises(self.root.advertisements.of(link), notification):
            raise NotAdvertised(
                f"client '{link.name}' has not advertised {notification!r}; advertise a filter that it passes"
            )
        if message.quality is Quality.STORED:
            self.publications.check_room()
        number = self.publications.number()
        identity = Identity(self.name, self.epoch, number, link.name, message.seq, self.now(), ttl=message.ttl)
        envelope = Envelope.of(identity, (ROOT_ROUTE,), message.body, message.quality, notification)
        if message.quality is not Quality.FIRE:
            self._acknowledge(link, message, envelope)
        self.publications.remember(envelope)
        self.progress.published()
        self._route(envelope, link)

    def _acknowledge(self, link: Link, message: Publish, envelope: Envelope) -> None:
        """Acknowledge a publication as soon as it has reached its quality."""
        acknowledgement = PublishAck(message.seq, self.name, self.epoch, envelope.identity.seq)
        if message.quality is Quality.ACCEPTED:
            self.send(link, acknowledgement)
        else:
            self.publications.store(
                envelope,
                lambda: self._answer_publisher(link.name, acknowledgement),
                lambda error: self._answer_publisher(link.name, _not_stored(message.seq, error)),
            )

    def _answer_publisher(self, publisher: str, answer: PublishAck | Refused) -> None:
        link = self._clients.get(publisher)  # it may have come back on another link meanwhile
        if link is not None:
            self.send(link, answer)

    def _notified(self, link: Link, message: Notify) -> None:
        self.recovery.passed(message.envelope)
        self._route(message.envelope, link)

    def _route(self, envelope: Envelope, source: Link) -> None:
        for route in envelope.routes:
            targets = self.at_pub_match(route, envelope, source)
            if targets:
                self.at_pub_send(route, envelope, source, targets)
                self._attachments.clear()

    def _pub_match(self, route: Route, envelope: Envelope, source: Link) -> dict[Link, list[Entry]]:
        targets: dict[Link, list[Entry]] = {}
        if self.routing.algorithm == "flooding":
            targets = {link: [] for link in self.adjacency.open_links if link is not source}
        for entry in self.root.matching(envelope.notification):
            link = entry.link
            if link.is_broker:
                if link is not source:
                    targets[link] = []
            elif link is not source or entry.receive_own:
                targets.setdefault(link, []).append(entry)
        return targets

    def _pub_send(self, route: Route, envelope: Envelope, source: Link, targets: dict[Link, list[Entry]]) -> None:
        if self._plain_delivery and not self.recovery.active and not self._attachments:
            self._fan_out(envelope, targets)
            return
        for link, entries in targets.items():
            if link.is_broker:
                self.send(link, Notify(envelope))
            else:
                self.at_deliver(route, envelope, link, entries)

    def _fan_out(self, envelope: Envelope, targets: dict[Link, list[Entry]]) -> None:
        """What the loop above does when nothing stands between: those who get the same get the same frame."""
        send = self._runtime.send
        frames: dict[tuple[str, ...] | None, Frame] = {}
        for link, entries in targets.items():
            if link.is_broker:
                ids = None
            else:
                ids = entries[0].ids if len(entries) == 1 else tuple([entry.id for entry in entries])
            frame = frames.get(ids)
            if frame is None:
                if ids is None:
                    frame = Frame(Notify(envelope), self.adjacency.hop)
                else:
                    frame = Frame(Deliver(envelope, ids), _NO_HOP)
                frames[ids] = frame
            send(link, frame)
        notified = sum(link.is_broker for link in targets) if None in frames else 0
        self.statistics.sent[Notify] += notified
        self.statistics.sent[Deliver] += len(targets) - notified

    def _deliver(self, route: Route, envelope: Envelope, link: Link, entries: list[Entry]) -> None:
        if self.recovery.active:
            entries = self.recovery.hold(envelope, entries)
        if entries:
            self.send(link, Deliver(envelope, tuple([entry.id for entry in entries])))

    def deliver_late(self, envelope: Envelope, owed: dict[Entry, None]) -> None:
        """Deliver a notification that was missed before, to the subscriptions that were owed it."""
        by_link: dict[Link, list[Entry]] = {}
        for entry in owed:
            if self.root.subscriptions.get(entry.link, entry.id) is entry and entry.filter.matches(
                envelope.notification
            ):
                by_link.setdefault(entry.link, []).append(entry)
        for link, entries in by_link.items():
            self.at_deliver(envelope.routes[0], envelope, link, entries)

    def congested(self, owed: Iterable[Entry]) -> bool:
        """Whether so much waits for one of these subscriptions that it should get no more for now."""
        return any(self.crowded(link) for link in {entry.link for entry in owed})

    def report_gap(self, gap: Gap, owed: dict[Entry, None]) -> None:
        """Tell subscriptions that notifications are lost."""
        by_link: dict[Link, list[str]] = {}
        for entry in owed:
            if self.root.subscriptions.get(entry.link, entry.id) is entry:
                by_link.setdefault(entry.link, []).append(entry.id)
        for link, ids in by_link.items():
            self.statistics.gaps += 1
            self.send(link, Gap(gap.origin, gap.epoch, gap.first, gap.last, tuple(ids)))

    def _ack(self, link: Link, key: EventKey) -> None:
        """Nothing remembers deliveries in the plain broker."""

    # --- subscriptions and advertisements -------------------------------------------------------------

    def _subscribed(self, link: Link, message: Subscribe) -> None:
        check_filter(message.filter)
        if not link.is_broker:
            check_request(message, self.root.subscriptions.count(link))
        if self.routing.algorithm not in ("flooding", "simple"):
            algebraic(message.filter)
        if link.guard is not None:
            link.guard.check_subscribe(message.filter)
        known = self.root.subscriptions.get(link, message.id)
        if known is not None and (known.filter, known.receive_own) == (message.filter, message.receive_own):
            known.number = message.number
            if known.settled:
                self._report(self.root.subscriptions, [known])
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
                self.recovery.resume(entry, message.after)
            self._announce_subscriptions(link, self.at_sub_add(ROOT_SCOPE, entry))
            return
        # A new filter under an old id: what the neighbours hear is the difference, announced before withdrawn.
        self.recovery.replaced(known, entry)
        changes = self.at_sub_del(ROOT_SCOPE, known)
        for other, delta in self.at_sub_add(ROOT_SCOPE, entry).items():
            changes[other] = changes[other].then(delta) if other in changes else delta
        self._announce_subscriptions(link, changes)

    def _unsubscribed(self, link: Link, message: Unsubscribe) -> None:
        entry = self.root.subscriptions.get(link, message.id)
        if entry is not None:
            self._announce_subscriptions(link, self.at_sub_del(ROOT_SCOPE, entry))

    def _advertised(self, link: Link, message: Advertise) -> None:
        check_filter(message.filter)
        if not link.is_broker:
            check_request(message, self.root.advertisements.count(link))
        if link.guard is not None:
            link.guard.check_advertise(message.filter)
        if not self.routing.advertisements:
            self.send(link, Settled(message.id, ROOT_SCOPE, True, number=message.number))  # nobody has to know
            return
        if self.routing.algorithm not in ("flooding", "simple"):
            algebraic(message.filter)
        known = self.root.advertisements.get(link, message.id)
        if known is not None and known.filter == message.filter:
            known.number = message.number
            if known.settled:
                self._report(self.root.advertisements, [known])
            return
        if known is not None:
            self._end_advertisement(link, known)
        entry = Entry(
            link, message.id, message.filter, public_id=self._public_id(link, message.id), number=message.number
        )
        self._announce_advertisements(link, self.at_ad_add(ROOT_SCOPE, entry))
        self._announce_subscriptions(link, self.root.subscriptions.reconsider(link))

    def _unadvertised(self, link: Link, message: Unadvertise) -> None:
        entry = self.root.advertisements.get(link, message.id)
        if entry is not None:
            self._end_advertisement(link, entry)

    def _end_advertisement(self, link: Link, entry: Entry) -> None:
        self._announce_advertisements(link, self.at_ad_del(ROOT_SCOPE, entry))
        self._announce_subscriptions(link, self.root.subscriptions.reconsider(link))

    def _public_id(self, link: Link, id: str) -> str:
        """The id under which the whole network may know an entry: a client's own id is known here only."""
        if link.is_broker:
            return id
        self._entries += 1
        return f"{self.name}/{self._entries}"

    def _sub_add(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        return self.root.subscribe(entry)

    def _sub_del(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        self.recovery.ended(entry)
        return self.root.unsubscribe(entry)

    def _ad_add(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        return self.root.advertisements.add(entry)

    def _ad_del(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        return self.root.advertisements.remove(entry)

    def _announce_subscriptions(self, source: Link, changes: dict[Link, Delta]) -> None:
        self.root.subscriptions.tell(changes)
        for announcement, targets in _announcements(changes):
            self.at_sub_send(ROOT_SCOPE, announcement, source, targets)
        for id, targets in _withdrawals(changes):
            self.at_unsub_send(ROOT_SCOPE, id, source, targets)
        self._attachments.clear()

    def _announce_advertisements(self, source: Link, changes: dict[Link, Delta]) -> None:
        self.root.advertisements.tell(changes)
        for announcement, targets in _announcements(changes):
            self.at_ad_send(ROOT_SCOPE, announcement, source, targets)
        for id, targets in _withdrawals(changes):
            self.at_unad_send(ROOT_SCOPE, id, source, targets)
        self._attachments.clear()

    def _sub_send(self, scope: str, announcement: Announcement, source: Link, targets: list[Link]) -> None:
        for link in targets:
            number = self.root.subscriptions.number(link, announcement.id)
            self.send(link, Subscribe(announcement.id, announcement.filter, scope, number=number))

    def _unsub_send(self, scope: str, id: str, source: Link, targets: list[Link]) -> None:
        for link in targets:
            self.send(link, Unsubscribe(id, scope))

    def _ad_send(self, scope: str, announcement: Announcement, source: Link, targets: list[Link]) -> None:
        for link in targets:
            number = self.root.advertisements.number(link, announcement.id)
            self.send(link, Advertise(announcement.id, announcement.filter, scope, number))

    def _unad_send(self, scope: str, id: str, source: Link, targets: list[Link]) -> None:
        for link in targets:
            self.send(link, Unadvertise(id, scope))

    # --- settling -------------------------------------------------------------------------------------

    def _confirmed(self, link: Link, message: Settled) -> None:
        book = self.root.advertisements if message.advertisement else self.root.subscriptions
        self._report(book, book.confirm(link, message.id, message.number))

    def settle(self) -> None:
        """At the end of a turn: tell those whose subscriptions and advertisements have settled in it."""
        for book in self._books:
            if book.changed:
                self._report(book, book.review())
        if self._unreported and self.recovery.baseline:
            waiting, self._unreported = self._unreported, {}
            for entry in waiting:
                for book in (self.root.subscriptions, self.root.advertisements):
                    if book.get(entry.link, entry.id) is entry and book.still_settled(entry):
                        self._report(book, [entry])

    def _report(self, book: Book, entries: list[Entry]) -> None:
        for entry in entries:
            advertisement = book is self.root.advertisements
            if entry.link.is_broker:
                self.send(entry.link, Settled(entry.id, ROOT_SCOPE, advertisement, number=entry.number))
            elif not self.recovery.baseline:
                self._unreported[entry] = None
            elif advertisement:
                self.send(entry.link, Settled(entry.id, ROOT_SCOPE, True, number=entry.number))
            else:
                marks = self.recovery.marks_of([entry])
                self.send(entry.link, Settled(entry.id, ROOT_SCOPE, False, marks, entry.number))
                self.recovery.settled(entry)

    # --- clients, links, trees ------------------------------------------------------------------------

    def _attach(self, link: Link) -> None:
        self._clients[link.name] = link

    def _detach(self, link: Link) -> None:
        self._end_entries(link)
        del self._clients[link.name]

    def _link(self, link: Link, up: bool) -> None:
        """The adjacency has noted it; features may want to know."""

    def _tree(self, old: Tree, new: Tree) -> None:
        self.adjacency.adopt(new)
        self.waves.end_all()
        self.root.expect(self.adjacency.tree_links)
        self.recovery.new_tree()

    def neighbour_ready(self, link: Link, *, anew: bool) -> None:
        """A tree neighbour is ready to be told everything; `anew`: it was before, and has forgotten it."""
        if anew:
            self._forget(link)
        self._announce_advertisements(link, self.root.advertisements.open(link))
        self._announce_subscriptions(link, self.root.subscriptions.open(link))
        self.recovery.neighbour_ready()

    def _forget(self, link: Link) -> None:
        """Drop what a neighbour has said and what it was told; the others hear the difference."""
        self.waves.link_lost(link)
        self.root.subscriptions.close(link)
        self.root.advertisements.close(link)
        self._end_entries(link)

    def _end_entries(self, link: Link) -> None:
        for entry in self.root.subscriptions.of(link):
            self._announce_subscriptions(link, self.at_sub_del(ROOT_SCOPE, entry))
        for entry in self.root.advertisements.of(link):
            self._end_advertisement(link, entry)

    def _extension(self, link: Link, message: Extension) -> None:
        feature = self.features.get(message.feature)
        if feature is None:
            self.statistics.refused += 1
        else:
            feature.on_message(link, message.body)


def _not_stored(seq: int, error: Exception) -> Refused:
    return Refused(type(error).__name__, f"it was published, but could not be stored: {error}", str(seq))


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
