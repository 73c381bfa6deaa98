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
    Wave, Mark, Fetch          waves, progress, recovery: what the features build on

This module has the turns, the links and the clients; each part has a module of its own. Named steps of the parts
are joinpoints (see `_joinpoints`). What a neighbour says is heard only if it belongs to the current tree (see
`_adjacency`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any

from tidings.model import Effort, EventKey, FeatureError, TidingsError, TopologyError
from tidings.wire import (
    Advertise,
    AnyMessage,
    Attach,
    DeliverAck,
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
    Settled,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Wave,
    WaveAnswer,
)

from ._adjacency import Adjacency
from ._bounds import TURN_STEPS
from ._context import Context
from ._crossing import Crossing
from ._delivery import NO_HOP, Delivery
from ._entries import Entries
from ._holds import Holds
from ._joinpoints import Failures, Feature, Joinpoint, Step, ordered, weave
from ._links import Link
from ._ordering import Ordering
from ._progress import Progress
from ._publications import Publications
from ._recovery import Recovery
from ._reduction import ALGORITHMS, RoutingOptions
from ._registration import Registration
from ._registrations import Registrations
from ._remembering import Remembering
from ._runtime import Runtime, Timer
from ._scoping import Scoping
from ._settling import Settling
from ._statistics import Statistics
from ._table import Table
from ._topology import Tree
from ._waves import Waves


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
        self.attachments: dict[Link, dict[str, bytes]] = {}
        """What the next message to each link carries for features; it lives for one step."""
        self._arrived: dict[str, bytes] = {}
        self._clients: dict[str, Link] = {}
        self.publications = Publications(self.epoch, runtime.log, publishes=role is not Role.INNER)
        self.remembering = Remembering(runtime.log, self.statistics, self.publications.publishers)
        self.adjacency = Adjacency(self, self.epoch, strict=strict_topology)
        self.scoping = Scoping(self)
        self.waves = Waves(self)
        self.progress = Progress(self)
        self.holds = Holds(self)
        self.recovery = Recovery(self)
        self.delivery = Delivery(self)
        self.crossing = Crossing(self)
        self.ordering = Ordering(self)
        self.entries = Entries(self)
        self.registrations = Registrations(self)
        self.settling = Settling(self)
        self._handlers: dict[type, Callable[[Link, Any], None]] = {
            Notify: self.delivery.notified,
            Mark: self.progress.receive,
            Subscribe: _sparing(self.entries.subscribed),
            Unsubscribe: _sparing(self.entries.unsubscribed),
            Advertise: _sparing(self.entries.advertised),
            Unadvertise: _sparing(self.entries.unadvertised),
            Settled: self.settling.confirmed,
            Wave: self.waves.receive,
            WaveAnswer: self.waves.answer,
            Fetch: lambda link, message: self.recovery.requested(message),
            Fetched: lambda link, message: self.recovery.answered(message),
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
        self._weave(ordered(features), shuffle)
        for feature in self.features.values():
            feature.start(self)

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

        self.at_subscribe = woven(Joinpoint.SUBSCRIBE, self.registrations.subscribe)
        self.at_ad_add = woven(Joinpoint.AD_ADD, self.entries.ad_add)
        self.at_sub_add = woven(Joinpoint.SUB_ADD, self.entries.sub_add)
        self.at_ad_del = woven(Joinpoint.AD_DEL, self.entries.ad_del)
        self.at_sub_del = woven(Joinpoint.SUB_DEL, self.entries.sub_del)
        self.at_pub_match = woven(Joinpoint.PUB_MATCH, self.delivery.pub_match)
        self.at_pub_send = woven(Joinpoint.PUB_SEND, self.delivery.pub_send)
        self.at_sub_send = woven(Joinpoint.SUB_SEND, self.entries.sub_send)
        self.at_unsub_send = woven(Joinpoint.UNSUB_SEND, self.entries.unsub_send)
        self.at_ad_send = woven(Joinpoint.AD_SEND, self.entries.ad_send)
        self.at_unad_send = woven(Joinpoint.UNAD_SEND, self.entries.unad_send)
        self.at_attach = woven(Joinpoint.ATTACH, self._attach)
        self.at_detach = woven(Joinpoint.DETACH, self._detach)
        self.at_deliver = woven(Joinpoint.DELIVER, self.delivery.deliver)
        self.at_ack = woven(Joinpoint.ACK, self.delivery.ack)
        self.at_cross = woven(Joinpoint.CROSS, self.crossing.cross)
        self.at_graph = woven(Joinpoint.GRAPH, self._graph)
        self.at_link = woven(Joinpoint.LINK, self._link)
        self.at_tree = woven(Joinpoint.TREE, self._tree)
        delivery = self.delivery
        delivery.plain = (self.at_pub_match, self.at_pub_send, self.at_deliver) == (
            delivery.pub_match,
            delivery.pub_send,
            delivery.deliver,
        )

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
        self.settling.end_turn()

    def has_link(self, link: Link) -> bool:
        """Whether this link to a neighbour broker is up."""
        return self.adjacency.neighbours.get(link.name) is link

    def link_down(self, link: Link) -> None:
        """A link to a neighbour broker is lost, and with it what was under way on it."""
        self.at_link(link, False)
        self.adjacency.link_down(link)
        self.settling.end_turn()

    def attach(self, link: Link) -> None:
        """A client has come. It stays attached to this broker until `detach`."""
        if self.role is Role.INNER:
            raise TopologyError(f"broker '{self.name}' is an inner broker and takes no clients; use a border broker")
        if link.name in self._clients:
            raise TopologyError(f"a client '{link.name}' is attached to '{self.name}' already; choose another name")
        self.at_attach(link)

    def detach(self, link: Link) -> None:
        """A client has gone for good."""
        with Effort(TURN_STEPS):
            self.at_detach(link)
        self.settling.end_turn()

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
        if kind is not Publish and kind is not Notify:  # these settle nothing
            self.settling.end_turn()

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
        if self.attachments and link in self.attachments:
            hop = Hop(self.adjacency.tree.epoch, None, self.attachments.pop(link))
        else:
            hop = self.adjacency.hop if link.is_broker else NO_HOP
        self.runtime.send(link, Frame(message, hop))

    def call_later(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call `action` in a turn of its own."""

        def turn() -> None:
            action()
            self.settling.end_turn()

        return self.runtime.call_later(delay, turn)

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

    @property
    def root(self) -> Table:
        """The table of the root scope, which is all there is unless somebody defines others."""
        return self.scoping.root

    def client_subscriptions(self) -> list[Registration]:
        """The subscriptions of attached clients."""
        return [one for link in self.clients for one in self.registrations.subscriptions(link).values()]

    def arrived(self, feature: str) -> bytes | None:
        """What a feature attached to the message of this turn on the neighbour's side."""
        return self._arrived.get(feature)

    def attach_to_next(self, link: Link, feature: str, data: bytes) -> None:
        """Let the next message to a link carry something for a feature on the other side."""
        self.attachments.setdefault(link, {})[feature] = data

    # --- clients, links, trees ------------------------------------------------------------------------

    def _attach(self, link: Link) -> None:
        self._clients[link.name] = link

    def _detach(self, link: Link) -> None:
        self.delivery.abandon(link)
        self.ordering.abandon(link)
        self.registrations.end(link)
        self.scoping.detached(link)
        del self._clients[link.name]

    def _link(self, link: Link, up: bool) -> None:
        """The adjacency has noted it; features may want to know."""

    def _tree(self, old: Tree, new: Tree) -> None:
        self.adjacency.adopt(new)
        self.waves.end_all()
        self.scoping.new_tree()
        self.recovery.new_tree()
        self.holds.restart()

    def neighbour_ready(self, link: Link, *, anew: bool) -> None:
        """A tree neighbour is ready to be told everything; `anew`: it was before, and has forgotten it."""
        if anew:
            self.waves.link_lost(link)
            self.entries.forget(link)
            self.holds.restart()
        for feature in self.features.values():
            feature.neighbour_ready(link)
        self.entries.tell_all(link)
        self.recovery.neighbour_ready()

    def _graph(self, old: int, new: int) -> None:
        """The tables are being made; features may want to know."""

    def _extension(self, link: Link, message: Extension) -> None:
        feature = self.features.get(message.feature)
        if feature is None:
            self.statistics.refused += 1
        else:
            feature.on_message(link, message.body)
