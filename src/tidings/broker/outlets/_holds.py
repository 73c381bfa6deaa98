"""Holds: subscriptions that get nothing for a while, because something else has to come first.

Theory of operation
-------------------
A feature that takes a subscription at SUBSCRIBE may hold it. The subscription is registered, announced and settles as
any other, so routing knows no difference; what is delivered to it is kept instead, and its client is not told that it
has settled. Other subscriptions, of the same client, too, get theirs at once.

The *holder* hears at the end of every turn that it may look whether the subscription can go on, when something was
kept, when a new tree has taken with it what was under way (then nothing is kept any more), and when the subscription
has ended. It ends the hold by `release`, delivers what comes first, and lets what was kept follow, all in one turn.

What is kept is bounded (see `_backlog`). If something had to be forgotten that the past does not reach, its origin owes
it when the hold ends, as after a new tree (see `_recovery`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from tidings.broker._links import Link
from tidings.broker.interest import DECIDED, Registration
from tidings.model import NOWHERE, Identity, Position, TidingsError
from tidings.wire import Envelope

from ._backlog import Backlog, position_of
from ._host import Host

MAX_HOLDS = 10_000
"""The most subscriptions that one broker holds at a time; beyond, owners that have their share are refused."""
HOLDS_SHARE = 100
"""What the clients of one owner may have of these even then, so that nobody can keep others from their past."""
MAX_OWN_HOLDS = 1_000
"""The most subscriptions of the clients of one owner that are held at a time."""


class Holder(Protocol):
    """Who holds a subscription."""

    def turn_ended(self) -> None:
        """Something has happened: can it go on?"""
        ...

    def has_kept(self) -> None:
        """A notification was kept."""
        ...

    def restarted(self) -> None:
        """A new tree: what was under way is lost, and so is what was kept."""
        ...

    def ended(self) -> None:
        """The subscription has ended, or has been replaced."""
        ...


class Hold:
    """A subscription that is held, and what was kept for it."""

    __slots__ = ("backlog", "holder", "registration")

    def __init__(self, registration: Registration, holder: Holder) -> None:
        self.registration = registration
        self.holder = holder
        self.backlog = Backlog()

    @property
    def count(self) -> int:
        """How many notifications are kept."""
        return len(self.backlog)

    @property
    def decided(self) -> set[tuple[Identity, int]]:
        """What deciding points have given to the client among it, each with its form."""
        return {
            (envelope.identity, envelope.routes[0].version)
            for envelope, _ in self.backlog
            if DECIDED in envelope.routes[0].tags
        }

    def behind(self, positions: Mapping[str, Position]) -> Iterator[Envelope]:
        """What was kept and lies behind these positions, in the order in which it came."""
        incomplete = self.incomplete(positions)
        for envelope, _ in self.backlog:
            origin = envelope.identity.origin
            reached = positions.get(origin)
            if DECIDED in envelope.routes[0].tags:
                yield envelope  # its past leaves it out
            elif origin not in incomplete and (reached is None or position_of(envelope) > reached):
                yield envelope

    def incomplete(self, positions: Mapping[str, Position]) -> dict[str, Position]:
        """The origins of which something behind these positions was forgotten, and from where they must be asked."""
        forgotten = self.backlog.forgotten
        return {
            origin: positions[origin]
            for origin in sorted(forgotten.keys() & positions)
            if forgotten[origin] > positions[origin]
        }


class Holds:
    """The subscriptions of one broker that are held."""

    def __init__(self, broker: Host) -> None:
        self._broker = broker
        self.all: dict[Registration, Hold] = {}

    def __contains__(self, registration: Registration) -> bool:
        return registration in self.all

    def check_room(self, client: Link) -> None:
        """Raise `TidingsError` if no more subscriptions of this client can be held."""
        total = len(self.all)
        if total < HOLDS_SHARE:
            return
        own = sum(registration.link.owner == client.owner for registration in self.all)
        if own >= (HOLDS_SHARE if total >= MAX_HOLDS else MAX_OWN_HOLDS):
            raise TidingsError(
                f"broker '{self._broker.name}' holds {own:,} subscriptions of '{client.owner}' that wait for their "
                f"past, and {total:,} in all; subscribe again later, or without `past`"
            )

    def begin(self, registration: Registration, holder: Holder) -> Hold:
        """Hold a subscription that is being taken."""
        hold = self.all[registration] = Hold(registration, holder)
        return hold

    def keep(self, envelope: Envelope, subscriptions: list[Registration]) -> list[Registration]:
        """Keep a notification for those that are held; the others."""
        others = []
        for subscription in subscriptions:
            hold = self.all.get(subscription)
            if hold is None:
                others.append(subscription)
            else:
                hold.backlog.keep(envelope)
                hold.holder.has_kept()
        return others

    def release(self, hold: Hold, marks: Mapping[str, Position] | None) -> None:
        """It goes on. With `marks`, its client is told that it has settled, having seen everything up to there."""
        registration = self.all.pop(hold.registration).registration
        if marks is not None:
            self._broker.settling.tell_with(registration, dict(marks))
        elif registration.settled:
            self._broker.settling.tell(registration, advertisement=False)

    def hand_over(self, hold: Hold, positions: Mapping[str, Position]) -> None:
        """Deliver what was kept of a hold that is released, as far as it lies behind these positions."""
        self._broker.ordering.begins_at(hold.registration, positions)
        for envelope in hold.behind(positions):
            self._broker.delivery.deliver_held(envelope, (hold.registration,))
        if lost := hold.incomplete(positions):
            self._fetch(hold.registration, lost)

    def _fetch(self, registration: Registration, lost: dict[str, Position]) -> None:
        self._broker.recovery.resume(registration, lost)
        self._broker.recovery.settled(registration)

    def end(self, registration: Registration) -> None:
        """A subscription has ended."""
        hold = self.all.pop(registration, None)
        if hold is not None:
            hold.holder.ended()

    def replace(self, old: Registration, new: Registration) -> None:
        """A subscription has a new filter, under which it is not held.

        If its client went on with it from elsewhere, it is owed what its holder was to bring first: from where the
        client is, and what was kept of others.
        """
        hold = self.all.get(old)
        self.end(old)
        if hold is None or not old.after:
            return
        kept: dict[str, list[Envelope]] = {}
        for envelope, _ in hold.backlog:
            kept.setdefault(envelope.identity.origin, []).append(envelope)
        since = {origin: _before(envelopes[0]) for origin, envelopes in kept.items()}
        since |= dict.fromkeys(hold.backlog.forgotten, NOWHERE)
        for origin, position in {**since, **old.after}.items():
            self._broker.recovery.owe(new, origin, position, kept.get(origin, ()))

    def restart(self) -> None:
        """What was under way is lost."""
        for hold in list(self.all.values()):
            decided = [kept.envelope for kept in hold.backlog if DECIDED in kept.envelope.routes[0].tags]
            hold.backlog.clear()
            for envelope in decided:
                hold.backlog.keep(envelope)  # no origin gives it again
            hold.holder.restarted()

    def end_turn(self) -> None:
        """At the end of a turn: let every holder look."""
        for hold in list(self.all.values()):
            hold.holder.turn_ended()


def _before(envelope: Envelope) -> Position:
    epoch, seq = position_of(envelope)
    return Position(epoch, seq - 1)
