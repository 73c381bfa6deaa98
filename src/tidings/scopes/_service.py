"""The scope service: what every broker does about the graph. One of them, the authority, orders its changes.

Theory of operation
-------------------
A change of the graph is asked for at any broker, by a client that may, and travels as `Ask` along the tree to the
authority; each broker on the way remembers the link it came from, so that one `Answer` finds back and ends the trail.
The authority takes one transaction after the other. What it accepts is on disk before anybody hears of it. Then

    prepare   a wave: every broker makes the tables of the new version and announces in them what is wanted; it answers
              when all that has settled
    activate  a wave: every broker judges what is published from now on by the new version
    Retire    flooded behind it: on every link it follows the last notification that an older version judges

Modes differ in what comes before. `drain` holds back what those publish whose publications an edge that changes may
carry, up or down, `instant` what anybody publishes, and both let a second wave follow the first: when it is back,
nothing of what is held back later is under way.

A neighbour that becomes ready is told the whole `State` before anything else, so nobody ever gets a notification of a
version that it does not know. A broker that learns in this way that others are ahead publishes nothing until a wave of
its own has found that everybody it can reach has the new version and that all is announced. A broker that knows no
graph at all, because it has just started without a disk, waits for a neighbour's.

A broker with attached members of a scope must be *admitted* to carry it: it asks for an `Anchor`, and gives it up a
while after the last of them has gone. If the authority cannot be reached, nothing changes and traffic goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.broker import Advice, Broker, Feature, Joinpoint, Link, Tree, WaveKind
from tidings.model import ROOT_SCOPE, ScopeError, TidingsError

from ._audit import AuditEntry
from ._changes import Anchor, AnyChange, Unanchor
from ._graph import Graph, client_node
from ._messages import (
    Answer,
    AnyScopeMessage,
    Ask,
    Look,
    Retire,
    Review,
    Reviewed,
    Seen,
    Snapshot,
    State,
    Transaction,
    decode,
    decode_snapshot,
    decode_transaction,
    encode,
    request_in,
)
from ._rights import shown_to
from ._versions import Versions

if TYPE_CHECKING:
    from ._authority import Authority

TRAIL_TIME = 60_000_000
"""Microseconds for which a broker remembers where a question came from."""
MAX_TRAILS = 10_000
"""The most questions that a broker remembers the way of."""
ASK_AGAIN = 1_000_000
"""Microseconds after which a broker asks again to be admitted."""
RETREAT_DELAY = 30_000_000
"""Microseconds after the last member of a scope has gone until its broker gives the scope up."""
SETTLING_TIME = 500_000
"""Microseconds that a new tree is given before a broker asks the authority again for what it needs."""
WAVE_AGAIN = 100_000
"""Microseconds after which a wave that did not reach everybody is sent again."""
MAX_HOLD = 15_000_000
"""Microseconds after which publications are no longer held back for a change, whatever has become of it."""
TABLE = "graph"
"""Where the graph is in a broker's store."""

NOBODY = (
    "nothing says which broker orders changes of the scope graph; "
    "set `authority = \"NAME\"` in the configuration of broker '{}' and of all others, to the same name"
)
"""Why a broker without an authority takes no changes."""

Done = Callable[[Any], None]
"""Called with an `Answer`, or with `Reviewed` if that was the question."""


class AuthorityUnreachable(ScopeError):
    """The broker that orders changes of the scope graph cannot be asked now."""


class Scopes(Feature):
    """The scope service of one broker."""

    name = "scopes"
    privileged = True
    priority = -100

    def __init__(self, authority: str, *, hook: object = None) -> None:
        """`authority` is the broker that orders changes; "": none is named, so there is no graph to wait for."""
        self.authority_name = authority
        self.objection: Callable[[], str] = lambda: ""
        """Why this broker takes no changes of the graph now, if it does not; whoever runs it may know."""
        self.frozen = False
        """Whether the graph is static: the authority refuses whatever would change who sees what."""
        self.on_audit: Callable[[AuditEntry], None] = lambda entry: None
        """Told by the authority of everything that was changed or refused, besides its own log of them."""
        self._hook = hook
        self.versions = Versions()
        self._trails: dict[str, Link | Done] = {}
        self._asked: set[AnyChange] = set()
        self._numbers = 0
        self._retreating = False
        self._joining: int | None = None
        self._target = 0
        """The newest version that others judge by, as far as this broker knows."""
        self.authority: Authority | None = None

    # --- the start ------------------------------------------------------------------------------------

    def start(self, broker: Broker) -> None:
        """The broker is built: read what its disk holds."""
        from ._authority import Authority  # noqa: PLC0415 - the authority is a service, too

        self.broker = broker
        self.scoping = broker.scoping
        self.scoping.recall = self.versions.recall
        if broker.name == self.authority_name:
            self.authority = Authority(self, self._hook)
        kept = broker.runtime.log.items(TABLE) if broker.runtime.log is not None else {}
        if kept:
            base = decode_snapshot(kept.pop("base")).graph() if "base" in kept else None
            changes = (decode_transaction(kept[key]) for key in sorted(kept))
            after = base.version if base is not None else 0  # what is older was replaced by a whole graph
            self.versions = Versions(base, (change for change in changes if change.version > after))
            self.scoping.recall = self.versions.recall
            self.prepare_all(self.versions.newest)
            self.scoping.activate(self.versions.newest)
            self.scoping.retire(self.versions.newest)
        elif self.authority is None and self.authority_name:
            self.scoping.wait()
        if self.authority is not None:
            self.authority.start()

    def prepare_all(self, since: int) -> None:
        """Make the tables of these versions and of all that follow."""
        for version in range(since, self.versions.newest + 1):
            self.scoping.prepare(self.versions.plan(version))

    def keep(
        self, transaction: Transaction, synced: Callable[[], None], failed: Callable[[], None] | None = None
    ) -> None:
        """Put a version on disk, if there is one; `synced` follows in a turn of its own, or `failed`."""
        self.store(
            TABLE,
            f"{transaction.version:015d}",
            encode(transaction),
            synced,
            lambda error: None if failed is None else self._later(failed),
        )

    def _later(self, action: Callable[[], None]) -> None:
        self.context.call_later(0, action)

    def store(
        self,
        table: str,
        key: str,
        value: bytes,
        synced: Callable[[], None] = lambda: None,
        failed: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        """Put something on disk, if there is one. A disk that refuses says so by `failed`, and stops nothing."""
        log = self.broker.runtime.log
        if log is None:
            synced()
            return

        try:
            log.put(table, key, value, lambda: self._later(synced), failed)
        except TidingsError as error:
            failed(error)

    # --- joinpoints -----------------------------------------------------------------------------------

    def advice(self) -> Mapping[Joinpoint, Advice]:
        """Clients that come and go bring their scopes with them."""
        return {
            Joinpoint.ATTACH: self._attached,
            Joinpoint.DETACH: self._detached,
            Joinpoint.TREE: self._new_tree,
        }

    def _attached(self, proceed: Callable[..., None], link: Link) -> None:
        proceed(link)
        self.seek_anchors()

    def _detached(self, proceed: Callable[..., None], link: Link) -> None:
        proceed(link)
        self._retreat_later()

    def _new_tree(self, proceed: Callable[..., None], old: Tree, new: Tree) -> None:
        proceed(old, new)
        self._asked.clear()
        if self.authority is not None:
            self.authority.tell_again()
        self.context.call_later(SETTLING_TIME, self.seek_anchors)
        self._retreat_later()

    def wave_kinds(self) -> Mapping[str, WaveKind]:
        """The waves by which versions come to be."""
        return {
            "prepare": _Prepare(self),
            "activate": _Activate(self),
            "hold": _Hold(self),
            "flush": _Flush(),
            "release": _Release(self),
        }

    # --- neighbours -----------------------------------------------------------------------------------

    def neighbour_ready(self, link: Link) -> None:
        """Tell a neighbour everything before anything else."""
        if self.scoping.ready:
            self.send(link, self.versions.state(self.known_active, self._floor))

    @property
    def _floor(self) -> int:
        """The oldest version that this broker still has tables for."""
        return min(self.scoping.versions)

    def on_message(self, link: Link, body: bytes) -> None:
        """A message about the graph has come."""
        if link.is_client:
            self._client_turn(link, body)
            return
        message = decode(body)
        match message:
            case Ask():
                self.asked(link, message)
            case Answer():
                self._answered(message)
            case Review():
                self.asked(link, message)
            case Reviewed():
                self._answered(message)
            case State():
                self._learned(link, message)
            case Retire():
                self.scoping.set_floor(link, message.floor)
                if message.version:
                    self.retire(message.version, link)
            case Look() | Seen():
                self.broker.statistics.refused += 1

    def send(self, link: Link, message: AnyScopeMessage) -> None:
        """Send a message about the graph."""
        self.context.send(link, encode(message))

    def _learned(self, link: Link, state: State) -> None:
        """A neighbour knows the graph; if it is ahead, those behind this broker hear of it before this broker acts."""
        self.scoping.set_floor(link, state.floor)
        newest = state.base.version + len(state.transactions)
        if self.scoping.ready and newest <= self.versions.newest and state.active <= self.known_active:
            return
        onward = msgspec.structs.replace(state, floor=self._floor)
        for other in self.context.neighbours:
            if other is not link:
                self.send(other, onward)
        if newest > self.versions.newest or not self.scoping.ready:
            self._catch_up(state)
        if state.active > self.known_active:
            self._join(state.active)

    @property
    def known_active(self) -> int:
        """The newest version that anybody judges by, as far as this broker knows."""
        return max(self._target, self.scoping.active.version)

    def _catch_up(self, state: State) -> None:
        known = self.versions.newest if self.scoping.ready else -1
        if state.base.version > known:
            self.versions = Versions(state.base.graph(), state.transactions)
            self.scoping.recall = self.versions.recall
            self._keep_base(state)
        for transaction in state.transactions:
            if transaction.version == self.versions.newest + 1:
                self.versions.add(transaction)
            if transaction.version > known:
                self.keep(transaction, lambda: None)
        self.prepare_all(max(state.active, self.scoping.active.version))
        self.scoping.begin()

    def _keep_base(self, state: State) -> None:
        if state.base.version > 0:
            self.store(TABLE, "base", encode(state.base))

    def _join(self, version: int) -> None:
        """Others are ahead: publish nothing until everybody in reach has what they have."""
        self._joining = self._target = max(version, self._target)
        version = self._joining
        self.scoping.hold_for("joining", lambda client: True)

        def done(answer: bytes, complete: bool) -> None:
            if self._joining != version:
                return
            if not complete:
                self.context.call_later(WAVE_AGAIN, attempt)
                return
            self._joining = None
            self.scoping.activate(self._target)
            self.scoping.retire(self._target)
            for link in self.context.neighbours:
                self.send(link, Retire(0, self._floor))
            self.scoping.release("joining")
            self.seek_anchors()

        def attempt() -> None:
            if self._joining == version:
                body = msgspec.msgpack.encode([encode(one) for one in self.versions.since(version - 1)])
                self.context.wave("prepare", body, done)

        attempt()

    def prepare(self, transactions: list[Transaction]) -> bool:
        """Make the tables of new versions; whether they are all known now."""
        if not self.scoping.ready or not transactions:
            return False
        for transaction in transactions:
            if transaction.version == self.versions.newest + 1:
                self.versions.add(transaction)
                self.keep(transaction, lambda: None)
        if self.versions.newest < transactions[-1].version:
            return False
        self.prepare_all(transactions[0].version)
        return True

    def activate(self, version: int) -> None:
        """Judge what is published from now on by a new version."""
        self._target = max(version, self._target)
        if self.versions.newest >= version and self._joining is None and self.scoping.ready:
            self.scoping.activate(version)
            self.seek_anchors()

    def retire(self, version: int, source: Link | None = None) -> None:
        """Nothing of older versions is under way any more; tell those behind."""
        if self.scoping.ready:
            self.scoping.retire(version)
            self.versions.forget_plans(self._floor)
            self._retreat_later()
        for link in self.context.neighbours:
            if link is not source:
                self.send(link, Retire(version, self._floor))

    # --- questions and answers ------------------------------------------------------------------------

    def ask(
        self,
        changes: tuple[AnyChange, ...],
        done: Done,
        *,
        who: str = "",
        administrator: bool = False,
        template: Ask | None = None,
    ) -> str:
        """Ask the authority for a change; `done` is called with its answer, or when there is none."""
        return self._forward(template or Ask("", changes), done, who, administrator)

    def _forward(self, question: Ask | Review, done: Done, who: str, administrator: bool) -> str:
        """Ask under a name of this broker's own; who asks and what it may is as this broker says."""
        self._numbers += 1
        request = f"{self.context.name}/{self.context.epoch}/{self._numbers}"
        self.asked(done, msgspec.structs.replace(question, request=request, who=who, administrator=administrator))
        return request

    def asked(self, source: Link | Done, message: Ask | Review) -> None:
        """Remember the way of a question, and send it on; or answer it, if this is the authority."""
        if len(self._trails) >= MAX_TRAILS:
            self._reply(source, Answer(message.request, error="ScopeError", reason="too many changes are under way"))
            return
        self._trails[message.request] = source
        self.context.call_later(TRAIL_TIME, lambda: self._lost(message.request))
        if not self.authority_name:
            self._answered(Answer(message.request, error="NoAuthority", reason=NOBODY.format(self.context.name)))
        elif self.authority is None:
            self._ask_authority(message)
        elif isinstance(message, Review):
            self._answered(self.authority.log.reviewed(message))
        elif objection := self.objection():
            self._answered(Answer(message.request, error="NoAuthority", reason=objection))
        else:
            self.authority.asked(message, self._answered)

    def _ask_authority(self, message: Ask | Review) -> None:
        link = self.broker.adjacency.hop_towards(self.authority_name)
        if link is None:
            reason = f"the authority '{self.authority_name}' cannot be reached from broker '{self.context.name}' now"
            self._answered(
                Answer(message.request, error=AuthorityUnreachable.__name__, reason=f"{reason}; try again later")
            )
        else:
            self.send(link, message)

    def _answered(self, answer: Answer | Reviewed) -> None:
        source = self._trails.pop(answer.request, None)
        if source is not None:
            self._reply(source, answer)

    def _reply(self, source: Link | Done, answer: Answer | Reviewed) -> None:
        if not isinstance(source, Link):
            source(answer)
        elif source.is_client or self.broker.adjacency.is_open(source):
            self.send(source, answer)

    def _lost(self, request: str) -> None:
        reason = "no answer came from the authority; whether the change was made is not known: look, then try again"
        if request in self._trails:
            self._answered(Answer(request, error=AuthorityUnreachable.__name__, reason=reason))

    def _client_turn(self, link: Link, body: bytes) -> None:
        """A client asks. Who it is and what it may is for this broker to say."""
        administrator = link.guard is None or link.guard.administer
        try:
            message = decode(body)
        except ScopeError as error:
            self._misunderstood(link, body, error)
            return
        match message:
            case Ask() | Review():
                reference = message.request

                def done(answer: Answer | Reviewed) -> None:
                    if self.broker.client(link.name) is link:
                        self.send(link, msgspec.structs.replace(answer, request=reference))

                self._forward(message, done, link.name, administrator)
            case Look():
                graph = shown_to(self.versions.graph, link.name, administrator)
                self.send(link, Seen(message.request, Snapshot.of(graph)))
            case _:
                raise TidingsError(f"a client may not send {type(message).__name__}")

    def _misunderstood(self, link: Link, body: bytes, error: ScopeError) -> None:
        """A question that cannot be read is answered, if it says at least which one it is."""
        reference = request_in(body)
        if not reference:
            raise error
        self.broker.statistics.refused += 1
        self.send(link, Answer(reference, error=type(error).__name__, reason=str(error)))

    # --- anchors --------------------------------------------------------------------------------------

    def _needed(self) -> set[str]:
        """The scopes that attached clients are members of."""
        view = self.scoping.newest
        scopes = (scope for link in self.broker.clients for scope in view.memberships(link.name))
        return set(scopes) - {ROOT_SCOPE}

    def missing(self) -> list[tuple[str, str]]:
        """The scopes that this broker must carry, and has not been admitted to: each with its own name."""
        here, anchors = self.context.name, self.versions.graph.anchors
        return [(scope, here) for scope in sorted(self._needed()) if here not in anchors.get(scope, ())]

    def seek_anchors(self) -> None:
        """Ask to be admitted wherever attached clients are members."""
        if self.scoping.ready:
            self._seek([Anchor(scope, here) for scope, here in self.missing()])

    def _idle(self) -> list[str]:
        """The scopes that this broker is admitted to, and that no attached client is a member of."""
        here, needed = self.context.name, self._needed()
        anchors = self.versions.graph.anchors
        return [scope for scope, brokers in sorted(anchors.items()) if here in brokers and scope not in needed]

    def _retreat_later(self) -> None:
        if not self._retreating and self._idle():
            self._retreating = True
            self.context.call_later(RETREAT_DELAY, self._retreat)

    def _retreat(self) -> None:
        """Give up scopes that no attached client is a member of."""
        self._retreating = False
        if self.scoping.ready:
            self._seek([Unanchor(scope, self.context.name) for scope in self._idle()])

    def _seek(self, changes: list[AnyChange]) -> None:
        new = tuple(change for change in changes if change not in self._asked)
        if not new:
            return
        self._asked.update(new)

        def done(answer: Answer) -> None:
            self._asked.difference_update(new)
            if answer.error and answer.error != AuthorityUnreachable.__name__:
                self.context.call_later(
                    ASK_AGAIN, self.seek_anchors
                )  # the authority is busy; away, the next tree tells

        self.ask(new, done)

    @property
    def graph(self) -> Graph:
        """The newest version that this broker knows."""
        return self.versions.graph

    def is_member(self, client: str) -> bool:
        """Whether a client is a member of any scope but the root."""
        return bool(self.graph.superscopes(client_node(client)))


def missing_anchors(answer: bytes) -> set[tuple[str, str]]:
    """Which (scope, broker) the answer of a wave of kind "prepare" asks for."""
    return set(msgspec.msgpack.decode(answer, type=list[tuple[str, str]])) if answer else set()


class _Answered:
    """A wave of which only completeness counts."""

    def combine(self, answers: list[bytes]) -> bytes:
        """Nothing to combine."""
        return b"ok"


class _Prepare:
    def __init__(self, service: Scopes) -> None:
        self._service = service

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Make the tables; answer when everything that is announced in them has settled: which anchors are missing."""
        service = self._service
        try:
            known = service.prepare([decode_transaction(one) for one in msgspec.msgpack.decode(body, type=list[bytes])])
        except (ScopeError, msgspec.MsgspecError):
            service.broker.statistics.refused += 1
            known = False
        if known:
            service.scoping.when_settled(lambda: answer(msgspec.msgpack.encode(service.missing())))
        else:
            answer(None)

    def combine(self, answers: list[bytes]) -> bytes:
        """All anchors that are missing."""
        return msgspec.msgpack.encode(sorted(set().union(*map(missing_anchors, answers))))


class _Activate(_Answered):
    def __init__(self, service: Scopes) -> None:
        self._service = service

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Judge by the new version."""
        version = int.from_bytes(body, "big")
        self._service.activate(version)
        answer(b"ok" if self._service.scoping.ready and self._service.versions.newest >= version else None)


class _Hold(_Answered):
    def __init__(self, service: Scopes) -> None:
        self._service = service

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Hold publications back: those of these nodes and of everything below them; of everybody, if none is named."""
        service = self._service
        version, *nodes = msgspec.msgpack.decode(body, type=list[str])
        graph = service.graph
        below = set().union(*(graph.below(node) for node in nodes))
        service.scoping.hold_for(
            f"change {version}", (lambda client: client_node(client) in below) if nodes else lambda client: True
        )
        service.context.call_later(MAX_HOLD, lambda: service.scoping.release(f"change {version}"))
        answer(b"ok")


class _Release(_Answered):
    def __init__(self, service: Scopes) -> None:
        self._service = service

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Publish what was held back."""
        self._service.scoping.release(f"change {body.decode()}")
        answer(b"ok")


class _Flush(_Answered):
    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Nothing but to have been here: what went before has arrived."""
        answer(b"ok")
