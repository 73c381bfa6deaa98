"""The settings of mobility."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ._neighbour_graph import GraphMode, GraphOptions


class Scheme(enum.Enum):
    """What a network does so that a client that moves misses nothing."""

    PROACTIVE = "proactive"
    """The brokers where a client may go next hold copies of its subscriptions, which listen while it is away."""
    REACTIVE = "reactive"
    """The last broker's buffer is fetched when the client arrives, and nothing is delivered until it is there."""
    DURABLE = "durable"
    """Every broker that the client has visited goes on buffering for it. Known to the models only."""
    ORIGINS = "origins"
    """The client says how far it has seen each origin, and the origins are asked for what follows."""


@dataclass(frozen=True, slots=True)
class MobilityOptions:
    """How a broker serves clients that roam. Times are in seconds, sizes in bytes."""

    scheme: Scheme = Scheme.ORIGINS
    """The same in a whole network."""
    roamers: tuple[str, ...] = ("moved",)
    """Whose subscriptions are copied: patterns of names; "moved": whoever has come from another broker within
    `edge_timeout`; "all": everybody."""
    t_timeout: float = 120.0
    """How long a client may be away before its copies and what they hold are deleted."""
    dummy_self_expiry: float = 240.0
    """How long a copy stays that hears nothing from the broker that controls it."""
    buffer_bytes: int = 33_554_432
    """What all copies of one broker may hold together; the oldest is overwritten, and asked of its origin later."""
    max_virtual_clients: int = 4
    """At how many neighbours one client is listened for all the time, if it subscribes to what is where it is; 0: at
    none."""
    virtual_bytes: int = 1_048_576
    """What is held for one of these at one broker; the oldest is forgotten."""
    virtual_buffer_bytes: int = 16_777_216
    """What is held for all of them at one broker; the oldest is forgotten."""
    warm_copies: int = 0
    """At how many of its likeliest next brokers a copy of a client listens before it goes; 0: at none."""
    warm_clients: tuple[str, ...] = ("*",)
    """Whose copies do: patterns of names."""
    warm_from: float = 0.0
    """The part of a usual stay, as the neighbour graph knows it, after which they begin to; 0: at once."""
    warm_window: float = 60.0
    """For how long they keep what comes: longer than it takes to notice that a client is gone."""
    max_warm_copies: int = 1_000
    """At one broker; more copies rest until their clients are away."""
    warm_buffer_bytes: int = 16_777_216
    """What they may hold together at one broker; the oldest is overwritten, and asked of its origin later."""
    merge_dedup: bool = True
    """With `REACTIVE`, whether what came from the last broker and by itself is sent to the client once."""
    graph_mode: GraphMode = GraphMode.DYNAMIC
    directed: bool = False
    """Whether an edge of the neighbour graph leads from the old broker to the new one only."""
    graph_file: Path | None = None
    """A neighbour graph to start with, or for `STATIC` the whole of it."""
    edge_timeout: float = 600.0
    """How long an edge of the neighbour graph stays that nobody uses."""
    max_degree: int = 8
    """The most neighbours of a broker in that graph; 0: any number."""
    new_edge_interval: float = 60.0
    """In which one client makes at most one new edge; 0: any number."""
    place: str | None = None
    """Where this broker stands, as a location like "/berlin/campus/b3"."""
    silence: Mapping[str, float] = field(default_factory=dict)
    """Patterns of clients' names, and after how many seconds of silence the connections of these are given up. The
    first one that matches counts, unless the client has asked for a silence itself."""

    @property
    def graph(self) -> GraphOptions:
        """What the neighbour graph wants to know."""
        return GraphOptions(self.graph_mode, self.directed, self.edge_timeout, self.max_degree, self.new_edge_interval)

    def copies(self, client: str, *, moved: bool) -> bool:
        """Whether the subscriptions of a client are copied."""
        return any(_fits(pattern, client, moved) for pattern in self.roamers)

    def warms(self, client: str) -> bool:
        """Whether copies of a client listen before it goes."""
        return self.warm_copies > 0 and any(_matches(pattern, client) for pattern in self.warm_clients)

    def silence_of(self, client: str) -> float:
        """After how many seconds of silence the connection of a client is given up; 0: as the broker's limits say."""
        return next((seconds for pattern, seconds in self.silence.items() if _matches(pattern, client)), 0.0)


def _fits(pattern: str, client: str, moved: bool) -> bool:
    if pattern == "all":
        return True
    return moved if pattern == "moved" else _matches(pattern, client)


def _matches(pattern: str, client: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), client, re.DOTALL) is not None
