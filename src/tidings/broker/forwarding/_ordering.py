"""Ordering: what one publisher publishes reaches the members of an ordered scope in its order, detours or not.

What crosses at a gateway takes a detour, and may be overtaken by what its publisher publishes later and what takes the
straight way. Where a scope is ordered, the brokers of its members hold back every copy for as long as a detour may
take. When a copy has waited that long, everything that its publisher published before has come, too, and goes first.

Without gateways nothing is overtaken, and nothing waits.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from functools import partial
from typing import NamedTuple

from tidings.broker._links import Link
from tidings.broker.interest import Registration
from tidings.broker.overlay import DETOUR_TIME
from tidings.wire import Envelope

from ._host import Host

MAX_HELD = 100_000
"""The most copies that wait at one broker; the next ones are handed over at once, perhaps out of order."""


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
            wanting = [current[known.id] for known in one.subscriptions if known.id in current]
            self._broker.delivery.deliver_held(one.envelope, wanting)

    def adopt(self, old: Link, new: Link) -> None:
        """What waits for one client waits for another."""
        for link, publisher in [known for known in self._held if known[0] is old]:
            held = self._held.setdefault((new, publisher), [])
            held += self._held.pop((link, publisher))
            held.sort(key=_number)
            for number in {one.number for one in held}:
                self._broker.call_later(DETOUR_TIME, partial(self._release, (new, publisher), number))

    def abandon(self, link: Link) -> None:
        """A client has gone. What waits for it is as if it were still under way."""
        for whose in [known for known in self._held if known[0] is link]:
            self._count -= len(self._held.pop(whose))


def _number(held: _Held) -> int:
    return held.number
