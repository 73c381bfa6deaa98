"""Copies: what a point decides about, and how it recognises one that comes again."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, TypeAlias

from tidings.model import EventKey
from tidings.wire import Envelope

from ._limits import MAX_RECENT


class Copy(NamedTuple):
    """One form of an event: mappings may show a group several, and each of them goes to a member."""

    event: EventKey
    version: int


_Form: TypeAlias = tuple[str, int, int]
"""Publisher, its number and the form: the same if a publisher hands something over to two brokers."""


class Recent:
    """What was taken here, the latest `MAX_RECENT` forms."""

    def __init__(self) -> None:
        self._taken: dict[_Form, EventKey] = {}
        """The oldest first, each with its event."""
        self._events: Counter[EventKey] = Counter()
        """How many forms of each event are among these: others of them may follow, also by a detour."""

    def has(self, envelope: Envelope) -> bool:
        """Whether this form of a publication was taken."""
        return _form(envelope) in self._taken

    def has_another_form(self, event: EventKey) -> bool:
        """Whether some form of an event was taken."""
        return event in self._events

    def add(self, envelope: Envelope, event: EventKey) -> None:
        """This is taken."""
        self._taken[_form(envelope)] = event
        self._events[event] += 1
        if len(self._taken) > MAX_RECENT:
            oldest = self._taken.pop(next(iter(self._taken)))
            self._events[oldest] -= 1
            if not self._events[oldest]:
                del self._events[oldest]

    def clear(self) -> None:
        """Forget all."""
        self._taken.clear()
        self._events.clear()


def event_of(envelope: Envelope) -> EventKey:
    """Which event a notification tells of."""
    identity = envelope.identity
    return EventKey(identity.origin, identity.epoch, identity.seq)


def copy_of(envelope: Envelope) -> Copy:
    """Which form of which event it is."""
    return Copy(event_of(envelope), envelope.routes[0].version)


def _form(envelope: Envelope) -> _Form:
    return (envelope.identity.publisher, envelope.identity.publisher_seq, envelope.routes[0].version)
