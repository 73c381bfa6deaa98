"""Home copies: what listens at the broker that a client has left, until it comes back or is elsewhere.

See `_protocol` for the theory of operation.
"""

from __future__ import annotations

from collections.abc import Callable

from tidings.broker import Context, Link
from tidings.model import NOWHERE, TidingsError
from tidings.wire import Deliver, Envelope

from ._buffer import SharedBuffer
from ._copies import Whose
from ._copy import SUFFIX, Copy, before
from ._woven import Woven


class Homes:
    """The copies of clients that are away from here."""

    def __init__(self, feature: Woven, buffer: SharedBuffer, leaving: Callable[[str], None]) -> None:
        """`leaving` is called with the name of a client that is away, before a copy adopts what it subscribes to."""
        self._feature = feature
        self._buffer = buffer
        self._leaving = leaving
        self.copies: set[Copy] = set()
        self.refused = 0
        """How many could not be opened."""

    def __len__(self) -> int:
        return len(self.copies)

    @property
    def _context(self) -> Context:
        return self._feature.context

    def open(self, link: Link, whose: Whose) -> Copy | None:
        """Let a copy adopt what a client subscribes to; None: it cannot."""
        context = self._context
        self._leaving(link.name)
        subscribed = [one for one in context.subscribed(link) if one.told and one not in context.holds]
        advertised = [one for one in context.advertised(link) if one.effective]
        copy = Copy(whose, context.name, self._buffer, lambda: None)
        try:
            copy.inner = context.open_client(link.name + SUFFIX, copy.receive, link.principal, link.guard)
        except TidingsError:
            self.refused += 1
            return None
        copy.since, copy.subscriptions = context.marks_of(subscribed), len(subscribed)
        copy.doubted = frozenset(context.ahead)
        copy.forms_missed = context.scoping.active.several or len(context.scoping.versions) > 1
        if context.is_owed(link):  # what was sent for one subscription on its way to the client is not held for it
            copy.later = {one.id: context.marks_of([one]) for one in subscribed}
        context.adopt(link, copy.inner.link, [*subscribed, *advertised])
        self.copies.add(copy)
        return copy

    def give_back(self, copy: Copy, link: Link) -> None:
        """A session goes on: hand over what its copy holds, behind everything that was sent to it before."""
        assert copy.inner is not None
        context = self._context
        registrations = {one.id: one for one in context.subscribed(copy.inner.link)}
        held = self._buffer.all_of(copy)
        late = {*copy.torn, *copy.overwritten}
        context.adopt(copy.inner.link, link)
        owing: dict[tuple[str, str], list[Envelope]] = {}
        for id in registrations:
            for origin in late:
                owing[id, origin] = []
        for envelope, ids in held:
            origin = envelope.identity.origin
            if origin in late or context.crowded(link):
                late.add(origin)
                for id in ids:
                    owing.setdefault((id, origin), []).append(envelope)
                continue
            if wanting := tuple(id for id in ids if id in registrations):
                context.tell(link, Deliver(envelope, wanting))  # it has passed DELIVER before
        for (id, origin), envelopes in owing.items():
            if id in registrations:
                lacks = origin in copy.torn or origin in copy.overwritten
                since = copy.begins(id).get(origin, NOWHERE) if lacks else before(envelopes[0])
                context.owe(registrations[id], origin, since, envelopes)
        self.drop(copy)

    def drop(self, copy: Copy) -> None:
        """The client is here, elsewhere, or has ended."""
        self.copies.discard(copy)
        copy.close()

    def take(self, copy: Copy) -> None:
        """Another part of the scheme has this one now."""
        self.copies.discard(copy)
