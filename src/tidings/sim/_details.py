"""What the records of a trace say beyond what all of them have: for each kind of record a type with named fields."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tidings.scopes import AnyChange, Graph, Mode
from tidings.wire import Ending, Past, Quality


class Nothing(NamedTuple):
    """There is nothing more to say."""


class Subscribed(NamedTuple):
    """SUB."""

    receive_own: bool = True
    past: Past | None = None


class Settlement(NamedTuple):
    """SETTLED."""

    advertisement: bool
    reach: frozenset[str]
    """The brokers that the client's broker reached when it said so."""


class Published(NamedTuple):
    """PUB."""

    quality: Quality
    cause: int | None = None
    """The record of the notification that it reacts to; -1: there is one, and it is not known which."""


class Acknowledged(NamedTuple):
    """ACK: the event, and what it has reached."""

    origin: str
    epoch: int
    number: int
    """0: the broker no longer knows it."""
    quality: Quality | None = None


class Refusal(NamedTuple):
    """REFUSED."""

    error: str
    reason: str
    reference: str


class Notified(NamedTuple):
    """NOTIFY: the event, its form, and by which version of the graph it was judged."""

    origin: str
    epoch: int
    number: int
    version: int = 0
    graph_epoch: int = 0
    from_past: bool = False


class Missing(NamedTuple):
    """GAP: what a subscription was told is lost."""

    origin: str
    epoch: int
    first: int
    last: int | None
    """None: nobody knows where it ends."""


class Joined(NamedTuple):
    """JOIN."""

    group: str


class Enlisted(NamedTuple):
    """ENLIST."""

    group: str
    ack_within: int
    """In microseconds."""


class Given(NamedTuple):
    """JOB: the event, its form, and how often it has been given to a member."""

    origin: str
    epoch: int
    number: int
    version: int = 0
    deliveries: int = 1
    graph_epoch: int = 0
    """The version of the scope graph by which it is judged."""


class Attached(NamedTuple):
    """ATTACH: the broker and its incarnation. HOSTED, RELEASED: the broker and the epoch of the client.

    COURIER: the broker that has the client, and the epoch under which another one hosts it.
    """

    broker: str
    epoch: int


class Unnoticed(NamedTuple):
    """LOST, by a client that is gone without a word."""

    broker: str
    """The one that does not know it yet."""


class Asked(NamedTuple):
    """CHANGE, when it is asked for."""

    request: str
    mode: Mode
    changes: tuple[AnyChange, ...]


class Answered(NamedTuple):
    """CHANGE, when it is answered."""

    request: str
    version: int
    error: str
    reason: str


class Activated(NamedTuple):
    """ACTIVE."""

    version: int
    graph: Graph


class Taken(NamedTuple):
    """TAKEN: the identity that a broker gives to a publication."""

    origin: str
    epoch: int
    number: int
    published_at: int
    graph_epoch: int


Term: TypeAlias = tuple[int, str, int]
"""Under which a broker decides for a scope: a number, the broker, its epoch."""


class Presiding(NamedTuple):
    """PRESIDES: the scope, the term, and the terms whose state it goes on with, the latest first."""

    scope: str
    term: Term
    before: tuple[Term, ...] = ()


class Ruled(NamedTuple):
    """RULED: what a policy was asked at the deciding point of its scope, and what it said."""

    scope: str
    term: Term
    origin: str
    epoch: int
    number: int
    graph_epoch: int
    path: tuple[str, ...]
    """The scopes that the publication had come through, this one last."""
    candidates: frozenset[str]
    """The clients that it could choose."""
    chosen: frozenset[str]
    waits: bool = False
    """Whether it cannot decide yet."""
    waited: bool = False
    """Whether this waited here for it before."""


class Remembered(NamedTuple):
    """REMEMBERED: how many were found, and what else the report said."""

    found: int
    ending: Ending
    capped: bool
    brokers: int


class Broken(NamedTuple):
    """FAULT: what was broken or mended; or a link that is there from the beginning."""

    kind: str
    where: str


Detail: TypeAlias = (
    Nothing
    | Subscribed
    | Settlement
    | Published
    | Acknowledged
    | Refusal
    | Notified
    | Missing
    | Joined
    | Enlisted
    | Given
    | Attached
    | Unnoticed
    | Asked
    | Answered
    | Activated
    | Taken
    | Presiding
    | Ruled
    | Remembered
    | Broken
    | tuple[object, ...]
)
"""Of these, the last is what hand-written traces have: see `typed`."""
