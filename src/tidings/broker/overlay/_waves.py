"""Waves: a question that goes out over the tree and comes back as one answer.

Theory of operation
-------------------
A wave visits every broker once. Each broker sends the wave on to its other tree neighbours, gives its own answer, waits
for theirs, combines them all and answers the neighbour that it came from. Waves travel on the same FIFO links as
notifications and subscriptions: when an answer arrives, everything that the answering brokers sent before it has
arrived, too. That is what makes a wave useful for activation, drain and completeness.

A wave waits where a neighbour has not finished its handshake (see `_adjacency`), and goes on to it behind the filters
that it is told. With advertisements, filters follow those of the neighbour later, so a wave does not wait there: its
answer is incomplete, and whoever started it asks again.

An answer is *complete* if every broker contributed. A lost link is a new tree, which ends a wave as incomplete at
once; a deadline ends it wherever it waits. The initiator is always called back exactly once; it may start the wave
again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tidings.broker._links import Link
from tidings.broker._runtime import Timer
from tidings.model import FeatureError, TidingsError
from tidings.wire import Wave, WaveAnswer

from ._adjacency import Adjacency
from ._host import Host

MAX_WAVES = 10_000
"""The most waves that one broker takes part in at a time; further ones are answered as incomplete."""
WAVE_DEADLINE = 10_000_000
"""Microseconds after which a wave ends, if its initiator does not say otherwise."""
MAX_DEADLINE = 3_600_000_000
"""The most microseconds that a wave may take."""
HOP_ALLOWANCE = 0.9
"""The share of the remaining time that a broker gives to those behind it, so that its own answer is in time."""


class WaveKind(Protocol):
    """How brokers answer one kind of wave."""

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Call `answer`, now or in a later turn, with the answer of this broker alone; None: it cannot give one.

        The wave has gone on already.
        """
        ...

    def combine(self, answers: list[bytes]) -> bytes:
        """One answer for several; the order of the given ones must not matter."""
        ...


@dataclass(slots=True, eq=False)
class _Pending:
    wave: Wave
    source: Link | None
    done: Callable[[bytes, bool], None] | None
    answers: list[bytes]
    waiting: set[Link]
    """Those that were asked."""
    unready: set[Link]
    """Those that will be, when their handshake is finished."""
    own: bool = True
    """Whether this broker's own answer is waited for."""
    timer: Timer | None = None
    complete: bool = True


class Waves:
    """The waves that this broker started or passes on."""

    def __init__(self, host: Host, adjacency: Adjacency, *, waits: bool = True) -> None:
        """`waits`: whether a wave waits for a neighbour that is not ready, because filters go with its handshake."""
        self._host = host
        self._adjacency = adjacency
        self._waits = waits
        self._kinds: dict[str, WaveKind] = {}
        self._pending: dict[tuple[str, int], _Pending] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._pending)

    def register(self, kind: str, handler: WaveKind) -> None:
        """Let this broker answer waves of a kind."""
        self._kinds[kind] = handler

    def start(self, kind: str, body: bytes, done: Callable[[bytes, bool], None], deadline: int = WAVE_DEADLINE) -> None:
        """Ask every broker; `done(answer, complete)` is called exactly once, perhaps before this returns."""
        if kind not in self._kinds:
            raise FeatureError(f"no feature of broker '{self._host.name}' answers waves of the kind '{kind}'")
        if not 0 <= deadline <= MAX_DEADLINE:
            raise FeatureError(
                f"a wave '{kind}' with a deadline of {deadline:,}; give microseconds, at most {MAX_DEADLINE:,}"
            )
        self._number += 1
        wave = Wave(self._host.name, self._number, kind, body, deadline)
        self._spread(wave, None, done)

    def receive(self, link: Link, wave: Wave) -> None:
        """A neighbour asks."""
        if not 0 <= wave.deadline <= MAX_DEADLINE:
            raise TidingsError(f"a wave with a deadline of {wave.deadline} microseconds; at most {MAX_DEADLINE:,}")
        own = wave.initiator == self._host.name  # a tree brings no wave back to where it began
        if own or wave.kind not in self._kinds or len(self._pending) >= MAX_WAVES:
            self._host.send(link, WaveAnswer(wave.initiator, wave.number, b"", False))
            return
        self._spread(wave, link, None)

    def answer(self, link: Link, message: WaveAnswer) -> None:
        """A neighbour answers."""
        pending = self._pending.get((message.initiator, message.number))
        if pending is None or link not in pending.waiting:
            return
        pending.waiting.discard(link)
        if message.body:
            pending.answers.append(message.body)
        pending.complete &= message.complete
        self._check(pending)

    def started_anew(self, link: Link) -> None:
        """A neighbour has forgotten what it asked and what it was asked."""
        for pending in list(self._pending.values()):
            if pending.source is link:
                self._drop(pending)
            elif link in pending.waiting:
                pending.waiting.discard(link)
                self._wait_for(pending, {link})
                self._check(pending)

    def neighbour_ready(self, link: Link) -> None:
        """A neighbour has finished its handshake: let the waves that wait for it go on."""
        for pending in list(self._pending.values()):
            if link in pending.unready:
                pending.unready.discard(link)
                pending.waiting.add(link)
                self._host.send(link, _onward(pending.wave))

    def end_all(self) -> None:
        """A new tree: every wave ends here, incomplete; what others started is forgotten."""
        for pending in list(self._pending.values()):
            pending.complete = False
            if pending.source is None:
                self._finish(pending)
            else:
                self._drop(pending)

    def _spread(self, wave: Wave, source: Link | None, done: Callable[[bytes, bool], None] | None) -> None:
        adjacency = self._adjacency
        links = [link for link in adjacency.tree_links if link is not source]
        targets = [link for link in links if adjacency.is_open(link)]
        unready = set(links).difference(targets)
        pending = _Pending(wave, source, done, [], set(targets), set())
        self._wait_for(pending, unready)
        self._pending[wave.initiator, wave.number] = pending
        onward = _onward(wave)
        for link in targets:
            self._host.send(link, onward)
        # The deadline first: it ends the wave whatever becomes of the visit.
        pending.timer = self._host.call_later(wave.deadline, lambda: self._expire(pending))
        self._kinds[wave.kind].visit(wave.body, lambda answer: self._own(pending, answer))

    def _wait_for(self, pending: _Pending, links: set[Link]) -> None:
        """Let a wave wait for neighbours, or do without them.

        With advertisements a filter is told behind the neighbour's own, which come after its handshake: a wave that
        went on with the handshake would be ahead of it.
        """
        if self._waits:
            pending.unready |= links
        else:
            pending.complete &= not links

    def _own(self, pending: _Pending, answer: bytes | None) -> None:
        """This broker's own answer, the first of all, is there."""
        if pending.own and self._pending.get((pending.wave.initiator, pending.wave.number)) is pending:
            pending.own = False
            if answer is None:
                pending.complete = False
            else:
                pending.answers.insert(0, answer)
            self._check(pending)

    def _check(self, pending: _Pending) -> None:
        if not pending.waiting and not pending.unready and not pending.own:
            self._finish(pending)

    def _expire(self, pending: _Pending) -> None:
        if self._pending.get((pending.wave.initiator, pending.wave.number)) is pending:
            pending.complete = False
            self._finish(pending)

    def _drop(self, pending: _Pending) -> None:
        self._pending.pop((pending.wave.initiator, pending.wave.number), None)
        if pending.timer is not None:
            pending.timer.cancel()

    def _finish(self, pending: _Pending) -> None:
        self._drop(pending)
        wave = pending.wave
        pending.complete &= not pending.own
        try:
            combined = self._kinds[wave.kind].combine(pending.answers)
        except FeatureError:
            raise
        except Exception:  # an answer of a neighbour makes no sense: it must not stop this broker
            self._host.statistics.refused += 1
            combined, pending.complete = pending.answers[0] if pending.answers else b"", False
        if pending.source is not None:
            self._host.send(pending.source, WaveAnswer(wave.initiator, wave.number, combined, pending.complete))
        elif pending.done is not None:
            pending.done(combined, pending.complete)


def _onward(wave: Wave) -> Wave:
    """The wave for those behind: they have less time."""
    deadline = int(wave.deadline * HOP_ALLOWANCE)
    return Wave(wave.initiator, wave.number, wave.kind, wave.body, deadline, wave.scope)
