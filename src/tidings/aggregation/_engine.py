"""The engine: values that are known hop by hop, with errors within bounds. No I/O, no clock, no broker.

Theory of operation
-------------------
The brokers are a tree. A value over all of them is known at one broker from its own *local* partial and from what each
neighbour tells of everything behind it. Any number of brokers may ask at once: there is one state per subject and
*direction* of a link, never one per asker.

    want     what a neighbour may be told wrongly at most; None: it asks for nothing
    sent     what it was told last, and whether that was complete
    asked    by how much it may be wrong in what it tells; None: it is not asked
    got      what it told last, and whether that was complete

    a client asks, cancels, changes its bound     retarget, push
    a neighbour asks, cancels, changes its bound  retarget, push
    a neighbour tells something                   push
    the local partial changes                     push
    links come and go                             forget what was said on them, retarget, push

*Retarget* divides the bound of each direction that asks between this broker and the other neighbours (`_shares`), asks
each neighbour for the tightest of its shares, and cancels where nobody asks any more. *Push* finds out what must be
told: to a neighbour what is known without its own contribution, to clients everything. What must be told is only noted
here; it is worked out when a message leaves (`produce`), so that later changes cost nothing, and `sent` is what the
neighbour really gets. A value is *complete* if the local partial is whole, and every neighbour that lies on the way to
others that contribute is there and has told something complete.

Which neighbours these are depends on the scope of the subject, and changes with the scope graph. A neighbour that does
not lie on the way may still ask: one of its clients wants to know.

Each ask has a number that its broker never uses again, and what is told names the ask that it answers. So whatever
arrives late, from before a cancellation, is told from what is current. Links are FIFO and forget everything with the
tree, so nothing else needs a number.

Invariants, at every broker after every turn: the slack and the shares of one direction together are within its bound;
a direction that asks is told nothing that came from it; a subject that nobody asks for has no state.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol

from tidings.model import AggregateError

from ._forms import Read
from ._riding import Traffic
from ._shares import ADAPT_AFTER, Below, Policy, is_about_right, split
from ._state import L, Request, Root, Side, State, Terms
from ._subject import Subject

UPDATE_BYTES = 12
"""What an update takes beside its value, encoded."""


class Update(NamedTuple):
    """What a neighbour is told in answer to an ask."""

    number: int
    complete: bool
    value: bytes


class Port(Protocol[L]):
    """What the engine needs of the broker around it."""

    def neighbours(self, subject: Subject) -> Sequence[L]:
        """The tree neighbours that are ready, and lie on the way to others that contribute."""
        ...

    def all_ready(self, subject: Subject) -> bool:
        """Whether all of them are ready, and it is known who they are."""
        ...

    def below(self, link: L) -> Below:
        """What lies behind a neighbour."""
        ...

    def terms(self, subject: Subject) -> Terms:
        """How a subject is treated."""
        ...

    def began(self, subject: Subject) -> None:
        """Somebody asks for it; `changed` is called as soon as the local partial is known."""
        ...

    def ended(self, state: State[L]) -> None:
        """Nobody asks for a subject any more."""
        ...

    def ask(self, link: L, number: int, subject: Subject, bound: float) -> None:
        """Ask a neighbour, under a new number."""
        ...

    def rebound(self, link: L, number: int, bound: float) -> None:
        """Change the bound of an ask."""
        ...

    def cancel(self, link: L, number: int) -> None:
        """Ask no longer."""
        ...

    def wake(self, link: L) -> None:
        """There is something to tell a neighbour: call `produce` when a message leaves, soon."""
        ...

    def tell(self, request: Request[L]) -> None:
        """A client must be told something: call `result`, soon."""
        ...

    def traffic(self, subject: Subject, link: L) -> Traffic:
        """Where to count what is told of a subject on a link."""
        ...


class Engine(Generic[L]):
    """The subjects of one broker."""

    def __init__(self, port: Port[L]) -> None:
        self._port = port
        self._numbers = itertools.count(1)
        self.states: dict[Subject, State[L]] = {}
        self._wanted: dict[L, dict[int, State[L]]] = {}
        """What each neighbour asks for, by the number of its ask."""
        self._asked: dict[L, dict[int, State[L]]] = {}
        """What each neighbour was asked for, by number."""
        self._pending: dict[L, dict[State[L], None]] = {}
        """What each neighbour may have to be told."""
        self._doubted: set[State[L]] = set()
        """Those of which the local partial may lack something, or have too much."""
        self.suppressed = 0
        """How often a change was small enough not to be told."""
        self.late = 0
        """What came for asks that had been cancelled."""

    # --- clients --------------------------------------------------------------------------------------

    def register(self, subject: Subject, request: Request[L]) -> None:
        """A client asks."""
        state = request.state = self._state(subject)
        if state.root is None:
            state.root = Root()
        state.root.requests[request] = None
        self._retarget(state)
        self._push(state)

    def tune(self, request: Request[L], bound: float) -> None:
        """A client changes its bound."""
        request.bound = bound
        self._retarget(request.state)
        self._push(request.state)

    def cancel(self, request: Request[L]) -> None:
        """A client asks no longer."""
        state = request.state
        assert state.root is not None
        del state.root.requests[request]
        if not state.root.requests:
            state.root = None
        self._retarget(state)
        self._release(state)

    def result(self, request: Request[L]) -> tuple[Read, bool] | None:
        """What a client must be told now, and whether it is complete; None: nothing, or it has cancelled."""
        state = request.state
        if request not in state.requests or not self._owes(state, request):
            return None
        request.told = state.form.shown(request.told, state.total(), self._root_slack(request))
        request.complete = self.is_complete(state)
        read = state.form.read(request.told, request.bound)
        return read, request.complete and read.whole

    # --- neighbours -----------------------------------------------------------------------------------

    def asked(self, link: L, number: int, subject: Subject, bound: float) -> None:
        """A neighbour asks, under a number that it has not used before; `AggregateError` if it has."""
        if number in self._wanted.get(link, ()):
            raise AggregateError(f"ask {number} stands already, for another subject; give each ask a number of its own")
        state = self._state(subject)
        side = state.side(link) or state.add(link)
        if side.want is not None:  # it has not cancelled what it asked before
            del self._wanted[link][side.answers]
        side.want, side.answers = bound, number
        side.sent = side.sent_complete = None
        self._wanted.setdefault(link, {})[number] = state
        self._retarget(state)
        self._push(state)

    def rebound(self, link: L, number: int, bound: float) -> None:
        """A neighbour changes the bound of an ask."""
        if (state := self._wanted.get(link, {}).get(number)) is not None:
            _there(state, link).want = bound
            self._retarget(state)
            self._push(state)

    def cancelled(self, link: L, number: int) -> None:
        """A neighbour asks no longer."""
        state = self._wanted.get(link, {}).pop(number, None)
        if state is not None:
            side = _there(state, link)
            side.want = side.sent = side.sent_complete = None
            if not self._wanted[link]:
                del self._wanted[link]
            if side.asked is None:
                state.remove(link)
            self._retarget(state)
            self._release(state)

    def told(self, link: L, update: Update, *, riding: bool = False) -> None:
        """A neighbour tells something, along with another message or not; `PartialRefused` if that is no value."""
        state = self._asked.get(link, {}).get(update.number)
        if state is None:
            self.late += 1
            return
        side = _there(state, link)
        side.got, side.complete = state.form.decode(update.value), update.complete
        side.told += 1
        if state.policy is Policy.ADAPTIVE and side.told % ADAPT_AFTER == 0:
            self._adapt(state)
        traffic = self._port.traffic(state.subject, link)
        if riding:
            traffic.ridden += 1
        else:
            traffic.alone += 1
        self._push(state, by_change=True)

    def produce(self, link: L, room: int) -> list[Update]:
        """What a neighbour must be told now, in about as many bytes; it is told so. The rest stays to be told."""
        updates: list[Update] = []
        pending = self._pending.get(link, {})
        while pending and room > 0:
            state = next(iter(pending))
            del pending[state]
            side = state.side(link)
            if side is None or side.want is None or not self._is_stale(state, link, side):
                continue
            side.sent = state.form.told(state.total(link), side.slack)
            side.sent_complete = self.is_complete(state, link)
            value = state.form.encode(side.sent)
            updates.append(Update(side.answers, side.sent_complete, value))
            self._port.traffic(state.subject, link).sent += 1
            room -= len(value) + UPDATE_BYTES
        if not pending:
            self._pending.pop(link, None)
        return updates

    def has_more(self, link: L) -> bool:
        """Whether something is still to be told."""
        return link in self._pending

    # --- what this broker knows itself ----------------------------------------------------------------

    def changed(self, subject: Subject, local: Any, *, whole: bool = True) -> None:
        """The local partial is known, or is another one; `whole`: it is beyond doubt."""
        if (state := self.states.get(subject)) is not None:
            state.local = local
            if whole:
                self._doubted.discard(state)
            else:
                self._doubted.add(state)
            self._push(state, by_change=True)

    # --- links ----------------------------------------------------------------------------------------

    def forget(self, links: Iterable[L]) -> None:
        """These neighbours have gone, or have started anew: what was said on their links is void."""
        gone = list(links)
        touched: dict[State[L], None] = {}
        for link in gone:
            self._pending.pop(link, None)
            for by_number in (self._wanted.pop(link, {}), self._asked.pop(link, {})):
                touched.update(dict.fromkeys(by_number.values()))
        for state in touched:
            for link in gone:
                state.remove(link)

    def let_go(self, subject: Subject) -> None:
        """Neighbours are told of a subject no longer, as if they had cancelled."""
        if (state := self.states.get(subject)) is not None:
            for side in state:
                if side.want is not None:
                    self.cancelled(side.link, side.answers)

    @property
    def spoken(self) -> list[L]:
        """The links on which something was said."""
        return list(dict.fromkeys((*self._wanted, *self._asked)))

    def links_changed(self) -> None:
        """Other neighbours are ready than before: ask those that were not asked, and tell what has changed."""
        for state in list(self.states.values()):
            self._retarget(state)
            if not self._release(state):
                self._push(state)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept at all."""
        return not (self.states or self._wanted or self._asked or self._pending or self._doubted)

    # --- states ---------------------------------------------------------------------------------------

    def _state(self, subject: Subject) -> State[L]:
        state = self.states.get(subject)
        if state is None:
            state = self.states[subject] = State(subject, self._port.terms(subject))
            self._port.began(subject)
        return state

    def _release(self, state: State[L]) -> bool:
        """Forget a subject that nobody asks for; whether that is so."""
        if state.root is not None or any(side.want is not None for side in state):
            return False
        if self.states.get(state.subject) is state:
            del self.states[state.subject]
            self._doubted.discard(state)
            self._port.ended(state)
        return True

    def _retarget(self, state: State[L]) -> None:
        """Divide the bounds of all that ask, and ask the neighbours accordingly."""
        links = self._port.neighbours(state.subject)
        tightest: dict[L, float] = {}
        for link, bound, keep in self._demands(state):
            others = [other for other in links if other is not link]
            parts = split(
                state.policy,
                bound,
                [self._below(state, other) for other in others],
                whole_units=state.form.whole_units,
            )
            keep(parts.slack)
            for other, share in zip(others, parts.shares, strict=True):
                tightest[other] = min(share, tightest.get(other, share))
        for link in dict.fromkeys((*links, *(side.link for side in state))):
            self._ask(state, link, tightest.get(link))

    def _adapt(self, state: State[L]) -> None:
        """Divide bounds anew, if those who tell most have too little."""
        links = self._port.neighbours(state.subject)
        for link, bound, _ in self._demands(state):
            below = [self._below(state, other) for other in links if other is not link]
            if not is_about_right(state.policy, bound, below):
                self._retarget(state)
                break
        for side in state:
            side.told //= 2  # what is long past counts for less

    def _demands(self, state: State[L]) -> Iterator[tuple[L | None, float, Callable[[float], None]]]:
        """Each direction that asks, with its bound, and who takes note of the slack."""

        def at(target: object, name: str) -> Callable[[float], None]:
            return lambda slack: setattr(target, name, slack)

        if (root := state.root) is not None:
            root.bound = min(request.bound for request in root.requests)
            yield None, root.bound, at(root, "slack")
        for side in state:
            if side.want is not None:
                yield side.link, side.want, at(side, "slack")

    def _below(self, state: State[L], link: L) -> Below:
        side = state.side(link)
        below = self._port.below(link)
        return below if side is None else below._replace(told=side.told, share=side.asked or 0)

    def _ask(self, state: State[L], link: L, bound: float | None) -> None:
        side = state.side(link)
        before = side.asked if side is not None else None
        if bound == before:
            return
        if bound is None:
            assert side is not None
            self._port.cancel(link, side.number)
            self._stop_asking(state, link, side)
            return
        if side is None:
            side = state.add(link)
        side.asked = bound
        if before is None:
            side.number = next(self._numbers)
            self._asked.setdefault(link, {})[side.number] = state
            self._port.ask(link, side.number, state.subject, bound)
        else:
            self._port.rebound(link, side.number, bound)

    def _stop_asking(self, state: State[L], link: L, side: Side[L]) -> None:
        del self._asked[link][side.number]
        if not self._asked[link]:
            del self._asked[link]
        side.asked = side.got = None
        side.complete = False
        if side.want is None:
            state.remove(link)

    # --- telling --------------------------------------------------------------------------------------

    def _push(self, state: State[L], *, by_change: bool = False) -> None:
        """Note who must be told something."""
        if not state.ready:
            return
        for side in state:
            if side.want is not None:
                link = side.link
                if self._is_stale(state, link, side):
                    self._pending.setdefault(link, {})[state] = None
                    self._port.wake(link)
                elif by_change:
                    self.suppressed += 1
                    self._port.traffic(state.subject, link).suppressed += 1
        for request in state.requests:
            if self._owes(state, request):
                self._port.tell(request)

    def _is_stale(self, state: State[L], link: L, side: Side[L]) -> bool:
        assert side.want is not None
        return side.sent_complete is not self.is_complete(state, link) or state.form.is_stale(
            side.sent, state.total(link), side.slack, side.want
        )

    def _owes(self, state: State[L], request: Request[L]) -> bool:
        if not state.ready:
            return False
        return request.complete is not self.is_complete(state) or state.form.is_news(
            request.told, state.total(), self._root_slack(request), request.bound
        )

    def _root_slack(self, request: Request[L]) -> float:
        """What a client may be told wrongly on top of what its broker knows: those with wider bounds have more."""
        return request.bound - request.state.root_bound + request.state.root_slack

    def is_complete(self, state: State[L], but: L | None = None) -> bool:
        """Whether all neighbours, but perhaps one, have told something complete."""
        if not (state.ready and state not in self._doubted and self._port.all_ready(state.subject)):
            return False
        for link in self._port.neighbours(state.subject):
            if link is not but:
                side = state.side(link)
                if side is None or not side.complete:
                    return False
        return True


def _there(state: State[L], link: L) -> Side[L]:
    """What is said of a subject on a link on which something is."""
    side = state.side(link)
    assert side is not None
    return side
