"""Ordering: what one publisher publishes reaches the members of an ordered scope in its order, detours or not.

What crosses at a gateway takes a detour, and may be overtaken by what its publisher publishes later and what takes the
straight way. Where a scope is ordered, the brokers of its members hold back every copy for as long as a detour may
take. When a copy has waited that long, everything that its publisher published before has come, too, and goes first.

A subscription that reaches into the past does not wait for that: it gets, of what was published up to some position,
what its past contains and nothing else. So a copy from before that position is not handed over when its time comes.

Without gateways nothing is overtaken, and nothing waits.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from tidings.broker._links import Link
from tidings.broker.interest import Registration
from tidings.broker.overlay import DETOUR_TIME
from tidings.model import Position
from tidings.wire import Envelope

from ._host import Host

MAX_HELD = 100_000
"""The most copies that wait at one broker; the next ones are handed over at once, perhaps out of order."""

LONGEST_WAY = 2 * DETOUR_TIME
"""Microseconds after which a copy of an earlier publication has come, by whatever detour, and has been handed over."""


class _Held(NamedTuple):
    number: int
    """Of the publisher."""
    envelope: Envelope
    subscriptions: tuple[Registration, ...]


class Ordering:
    """What waits at one broker."""

    def __init__(self, broker: Host) -> None:
        self._broker = broker
        self._held: dict[tuple[Link, str], list[_Held]] = {}
        """By client and publisher, in the order of its numbers."""
        self._count = 0
        self._begun: dict[tuple[Link, str], Mapping[str, Position]] = {}
        """By client and subscription: up to where its past, which it has got lately, speaks for each origin."""

    def applies(self, link: Link, publisher: str) -> bool:
        """Whether something that was published before may be on a detour, or waits here."""
        return bool(self._broker.scoping.gateways) or (link, publisher) in self._held

    def hold(self, link: Link, envelope: Envelope, subscriptions: tuple[Registration, ...]) -> None:
        """Hand over a copy as soon as nothing that was published before it can come any more."""
        if self._count >= MAX_HELD:
            self._broker.delivery.deliver_held(envelope, subscriptions)
            return
        self._count += 1
        whose = (link, envelope.identity.publisher)
        number = envelope.identity.publisher_seq
        insort(self._held.setdefault(whose, []), _Held(number, envelope, subscriptions), key=_number)
        self._broker.call_later(DETOUR_TIME, lambda: self._release(whose, number))

    def _release(self, whose: tuple[Link, str], number: int) -> None:
        """Hand over everything that was published up to here."""
        held = self._held.pop(whose, [])
        ready = bisect_right(held, number, key=_number)
        if held[ready:]:
            self._held[whose] = held[ready:]
        self._count -= ready
        for one in held[:ready]:
            current = self._broker.registrations.subscriptions(whose[0])  # the filter of one may have changed meanwhile
            wanting = [
                current[known.id]
                for known in one.subscriptions
                if known.id in current and not self._is_past(whose[0], known.id, one.envelope)
            ]
            self._broker.delivery.deliver_held(one.envelope, wanting)

    def begins_at(self, registration: Registration, positions: Mapping[str, Position]) -> None:
        """A subscription has got its past, which speaks for everything up to these positions."""
        if not self._held and not self._broker.scoping.gateways:
            return
        whose = (registration.link, registration.id)
        self._begun[whose] = positions
        self._broker.call_later(LONGEST_WAY, lambda: self._forget(whose, positions))

    def begun(self, registration: Registration) -> Mapping[str, Position]:
        """Up to where the past of a subscription speaks for each origin, if it has got its past lately."""
        return self._begun.get((registration.link, registration.id), {})

    def _forget(self, whose: tuple[Link, str], positions: Mapping[str, Position]) -> None:
        if self._begun.get(whose) is positions:
            del self._begun[whose]

    def _is_past(self, link: Link, subscription: str, envelope: Envelope) -> bool:
        begun = self._begun.get((link, subscription), {}).get(envelope.identity.origin)
        return begun is not None and envelope.identity.position <= begun

    def adopt(self, old: Link, new: Link) -> None:
        """What waits for one client waits for another."""
        for link, publisher in [known for known in self._held if known[0] is old]:
            held = self._held.setdefault((new, publisher), [])
            held += self._held.pop((link, publisher))
            held.sort(key=_number)
            for number in {one.number for one in held}:
                self._broker.call_later(DETOUR_TIME, partial(self._release, (new, publisher), number))
        for link, subscription in [known for known in self._begun if known[0] is old]:
            positions = self._begun[new, subscription] = self._begun.pop((link, subscription))
            self._broker.call_later(LONGEST_WAY, partial(self._forget, (new, subscription), positions))

    def abandon(self, link: Link) -> None:
        """A client has gone. What waits for it is as if it were still under way."""
        for whose in [known for known in self._held if known[0] is link]:
            self._count -= len(self._held.pop(whose))
        for known in [known for known in self._begun if known[0] is link]:
            del self._begun[known]


def _number(held: _Held) -> int:
    return held.number
