"""What can be set about a server, with the defaults and the limits."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tidings.aggregation import AggregationOptions
from tidings.broker import Role, RoutingOptions
from tidings.history import HistoryOptions, StrategyOptions
from tidings.mobility import MobilityOptions
from tidings.scopes import Admission, BorderKey
from tidings.store import PROMOTED
from tidings.wire import DEFAULT_PORT

from ._access import Access
from ._bounds import Bound


class SlowPolicy(enum.Enum):
    """What happens when a subscriber does not take its notifications and its queue is full."""

    BLOCK = "block"
    """Clients of this broker who send to it wait, for `block_seconds` of a minute at most; otherwise as DROP_OLDEST."""
    DROP_OLDEST = "drop_oldest"
    """The oldest notifications in the queue are dropped, and the subscriber is told by a Gap."""
    DISCONNECT = "disconnect"
    """The subscriber is disconnected."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of queues, windows and times. Sizes are in bytes, times in seconds."""

    max_part: int = 4_194_304
    """The largest part that is accepted from a peer."""
    window_parts: int = 16_384
    """Parts sent to a peer and not acknowledged yet; more wait in the queue."""
    window_bytes: int = 8_388_608
    queue_parts: int = 32_768
    """Parts that wait for a peer; at the limit, the policy decides."""
    queue_bytes: int = 33_554_432
    identity_bytes: int = 134_217_728
    """What is kept in memory for all clients of one identity: queues, windows, registrations."""
    memory_bytes: int = 402_653_184
    """The same for all clients."""
    connections: int = 20_000
    """The most connections at a time, counted when they are accepted. Beyond, the oldest goes that has not said hello;
    if all have, the new one is refused."""
    handshake: float = 5.0
    """How long a new connection may take for TLS and its hello together."""
    heartbeat: float = 10.0
    """After this long in silence a peer is asked whether it is still there; after three times that it is not."""
    broker_resume: float = 5.0
    """How long a cut link between brokers is kept for its peer to come back."""
    client_resume: float = 30.0
    """How long a cut client is kept."""
    client_silence: float = 30.0
    """After this long in silence a client counts as away, though its connection may still be there."""
    block_seconds: float = 10.0
    """For how many seconds of each minute a slow subscriber with the policy `block` may hold others up."""
    stall_seconds: float = 2.0
    """How long a neighbour whose queue is full may acknowledge nothing before its link is given up."""
    join_seconds: float = 60.0
    """How long a neighbour whose link the tree uses may take to join the tree before that link is given up."""
    drain: float = 3.0
    """How long a stopping server waits for its peers in all: for its queues to empty, and for its goodbye to arrive."""
    clock_offset: float = 1.0
    """How far the clock of a neighbour may be off before the log says so."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """Certificates. `ca` is who may have signed those of neighbours and clients."""

    certificate: Path
    key: Path
    ca: Path | None = None


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What the store keeps, and what it finds quickly."""

    retain_for: float | None = None
    """Seconds after which a publication may be forgotten; None: never."""
    retain_bytes: int | Bound = Bound.DEFAULT
    """The bytes on disk beyond which the oldest publications are forgotten; the default is shared with the archive."""
    index: tuple[str, ...] = PROMOTED
    """The attributes by whose values queries pass over what they do not want."""
    deliveries: bool = False
    """Whether the journal notes what each client is sent, for `tidings audit`."""
    journal_for: float = 2_592_000.0
    """Seconds after which the journal may forget; what still stands is carried on."""


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """Where everything that is stored goes in the end. Needs a store, and the extra `archive`."""

    directory: Path
    roll_after: float = 300.0
    """Seconds between two rolls."""
    promote: tuple[str, ...] = PROMOTED
    """The attributes with columns of their own, as `name` or `name:kind`."""
    retain_bytes: int | Bound = Bound.DEFAULT
    """The bytes of this broker's files beyond which the oldest go. By default none if the store has a size of its own,
    else what the default leaves."""


@dataclass(frozen=True, slots=True)
class Options:
    """Everything about one server."""

    name: str = "broker"
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    data: Path | None = None
    """Where the store is; None: nothing is stored."""
    role: Role = Role.BORDER
    routing: RoutingOptions = field(default_factory=RoutingOptions)
    strict_topology: bool = False
    authority: str | None = None
    """The broker that orders changes of the scope graph, the same in a whole network; see `Governance`."""
    frozen_scopes: bool = False
    """At the authority: whether the scope graph stays as it is."""
    admission: Admission | None = field(default=None, repr=False)
    """At the authority: a rule of the operator's own, asked whenever a membership comes to be or changes."""
    border_key: tuple[BorderKey, ...] = ()
    """The keys by which this broker, as a gateway, signs what leaves scopes and checks what comes into them."""
    neighbours: tuple[str, ...] = ()
    """The brokers to connect to, as `tidings://host:port` or `tidings+tls://host:port`."""
    neighbour_token: str | None = field(default=None, repr=False)
    """The secret by which this broker identifies itself to its neighbours."""
    tls: TlsOptions | None = None
    access: Access = field(default_factory=Access)
    insecure: bool = False
    """Listen beyond this machine without TLS and authentication, and send `neighbour_token` there without TLS."""
    metrics_port: int | None = None
    """Where metrics and health are served over HTTP; None: nowhere. 0: the system chooses."""
    metrics_host: str = "127.0.0.1"
    management: bool = False
    """Whether the broker and the scope graph can be looked at and changed over HTTP, there, on this machine."""
    slow_policy: SlowPolicy = SlowPolicy.DROP_OLDEST
    limits: Limits = field(default_factory=Limits)
    store: StoreOptions = field(default_factory=StoreOptions)
    archive: ArchiveOptions | None = None
    history: HistoryOptions = field(default_factory=HistoryOptions)
    caching: StrategyOptions = field(default_factory=StrategyOptions)
    """For the strategies of history that rest on caches; the timer and the largest answer are those of `history`."""
    aggregation: AggregationOptions = field(default_factory=AggregationOptions)
    mobility: MobilityOptions = field(default_factory=MobilityOptions)
    locate: Callable[[str], Iterable[str] | None] | None = field(default=None, repr=False)
    """A location service of the operator's own: the brokers where a client may go next, the likeliest first; None:
    it does not know, and the neighbour graph counts."""

    @property
    def routing_kind(self) -> str:
        """What all brokers of a network must do alike.

        Those that flood are told nothing, those that advertise expect it of all, and the marks of a tree are known when
        every broker has told its own.
        """
        kind = "flooding" if self.routing.algorithm == "flooding" else "filters"
        return f"{kind}{' with advertisements' * self.routing.advertisements}, gathering marks"
