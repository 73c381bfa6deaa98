"""Holds: subscriptions that get nothing for a while, because something else has to come first.

Theory of operation
-------------------
A feature that takes a subscription at SUBSCRIBE may hold it. The subscription is registered, announced and settles as
any other, so routing knows no difference; what is delivered to it is kept instead, and its client is not told that it
has settled. Other subscriptions, of the same client, too, get theirs at once.

The *holder* hears at the end of every turn that it may look whether the subscription can go on, when something was
kept, when a new tree has taken with it what was under way (then nothing is kept any more), and when the subscription
has ended. It ends the hold by `release`, delivers what comes first, and lets what was kept follow, all in one turn.

What is kept is bounded. Beyond that, the notifications of an origin are not kept at all: when the hold ends, they are
fetched from it, as after a new tree (see `_recovery`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from tidings.model import TidingsError
from tidings.wire import Envelope, Gap

from ._links import Link
from ._progress import Position
from ._registration import Registration

if TYPE_CHECKING:
    from ._broker import Broker

MAX_HOLDS = 10_000
"""The most subscriptions that one broker holds at a time; beyond, owners that have their share are refused."""
HOLDS_SHARE = 100
"""What the clients of one owner may have of these even then, so that nobody can keep others from their past."""
MAX_OWN_HOLDS = 1_000
"""The most subscriptions of the clients of one owner that are held at a time."""
MAX_KEPT = 10_000
"""The most notifications that are kept for one subscription; beyond that, origins are asked for them later."""
MAX_KEPT_BYTES = 16_777_216
"""The most bytes that the bodies of these may have together."""


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

    __slots__ = ("_bytes", "_kept", "_overflowed", "count", "holder", "registration")

    def __init__(self, registration: Registration, holder: Holder) -> None:
        self.registration = registration
        self.holder = holder
        self.count = 0
        """How many notifications are kept."""
        self._kept: list[Envelope] = []
        self._bytes = 0
        self._overflowed: set[str] = set()

    def keep(self, envelope: Envelope) -> None:
        """Keep a notification for later."""
        origin = envelope.identity.origin
        if origin in self._overflowed:
            return
        if self.count >= MAX_KEPT or self._bytes + len(envelope.body) > MAX_KEPT_BYTES:
            self._overflowed.add(origin)
            return
        self._kept.append(envelope)
        self._bytes += len(envelope.body)
        self.count += 1

    def forget(self) -> None:
        """Nothing is kept any more."""
        self._kept, self._bytes, self.count = [], 0, 0
        self._overflowed.clear()

    def behind(self, positions: Mapping[str, Position]) -> Iterator[Envelope]:
        """What was kept and lies behind these positions, in the order in which it came."""
        for envelope in self._kept:
            identity = envelope.identity
            if identity.origin not in self._overflowed and _is_behind(envelope, positions):
                yield envelope

    def incomplete(self, positions: Mapping[str, Position]) -> dict[str, Position]:
        """The origins of which not everything was kept, and from where on they have to be asked."""
        return {origin: positions[origin] for origin in sorted(self._overflowed) if origin in positions}


def _is_behind(envelope: Envelope, positions: Mapping[str, Position]) -> bool:
    position = positions.get(envelope.identity.origin)
    return position is None or (envelope.identity.epoch, envelope.identity.seq) > position


class Holds:
    """The subscriptions of one broker that are held."""

    def __init__(self, broker: Broker) -> None:
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
                hold.keep(envelope)
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
        for envelope in hold.behind(positions):
            self._broker.delivery.deliver_held(envelope, (hold.registration,))
        if lost := hold.incomplete(positions):
            self._fetch(hold.registration, lost)

    def _fetch(self, registration: Registration, lost: dict[str, Position]) -> None:
        try:
            self._broker.recovery.resume(registration, lost)
        except TidingsError:  # this broker is recovering too much already
            for origin, (epoch, seq) in lost.items():
                self._broker.delivery.report_gap(Gap(origin, epoch, seq + 1, None), {registration: None})
        else:
            self._broker.recovery.settled(registration)

    def end(self, registration: Registration) -> None:
        """A subscription has ended."""
        hold = self.all.pop(registration, None)
        if hold is not None:
            hold.holder.ended()

    def restart(self) -> None:
        """What was under way is lost."""
        for hold in list(self.all.values()):
            hold.forget()
            hold.holder.restarted()

    def end_turn(self) -> None:
        """At the end of a turn: let every holder look."""
        for hold in list(self.all.values()):
            hold.holder.turn_ended()
