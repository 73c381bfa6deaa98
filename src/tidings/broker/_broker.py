"""The broker: a message comes in on a link, messages go out on links. No I/O, no clock, no randomness.

Theory of operation
-------------------
Everything happens in *turns*: the runtime calls one public method (a frame came, a link came or went, a timer
expired), the broker changes its state and sends frames through the runtime, the turn ends. Nothing else runs
in between, so a turn needs no locks and leaves no half-done state.

    Publish, Notify            delivery: check and stamp what clients publish, find the links that want it, send
    Subscribe, Advertise       registrations: what clients ask for, in the scopes that they are members of
                               entries: change the books, announce to the neighbours, withdraw what has ended
    Settled                    settling: tell the owners of entries that everybody who must know them does
    LinkState, Attach          topology and adjacency: which links the tree uses, and who on them is ready
    TreeReady, TreeMarks       the marks of a tree: how far every origin had come when all filters were in place
    Wave, Mark, Fetch          waves, progress, recovery: what the features build on

This module has the turns, the links and the clients; each part has a module of its own. Named steps of the parts
are joinpoints (see `_joinpoints`). What a neighbour says is heard only if it belongs to the current tree (see
`_adjacency`).
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from tidings.model import Effort, EventKey, FeatureError, Location, Position, TidingsError, TopologyError
from tidings.wire import (
    Advertise,
    AnyMessage,
    Attach,
    DeliverAck,
    Envelope,
    Extension,
    Fetch,
    Fetched,
    Frame,
    Hop,
    LinkState,
    Mark,
    Message,
    Notify,
    Publish,
    Refused,
    Routed,
    Settled,
    Subscribe,
    TreeMarks,
    TreeReady,
    Unadvertise,
    Unsubscribe,
    Wave,
    WaveAnswer,
)

from ._bounds import TURN_STEPS
from ._context import Context
from ._doors import SENDS, Doors
from ._failures import Answering, Failures
from ._joinpoints import (
    Advice,
    Feature,
    For,
    Joinpoint,
    Proceed,
    Watching,
    advice_of,
    observe,
    ordered,
    start,
    watching,
    weave,
)
from ._links import Link
from ._runtime import Runtime, Timer
from ._statistics import Statistics
from .forwarding import NO_HOP, Borders, Crossing, Delaying, Delivery, Ordering, Publications, Remembering
from .interest import ALGORITHMS, Entries, Registration, Registrations, RoutingOptions, Scoping, Settling, Table
from .outlets import Holds, Recovery
from .overlay import Adjacency, Gathering, Progress, Tree, Waves


class Role(enum.Enum):
    """What a broker is for."""

    BORDER = "border"
    """Serves clients and neighbours."""
    INNER = "inner"
    """Serves neighbours only."""


def _sparing(handler: Callable[[Link, Any], None]) -> Callable[[Link, Any], None]:
    """A handler whose comparisons of filters share one allowance: one registration keeps nobody waiting for long."""

    def turn(link: Link, message: Any) -> None:
        with Effort(TURN_STEPS):
            handler(link, message)

    return turn


class _Sources:
    """What the marks of a broker rest on."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def last(self) -> int:
        return self._broker.publications.last

    @property
    def gateways(self) -> frozenset[str]:
        return self._broker.scoping.gateways

    def marked(self, mark: Mark) -> None:
        self._broker.recovery.marked(mark)

    def marks_of_clients(self) -> Iterable[tuple[Link, dict[str, Position]]]:
        return self._broker.recovery.seen.marks_of_clients()


class Broker:
    """One broker of the network."""

    # The steps that can be advised; see `Joinpoint`.
    at_subscribe: Proceed
    at_ad_add: Proceed
    at_sub_add: Proceed
    at_ad_del: Proceed
    at_sub_del: Proceed
    at_pub_match: Proceed
    at_pub_send: Proceed
    at_sub_send: Proceed
    at_unsub_send: Proceed
    at_ad_send: Proceed
    at_unad_send: Proceed
    at_attach: Proceed
    at_detach: Proceed
    at_away: Proceed
    at_back: Proceed
    at_adopt: Proceed
    at_deliver: Proceed
    at_ack: Proceed
    at_cross: Proceed
    at_graph: Proceed
    at_link: Proceed
    at_tree: Proceed
    at_published: Callable[[Envelope, Link], None] | None
    watching: Watching | None

    def __init__(
        self,
        name: str,
        runtime: Runtime,
        *,
        routing: RoutingOptions | None = None,
        role: Role = Role.BORDER,
        strict_topology: bool = False,
        place: Location | None = None,
        features: Iterable[Feature] = (),
        shuffle: Callable[[list[Feature]], None] | None = None,
    ) -> None:
        self.name = name
        self.place = place
        """Where it stands: what `myloc` means in the filters of its clients; None: nothing."""
        self.role = role
        self.routing = routing or RoutingOptions()
        if self.routing.algorithm not in ALGORITHMS:
            known = ", ".join(sorted(ALGORITHMS))
            raise FeatureError(f"no routing algorithm is called '{self.routing.algorithm}'; choose one of {known}")
        self.epoch = runtime.epoch
        self.runtime = runtime
        self.statistics = Statistics()
        self.crowded: Callable[[Link], bool] = lambda link: False
        """Whether so much waits on a link that what can wait should wait; whoever runs this broker knows."""
        self.held_up: Callable[[Link], bool] = lambda link: False
        """Whether a client has filled the queue of somebody who has yet to make room."""
        self.charge: Callable[[Link, Callable[[], int]], int] = lambda link, action: action()
        """Do something, and let what it sends count as the doing of this client; what the action gives."""
        self.register: Callable[[Link, int], None] = lambda link, size: None
        """Takes the bytes of a filter that a client registers, or ends (then below 0); refuses by a `TidingsError`."""
        self.stand_in: Callable[[Link, Subscribe | Advertise], Registration | None] = lambda link, message: None
        """Gives a registration that a client has just adopted from one who stands for it; see `Context.stand_in`."""
        self._clients: dict[str, Link] = {}
        self.absent: set[Link] = set()
        """The clients whose connections are lost or silent."""
        self._principals: dict[str, dict[Link, None]] = {}
        """The attached clients that stand for somebody."""
        self.publications = Publications(self.epoch, runtime.log, name=name, publishes=role is not Role.INNER)
        self.remembering = Remembering(runtime.log, self.statistics, self.publications.numbers.publishers)
        self.publications.choose = self.remembering.choose
        self.adjacency: Adjacency = Adjacency(self, self.epoch, strict=strict_topology)
        self.scoping: Scoping = Scoping(self)
        self.waves: Waves = Waves(self, self.adjacency, waits=not self.routing.advertisements)
        self.progress: Progress = Progress(self, self.adjacency, _Sources(self))
        self.holds: Holds = Holds(self)
        self.recovery: Recovery = Recovery(self)
        self.gathering: Gathering = Gathering(
            self, self.adjacency, lambda: self.publications.last, self.recovery.marks_gathered
        )
        self.crossing: Crossing = Crossing(self)
        self.borders: Borders = Borders(name, runtime, self.statistics)
        self.doors: Doors = Doors(self)
        self.ordering: Ordering = Ordering(self)
        self.delaying: Delaying = Delaying(self)
        self.entries: Entries = Entries(self)
        self.registrations: Registrations = Registrations(self)
        self.delivery: Delivery = Delivery(self)
        self.settling: Settling = Settling(self)
        self._handlers: dict[type, Callable[[Link, Any], None]] = {
            Notify: self.delivery.notified,
            Mark: self.progress.receive,
            TreeReady: self.gathering.ready,
            TreeMarks: self.gathering.marks,
            Subscribe: _sparing(self.entries.subscribed),
            Unsubscribe: _sparing(self.entries.unsubscribed),
            Advertise: _sparing(self.entries.advertised),
            Unadvertise: _sparing(self.entries.unadvertised),
            Settled: self.settling.confirmed,
            Wave: self.waves.receive,
            WaveAnswer: self.waves.answer,
            Fetch: lambda link, message: self.recovery.fetching.requested(message),
            Fetched: lambda link, message: self.recovery.fetching.answered(message),
            Routed: self.doors.routed,
            Extension: self._extension,
        }
        self._client_handlers: dict[type, Callable[[Link, Any], None]] = {
            Publish: self.delivery.published,
            Subscribe: _sparing(self.registrations.subscribed),
            Unsubscribe: _sparing(self.registrations.unsubscribed),
            Advertise: _sparing(self.registrations.advertised),
            Unadvertise: _sparing(self.registrations.unadvertised),
            DeliverAck: lambda link, ack: self.at_ack(link, EventKey(ack.origin, ack.epoch, ack.seq)),
            Extension: self._extension,
        }
        self._defaults: dict[Joinpoint, Proceed] = {
            Joinpoint.SUBSCRIBE: self.registrations.subscribe,
            Joinpoint.AD_ADD: self.entries.ad_add,
            Joinpoint.SUB_ADD: self.entries.sub_add,
            Joinpoint.AD_DEL: self.entries.ad_del,
            Joinpoint.SUB_DEL: self.entries.sub_del,
            Joinpoint.PUB_MATCH: self.delivery.pub_match,
            Joinpoint.PUB_SEND: self.delivery.pub_send,
            Joinpoint.SUB_SEND: self.entries.sub_send,
            Joinpoint.UNSUB_SEND: self.entries.unsub_send,
            Joinpoint.AD_SEND: self.entries.ad_send,
            Joinpoint.UNAD_SEND: self.entries.unad_send,
            Joinpoint.ATTACH: self._attach,
            Joinpoint.DETACH: self._detach,
            Joinpoint.AWAY: self._away,
            Joinpoint.BACK: self._back,
            Joinpoint.ADOPT: self._adopt,
            Joinpoint.DELIVER: self.delivery.deliver,
            Joinpoint.ACK: self.delivery.ack,
            Joinpoint.CROSS: self.crossing.cross,
            Joinpoint.GRAPH: self._graph,
            Joinpoint.LINK: self._link,
            Joinpoint.TREE: self._tree,
        }
        self.failures = Failures()
        self.features: dict[str, Feature] = {}
        self._advice: dict[Feature, dict[Joinpoint, Advice]] = {}
        self._weave(Joinpoint)
        self._add_features(ordered(features), shuffle)

    def _add_features(self, features: list[Feature], shuffle: Callable[[list[Feature]], None] | None) -> None:
        """Start the features, and weave their advice when all have started."""
        failures = self.failures
        self.features = {feature.name: feature for feature in features}
        for feature in features:
            feature.context = Context(self, feature)
            kinds = failures.guarded(feature, "in wave_kinds", feature.wave_kinds, {})()
            for kind, handler in kinds.items():
                self.waves.register(f"{feature.name}.{kind}", Answering(handler, feature, failures))
        if shuffle is not None:
            shuffle(features)
        advice = {feature: failures.guarded(feature, "in advice", advice_of, {})(feature) for feature in features}
        started = [one for one in self.features.values() if failures.guarded(one, "in start", start, False)(one)]
        self._advice = {feature: own if feature in started else {} for feature, own in advice.items()}
        self._weave(Joinpoint)

    def _weave(self, joinpoints: Iterable[Joinpoint]) -> None:
        """Make the steps anew, with the advice that there is now."""
        for joinpoint in joinpoints:
            advice = [(feature, own[joinpoint]) for feature, own in self._advice.items() if joinpoint in own]
            if joinpoint is Joinpoint.PUBLISHED:
                self.at_published = observe(advice, self.failures)
                self.watching = watching(advice, self.failures)
            else:
                step = weave(joinpoint, self._defaults[joinpoint], advice, self.failures)
                if advice and joinpoint in SENDS:
                    step = self.doors.sending(step)
                setattr(self, f"at_{joinpoint.label}", step)
        delivery = self.delivery
        advised = [own[Joinpoint.DELIVER] for own in self._advice.values() if Joinpoint.DELIVER in own]
        some = [one.links for one in advised if isinstance(one, For)]
        delivery.woven(
            matches=self.at_pub_match == delivery.pub_match,
            sends=self.at_pub_send == delivery.pub_send,
            advised=tuple(some) if len(some) == len(advised) else None,
        )

    def weave_later(
        self,
        feature: Feature,
        advice: Mapping[Joinpoint, Advice | None],
        woven: Callable[[], None] = lambda: None,
    ) -> None:
        """Let a feature advise other steps than before, between this turn and the next; None: no longer.

        `woven` is called then, in that turn between the two.
        """

        def weave_now() -> None:
            for joinpoint, one in advice.items():
                if one is None:
                    self._advice[feature].pop(joinpoint, None)
                else:
                    self._advice[feature][joinpoint] = one
            self._weave(advice)
            woven()
            self.settling.end_turn()

        self.runtime.call_later(0, weave_now)

    def on_client_message(self, kind: type[Message], handler: Callable[[Link, Any], None]) -> None:
        """Let whoever runs this broker answer one more type of client message; a `TidingsError` refuses it."""
        if kind in self._client_handlers:
            raise FeatureError(f"{kind.__name__} has a handler already; choose another message type")
        self._client_handlers[kind] = handler

    # --- turns: what the runtime calls ----------------------------------------------------------------

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """One turn: when it ends, whoever waits for what has settled in it is told.

        A turn that fails is not ended: the broker stops. Publish and Notify settle nothing, and go without.
        """
        yield
        self.settling.end_turn()

    def link_up(self, link: Link) -> None:
        """A link to a neighbour broker has come up; frames may be sent on it from now on."""
        with self.turn():
            self.adjacency.link_up(link)
            self.at_link(link, True)

    def has_link(self, link: Link) -> bool:
        """Whether this link to a neighbour broker is up."""
        return self.adjacency.neighbours.get(link.name) is link

    def awaits(self, link: Link) -> bool:
        """Whether the tree uses this link to a neighbour broker, which has not joined the tree yet."""
        return self.adjacency.awaits(link)

    def link_down(self, link: Link) -> None:
        """A link to a neighbour broker is lost, and with it what was under way on it."""
        with self.turn():
            self.at_link(link, False)
            self.adjacency.link_down(link)

    def attach(self, link: Link, *, inside: bool = False) -> None:
        """A client has come. It stays attached to this broker until `detach`.

        `inside`: a feature has opened it (see `_inside`), which inner brokers may have, too.
        """
        if self.role is Role.INNER and not inside:
            raise TopologyError(f"broker '{self.name}' is an inner broker and takes no clients; use a border broker")
        if link.name in self._clients:
            raise TopologyError(f"a client '{link.name}' is attached to '{self.name}' already; choose another name")
        self.at_attach(link)

    def detach(self, link: Link) -> None:
        """A client has gone for good."""
        with self.turn(), Effort(TURN_STEPS):
            self.at_detach(link)

    def receive(self, link: Link, frame: Frame) -> None:
        """A frame has come in on a link."""
        kind = type(frame.message)
        self.statistics.received[kind] += 1
        if kind is Publish or kind is Notify:  # these settle nothing
            self._hear(link, frame, kind)
        else:
            self._hear(link, frame, kind)
            self.settling.end_turn()  # as `turn`

    def feeds(self, link: Link, data: bytes, limit: int) -> bool:
        """Whether these bytes of a client or neighbour, which begin with a part, may be handed to `feed`.

        No part in them may be larger than the limit, or of a kind that there is not.
        """
        if not (self.has_link(link) if link.is_broker else self._clients.get(link.name) is link):
            return False
        feeding = self.delivery.feeding(link, data)
        return feeding is not None and feeding.is_sound(data, limit)

    def feed(self, link: Link, data: bytes, at: int) -> tuple[int, int]:
        """Take what these bytes of a client or neighbour bring, from this place on, as far as it is plain.

        How far that is, and how many messages. It is as if each of them had been given to `receive`.
        """
        if link.is_broker and not self.adjacency.accepts(link, self.adjacency.tree.epoch):
            return at, 0
        passed = self.delivery.feed(link, data, at)
        if passed is None:
            return at, 0
        self.statistics.received[Notify if link.is_broker else Publish] += passed.taken
        return passed.upto, passed.taken

    def _hear(self, link: Link, frame: Frame, kind: type) -> None:
        message = frame.message
        if link.is_broker:
            self._hear_neighbour(link, frame, message, kind)
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

    def _hear_neighbour(self, link: Link, frame: Frame, message: AnyMessage, kind: type) -> None:
        if type(message) is LinkState:
            self.adjacency.learn(link, message)
        elif type(message) is Attach:
            self.adjacency.attach(link, message)
        elif not self.adjacency.accepts(link, frame.hop.tree_epoch):
            self.statistics.stale_frames += 1
        elif (handler := self._handlers.get(kind)) is not None:
            if not frame.hop.attachments:
                handler(link, message)
                return
            self._arrive(link, frame.hop.attachments)
            if (following := self.delivery.following).noting is None:
                handler(link, message)
            elif type(message) is Notify:
                self.delivery.followed(link, message)
            else:
                following.noting = None
                handler(link, message)
        else:
            self.statistics.refused += 1

    def _arrive(self, link: Link, attachments: Mapping[str, bytes]) -> None:
        """Features hear of what rides on a message before it is handled."""
        for name, data in attachments.items():
            if (feature := self.features.get(name)) is not None:
                self.failures.hear(feature, "in on_attached", feature.on_attached, link, data)

    def refuse(self, link: Link, message: AnyMessage, error: TidingsError) -> None:
        """Tell a client that what it asked for was not done."""
        self.statistics.refused += 1
        reference = str(getattr(message, "id", getattr(message, "seq", "")))
        refusal = Refused(type(error).__name__, str(error), reference)
        if isinstance(message, Publish):
            self.publications.refuse(link.principal, message.seq, refusal)
        self.send(link, refusal)

    # --- what the parts of the broker use -------------------------------------------------------------

    def send(self, link: Link, message: AnyMessage) -> None:
        """Put a message on a link, with what features attached for this link in this step."""
        self.statistics.sent[type(message)] += 1
        hop = self.adjacency.hop if link.is_broker else NO_HOP
        doors = self.doors
        if (doors.attached or doors.riding) and (attachments := doors.take(link, message)):
            hop = Hop(self.adjacency.tree.epoch, None, attachments)
        self.runtime.send(link, Frame(message, hop))

    def call_later(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call `action` in a turn of its own."""

        def act() -> None:
            with self.turn():
                action()

        return self.runtime.call_later(delay, act)

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        return self.runtime.now()

    @property
    def clients(self) -> list[Link]:
        """The attached clients."""
        return list(self._clients.values())

    def client(self, name: str) -> Link | None:
        """The link of an attached client."""
        return self._clients.get(name)

    def standing_for(self, principal: str) -> Collection[Link]:
        """The links of the attached clients that stand for somebody: itself, and others inside this broker."""
        return self._principals.get(principal, ())

    @property
    def root(self) -> Table:
        """The table of the root scope, which is all there is unless somebody defines others."""
        return self.scoping.root

    def marks_of(self, entries: Iterable[Registration]) -> dict[str, Position]:
        """How far these subscriptions have certainly seen each origin, this broker included."""
        return self.recovery.seen.marks_of(tuple(entries))

    @property
    def held(self) -> Mapping[Registration, object]:
        """The subscriptions that are held now; not a copy."""
        return self.holds.all

    @property
    def owing(self) -> Collection[str]:
        """The origins that owe something now; not a copy."""
        return self.recovery.owing

    def owed(self, origin: str) -> Mapping[Registration, object]:
        """The subscriptions that an origin owes something."""
        return self.recovery.owed(origin)

    def client_subscriptions(self) -> list[Registration]:
        """The subscriptions of attached clients."""
        return [one for link in self.clients for one in self.registrations.subscriptions(link).values()]

    # --- clients, links, trees ------------------------------------------------------------------------

    def _attach(self, link: Link) -> None:
        self._clients[link.name] = link
        self._principals.setdefault(link.principal, {})[link] = None

    def _detach(self, link: Link) -> None:
        self.delivery.abandon(link)
        self.ordering.abandon(link)
        self.delaying.abandon(link)
        self.registrations.end(link)
        self.scoping.detached(link)
        self.absent.discard(link)
        del self._clients[link.name]
        standing = self._principals[link.principal]
        del standing[link]
        if not standing:
            del self._principals[link.principal]
        self.runtime.close_local(link)

    def away(self, link: Link) -> None:
        """The connection of a client is lost or silent; it may come back, and what is sent to it is kept meanwhile."""
        with self.turn():
            self.at_away(link)

    def back(self, link: Link) -> None:
        """A client that was away is there again, and its session goes on."""
        with self.turn():
            self.at_back(link)

    def _away(self, link: Link) -> None:
        self.absent.add(link)

    def _back(self, link: Link) -> None:
        self.absent.discard(link)

    def _adopt(self, old: Link, new: Link, only: frozenset[Registration] | None) -> None:
        self.registrations.adopt(old, new, only)
        self.ordering.adopt(old, new)
        self.delaying.adopt(old, new)
        self.delivery.forget()

    def _link(self, link: Link, up: bool) -> None:
        """The adjacency has noted it; features may want to know."""

    def _tree(self, old: Tree, new: Tree) -> None:
        self.doors.new_tree()
        self.adjacency.adopt(new)
        self.waves.end_all()
        self.scoping.new_tree()
        self.recovery.new_tree()
        self.gathering.new_tree()
        self.holds.restart()

    def neighbour_ready(self, link: Link, *, anew: bool) -> None:
        """A tree neighbour is ready to be told everything; `anew`: it was before, and has forgotten it."""
        if anew:
            self.waves.started_anew(link)
            self.gathering.started_anew(link)
            self.entries.forget(link)
            self.holds.restart()
        for feature in self.features.values():
            self.failures.guarded(feature, "in neighbour_ready", feature.neighbour_ready)(link)
        self.entries.tell_all(link)
        self.waves.neighbour_ready(link)
        self.gathering.neighbour_ready()

    def _graph(self, old: int, new: int) -> None:
        """The tables are being made; features may want to know."""

    def _extension(self, link: Link, message: Extension) -> None:
        feature = self.features.get(message.feature)
        if feature is None:
            self.statistics.refused += 1
        else:
            self.failures.hear(feature, "in on_message", feature.on_message, link, message.body)
