"""Recovery: after a new tree, a border broker fetches what its clients missed from the origins themselves.

Theory of operation
-------------------
A new tree drops what was under way. Each broker knows how far it has seen each origin (`Progress`). On a new tree it
*suspends* every origin it knew: notifications of a suspended origin are held back from the subscriptions that are
*owed* what was missed, those that existed when the origin was suspended. Newer subscriptions get them at once.

Then a wave of kind "marks" visits every broker. When its answer is complete, all filters of the new tree are in place
or under way towards their origins on the same links, ahead of what is sent next. So the broker sends a `Fetch` for
each origin that has moved on, with the last number it has. The origin answers from memory and store; its answer
travels behind its notifications on the same links, so it covers everything held back. What neither the answer nor
the held notifications contain is lost, and each owed subscription is told by a `Gap`.

An origin that stays away is waited for; after `ORIGIN_TIMEOUT` the owed subscriptions get a `Gap` without an end.

A subscription is reported to its client as settled only when the marks of the current tree are known: from then on
whatever is lost can be noticed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidings.wire import Envelope, Fetch, Fetched, Gap, Mark

from ._book import Entry
from ._progress import decode_marks

if TYPE_CHECKING:
    from ._broker import Broker

RETRY_INTERVAL = 2_000_000
"""Microseconds after which an unanswered question is asked again."""
MARKS_RETRY = 250_000
"""Microseconds after which the marks are asked for again while the tree is still coming together."""
ORIGIN_TIMEOUT = 60_000_000
"""Microseconds for which an origin that cannot be reached is waited for."""
MAX_HELD = 10_000
"""The most notifications of one origin that are held back; older ones are left to the origin's answer."""
FETCH_PIECE = 500
"""The most envelopes in one piece of an answer."""


@dataclass(slots=True, eq=False)
class _Suspension:
    """An origin whose latest notifications may have been missed."""

    since: tuple[int, int]
    owed: dict[Entry, None]
    held: dict[tuple[int, int], Envelope] = field(default_factory=dict)
    fetched: dict[tuple[int, int], Envelope] = field(default_factory=dict)
    number: int | None = None
    """The number of the fetch under way."""


class Recovery:
    """The origins that are suspended, and the way back."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._suspended: dict[str, _Suspension] = {}
        self._number = 0
        self._attempt = 0
        self.baseline = True
        """Whether the marks of the current tree are known."""

    @property
    def suspended(self) -> frozenset[str]:
        """The origins that are waited for."""
        return frozenset(self._suspended)

    # --- live traffic ---------------------------------------------------------------------------------

    def passed(self, envelope: Envelope) -> None:
        """A notification of another origin has come."""
        identity = envelope.identity
        if identity.origin not in self._suspended:
            self._broker.progress.advance(identity.origin, identity.epoch, identity.seq)

    def marked(self, mark: Mark) -> None:
        """A mark of another origin has come."""
        if mark.origin not in self._suspended:
            self._broker.progress.advance(mark.origin, mark.epoch, mark.seq)

    def hold(self, envelope: Envelope, entries: list[Entry]) -> list[Entry]:
        """Hold a notification back from those that are owed earlier ones; the others get it at once."""
        suspension = self._suspended.get(envelope.identity.origin)
        if suspension is None:
            return entries
        held = suspension.held
        held[envelope.identity.epoch, envelope.identity.seq] = envelope
        if len(held) > MAX_HELD:
            del held[next(iter(held))]
        return [entry for entry in entries if entry not in suspension.owed]

    # --- a new tree -----------------------------------------------------------------------------------

    def new_tree(self) -> None:
        """Suspend every known origin and ask for the marks of the new tree."""
        clients = self._broker.client_subscriptions()
        for origin, mark in self._broker.progress.seen.items():
            suspension = self._suspended.get(origin)
            if suspension is None:
                self._suspended[origin] = suspension = _Suspension(mark, dict.fromkeys(clients))
                self._watch(origin, suspension)
            suspension.number = None
            suspension.fetched.clear()
        self._attempt += 1
        self.baseline = not self._broker.adjacency.tree_links
        if not self.baseline:
            self._ask(self._attempt)

    def neighbour_ready(self) -> None:
        """A tree neighbour has become ready: the marks may be complete now."""
        if not self.baseline:
            self._attempt += 1
            self._ask(self._attempt)

    def _ask(self, attempt: int) -> None:
        if attempt == self._attempt:
            self._broker.waves.start("marks", b"", lambda answer, complete: self._marks(attempt, answer, complete))

    def _marks(self, attempt: int, answer: bytes, complete: bool) -> None:
        if attempt != self._attempt:
            return
        if not complete:
            self._broker.call_later(MARKS_RETRY, lambda: self._ask(attempt))
            return
        self.baseline = True
        for origin, mark in decode_marks(answer).items():
            if origin == self._broker.name:
                continue
            suspension = self._suspended.get(origin)
            if suspension is None:
                self._broker.progress.advance(origin, *mark)
            elif mark == suspension.since and not suspension.held:
                del self._suspended[origin]
            else:
                self._fetch(origin, suspension)
        self._broker.settle()

    def _watch(self, origin: str, suspension: _Suspension) -> None:
        def give_up() -> None:
            if self._suspended.get(origin) is suspension:
                if suspension.number is not None or origin in self._broker.adjacency.tree.hops:
                    self._broker.call_later(ORIGIN_TIMEOUT, give_up)
                    return
                epoch, seq = suspension.since
                self._tell(suspension, Gap(origin, epoch, seq + 1, None))
                suspension.owed.clear()

        self._broker.call_later(ORIGIN_TIMEOUT, give_up)

    # --- fetching -------------------------------------------------------------------------------------

    def _fetch(self, origin: str, suspension: _Suspension) -> None:
        self._number += 1
        suspension.number = number = self._number
        suspension.fetched.clear()
        epoch, seq = suspension.since
        filters = tuple(dict.fromkeys(entry.filter for entry in suspension.owed))
        self._forward(Fetch(origin, self._broker.name, number, {epoch: seq}, filters), origin)

        def again() -> None:
            if self._suspended.get(origin) is suspension and suspension.number == number:
                self._fetch(origin, suspension)

        self._broker.call_later(RETRY_INTERVAL, again)

    def requested(self, message: Fetch) -> None:
        """A broker asks an origin; answer if it is this one, pass it on otherwise."""
        if message.origin != self._broker.name:
            self._forward(message, message.origin)
            return
        publications = self._broker.publications
        upto: dict[int, int] = {}
        lost: list[tuple[int, int, int | None]] = []
        found: list[Envelope] = []
        for epoch in sorted({*message.after, publications.epoch}):
            expected = message.after.get(epoch, 0) + 1
            for envelope in publications.since(epoch, expected - 1):
                seq = envelope.identity.seq
                if seq > expected:
                    lost.append((epoch, expected, seq - 1))
                expected = seq + 1
                if any(filter.matches(envelope.notification) for filter in message.filters):
                    found.append(envelope)
                if len(found) >= FETCH_PIECE:
                    self._answer(message, Fetched(message.requester, message.number, tuple(found)))
                    found = []
            if epoch == publications.epoch:
                upto[epoch] = publications.last
                if expected <= publications.last:
                    lost.append((epoch, expected, publications.last))
            else:
                upto[epoch] = expected - 1
                lost.append((epoch, expected, None))
        self._answer(message, Fetched(message.requester, message.number, tuple(found), True, upto, tuple(lost)))

    def _answer(self, message: Fetch, answer: Fetched) -> None:
        self._forward(answer, message.requester)

    def answered(self, message: Fetched) -> None:
        """A piece of an answer; pass it on if it is for another broker."""
        if message.requester != self._broker.name:
            self._forward(message, message.requester)
            return
        for origin, suspension in self._suspended.items():
            if suspension.number == message.number:
                for envelope in message.envelopes:
                    suspension.fetched[envelope.identity.epoch, envelope.identity.seq] = envelope
                if message.last:
                    self._complete(origin, suspension, message)
                return

    def _complete(self, origin: str, suspension: _Suspension, message: Fetched) -> None:
        del self._suspended[origin]
        epoch = max(message.upto)
        self._broker.progress.advance(origin, epoch, message.upto[epoch])
        for epoch, first, last in message.lost:
            if last is None or first <= last:
                self._tell(suspension, Gap(origin, epoch, first, last))
        missed = suspension.fetched | suspension.held
        for key in sorted(missed):
            if key > suspension.since:
                self._broker.deliver_late(missed[key], suspension.owed)

    def _tell(self, suspension: _Suspension, gap: Gap) -> None:
        self._broker.report_gap(gap, suspension.owed)

    def _forward(self, message: Fetch | Fetched, broker: str) -> None:
        link = self._broker.adjacency.hop_towards(broker)
        if link is not None:
            self._broker.send(link, message)
