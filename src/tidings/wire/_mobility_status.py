"""What a broker says about clients that roam when an administrator asks: plain data, sent as JSON.

A field that a later version adds is ignored by an earlier one. Times are microseconds since 1970 UTC, and lengths of
time are microseconds, too.
"""

from __future__ import annotations

import msgspec

from ._errors import WireError


class EdgeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An edge of the neighbour graph."""

    old: str
    new: str
    weight: float
    created_at: int
    last_used: int
    pinned: bool = False
    dwell: float = 0.0
    """Seconds that clients usually stay before they use it; 0: that is not known."""


class MoveStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A client that has come from another broker."""

    client: str
    old: str
    new: str
    at: int
    away: int
    outcome: str = ""
    """What it found: "hit", "early", "miss"; "": nothing was kept ready for it."""
    missed: int = 0
    pause: int = 0


class HostedStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A client that is attached here."""

    client: str
    epoch: int
    since: int
    away: bool
    """Whether its connection is lost, and it may come back."""
    last: str = ""
    """The broker that it came from; "": from none."""


class CopyStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of a client's subscriptions that is held here."""

    client: str
    state: str
    """"passive", or what it does."""
    controller: str = ""
    """The broker that may end it."""
    subscriptions: int = 0
    buffered: int = 0
    """Notifications that are kept for the client."""


class PresenceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What one broker is to the client that was asked for."""

    broker: str
    state: str
    """"connected" or "away": the client is attached there; "passive" or "active": it has a copy of the client."""
    since: int = 0
    """Of an attached client: since when."""


class MobilityStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One broker at one moment, and the neighbour graph of the network."""

    broker: str
    scheme: str
    directed: bool
    edges: tuple[EdgeStatus, ...]
    """Of all brokers that have answered."""
    missing: tuple[str, ...]
    """Brokers that have not."""
    edge_timeout: int
    f_neg: float
    f_pos: float
    counters: dict[str, int]
    hosted: tuple[HostedStatus, ...]
    copies: tuple[CopyStatus, ...] = ()
    moves: tuple[MoveStatus, ...] = ()
    """The latest, the newest last."""
    presences: tuple[PresenceStatus, ...] = ()
    """Where the client is that was asked for, and where there are copies of it, in the whole network."""
    left_out: int = 0
    """Clients that are not listed because there are too many."""


def encode_mobility(status: MobilityStatus) -> bytes:
    """As JSON."""
    return msgspec.json.encode(status)


def decode_mobility(body: bytes) -> MobilityStatus:
    """From JSON, or `WireError`."""
    try:
        return msgspec.json.decode(body, type=MobilityStatus)
    except msgspec.MsgspecError as error:
        raise WireError(f"not what a broker says about mobility: {error}") from None
