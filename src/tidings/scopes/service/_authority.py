"""The authority: the one broker that orders the changes of the scope graph. See `_service` for the protocol."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tidings.model import ROOT_SCOPE, FrozenGraph, NotTrusted, ScopeError, StaleGraph
from tidings.scopes._applying import apply, check_places, check_size, check_turn
from tidings.scopes._changes import (
    Anchor,
    AnyChange,
    Define,
    DestroyScope,
    Forget,
    Impose,
    Join,
    Leave,
    Redefine,
    SetInterface,
    SetMapping,
    SetPlacement,
    SetRules,
    SetSelective,
    Unanchor,
)
from tidings.scopes._graph import CLIENT, Graph, is_client
from tidings.scopes._messages import Answer, Ask, Mode, Transaction, encode
from tidings.scopes._warnings import warnings
from tidings.scopes._written_names import check_names
from tidings.scopes.language import check_definition, check_written

from ._firing import Firings, check_rehearsed, signed, unsigned
from ._graph_waves import missing_anchors
from ._log import ScopeLog
from ._rights import Admission, admitted, check_origins, check_rights, shown_to
from ._view import Plan

if TYPE_CHECKING:
    from ._service import Scopes

MAX_QUEUE = 10_000
"""The most changes that wait for their turn."""
MAX_REMEMBERED = 10_000
"""How many requests are remembered, so that one that comes again is answered and not done again."""
KEEP_AGAIN = 1_000_000
"""Microseconds after which what the disk refused is given to it again."""
WAVE_AGAIN = 100_000
"""Microseconds after which a wave that did not reach everybody is sent again."""
RESTART_DELAY = 1_000_000
"""Microseconds that an authority gives its neighbours to come back after its own restart."""
PORTION = 4_096
"""The characters of definitions that are read in one turn, about: each takes a few microseconds."""
HOLD_TIME = 5_000_000
"""Microseconds after which a change that could not hold publications back everywhere is given up."""

_NO_NODE = CLIENT
"""A node that is never there: it stands for nobody's publications."""


class _Request(NamedTuple):
    ask: Ask
    reply: Callable[[Answer], None]
    prepare: Callable[[], Ask] | None = None
    """Of a rule: works out what is to be done when its turn has come."""


UNSEEN = (
    "something that you may not see stands in the way of this change; ask a client that may change everything to make "
    "it"
)
"""All that is said of what is hidden."""


class Authority:
    """The order of changes."""

    def __init__(self, service: Scopes, hook: Admission | None = None) -> None:
        self._service = service
        self._hook = hook
        self._queue: deque[_Request] = deque()
        self._busy = False
        self._untold = False
        """Whether the tree has changed meanwhile: then what was told last may not have reached everybody."""
        self._answers: dict[str, Answer] = {}
        self.log = ScopeLog(service)
        self.firings = Firings(service, self)

    def start(self) -> None:
        """The broker is built, and what its disk holds has been read."""
        self.log.start()
        self.firings.start()
        self.tell_again()

    def tell_again(self) -> None:
        """What was decided before a crash, or under another tree, may not have reached everybody: it is told again."""
        self._untold = self._busy
        if self._service.versions.newest and not self._busy:
            self._busy = True
            self._service.context.call_later(RESTART_DELAY, self._complete)

    def _complete(self) -> None:
        version = self._service.versions.newest

        def done(answer: bytes, complete: bool) -> None:
            if not complete:
                self._service.context.call_later(WAVE_AGAIN, self._complete)
                return
            self._service.retire(version)
            self._busy = False
            self._go_on()

        self._service.context.wave("activate", version.to_bytes(8, "big"), done)

    def _go_on(self) -> None:
        """Begin with what waits."""
        if self._untold and not self._busy:
            self.tell_again()
        self._next()

    def asked(self, ask: Ask, reply: Callable[[Answer], None]) -> None:
        """A change is asked for; it is answered when it has taken effect everywhere, or cannot be."""
        if (known := self._answers.get(ask.request)) is not None:
            reply(known)
        elif len(self._queue) >= MAX_QUEUE:
            reply(
                Answer(ask.request, error="ScopeError", reason="too many changes are waiting already; try again later")
            )
        else:
            self._queue.append(_Request(ask, reply))
            self._next()

    @property
    def is_full(self) -> bool:
        """Whether so many changes wait that no more are taken."""
        return len(self._queue) >= MAX_QUEUE

    def perform(self, ask: Ask, prepare: Callable[[], Ask], reply: Callable[[Answer], None]) -> None:
        """Carry out what a rule asks for, when its turn has come."""
        self._queue.append(_Request(ask, reply, prepare))
        self._next()

    def _next(self) -> None:
        if self._busy or not self._queue:
            return
        request = self._queue.popleft()
        self._busy = True
        if request.prepare is not None:
            try:
                request = request._replace(ask=request.prepare())
            except ScopeError as error:
                self._refuse(request, type(error).__name__, str(error))
                return
            except Exception as error:  # whatever a rule says, others can go on
                self._refuse(request, "ScopeError", f"this cannot be carried out: {error!r:.200}")
                return
            if not request.ask.changes:
                self._end(request, Answer(request.ask.request))
                return
        self._check(request, self._checks(request.ask))

    def _check(self, request: _Request, checks: Generator[None, None, tuple[AnyChange, ...]]) -> None:
        """Do one portion of the checks of a change, and begin with the change after the last one."""
        try:
            next(checks)
        except StopIteration as end:
            changes = end.value
        except ScopeError as error:
            self._refuse(request, type(error).__name__, str(error))
            return
        except Exception as error:  # whatever somebody sends, others can go on
            self._refuse(request, "ScopeError", f"this change cannot be understood: {error!r:.200}")
            return
        else:  # traffic goes on in between
            self._service.context.call_later(0, lambda: self._check(request, checks))
            return
        _Change(self._service, self, request, changes).begin()

    def _checks(self, ask: Ask) -> Generator[None, None, tuple[AnyChange, ...]]:
        """Check a change in portions. Nothing is read for those who may not ask for it, or ask for too much."""
        self._check_asker(ask)
        check_size(ask.changes)
        size = 0
        for change in ask.changes:
            if isinstance(change, Define | Redefine):
                check_definition(change.name, change.text)
                size += len(change.text)
            elif isinstance(change, SetRules):
                for rule in change.rules:
                    check_written(rule)
                    size += len(rule.text) + len(rule.deploys)
            if size >= PORTION:
                size = 0
                yield
        return self._checked(ask)

    def _check_asker(self, ask: Ask) -> None:
        graph = self._service.graph
        if self._service.frozen and not all(isinstance(one, Anchor | Unanchor) and not one.stay for one in ask.changes):
            raise FrozenGraph("the scope graph of this network is static: its operator has frozen it as it is")
        check_rights(graph, ask)
        self._check_expected(ask)

    def _checked(self, ask: Ask) -> tuple[AnyChange, ...]:
        """What will be done: what was asked, narrowed by those who admit members; or `ScopeError`."""
        self._check_asker(ask)  # once more: other turns may have come in between
        graph = self._service.graph
        changes = tuple(signed(graph, change, ask) for change in admitted(graph, ask, self._hook))
        check_places(changes)
        check_names(changes)
        seen = shown_to(graph, ask.who, ask.administrator or not ask.who)
        after = _applied(graph, changes, seen)
        check_rehearsed(graph, after, changes, ask)
        for scope, strangers in self._strangers(after).items():
            if seen.partial and scope not in apply(seen, changes).scopes:
                raise ScopeError(UNSEEN)
            raise NotTrusted(
                f"the traffic of '{scope}' would pass {', '.join(map(repr, strangers))}, which it does not trust; "
                "trust these brokers, add links around them, or let its members use others"
            )
        return changes

    def _check_expected(self, ask: Ask) -> None:
        """Raise `StaleGraph` if the changes were worked out on another graph. Brokers that came to carry a scope since
        then, because clients moved, make no other graph: nobody sees anything else by it."""
        versions, expected = self._service.versions, ask.expected
        if expected is None:
            return
        if versions.base.version <= expected <= versions.newest:
            since = tuple(versions.since(expected))
            changes = (change for one in since for change in one.changes)
            if all(isinstance(change, Anchor | Unanchor) and not change.stay for change in changes):
                return
            if any(one.depth for one in since):
                self.firings.give_way()
        raise StaleGraph(
            f"this change was worked out on version {expected} of the scope graph, and version {versions.newest} is "
            "the newest; look at what has changed, and work it out again"
        )

    def _strangers(self, graph: Graph) -> dict[str, list[str]]:
        """For each scope that trusts some brokers only, the others that would have to carry it on the tree of now."""
        context = self._service.context
        view = Plan(graph).on(context.name, context.tree)
        careful = [scope for scope in graph.scopes.values() if scope.trusted]
        found = {scope.id: sorted(view.needed(scope.id) - {*scope.trusted}) for scope in careful}
        return {scope: strangers for scope, strangers in found.items() if strangers}

    def admissible(self, anchors: tuple[Anchor, ...]) -> tuple[Anchor, ...]:
        """Those of these brokers that may carry their scopes; the members that the others have go without."""
        graph = self._service.graph
        return tuple(one for one in anchors if one.scope not in self._strangers(apply(graph, (one,))))

    def _end(self, request: _Request, answer: Answer) -> None:
        self._busy = False
        self._answers[request.ask.request] = answer
        if len(self._answers) > MAX_REMEMBERED:
            del self._answers[next(iter(self._answers))]
        request.reply(answer)
        self._service.context.call_later(0, self._go_on)

    def done(self, request: _Request, transaction: Transaction, before: Graph) -> None:
        """A change has taken effect everywhere. Its version is told, not the one in which brokers came to carry a scope
        by it: that is what the log tells, and what is undone."""
        asked = request.ask.changes
        granted = transaction.changes if unsigned(transaction.changes) != unsigned(asked) else ()
        ask = request.ask
        seen = shown_to(self._service.graph, ask.who, ask.administrator or not ask.who)
        found = tuple(warnings(seen, since=transaction.version))
        after = self._service.graph  # with what brokers came to carry by it: nobody joined by that
        self._end(request, Answer(request.ask.request, transaction.version, granted, warnings=found))
        self.firings.changed(before, after, transaction)

    def failed(self, request: _Request, reason: str) -> None:
        """A change was given up before anything had happened."""
        self._refuse(request, "ScopeError", reason)

    def _refuse(self, request: _Request, error: str, reason: str) -> None:
        self.log.refused(request.ask, error, reason)
        self._end(request, Answer(request.ask.request, error=error, reason=reason))


def _applied(graph: Graph, changes: tuple[AnyChange, ...], seen: Graph) -> Graph:
    """The next version; or `ScopeError`, which names nothing but what whoever asks may see: to them, a hidden scope is
    as one that is not there."""
    if seen.partial:
        check_origins(seen, changes)
        check_turn(seen, apply(seen, changes))
    try:
        after = apply(graph, changes)
        check_turn(graph, after)
    except ScopeError:
        if seen.partial:
            raise ScopeError(UNSEEN) from None
        raise
    return after


class _Change:
    """One transaction on its way."""

    def __init__(
        self, service: Scopes, authority: Authority, request: _Request, changes: tuple[AnyChange, ...]
    ) -> None:
        self._service = service
        self._authority = authority
        self._request = request
        ask = request.ask
        version = service.versions.newest + 1
        now = service.context.now()
        self._transactions = [Transaction(version, changes, ask.who, now, ask.request, ask.mode, ask.depth)]
        self._before = service.graph
        self._deadline = service.context.now() + HOLD_TIME

        self._held = str(version)
        """Why publications wait."""

    @property
    def _version(self) -> int:
        return self._transactions[-1].version

    def begin(self) -> None:
        """Hold publications back first, if the mode says so."""
        if self._request.ask.mode is Mode.RELAXED:
            self._commit()
        else:
            self._hold()

    def _hold(self) -> None:
        nodes = _concerned(self._service.graph, self._transactions[0].changes)
        everybody = self._request.ask.mode is Mode.INSTANT or ROOT_SCOPE in nodes
        body = msgspec.msgpack.encode([self._held, *([] if everybody else sorted(nodes) or [_NO_NODE])])
        self._wave("hold", body, lambda: self._wave("flush", b"", self._commit, self._give_up), self._give_up)

    def _give_up(self) -> None:
        if self._service.context.now() < self._deadline:
            self._service.context.call_later(WAVE_AGAIN, self._hold)
            return
        self._wave("release", self._held.encode(), lambda: None)
        self._authority.failed(self._request, "not every broker could be made to wait; try again, or mode 'relaxed'")

    def _commit(self) -> None:
        self._authority.log.accepted(self._request.ask, self._transactions[-1])
        self._service.keep(self._transactions[-1], self._kept, self._not_kept)

    def _kept(self) -> None:
        self._service.add(self._transactions[-1])  # only now: a neighbour that becomes ready is told what is here
        self._prepare()

    def _not_kept(self) -> None:
        if len(self._transactions) > 1:  # the change itself is kept, so it goes on as soon as there is room
            self._service.context.call_later(KEEP_AGAIN, self._commit)
            return
        self._wave("release", self._held.encode(), lambda: None)
        self._authority.failed(self._request, "the disk of the authority refuses it; make room there, then try again")

    def _prepare(self) -> None:
        """Everybody makes the tables of the new version. Who has members and is no anchor says so: it becomes one in
        a version that follows at once, and nobody publishes before that one."""
        body = msgspec.msgpack.encode([encode(one) for one in self._transactions])

        def done(answer: bytes, complete: bool) -> None:
            if not complete:
                self._service.context.call_later(WAVE_AGAIN, self._prepare)
            elif missing := missing_anchors(answer):
                self._anchor(missing)
            else:
                self._activate()

        self._service.context.wave("prepare", body, done)

    def _anchor(self, missing: set[tuple[str, str]]) -> None:
        known = self._service.graph.scopes
        changes = tuple(Anchor(scope, broker) for scope, broker in sorted(missing) if scope in known)
        changes = self._authority.admissible(changes)
        if not changes:
            self._activate()
            return
        first = self._transactions[0]
        now = self._service.context.now()
        self._transactions.append(Transaction(self._version + 1, changes, first.who, now, first.request, first.mode))
        self._commit()

    def _activate(self) -> None:
        self._wave("activate", self._version.to_bytes(8, "big"), self._finish)

    def _finish(self) -> None:
        self._service.retire(self._version)
        if self._request.ask.mode is not Mode.RELAXED:
            self._wave("release", self._held.encode(), self._done)
        else:
            self._done()

    def _done(self) -> None:
        self._authority.done(self._request, self._transactions[0], self._before)

    def _wave(
        self, kind: str, body: bytes, then: Callable[[], None], otherwise: Callable[[], None] | None = None
    ) -> None:
        """Send a wave until it has reached everybody; or once, if there is something else to do."""

        def done(answer: bytes, complete: bool) -> None:
            if complete:
                then()
            elif otherwise is not None:
                otherwise()
            else:
                self._service.context.call_later(WAVE_AGAIN, lambda: self._wave(kind, body, then))

        self._service.context.wave(kind, body, done)


def _concerned(graph: Graph, changes: tuple[AnyChange, ...]) -> set[str]:
    """The scopes and clients whose members, and those of the scopes in them, may publish what an edge that changes
    carries, up or down. None of them is inside another."""
    nodes = set[str]()
    for change in changes:
        match change:
            case Join() | Leave() | SetSelective() | SetMapping() | SetPlacement():
                nodes |= {change.member, change.scope}
            case Impose() | SetInterface():
                nodes.add(change.scope)
            case DestroyScope():
                nodes.add(change.id)
            case Forget():
                nodes |= {change.client, ROOT_SCOPE}
    nodes |= {scope for node in nodes if is_client(node) for scope in graph.upward(node)}
    above = {scope for node in nodes for scope in graph.above(node)}
    return {node for node in above if not graph.superscopes(node)}
