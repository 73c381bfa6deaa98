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
from typing import TYPE_CHECKING

import msgspec

from tidings.broker import Advice, Feature, Joinpoint, Link, Tree, WaveKind
from tidings.model import ROOT_SCOPE, TidingsError
from tidings.scopes._audit import AuditEntry
from tidings.scopes._changes import AnyChange
from tidings.scopes._graph import CLIENT, Graph, is_client
from tidings.scopes._messages import (
    Answer,
    AnyScopeMessage,
    Ask,
    Census,
    Counted,
    Look,
    LookBack,
    Retire,
    Review,
    Reviewed,
    Revision,
    ScopeEnded,
    Seen,
    State,
    Transaction,
    decode,
    encode,
)
from tidings.scopes.policies._running import PolicyKey, shut_down, uses_in

from ._anchors import Anchors
from ._graph_waves import graph_waves
from ._kept_graph import KeptGraph
from ._questions import Done, Questions
from ._rights import Admission
from ._versions import Versions

if TYPE_CHECKING:
    from ._authority import Authority

WAVE_AGAIN = 100_000
"""Microseconds after which a wave that did not reach everybody is sent again."""


class Scopes(Feature):
    """The scope service of one broker."""

    name = "scopes"
    privileged = True
    priority = -100

    def __init__(self, authority: str, *, hook: Admission | None = None) -> None:
        """`authority` is the broker that orders changes; "": none is named, so there is no graph to wait for."""
        self.authority_name = authority
        self.objection: Callable[[], str] = lambda: ""
        """Why this broker takes no changes of the graph now, if it does not; whoever runs it may know."""
        self.frozen = False
        """Whether the graph is static: the authority refuses whatever would change who sees what."""
        self.on_audit: Callable[[AuditEntry], None] = lambda entry: None
        """Told by the authority of everything that was changed or refused, besides its own log of them."""
        self.on_retired: Callable[[], None] = lambda: None
        """Told when nothing is judged by older versions any more."""
        self._hook = hook
        self.versions = Versions()
        self.anchors = Anchors(self)
        self.questions = Questions(self)
        self._joining: int | None = None
        self._target = 0
        """The newest version that others judge by, as far as this broker knows."""
        self.authority: Authority | None = None
        self._policies: set[PolicyKey] = set()
        """The policies of the versions that this broker has judged by."""

    # --- the start ------------------------------------------------------------------------------------

    def start(self) -> None:
        """The broker is built: read what its disk holds."""
        from ._authority import Authority  # noqa: PLC0415 - the authority is a service, too

        self.scoping = self.context.scoping
        self.scoping.recall = self.versions.recall
        if self.context.name == self.authority_name:
            self.authority = Authority(self, self._hook)
        self._kept = KeptGraph(self.context.log)
        if (kept := self._kept.read()) is not None:
            self.versions = kept
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

    def add(self, transaction: Transaction) -> None:
        """Take in the next version."""
        self.versions.add(transaction)
        self._kept.fold(self.versions)

    def keep(
        self, transaction: Transaction, synced: Callable[[], None], failed: Callable[[], None] | None = None
    ) -> None:
        """Put a version on disk, if there is one; `synced` follows in a turn of its own, or `failed`."""
        self._kept.put(
            transaction,
            synced if self.context.log is None else lambda: self._later(synced),
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
        log = self.context.log
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
        self.anchors.client_changed(link.principal)
        self.anchors.seek()

    def _detached(self, proceed: Callable[..., None], link: Link) -> None:
        proceed(link)
        self.anchors.client_changed(link.principal)
        self.anchors.retreat_later()

    def _new_tree(self, proceed: Callable[..., None], old: Tree, new: Tree) -> None:
        proceed(old, new)
        if self.authority is not None:
            self.authority.tell_again()
        self.anchors.new_tree()

    def wave_kinds(self) -> Mapping[str, WaveKind]:
        """The waves by which versions come to be."""
        return graph_waves(self)

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
            self.questions.from_client(link, body)
            return
        message = decode(body)
        match message:
            case Ask():
                self.questions.asked(link, message)
            case Answer():
                self.questions.answered(message)
            case Review():
                self.questions.asked(link, message)
            case Reviewed():
                self.questions.answered(message)
            case State():
                self._learned(link, message)
            case Retire():
                self.scoping.set_floor(link, message.floor)
                if message.version:
                    self.retire(message.version, link)
            case Look() | Seen() | ScopeEnded() | LookBack() | Revision() | Census() | Counted():
                self.context.refused()

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
            self._kept.fold(self.versions)
        for transaction in state.transactions:
            if transaction.version == self.versions.newest + 1:
                self.add(transaction)
            if transaction.version > known:
                self.keep(transaction, lambda: None)
        self.prepare_all(max(state.active, self.scoping.active.version))
        self.scoping.begin()

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
            self._judge_by(self._target)
            self._end_versions(self._target)
            for link in self.context.neighbours:
                self.send(link, Retire(0, self._floor))
            self.scoping.release("joining")
            self.anchors.seek()

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
                self.add(transaction)
                self.keep(transaction, lambda: None)
        if self.versions.newest < transactions[-1].version:
            return False
        self.prepare_all(transactions[0].version)
        return True

    def activate(self, version: int) -> None:
        """Judge what is published from now on by a new version."""
        self._target = max(version, self._target)
        if self.versions.newest >= version and self._joining is None and self.scoping.ready:
            self._judge_by(version)
            self.anchors.seek()

    def _judge_by(self, version: int) -> None:
        """Activate a version, and tell the clients here which of their scopes end with it."""
        before = self.versions.recall(self.scoping.active.version)
        self.scoping.activate(version)
        after = self.versions.plan(version).graph
        self._policies |= uses_in(after)
        if before is None or before.graph.scopes is after.scopes:
            return
        for ended in sorted(before.graph.scopes.keys() - after.scopes.keys()):
            for member in filter(is_client, before.graph.members(ended)):
                now = after.upward(member)
                message = ScopeEnded(
                    ended, not now, ROOT_SCOPE in now and ROOT_SCOPE not in before.graph.upward(member)
                )
                for link in self.context.standing_for(member.removeprefix(CLIENT)):
                    self.send(link, message)

    def _shut_down(self) -> None:
        """Shut down the policies that no version has any longer by which something may still be judged."""
        if self._policies:
            known = {key for version in self.scoping.versions for key in uses_in(self.versions.plan(version).graph)}
            shut_down(self._policies - known)
            self._policies = known

    def _end_versions(self, before: int) -> None:
        self.scoping.retire(before)
        self._shut_down()
        self.on_retired()

    def retire(self, version: int, source: Link | None = None) -> None:
        """Nothing of older versions is under way any more; tell those behind."""
        if self.scoping.ready:
            self._end_versions(version)
            self.versions.forget_plans(self._floor)
            self.anchors.retreat_later()
        for link in self.context.neighbours:
            if link is not source:
                self.send(link, Retire(version, self._floor))

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
        return self.questions.forward(template or Ask("", changes), done, who, administrator)

    @property
    def is_unheard_of(self) -> bool:
        """Whether the authority is another broker that this one has never heard of, nor of any graph."""
        name = self.authority_name
        if not name or self.authority is not None or self.versions.newest:
            return False
        return not self.context.heard_of(name)

    @property
    def graph(self) -> Graph:
        """The newest version that this broker knows."""
        return self.versions.graph
