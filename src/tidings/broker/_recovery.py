"""Recovery: what a subscription missed is fetched from the origins themselves.

Theory of operation
-------------------
A new tree drops what was under way. Each broker knows how far it has seen each origin (`Progress`). On a new tree it
*suspends* every origin it knew for the subscriptions that exist: they are *owed* what follows. Notifications of a
suspended origin are held back from those; subscriptions that come later get them at once.

A client that was cut off, even from another broker, subscribes again and says how far it has seen each origin.
Then those origins are suspended for this one subscription.

Then the marks of the tree are gathered (see `_tree_marks`). When they are known, all filters of the new tree are in
place or under way towards their origins on the same links, ahead of what is sent next. So the broker sends a `Fetch`
for each suspended origin that has moved on, with the last number that is known to be seen. The origin answers from
memory and store; its answer travels behind its notifications on the same links, so it covers everything held back. What
neither the answer nor the held notifications contain is lost, and each owed subscription is told by a `Gap`. One answer
is bounded; if there is more, what it holds is delivered, and the next question follows from there, when those who are
owed have taken it.

An origin that stays away is waited for; after `ORIGIN_TIMEOUT` the owed subscriptions get a `Gap` without an end.

A subscription is reported to its client as settled only when the marks of the current tree are known: from then on
whatever is lost can be noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from tidings.model import EVERYTHING, Identity, TidingsError
from tidings.wire import Envelope, Fetch, Fetched, Gap, Mark

from ._bounds import check_positions, check_readable
from ._forwarding import Targets
from ._links import Link
from ._progress import Position
from ._registration import Registration
from ._suspension import RETRY_INTERVAL, Held, Suspension

if TYPE_CHECKING:
    from ._broker import Broker

ORIGIN_TIMEOUT = 60_000_000
"""Microseconds for which an origin that cannot be reached is waited for."""
MAX_SUSPENSIONS = 10_000
"""The most origins and positions that are waited for at a time; beyond, clients that have their share are refused."""
SUSPENSIONS_SHARE = 100
"""What the clients of one owner may have of these even then, so that nobody can keep others from coming back."""
MAX_OWN_SUSPENSIONS = 1_000
"""The most origins and positions that the clients of one owner may have waited for."""
CONTINUE_INTERVAL = 50_000
"""Microseconds after which a fetch that had to wait is tried again: for others, or for those who are owed."""
MAX_FETCHES = 8
"""The most answers that are waited for at a time: together they must fit into a client's queue."""
MAX_FETCH_FILTERS = 262_144
"""The most characters of filters in a fetch; with more, everything is asked for and sorted out here."""


class Recovery:
    """The origins that are suspended, for whom, and the way back."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._holds = broker.holds.all
        self._suspended: dict[str, list[Suspension]] = {}
        self._fetches: dict[int, Suspension] = {}
        self._number = 0
        self._trees = 0
        self._tree_marks: dict[str, Position] = {}
        """The marks of the current tree."""
        self.baseline = True
        """Whether the marks of the current tree are known."""

    @property
    def suspended(self) -> frozenset[str]:
        """The origins that are waited for."""
        return frozenset(self._suspended)

    @property
    def active(self) -> bool:
        """Whether anything may be held back from anybody."""
        return bool(self._suspended or self._holds)

    def debts(self, entry: Registration) -> list[tuple[str, bool]]:
        """The origins that owe a subscription something, each with whether it has been asked for it."""
        return [(one.origin, one.number is not None) for one in self._all() if entry in one.owed]

    # --- live traffic ---------------------------------------------------------------------------------

    def passed(self, envelope: Envelope, *, several: bool = False) -> None:
        """A notification of another origin has come; `several`: other forms of the same event may follow."""
        identity = envelope.identity
        if identity.origin not in self._suspended:
            self._broker.progress.advance(identity.origin, identity.epoch, identity.seq - several)

    def marked(self, mark: Mark) -> None:
        """A mark of another origin has come."""
        if mark.origin not in self._suspended:
            self._broker.progress.advance(mark.origin, mark.epoch, mark.seq)

    def hold(self, envelope: Envelope, subscriptions: list[Registration]) -> list[Registration]:
        """Hold a notification back from those that are owed earlier ones; the others get it at once."""
        if self._holds:
            subscriptions = self._broker.holds.keep(envelope, subscriptions)
        for suspension in self._suspended.get(envelope.identity.origin, ()):
            owed = [subscription for subscription in subscriptions if subscription in suspension.owed]
            if owed:
                suspension.hold(envelope, owed)
                subscriptions = [subscription for subscription in subscriptions if subscription not in suspension.owed]
        return subscriptions

    def kept_from(self, origin: str, targets: Targets) -> frozenset[Link]:
        """The clients among these with a subscription that may not get what an origin published now."""
        registrations = targets.registrations
        kept = self._holds.keys() & registrations
        for suspension in self._suspended.get(origin, ()):
            kept |= suspension.owed.keys() & registrations
        return frozenset(registration.link for registration in kept)

    def marks_of(self, entries: Iterable[Registration]) -> dict[str, Position]:
        """How far these subscriptions have certainly seen each origin, this broker included."""
        broker = self._broker
        marks = self._known()
        if not broker.scoping.gateways:
            marks[broker.name] = (broker.epoch, broker.publications.last)
        for suspension in self._all():
            if not suspension.owed.keys().isdisjoint(entries):
                marks[suspension.origin] = min(suspension.since, marks.get(suspension.origin, suspension.since))
        return marks

    def _known(self) -> dict[str, Position]:
        """How far a subscription that is owed nothing has seen each origin; it came after the marks of this tree."""
        known = self._broker.progress.seen
        for origin, mark in self._tree_marks.items():
            known[origin] = max(mark, known.get(origin, mark))
        return known

    def heard_of(self, origin: str) -> bool:
        """Whether this broker knows of a broker of this name, in the network or from notifications and marks."""
        broker = self._broker
        known = broker.adjacency.topology.knows(origin) or origin in self._tree_marks
        return known or broker.progress.of(origin) is not None

    def marks_of_clients(self) -> Iterator[tuple[Link, dict[str, Position]]]:
        """How far each client with subscriptions has certainly seen each origin."""
        common = None if self._suspended else self.marks_of(())
        for link in self._broker.clients:
            if registrations := self._broker.registrations.subscriptions(link).values():
                yield link, self.marks_of(registrations) if common is None else common

    # --- suspending -----------------------------------------------------------------------------------

    def new_tree(self) -> None:
        """Suspend every known origin; the marks of the new tree will be gathered."""
        self._broker.progress.new_tree()
        clients = [one for one in self._broker.client_subscriptions() if one not in self._holds]
        self._fetches.clear()
        for suspension in self._all():
            suspension.number = None
            suspension.fetched.clear()
            if not suspension.watched:
                self._watch(suspension)
        for origin, mark in self._known().items():
            owed_already = {entry for known in self._suspended.get(origin, ()) for entry in known.owed}
            self._suspend(origin, mark, [entry for entry in clients if entry not in owed_already])
        self._trees += 1
        self._tree_marks = {}
        self.baseline = not self._broker.adjacency.tree_links

    def resume(self, entry: Registration, after: dict[str, Position]) -> None:
        """A client that was cut off has subscribed again, and says how far it has seen each origin."""
        self.check_room(entry.link, len(after))
        for origin, since in after.items():
            for suspension in self._suspended.get(origin, ()):
                alike = suspension.since == since and suspension.trees == self._trees
                if alike and suspension.number is None and not suspension.held:
                    suspension.owed[entry] = None  # another subscription waits for the same
                    break
            else:
                self._suspend(origin, since, [entry])

    def check_room(self, client: Link, more: int) -> None:
        """Raise `TidingsError` if a client may not have so much more waited for."""
        owner = client.owner
        total = sum(map(len, self._suspended.values())) + more
        if total <= SUSPENSIONS_SHARE:
            return
        own = more + sum(any(one.link.owner == owner for one in suspension.owed) for suspension in self._all())
        if own > (SUSPENSIONS_SHARE if total > MAX_SUSPENSIONS else MAX_OWN_SUSPENSIONS):
            raise TidingsError(
                f"broker '{self._broker.name}' is recovering {own:,} positions for '{owner}', of "
                f"{total:,} for all; subscribe again later, or without positions"
            )

    def displaced(self, entry: Registration) -> None:
        """A subscription has no place in a scope of its client any more, or not yet: it may miss what follows."""
        broker = self._broker
        if entry in self._holds:
            return
        owed_already = {suspension.origin for suspension in self._all() if entry in suspension.owed}
        marks = {**self._known(), broker.name: (broker.epoch, broker.publications.last)}
        for origin, mark in marks.items():
            if origin not in owed_already:
                self._suspend(origin, mark, [entry])

    def ended(self, entry: Registration) -> None:
        """A subscription has ended: nobody waits for what it is owed."""
        for suspension in self._all():
            if entry in suspension.owed:
                del suspension.owed[entry]
                self._fewer_owed(suspension)

    def replaced(self, old: Registration, new: Registration) -> None:
        """A subscription has a new filter: it is owed what passes both."""
        for suspension in self._all():
            if old in suspension.owed:
                suspension.replace(old, new)

    def _fewer_owed(self, suspension: Suspension) -> None:
        if not suspension.owed:
            self._end(suspension)
        elif suspension.number is None:
            self._fetch(suspension)

    def settled(self, entry: Registration) -> None:
        """A subscription has settled on the current tree: what it is owed can be fetched."""
        for suspension in self._all():
            if entry in suspension.owed and suspension.number is None:
                self._fetch(suspension)

    def _suspend(self, origin: str, since: Position, entries: list[Registration]) -> None:
        if not entries:
            return
        suspension = Suspension(origin, since, dict.fromkeys(entries), self._trees)
        self._suspended.setdefault(origin, []).append(suspension)
        self._watch(suspension)

    def _watch(self, suspension: Suspension) -> None:
        """Wait for an origin for so long and no longer."""
        suspension.watched = True
        self._broker.call_later(ORIGIN_TIMEOUT, lambda: self._timed_out(suspension))

    def _timed_out(self, suspension: Suspension) -> None:
        if suspension not in self._suspended.get(suspension.origin, ()):
            return
        if not self._reachable(suspension.origin):
            epoch, seq = suspension.since
            self._broker.delivery.report_gap(Gap(suspension.origin, epoch, seq + 1, None), suspension.owed)
            self._end(suspension)
        elif suspension.number is not None or self._has_settled(suspension):
            self._watch(suspension)
        elif not all(entry.placed for entry in suspension.owed):
            self._go_on_without(suspension)
        else:
            suspension.watched = False  # it waits for its subscriptions; the next tree looks after the origin again

    def _go_on_without(self, suspension: Suspension) -> None:
        """The scopes of some subscriptions cannot be had here: they get what reaches them, and are told of the rest."""
        epoch, seq = suspension.since
        self._broker.delivery.report_gap(Gap(suspension.origin, epoch, seq + 1, None), suspension.owed)
        self._end(suspension)
        for at in sorted(suspension.held):
            for one in suspension.held[at]:
                self._broker.delivery.deliver_held(one.envelope, one.subscriptions)

    def _has_settled(self, suspension: Suspension) -> bool:
        return self.baseline and all(entry.settled for entry in suspension.owed)

    def marks_gathered(self, tree_marks: dict[str, Position]) -> None:
        """The marks of the current tree are known."""
        self.baseline = True
        # With advertisements, filters may have followed them to the origin only after it had told its mark.
        advertised = self._broker.routing.advertisements
        detours = bool(self._broker.scoping.gateways)
        if not detours:
            del tree_marks[self._broker.name]
        self._tree_marks = {} if detours else tree_marks
        for origin, mark in tree_marks.items():
            if origin not in self._suspended:
                self._broker.progress.advance(origin, *mark)
            for suspension in list(self._suspended.get(origin, ())):
                # Of what is not placed, or came on this tree, the origin may not have known the filter.
                known = suspension.trees < self._trees and all(entry.placed for entry in suspension.owed)
                if mark == suspension.since and not suspension.held and not advertised and known:
                    self._end(suspension)
                elif suspension.number is None:
                    self._fetch(suspension)

    # --- fetching -------------------------------------------------------------------------------------

    def _fetch(self, suspension: Suspension) -> None:
        """Ask the origin; wait until the subscriptions are settled on a tree that leads there."""
        if not self._has_settled(suspension) or not self._reachable(suspension.origin):
            return  # the settling of the last one, or the next tree, brings us back here
        if len(self._fetches) >= MAX_FETCHES or self._broker.delivery.congested(suspension.owed):
            self._broker.call_later(CONTINUE_INTERVAL, lambda: self._fetch_later(suspension))
            return
        self._number += 1
        suspension.number = number = self._number
        suspension.fetched.clear()
        self._fetches[number] = suspension
        epoch, seq = suspension.since
        filters = tuple(dict.fromkeys(entry.filter for entry in suspension.owed))
        if not self._broker.scoping.flat:
            filters = (EVERYTHING,)  # what a publication looks like to a subscription is worked out here
        elif sum(len(str(filter)) for filter in filters) > MAX_FETCH_FILTERS:
            filters = (EVERYTHING,)
        fetch = Fetch(suspension.origin, self._broker.name, number, {epoch: seq}, filters)
        if suspension.origin == self._broker.name:
            self.requested(fetch)
            return
        self._forward(fetch, suspension.origin)

        def again() -> None:
            if self._fetches.get(number) is suspension:
                del self._fetches[number]
                suspension.number = None
                suspension.patience *= 2  # a slow answer must not be drowned in questions
                self._fetch(suspension)

        self._broker.call_later(suspension.patience, again)

    def _fetch_later(self, suspension: Suspension) -> None:
        if suspension.number is None and suspension in self._suspended.get(suspension.origin, ()):
            self._fetch(suspension)

    def requested(self, message: Fetch) -> None:
        """A broker asks an origin; answer if it is this one, pass it on otherwise."""
        check_positions(message.after.items())
        for filter in message.filters:
            check_readable(filter)
        if message.origin != self._broker.name:
            self._forward(message, message.origin)
            return
        for piece in self._broker.publications.answer(message, self._shown_to(message.requester)):
            if message.requester == self._broker.name:
                self.answered(piece)
            else:
                self._forward(piece, message.requester)

    def _shown_to(self, broker: str) -> Callable[[Identity], bool]:
        """What a broker may be told of: nothing of scopes that it has no part in."""
        scoping = self._broker.scoping
        if scoping.flat:
            return lambda identity: True
        return lambda identity: scoping.concerns(broker, identity.graph_epoch, identity.publisher)

    def answered(self, message: Fetched) -> None:
        """A piece of an answer; pass it on if it is for another broker. `WireError` if it holds what is none."""
        for envelope in message.envelopes:
            envelope.notification  # noqa: B018 - decoded here: whatever is wrong with it is the doing of the neighbour
        if message.requester != self._broker.name:
            self._forward(message, message.requester)
            return
        suspension = self._fetches.get(message.number)
        if suspension is None:
            return
        for envelope in message.envelopes:
            if envelope.routes and envelope.identity.origin == suspension.origin:
                suspension.fetched[envelope.identity.epoch, envelope.identity.seq] = envelope
        if message.last:
            if message.more and message.upto:
                self._advance(suspension, message)
            else:
                self._complete(suspension, message)

    def _advance(self, suspension: Suspension, message: Fetched) -> None:
        """As much as one answer may hold has come: hand it over, and ask for the rest when it was taken."""
        upto = max(message.upto.items())
        held = {at: suspension.let_go(at) for at in list(suspension.held) if at <= upto or at in suspension.fetched}
        fetched, suspension.fetched = suspension.fetched, {}
        since, suspension.since = suspension.since, max(upto, suspension.since)
        self._end(suspension)  # it does not hold back what it hands over
        self._hand_over(suspension, fetched, held, since, message)
        self._suspended.setdefault(suspension.origin, []).append(suspension)
        suspension.number = None
        suspension.patience = RETRY_INTERVAL
        self._broker.call_later(0, lambda: self._fetch_later(suspension))

    def _complete(self, suspension: Suspension, message: Fetched) -> None:
        self._end(suspension)
        if suspension.origin not in self._suspended and message.upto:
            epoch = max(message.upto)
            self._broker.progress.advance(suspension.origin, epoch, message.upto[epoch])
        self._hand_over(suspension, suspension.fetched, suspension.held, suspension.since, message)

    def _hand_over(
        self,
        suspension: Suspension,
        fetched: dict[Position, Envelope],
        held: dict[Position, list[Held]],
        since: Position,
        message: Fetched,
    ) -> None:
        """Deliver what has come and tell what is lost, each in its place."""
        delivery, owed = self._broker.delivery, suspension.owed
        lost = {(epoch, first): Gap(suspension.origin, epoch, first, last) for epoch, first, last in message.lost}
        for at in sorted(fetched.keys() | held.keys() | lost.keys()):
            if at in lost:
                delivery.report_gap(lost[at], owed)
            if at <= since:
                continue
            if at in fetched:
                delivery.deliver_late(fetched[at], owed)
            else:
                for one in held.get(at, ()):
                    delivery.deliver_held(one.envelope, one.subscriptions)

    def _end(self, suspension: Suspension) -> None:
        remaining = self._suspended[suspension.origin]
        remaining.remove(suspension)
        if not remaining:
            del self._suspended[suspension.origin]
            if (mark := self._tree_marks.get(suspension.origin)) is not None:
                self._broker.progress.advance(suspension.origin, *mark)  # later subscriptions are owed what follows
        if suspension.number is not None:
            self._fetches.pop(suspension.number, None)

    def _reachable(self, origin: str) -> bool:
        return origin == self._broker.name or origin in self._broker.adjacency.tree.hops

    def _forward(self, message: Fetch | Fetched, broker: str) -> None:
        link = self._broker.adjacency.hop_towards(broker)
        if link is not None:
            self._broker.send(link, message)

    def _all(self) -> Iterator[Suspension]:
        return (suspension for known in list(self._suspended.values()) for suspension in list(known))
