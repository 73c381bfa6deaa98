"""What a broker says about itself when an administrator asks: plain data, sent as JSON.

A field that a later version adds is ignored by an earlier one, so old tools can watch new brokers.
"""

from __future__ import annotations

import msgspec

from ._errors import WireError

MAX_CLIENTS = 1_000
"""The most clients that one status lists; the rest is only counted."""
MAX_TABLES = 1_000
"""The most scopes whose traffic one status tells."""
MAX_FILTERS = 100
"""The most filters that one status lists for each neighbour."""


class PeerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One link of the broker, to a neighbour or a client."""

    name: str
    kind: str
    """"broker" or "client"."""
    connected: bool
    """False while a cut connection is waited for."""
    queued: int
    """Parts that wait for room in the window."""
    unacknowledged: int
    """Parts that were sent and not acknowledged yet."""
    dropped: int
    """Notifications that were dropped because the peer was too slow."""
    congested: bool
    """Whether its queue is full."""
    subscriptions: int
    """Subscriptions that came from it."""
    advertisements: int
    """Advertisements that came from it."""
    told_subscriptions: int = 0
    """Of a neighbour: subscriptions that it has been told."""
    told_advertisements: int = 0
    """Of a neighbour: advertisements that it has been told."""
    told: tuple[str, ...] = ()
    """Of a neighbour: the first filters among the subscriptions that it has been told."""
    clock_offset: float | None = None
    """Of a neighbour: the seconds by which its clock is ahead; None: nobody knows."""
    clock_error: float | None = None
    """By how many seconds that may be wrong, in either direction."""


class DialStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One neighbour that the configuration names."""

    url: str
    connected: bool
    problem: str | None = None
    """Why it is not connected."""


class TreeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers that this one knows, and how notifications travel between them."""

    epoch: int
    neighbours: tuple[str, ...]
    """The neighbours that the tree uses."""
    hops: dict[str, str]
    """For every other broker, the neighbour in whose direction it lies."""
    edges: tuple[tuple[str, str], ...]
    """The links of the tree."""
    spare: tuple[tuple[str, str], ...]
    """Links that are up and not in the tree: it grows over them when another is lost."""


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """What the broker has counted since it started. Rates are differences of these."""

    messages_in: dict[str, int]
    """Messages received, by type."""
    messages_out: dict[str, int]
    """Messages sent, by type."""
    stale_frames: int
    refused: int
    repeated_publications: int
    gaps: int
    unstored: int = 0
    """Publications that asked for no quality and went on as `accepted`, because the store did not take them."""
    border_refusals: dict[str, int] = {}
    """What the borders of scopes did not let pass, by the reason."""


class TableStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The traffic of one scope at one broker, since that carries it."""

    scope: str
    """"": the root scope."""
    subscriptions: int
    advertisements: int
    lookups: int
    """How often it was asked for the subscriptions that a notification passes."""
    evaluated: int
    """The filters that were in it at each lookup, together."""
    copies: int
    """Copies of notifications that it sent on, to neighbours and clients."""
    taken: int = 0
    """The notifications among these that took the plain path."""
    fed: int = 0
    """Publications among these that the compiled engine took as bytes."""
    unfed: str = ""
    """Why it takes none as bytes now, if it does not."""
    hidden: bool = False
    """Whether only its members and administrators may know of it."""


class ScopeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker knows of the scope graph."""

    count: int
    """How many scopes there are, without the root scope."""
    carried: int
    """How many of them this broker carries."""
    version: int
    """The newest version of the graph that it knows."""
    active: int
    """The version by which it judges what is published now."""
    authority: str
    """The broker that orders changes; "": none is named, so there can be none."""
    ready: bool
    """False: it has heard nothing of the graph yet, and publications wait."""
    tables: tuple[TableStatus, ...] = ()
    """The scopes that it carries, the root scope first, those it has carried longest before the others."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """One broker at one moment."""

    name: str
    epoch: int
    """The broker's incarnation."""
    role: str
    """"border" or "inner"."""
    version: str
    uptime: float
    """Seconds since it started."""
    host: str
    port: int
    draining: bool
    """Whether it is about to stop."""
    clients: int
    brokers: int
    """How many neighbours are linked now."""
    peers: tuple[PeerStatus, ...]
    peers_left_out: int
    """Clients that are not listed because there are too many."""
    dialled: tuple[DialStatus, ...]
    subscriptions: int
    """The size of the subscription table: of clients and neighbours together."""
    advertisements: int
    counters: Counters
    tree: TreeStatus
    suspended: tuple[str, ...]
    """Origins whose missed notifications are being fetched."""
    routing: dict[str, bool | int | float | str]
    limits: dict[str, bool | int | float | str]
    store: dict[str, int] | None
    """What the store has counted; None: the broker has none."""
    durable: int = 0
    """Durable subscriptions that are kept, whether their clients are there or not."""
    history: dict[str, int] = {}
    """What clients have asked of the past, and what came of it; empty: this broker keeps no history."""
    scopes: ScopeStatus | None = None
    """The scope graph; None: the broker is older than scopes."""
    waiting: int = 0
    """Publications that wait for their scopes or advertisements to be ready."""
    aggregation: dict[str, int] = {}
    """What is watched and measured here, and what came of it; empty: this broker answers no such questions."""
    mobility: dict[str, int] = {}
    """Clients that came from other brokers, what they found, and the size of the neighbour graph."""
    engine: str = ""
    """"compiled engine", or "pure Python" and why; empty: the broker is older than this word."""


def encode_status(status: Status) -> bytes:
    """As JSON."""
    return msgspec.json.encode(status)


def decode_status(body: bytes) -> Status:
    """From JSON, or `WireError`."""
    try:
        return msgspec.json.decode(body, type=Status)
    except msgspec.MsgspecError as error:
        raise WireError(f"not the status of a broker: {error}") from None
