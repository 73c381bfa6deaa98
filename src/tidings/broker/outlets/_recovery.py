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

from collections.abc import Collection, Iterable, Mapping

from tidings.broker._links import Link
from tidings.broker.interest import DECIDED, Registration
from tidings.model import Position, TidingsError
from tidings.wire import Envelope, Fetched, Mark

from . import _debts as limits
from ._backlog import Kept, position_of
from ._debts import Debts
from ._fetching import Fetching
from ._handing_over import give_up, hand_over
from ._host import Host
from ._resuming import Resuming
from ._seen import Seen
from ._suspension import RETRY_INTERVAL, Suspension

ORIGIN_TIMEOUT = 60_000_000
"""Microseconds for which an origin that cannot be reached is waited for."""
CONTINUE_INTERVAL = 50_000
"""Microseconds after which a fetch that had to wait is tried again: for others, or for those who are owed."""


class Recovery:
    """The origins that are suspended, for whom, and the way back."""

    def __init__(self, broker: Host) -> None:
        self._broker = broker
        self._holds = broker.holds.all
        self._debts = Debts()
        self._owing = self._debts.origins
        self._ahead: dict[str, Position] = {}
        """By origin, how far somebody here has got while it owed others something, and its marks stood still."""
        self.fetching = Fetching(broker, self._take, self._fetch)
        self._trees = 0
        self.seen = Seen(broker, self._debts)
        self.baseline = True
        """Whether the marks of the current tree are known."""
        self._resuming = Resuming(broker, self._asks, self._heard)

    @property
    def suspended(self) -> frozenset[str]:
        """The origins that are waited for."""
        return frozenset(self._owing)

    @property
    def owing(self) -> Collection[str]:
        """The origins that owe something now; not a copy."""
        return self._owing

    def ahead(self) -> set[str]:
        """The origins of which somebody here may have got more than the marks say."""
        for origin, position in list(self._ahead.items()):
            known = self._broker.progress.of(origin)
            if known is not None and known >= position:
                del self._ahead[origin]
        return {*self._owing, *self._ahead}

    def owed(self, origin: str) -> Mapping[Registration, Suspension]:
        """The subscriptions that an origin owes something."""
        return self._debts.owed(origin)

    @property
    def active(self) -> bool:
        """Whether anything may be held back from anybody."""
        return bool(self._owing or self._holds)

    def debts(self, entry: Registration) -> list[tuple[str, bool]]:
        """The origins that owe a subscription something, each with whether it has been asked for it."""
        return [(origin, one.number is not None) for origin, one in self._debts.to(entry).items()]

    def owed_since(self, entry: Registration) -> dict[str, Position]:
        """The origins that owe a subscription something, each with the position behind which it does."""
        return {origin: one.since for origin, one in self._debts.to(entry).items()}

    # --- live traffic ---------------------------------------------------------------------------------

    def passed(self, envelope: Envelope, *, several: bool = False) -> None:
        """A notification of another origin has come; `several`: other forms of the same event may follow."""
        identity = envelope.identity
        self.reached(identity.origin, identity.epoch, identity.seq - several)

    def reached(self, origin: str, epoch: int, seq: int) -> None:
        """Everything of another origin up to this number has come."""
        if origin not in self._owing:
            self._broker.progress.advance(origin, epoch, seq)
        else:
            self._gets_ahead(origin, Position(epoch, seq))

    def _gets_ahead(self, origin: str, position: Position) -> None:
        self._ahead[origin] = max(position, self._ahead.get(origin, position))

    def marked(self, mark: Mark) -> None:
        """A mark of another origin has come."""
        if mark.origin not in self._owing:
            self._broker.progress.advance(mark.origin, mark.epoch, mark.seq)

    def hold(self, envelope: Envelope, subscriptions: list[Registration], *, late: bool = False) -> list[Registration]:
        """Hold a notification back from those that are owed earlier ones; the others get it at once.

        `late`: others that follow it may have come before it, so it may lie before what somebody is owed. What a
        deciding point has given to somebody is owed by nobody else: an answer of its origin does not contain it.
        """
        if self._holds:
            subscriptions = self._broker.holds.keep(envelope, subscriptions)
        owed = self._debts.owed(envelope.identity.origin)
        if not owed or DECIDED in envelope.routes[0].tags:
            return subscriptions
        position = envelope.identity.position
        held: dict[Suspension, dict[Registration, None]] = {}
        for subscription in subscriptions:
            suspension = owed.get(subscription)
            if suspension is not None and not (late and position <= suspension.since):
                held.setdefault(suspension, {})[subscription] = None
        if not held:
            return subscriptions
        for suspension, some in held.items():
            suspension.held.keep(envelope, some)
        kept = {subscription for some in held.values() for subscription in some}
        return [subscription for subscription in subscriptions if subscription not in kept]

    # --- suspending -----------------------------------------------------------------------------------

    def new_tree(self) -> None:
        """Suspend every known origin; the marks of the new tree will be gathered."""
        self._broker.progress.new_tree()
        clients = [one for one in self._broker.client_subscriptions() if one not in self._holds]
        self.fetching.forget_all()
        for suspension in self._debts:
            suspension.number = None
            suspension.fetched.clear()
            if not suspension.watched:
                self._watch(suspension)
        for origin, mark in self.seen.everything().items():
            owed_already = self._debts.owed(origin)
            if owed := [entry for entry in clients if entry not in owed_already]:
                self._suspend(origin, mark, *owed)
        self._trees += 1
        self.seen.tree_marks, self.seen.gathered = {}, {}
        self.baseline = not self._broker.adjacency.tree_links

    def resume(self, entry: Registration, after: dict[str, Position], *, early: bool = False) -> None:
        """A client that was cut off has subscribed again, and says how far it has seen each origin.

        `early`: it takes what follows as soon as that is there, otherwise only when the subscription has settled.
        """
        for origin, since in after.items():
            for suspension in self._debts.of(origin):
                alike = suspension.since == since and suspension.trees == self._trees
                if alike and suspension.number is None and not suspension.held:
                    self._debts.share(suspension, entry)  # another subscription waits for the same
                    break
            else:
                suspension = self._suspend(origin, since, entry, owner=entry.link.owner)
                if early:
                    self._resuming.add(suspension)

    def _asks(self, suspension: Suspension) -> int | None:
        """Have a debt asked for at once, with all others: its number; None: it has to wait, or is no more."""
        if suspension.number is not None or suspension not in self._debts:
            return None
        if not self._reachable(suspension.origin) or not all(entry.placed for entry in suspension.owed):
            return None
        if self._broker.delivery.congested(suspension.owed):
            return None
        return self.fetching.number(suspension)

    def _heard(self, suspension: Suspension, answer: Fetched | None) -> None:
        """An origin has answered what was asked of all; or has not, then it is asked by itself."""
        if suspension not in self._debts:
            return
        if answer is not None and answer.number == suspension.number:
            self._take(suspension, answer)
        else:
            suspension.number = None
            self._fetch(suspension)

    def has_room(self, client: Link, more: int) -> bool:
        """Whether a client may have so much more waited for now; `TidingsError` if it never may."""
        if more > limits.MAX_OWN_SUSPENSIONS:
            raise TidingsError(
                f"a subscription goes on from {more:,} origins, of which at most {limits.MAX_OWN_SUSPENSIONS:,} can be "
                f"waited for at broker '{self._broker.name}'; leave out those of which nothing can be missed"
            )
        return self._debts.has_room(client.owner, more)

    def displaced(self, entry: Registration) -> None:
        """A subscription has no place in a scope of its client any more, or not yet: it may miss what follows."""
        broker = self._broker
        if entry in self._holds:
            return
        owed_already = set(self._debts.to(entry))
        marks = {**self.seen.everything(), broker.name: Position(broker.epoch, broker.publications.last)}
        begun = broker.ordering.begun(entry)  # where there are gateways, marks are believed late
        for origin, mark in marks.items():
            if origin not in owed_already:
                self._suspend(origin, max(mark, begun.get(origin, mark)), entry)

    def ended(self, entry: Registration) -> None:
        """A subscription has ended: nobody waits for what it is owed."""
        for suspension in list(self._debts.to(entry).values()):
            self._debts.drop(suspension, entry)
            self._fewer_owed(suspension)

    def replaced(self, old: Registration, new: Registration) -> None:
        """A subscription has a new filter: it is owed what passes both."""
        for suspension in list(self._debts.to(old).values()):
            self._debts.replace(suspension, old, new)

    def owe(self, entry: Registration, origin: str, since: Position, held: Iterable[Envelope]) -> None:
        """An origin owes a subscription what follows a position, in the place of what it owed it before."""
        follows = list(held)
        if (known := self._debts.to(entry).get(origin)) is not None:
            follows += known.held.release(entry)
            self._debts.drop(known, entry)
            self._fewer_owed(known)
        suspension = self._suspend(origin, since, entry, owner=entry.link.owner)
        for envelope in follows:
            if position_of(envelope) > since:
                suspension.held.keep(envelope, [entry])
        self._resuming.add(suspension)

    def pay(self, entry: Registration, origin: str, since: Position, envelopes: Iterable[Envelope]) -> bool:
        """Somebody else has everything that an origin owes a subscription behind a position; False: it owes more.

        Whatever was kept back from the subscription follows in its place, and nothing is asked of the origin any more.
        """
        known = self._debts.to(entry).get(origin)
        if known is None or known.since < since or known.held.forgotten:
            return False
        own = Suspension(origin, known.since, {entry: None}, known.trees)
        for envelope in known.held.release(entry):
            own.held.keep(envelope, [entry])
        self._debts.drop(known, entry)
        self._fewer_owed(known)
        paid = {envelope.identity.position: envelope for envelope in envelopes}
        for position in paid:
            self.reached(origin, *position)
        hand_over(self._broker.delivery, own, paid, own.held, lost=(), since=own.since)
        return True

    def _fewer_owed(self, suspension: Suspension) -> None:
        if not suspension.owed:
            self._end(suspension)
        elif suspension.number is None:
            self._fetch(suspension)

    def settled(self, entry: Registration) -> None:
        """A subscription has settled on the current tree: what it is owed can be fetched."""
        for suspension in list(self._debts.to(entry).values()):
            if suspension.number is None:
                self._fetch(suspension)

    def _suspend(self, origin: str, since: Position, *entries: Registration, owner: str = "") -> Suspension:
        suspension = Suspension(origin, since, dict.fromkeys(entries), self._trees, owner)
        self._debts.add(suspension)
        self._watch(suspension)
        return suspension

    def _watch(self, suspension: Suspension) -> None:
        """Wait for an origin for so long and no longer."""
        suspension.watched = True
        self._broker.call_later(ORIGIN_TIMEOUT, lambda: self._timed_out(suspension))

    def _timed_out(self, suspension: Suspension) -> None:
        if suspension not in self._debts:
            return
        if not self._reachable(suspension.origin):
            give_up(self._broker.delivery, suspension)
            self._end(suspension)
        elif suspension.number is not None or self._has_settled(suspension):
            self._watch(suspension)
        elif not all(entry.placed for entry in suspension.owed):
            self._go_on_without(suspension)
        else:
            suspension.watched = False  # it waits for its subscriptions; the next tree looks after the origin again

    def _go_on_without(self, suspension: Suspension) -> None:
        """The scopes of some subscriptions cannot be had here: they get what reaches them, and are told of the rest."""
        give_up(self._broker.delivery, suspension)
        self._end(suspension)
        for kept in sorted(suspension.held, key=_position):
            self._broker.delivery.deliver_held(*kept)

    def _has_settled(self, suspension: Suspension) -> bool:
        return self.baseline and all(entry.settled for entry in reversed(suspension.owed))  # mostly, the last is last

    def marks_gathered(self, tree_marks: dict[str, Position]) -> None:
        """The marks of the current tree are known."""
        self.baseline = True
        # With advertisements, filters may have followed them to the origin only after it had told its mark.
        advertised = self._broker.routing.advertisements
        detours = bool(self._broker.scoping.gateways)
        self.seen.gathered = dict(tree_marks)
        if not detours:
            del tree_marks[self._broker.name]
        self.seen.tree_marks = {} if detours else tree_marks
        for origin, mark in tree_marks.items():
            if origin not in self._owing:
                self._broker.progress.advance(origin, *mark)
            for suspension in self._debts.of(origin):
                # Of what is not placed, or came on this tree, the origin may not have known the filter.
                known = suspension.trees < self._trees and all(entry.placed for entry in suspension.owed)
                if mark == suspension.since and not suspension.held and not advertised and known:
                    self._end(suspension)
                elif suspension.number is None:
                    self._fetch(suspension)
        for suspension in self._debts.of(self._broker.name):  # no mark speaks of it
            if suspension.number is None:
                self._fetch(suspension)

    # --- fetching -------------------------------------------------------------------------------------

    def _fetch(self, suspension: Suspension) -> None:
        """Ask the origin; wait until the subscriptions are settled on a tree that leads there."""
        if not self._has_settled(suspension) or not self._reachable(suspension.origin):
            return  # the settling of the last one, or the next tree, brings us back here
        if self.fetching.is_busy or self._broker.delivery.congested(suspension.owed):
            self._broker.call_later(CONTINUE_INTERVAL, lambda: self._fetch_later(suspension))
            return
        self.fetching.ask(suspension)

    def _fetch_later(self, suspension: Suspension) -> None:
        if suspension.number is None and suspension in self._debts:
            self._fetch(suspension)

    def _take(self, suspension: Suspension, message: Fetched) -> None:
        for envelope in message.envelopes:
            if envelope.routes and envelope.identity.origin == suspension.origin:
                suspension.fetched[envelope.identity.position] = envelope
        if message.last:
            upto = Position(*max(message.upto.items())) if message.upto else suspension.since
            # An answer that was joined with others may be older than what was kept back meanwhile, and had to go.
            forgotten = suspension.held.forgotten.get(suspension.origin, upto) > upto
            if forgotten or (message.more and message.upto):
                self._advance(suspension, message, upto)
            else:
                self._complete(suspension, message)

    def _advance(self, suspension: Suspension, message: Fetched, upto: Position) -> None:
        """As much as one answer holds has come: hand it over, and ask for the rest when it was taken."""
        fetched, suspension.fetched = suspension.fetched, {}
        held = suspension.held.take(lambda kept: kept.position <= upto or kept.position in fetched)
        since, suspension.since = suspension.since, max(upto, suspension.since)
        self._end(suspension)  # it does not hold back what it hands over
        hand_over(self._broker.delivery, suspension, fetched, held, lost=message.lost, since=since)
        self._debts.add(suspension)
        suspension.number = None
        suspension.patience = RETRY_INTERVAL
        self._broker.call_later(0, lambda: self._fetch_later(suspension))

    def _complete(self, suspension: Suspension, message: Fetched) -> None:
        self._end(suspension)
        if message.upto:
            upto = Position(*max(message.upto.items()))
            if suspension.origin not in self._owing:
                self._broker.progress.advance(suspension.origin, *upto)
            else:
                self._gets_ahead(suspension.origin, upto)
        fetched, held, since = suspension.fetched, suspension.held, suspension.since
        hand_over(self._broker.delivery, suspension, fetched, held, lost=message.lost, since=since)

    def _end(self, suspension: Suspension) -> None:
        self._debts.end(suspension)
        mark = self.seen.tree_marks.get(suspension.origin)
        if mark is not None and suspension.origin not in self._owing:
            self._broker.progress.advance(suspension.origin, *mark)  # later subscriptions are owed what follows
        self.fetching.forget(suspension)
        self._broker.registrations.returning.room_again()

    def _reachable(self, origin: str) -> bool:
        return origin == self._broker.name or origin in self._broker.adjacency.tree.hops


def _position(kept: Kept) -> Position:
    return kept.position
