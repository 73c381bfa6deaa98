"""What brokers and clients say to each other about the scope graph. It travels in `Extension` frames."""

from __future__ import annotations

import enum
from typing import TypeAlias, TypeVar

import msgspec

from tidings.model import ScopeError, refusal

from ._audit import AuditEntry
from ._changes import AnyChange
from ._components import Component
from ._graph import Client, Graph, Membership, Scope
from ._rules import Rule
from .mappings._constant import BoundedReading, dec_hook, enc_hook


class Mode(enum.Enum):
    """When a change of the graph takes effect, as seen by notifications that are under way."""

    RELAXED = "relaxed"
    """At once; what is under way is judged by the graph under which it was published."""
    DRAIN = "drain"
    """When everything that was published so far and may pass an edge that changes has been delivered."""
    INSTANT = "instant"
    """Between two notifications: nothing at all is under way while the graph changes."""


class Snapshot(msgspec.Struct, frozen=True):
    """A whole graph."""

    version: int
    scopes: tuple[Scope, ...]
    memberships: tuple[Membership, ...]
    anchors: dict[str, tuple[str, ...]]
    isolated: tuple[str, ...] = ()
    """Clients that are members of nothing."""
    clients: dict[str, Client] = {}
    """What is said about clients."""
    definitions: dict[str, str] = {}

    @classmethod
    def of(cls, graph: Graph) -> Snapshot:
        """A graph as it travels."""
        anchors = {scope: tuple(sorted(brokers)) for scope, brokers in graph.anchors.items()}
        scopes, edges, isolated = tuple(graph.scopes.values()), tuple(graph.memberships()), tuple(graph.isolated)
        return cls(graph.version, scopes, edges, anchors, isolated, dict(graph.clients), dict(graph.definitions))

    def graph(self) -> Graph:
        edges: dict[str, dict[str, Membership]] = {client: {} for client in self.isolated}
        for edge in self.memberships:
            edges.setdefault(edge.member, {})[edge.scope] = edge
        anchors = {scope: frozenset(brokers) for scope, brokers in self.anchors.items()}
        scopes = {scope.id: scope for scope in self.scopes}
        return Graph(self.version, scopes, edges, anchors, self.clients, definitions=self.definitions)


class Transaction(msgspec.Struct, frozen=True):
    """What made one version: who changed what, when."""

    version: int
    changes: tuple[AnyChange, ...]
    who: str
    at: int
    """Microseconds since 1970 UTC, by the clock of the authority."""
    request: str
    mode: Mode = Mode.RELAXED
    depth: int = 0
    """How many rules have led to it; 0: somebody asked for it."""


class ScopeMessage(msgspec.Struct, frozen=True, tag=True):
    """The root of these messages."""


class Ask(ScopeMessage, frozen=True):
    """Somebody wants to change the graph. On its way to the authority each broker remembers where it came from."""

    request: str
    changes: tuple[AnyChange, ...]
    mode: Mode = Mode.RELAXED
    credentials: tuple[str, ...] = ()
    who: str = ""
    """Set by the border broker: the client that asks; empty: a broker."""
    administrator: bool = False
    """Set by the border broker: whether that client may change everything."""
    expected: int | None = None
    """The version on which the changes were worked out; if the graph has moved on since, they are refused."""
    depth: int = 0
    """How many rules have led to it; set by the authority."""


class Answer(ScopeMessage, frozen=True):
    """What became of it; goes back the way that the question came, which is forgotten by it."""

    request: str
    version: int = 0
    changes: tuple[AnyChange, ...] = ()
    """What was done, if it differs from what was asked: an admission may narrow an interface."""
    error: str = ""
    reason: str = ""
    warnings: tuple[str, ...] = ()


def refusal_in(answer: Answer) -> ScopeError | None:
    """The exception that an answer stands for; None: the change was made."""
    if not answer.error:
        return None
    error = refusal(answer.error, answer.reason)
    return error if isinstance(error, ScopeError) else ScopeError(answer.reason)


class Review(ScopeMessage, frozen=True):
    """Somebody wants to know what was changed and refused lately; goes to the authority as an `Ask` does."""

    request: str
    limit: int = 100
    """The most entries, the newest."""
    rules: bool = False
    """Whether it wants to know, in place of the entries, what rules have done."""
    who: str = ""
    administrator: bool = False
    """As in `Ask`: set by the border broker."""


class RuleCount(msgspec.Struct, frozen=True):
    """What one rule has done since the authority started."""

    scope: str
    rule: Rule
    done: int = 0
    failed: int = 0
    reason: str = ""
    """Why it failed last."""


class Reviewed(ScopeMessage, frozen=True):
    """What was changed and refused lately, the oldest first; or what rules have done."""

    request: str
    entries: tuple[AuditEntry, ...] = ()
    rules: tuple[RuleCount, ...] = ()


class State(ScopeMessage, frozen=True):
    """Everything that a broker knows of the graph, for a neighbour that has just become ready."""

    base: Snapshot
    transactions: tuple[Transaction, ...]
    active: int
    """The newest version that anybody judges by, as far as the sender knows."""
    floor: int = 0
    """The oldest version that the sender still has tables for."""


class Retire(ScopeMessage, frozen=True):
    """Nothing of the versions before this one is under way any more."""

    version: int
    """0: the sender speaks for itself only."""
    floor: int
    """The oldest version that the sender still has tables for."""


class Look(ScopeMessage, frozen=True):
    """A client wants to see the graph, as far as it may."""

    request: str
    who: str = ""


class Seen(ScopeMessage, frozen=True):
    """The graph, as far as the client may see it."""

    request: str
    graph: Snapshot
    partial: bool = False
    """Whether the client may not see everything. Whether there is more is not said."""


class LookBack(ScopeMessage, frozen=True):
    """A client that may change everything wants to know how one version came to be."""

    request: str
    version: int


class Revision(ScopeMessage, frozen=True):
    """How one version came to be."""

    request: str
    before: Snapshot
    """The version before it."""
    transaction: Transaction


class Census(ScopeMessage, frozen=True):
    """A client wants to know which clients are connected anywhere, and whether their interfaces cover filters."""

    request: str
    inputs: tuple[str, ...] = ()
    """Filters, as text: they are read when it is known that they are few and small."""
    outputs: tuple[str, ...] = ()
    attributes: tuple[str, ...] | None = None
    """Which of their attributes it wants to know; None: all."""
    partial: bool = False
    """Whether an answer will do in which some may be missing."""


class Counted(ScopeMessage, frozen=True):
    """The clients that are connected, by name."""

    request: str
    components: tuple[Component, ...]
    complete: bool = True
    """Otherwise some may be missing."""
    silent: tuple[str, ...] = ()
    """The brokers that did not answer: clients that are connected there are missing. Told to those who may change
    everything."""
    absent: tuple[str, ...] = ()
    """The brokers that are known and cannot be reached now, so that they were not asked; told to the same."""


class ScopeEnded(ScopeMessage, frozen=True):
    """A scope that the client is a member of has ended; for clients that are attached when it does."""

    scope: str
    isolated: bool = False
    """Whether the client is a member of nothing now, and neither hears nor is heard until it joins a scope."""
    in_root: bool = False
    """Whether the client is in the root scope again, because no other scope is left where it could be heard."""

    def __str__(self) -> str:
        then = "others remain"
        if self.isolated:
            then = "it is now a member of nothing, and neither hears nor is heard"
        elif self.in_root:
            then = "it is in the root scope again"
        return f"scope '{self.scope}', of which this client was a member, has ended; {then}"


AnyScopeMessage: TypeAlias = (
    ScopeEnded
    | Ask
    | Answer
    | Review
    | Reviewed
    | State
    | Retire
    | Look
    | Seen
    | LookBack
    | Revision
    | Census
    | Counted
)

_decoder: msgspec.msgpack.Decoder[AnyScopeMessage] = msgspec.msgpack.Decoder(AnyScopeMessage, dec_hook=dec_hook)
_transactions = msgspec.msgpack.Decoder(Transaction, dec_hook=dec_hook)
_snapshots = msgspec.msgpack.Decoder(Snapshot, dec_hook=dec_hook)
_encoder = msgspec.msgpack.Encoder(enc_hook=enc_hook)


def encode(message: AnyScopeMessage | Transaction | Snapshot) -> bytes:
    return _encoder.encode(message)


def decode(body: bytes) -> AnyScopeMessage:
    """The message in these bytes, or `ScopeError`."""
    return _decoded(_decoder, body, "message about scopes")


def decode_question(body: bytes) -> AnyScopeMessage:
    """The message of a client in these bytes, or `ScopeError`, also if it would take too long to read."""
    decoder: msgspec.msgpack.Decoder[AnyScopeMessage] = msgspec.msgpack.Decoder(
        AnyScopeMessage, dec_hook=BoundedReading()
    )
    return _decoded(decoder, body, "message about scopes")


class _Question(msgspec.Struct):
    request: str = ""


def request_in(body: bytes) -> str:
    """Which question a message is that cannot be read otherwise; "" if not even that can be read."""
    try:
        return msgspec.msgpack.decode(body, type=_Question).request
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""


def decode_transaction(body: bytes) -> Transaction:
    """The transaction in these bytes, or `ScopeError`."""
    return _decoded(_transactions, body, "change of the scope graph")


def decode_snapshot(body: bytes) -> Snapshot:
    """The graph in these bytes, or `ScopeError`."""
    return _decoded(_snapshots, body, "scope graph")


_T = TypeVar("_T")


def _decoded(decoder: msgspec.msgpack.Decoder[_T], body: bytes, what: str) -> _T:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ScopeError(f"not a {what}: {error}") from None
