"""The context: the broker as far as a feature may see and use it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from tidings.model import FeatureError, Location, Matches, Position
from tidings.wire import Advertise, AnyMessage, Envelope, Extension, Frame, Subscribe

from ._doors import bounded
from ._failures import checked
from ._inside import InnerClient, adopt, guard_of
from ._joinpoints import Advice, Feature, Joinpoint, checked_advice
from ._links import Guard, Link, LinkKind
from ._runtime import Log, Timer
from .forwarding import Decision, Noting, Opener, Owed, Publications
from .interest import Entry, Registration, RoutingOptions, Scoping, Settling, Tap
from .outlets import Holds
from .overlay import WAVE_DEADLINE, Tree

if TYPE_CHECKING:
    from ._broker import Broker


class Context:
    """One per broker and feature. Everything sent carries the feature's name.

    What is there to be read is the broker's own state and no copy: a feature looks at it, and changes it only by what
    it offers, such as `holds.begin`.

    Functions that a feature gives are called by the rule of `_failures`: an error in one stops the broker, or is
    counted and logged. Whatever cannot be done as it is asked raises `FeatureError` at once.
    """

    def __init__(self, broker: Broker, feature: Feature) -> None:
        self._broker = broker
        self._feature = feature
        self._guarded = functools.partial(broker.failures.guarded, feature)
        self._opened: set[Link] = set()

    @property
    def name(self) -> str:
        """The broker's name."""
        return self._broker.name

    @property
    def epoch(self) -> int:
        """The broker's incarnation."""
        return self._broker.epoch

    @property
    def tree(self) -> Tree:
        """The current tree."""
        return self._broker.adjacency.tree

    @property
    def known_brokers(self) -> frozenset[str]:
        """All brokers that this one has heard of since it started, those among them that cannot be reached now."""
        return frozenset(state.broker for state in self._broker.adjacency.topology.states())

    @property
    def neighbours(self) -> list[Link]:
        """The tree neighbours that are ready."""
        return self._broker.adjacency.open_links

    @property
    def clients(self) -> list[Link]:
        """The attached clients."""
        return self._broker.clients

    def client(self, name: str) -> Link | None:
        """The link of an attached client."""
        return self._broker.client(name)

    def is_away(self, client: Link) -> bool:
        """Whether the connection of an attached client is lost or silent."""
        return client in self._broker.absent

    @property
    def log(self) -> Log | None:
        """The disk, if this broker has one."""
        return self._broker.runtime.log

    @property
    def place(self) -> Location | None:
        """Where this broker stands."""
        return self._broker.place

    @property
    def routing(self) -> RoutingOptions:
        """How the broker routes."""
        return self._broker.routing

    def is_open(self, link: Link) -> bool:
        """Whether a tree neighbour is ready on this link."""
        return self._broker.adjacency.is_open(link)

    def hop_towards(self, broker: str) -> Link | None:
        """The link on which the tree leads to a broker, if it is ready."""
        return self._broker.adjacency.hop_towards(broker)

    def heard_of(self, broker: str) -> bool:
        """Whether this broker knows of another one, in the network or from what it has published."""
        return self._broker.recovery.seen.heard_of(broker)

    def crowded(self, link: Link) -> bool:
        """Whether so much waits on a link that what can wait should wait."""
        return self._broker.crowded(link)

    def is_current(self, registration: Registration) -> bool:
        """Whether a client still has this subscription or advertisement, as it is."""
        return self._broker.registrations.is_current(registration)

    def subscribed(self, client: Link) -> Collection[Registration]:
        """What an attached client subscribes to."""
        return self._broker.registrations.subscriptions(client).values()

    def is_owed(self, client: Link) -> bool:
        """Whether an origin owes something to a subscription of an attached client."""
        return any(self._broker.recovery.debts(registration) for registration in self.subscribed(client))

    @property
    def ahead(self) -> Collection[str]:
        """The origins of which somebody here may have got more than the marks say: they owe something, or did."""
        return self._broker.recovery.ahead()

    def advertised(self, client: Link) -> Collection[Registration]:
        """What an attached client advertises; nothing, where nobody does."""
        return self._broker.registrations.advertisements(client).values()

    @property
    def subscriptions(self) -> list[Entry]:
        """Every subscription that the broker knows, of clients and neighbours."""
        return [entry for table in self._broker.scoping.tables.values() for entry in table.subscriptions]

    @property
    def advertisements(self) -> list[Entry]:
        """Every advertisement that the broker knows, of clients and neighbours."""
        return [entry for table in self._broker.scoping.tables.values() for entry in table.advertisements]

    @property
    def progress(self) -> dict[str, Position]:
        """For each origin, the (epoch, seq) up to which everything has passed here."""
        return self._broker.progress.seen

    @property
    def settling(self) -> Settling:
        """Which subscriptions everybody knows."""
        return self._broker.settling

    @property
    def holds(self) -> Holds:
        """The subscriptions that are held."""
        return self._broker.holds

    @property
    def publications(self) -> Publications:
        """What entered the network here."""
        return self._broker.publications

    @property
    def scoping(self) -> Scoping:
        """Who sees what."""
        return self._broker.scoping

    def deliver(self, registration: Registration, envelope: Envelope) -> None:
        """Hand a notification to a client, as it is, for one subscription."""
        self._broker.at_deliver(envelope.routes[0], envelope, registration.link, [registration])

    def deliver_decided(self, link: Link, envelope: Envelope) -> bool:
        """Hand a client what the deciding point of a scope has given to it, for all its subscriptions that want it.

        The route of the envelope says where it is. False: none of them wants it, or nobody knows its version any more.
        """
        return self._broker.delivery.deliver_decided(envelope, link)

    def decisions(self, client: str) -> tuple[Decision, ...]:
        """What deciding points have given to a client of this broker, the latest last."""
        return self._broker.delivery.decisions.of(client)

    def known(self, registration: Registration) -> None:
        """Those who decide know a subscription that was `awaited`: its client may be told that it has settled."""
        registration.awaited = False
        if registration.settled and not registration.told:
            self._broker.settling.tell(registration, advertisement=False)

    def tell(self, link: Link, message: AnyMessage) -> None:
        """Send a message of the protocol to a client."""
        self._broker.send(link, message)

    def refused(self) -> None:
        """Count something that came and makes no sense."""
        self._broker.statistics.refused += 1

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        return self._broker.now()

    def call_later(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call `action` in a turn of its own, `delay` microseconds from now."""
        return self._broker.call_later(delay, self._guarded("in a timer", action))

    def send(self, link: Link, body: bytes) -> None:
        """Send a message of this feature to a neighbour or client; it gets it in `on_message`. At most `MAX_BODY`."""
        self._broker.send(link, Extension(self._feature.name, checked(self._feature.name, "a message", body)))

    def attach(self, link: Link, data: bytes) -> None:
        """Let the message that this step sends to a neighbour carry something; it comes to `Feature.on_attached`.

        To be called in advice around a SEND joinpoint, before `proceed`; elsewhere it raises `FeatureError`. What the
        step sends no message for is dropped when it ends.
        """
        self._broker.doors.attach(link, self._feature.name, data)

    def ride(
        self,
        link: Link,
        produce: Callable[[], bytes | None],
        within: int,
        carries: Callable[[AnyMessage], bool] = lambda message: True,
    ) -> None:
        """Let the next message to a neighbour carry what `produce` gives when it leaves; None: nothing any more.

        `carries` says which messages may; by default all.

        If no message leaves within so many microseconds, what `produce` gives then goes by itself. The neighbour gets
        it in `on_attached`, or in `on_message` if it went by itself. What waits when the tree changes is dropped.

        Who rides again before that takes the place of what waits, and goes by itself at the earlier of the two times.
        """
        name = self._feature.name

        def produced() -> bytes | None:
            return None if (data := produce()) is None else bounded(name, data)

        made = self._guarded("as it made what rides", produced, None)
        self._broker.doors.ride(link, name, made, within, self._guarded("as it chose its carrier", carries, False))

    def follow(self, client: Link, seq: int, begin: Callable[[Envelope], None]) -> None:
        """Call `begin` when an attached client publishes something by this number of its own.

        That is in the step that sends it, before it is sent: the place for `note_receivers`. A client that leaves, or
        is refused, is forgotten.
        """
        self._broker.delivery.follow(client, seq, self._guarded("as it began to follow", begin))

    def unfollow(self, client: Link, seq: int) -> None:
        """Wait for a publication no longer."""
        self._broker.delivery.unfollow(client, seq)

    def note_receivers(self, onward: bytes, noted: Callable[[Link, bool], None]) -> None:
        """Hear of each client that gets the notification of this step; it carries `onward` to the neighbours.

        To be called in `begin` of `follow`, and in `on_attached`: there it is about the message that is handled next.
        `noted(client, sent)`: whether it was sent the notification, or that is kept back from it; the same client may
        be noted more than once.
        """
        name = self._feature.name
        noting = Noting(name, bounded(name, onward), self._guarded("as it noted a receiver", noted))
        self._broker.delivery.following.noting = noting

    def open_sessions(self, opener: Opener) -> None:
        """Be asked for a session by each request, and told if it goes to nobody."""
        self._broker.delivery.opener = opener

    @property
    def knows_all(self) -> bool:
        """Whether this broker knows what everybody in the network wants: nobody floods, and no neighbour is missing."""
        return self.routing.algorithm != "flooding" and self._broker.gathering.is_ready

    def make_tap(self, told: Callable[[str, Matches, int], None], withdrawn: Callable[[str], None]) -> Tap:
        """A tap, to be opened: it is told what is wanted in the root scope, as a neighbour is.

        `told` is called with the id, filter and number of what is announced, `withdrawn` with the id of what ends.
        While it is there, no subscription settles before `confirm_tap` says that what stands for it is known.
        """
        guarded = self._guarded
        return Tap(
            self._feature.name, guarded("as a tap was told", told), guarded("as a tap was told of an end", withdrawn)
        )

    def open_tap(self, tap: Tap) -> None:
        """Tell it everything that is wanted now, and each change from then on. A new tree closes it: open it again."""
        self._broker.scoping.add_tap(tap)
        self._broker.entries.tell_tap(tap)

    def confirm_tap(self, tap: Tap, id: str, number: int) -> None:
        """What was announced to it by this id and number is known."""
        book = self._broker.scoping.root.subscriptions
        self._broker.settling.report(book, book.confirm(tap, id, number))

    def close_tap(self, tap: Tap) -> None:
        """Tell it no more, and let nothing wait for it."""
        self._broker.scoping.remove_tap(tap)

    def tell_marks(self) -> None:
        """Tell neighbours and clients now how far this broker has come, and not only when that is due."""
        self._broker.progress.tell()

    def send_to(self, broker: str, body: bytes) -> bool:
        """Send a message of this feature to any broker; it gets it in `on_routed`. False: it cannot be reached now.

        It travels behind everything that went before it on the same links, and is lost if the tree changes meanwhile.
        """
        return self._broker.doors.send_to(broker, self._feature.name, body)

    def standing_for(self, principal: str) -> Collection[Link]:
        """The attached clients that stand for somebody: itself, if it is here, and inner clients."""
        return self._broker.standing_for(principal)

    def open_client(
        self, name: str, receive: Callable[[Frame], None], principal: str = "", guard: Guard | None = None
    ) -> InnerClient:
        """Open a client inside the broker, which stands for a principal, or else for itself; see `_inside`.

        It may do what `guard` allows, without one what clients of the principal may that are attached here; if there
        are none, it may do anything, as the feature itself may. `TopologyError` if a client has its name already: that
        may be anybody's doing, and is no failure of the feature unless it lets the error pass.
        """
        if not name:
            raise FeatureError(f"feature '{self._feature.name}' opens a client with an empty name; choose another one")
        guard = guard or guard_of(self._broker, principal)
        receive = self._guarded("in a client inside the broker", receive)
        client = InnerClient(self._broker, Link(name, LinkKind.CLIENT, guard, principal, inside=True), receive)
        self._opened.add(client.link)
        return client

    def adopt(self, old: Link, new: Link, only: Iterable[Registration] | None = None) -> None:
        """Let one client have what another of the same principal subscribes to and advertises; one is this feature's.

        Nothing is announced or withdrawn: from now on everything that is for these subscriptions goes to `new`. With
        `only`, these are adopted, and the others stay.
        """
        chosen = None if only is None else frozenset(only)
        adopt(self._broker, self._feature.name, old, new, owned=self._opened, only=chosen)

    def stand_in(self, takes: Callable[[Link, Subscribe | Advertise], Registration | None]) -> None:
        """Be asked when a client that has come here goes on with a subscription, or advertises.

        `takes` gives a registration of an inner client that it has just let the client adopt, or None: then the client
        gets a new one. What it missed has been handed over, or is owed (`owe`).
        """
        self._broker.stand_in = takes

    def marks_of(self, registrations: Iterable[Registration]) -> dict[str, Position]:
        """How far these subscriptions have certainly seen each origin, this broker included."""
        return self._broker.marks_of(registrations)

    def origins(self) -> dict[str, Position]:
        """How far each origin is at least, this broker included. By a gateway, something of that may still come."""
        return self._broker.recovery.seen.origins()

    def owed(self, registration: Registration) -> dict[str, Position]:
        """The origins that owe a subscription something, each with the position behind which it does."""
        return self._broker.recovery.owed_since(registration)

    def keep(self, registration: Registration, form: Owed) -> None:
        """Hand a form of a publication over when it is due."""
        envelope, due, path, _ = form
        if not self._broker.delaying.keeps(registration.link, envelope, (registration,), due, path):
            self._broker.delivery.deliver_held(envelope, (registration,))

    def reached(self, registration: Registration, positions: Mapping[str, Position]) -> None:
        """Let nothing wait for a subscription that its past up to these positions contains, or is too old for it."""
        self._broker.delaying.reached(registration, positions)

    def late(self, envelope: Envelope, path: tuple[str, ...]) -> None:
        """Something from the past came by a border that checks: a reader does not get it, and the broker says so."""
        self._broker.borders.late(envelope.identity, path)

    def may_owe(self, client: Link, more: int) -> bool:
        """Whether so many more origins may owe a client something."""
        return self._broker.recovery.has_room(client, more)

    def owe(self, registration: Registration, origin: str, since: Position, held: Iterable[Envelope]) -> None:
        """Let an origin owe a subscription what follows a position, in the place of what it owed before.

        `held` is what is there of it already, and fills what the origin has lost.
        """
        self._broker.recovery.owe(registration, origin, since, held)

    def pay(self, registration: Registration, origin: str, since: Position, envelopes: Iterable[Envelope]) -> bool:
        """Hand a subscription what an origin owes it behind a position; False: it owes more, or nothing any more.

        `envelopes` are all of it that have not come by themselves since this broker knew the subscription.
        """
        return self._broker.recovery.pay(registration, origin, since, envelopes)

    def weave(self, advice: Mapping[Joinpoint, Advice], woven: Callable[[], None] = lambda: None) -> None:
        """Advise these steps from the next turn on, beside those that this feature advises already.

        The turn in which this is called goes on as it began, so no message meets two weavings. `woven` is called as
        soon as the steps are advised, before anything else happens: the tables are as the advice finds them.
        """
        advice = checked_advice(self._feature, advice)
        self._broker.weave_later(self._feature, advice, self._guarded("when it was woven", woven))

    def unweave(self, *joinpoints: Joinpoint) -> None:
        """Advise these steps no longer, from the next turn on."""
        self._broker.weave_later(self._feature, checked_advice(self._feature, dict.fromkeys(joinpoints)))

    def wave(self, kind: str, body: bytes, done: Callable[[bytes, bool], None], deadline: int = WAVE_DEADLINE) -> None:
        """Ask every broker; `done(answer, complete)` is called exactly once. See `Feature.wave_kinds`.

        `deadline` is in microseconds.
        """
        name = self._feature.name
        ended = self._guarded("at the end of a wave", done)
        self._broker.waves.start(f"{name}.{kind}", checked(name, "a question to all", body), ended, deadline)
