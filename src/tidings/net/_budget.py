"""The budget: how much memory a broker spends on its clients, on those of one identity and on all together.

Each queue and window has a limit of its own, and there are as many of them as there are clients. So what is kept for
clients is counted, too: what waits in their queues, what was sent and not acknowledged, what they have registered; and
what is kept for clients of other brokers that may come here (`tidings.mobility`).

    a queue grows           the longest queue loses its oldest notifications, with a `Gap`
    a registration comes    it is refused
    a copy comes            it is not taken; what it holds is overwritten
    windows have grown      a client that is cut off is waited for no longer; then those that hold most must go

Queues and registrations are counted at once, windows once in `CENSUS_SECONDS`: they change with every notification.
Where there is no access control, everybody has the same identity; there, a client stands for itself.
"""

from __future__ import annotations

from tidings.broker import Link
from tidings.model import BudgetExceeded

PART_BYTES = 400
"""What a part in a queue takes beside its bytes."""
REGISTRATIONS_PART = 2
"""Registrations take at most this part of the memory for all: queues cannot be shortened to make room for them."""
COPIES_PART = 4
"""Copies of clients that are elsewhere, with what they hold, take at most this part of the memory for all."""
SPARED_PART = 4
"""Copies, as all clients inside the broker that stand for others, leave this part of what an identity, and all
registrations, may take to clients that are there."""
CENSUS_SECONDS = 1.0
"""How often windows are counted."""


class Budget:
    """Bytes that are kept for clients."""

    def __init__(self, per_identity: int, in_all: int) -> None:
        self._per_identity = per_identity
        self._in_all = in_all
        self._used: dict[str, int] = {}
        self.total = 0
        """The bytes that are kept for all clients."""
        self._registered = 0
        """Those of them that registrations take."""
        self.elsewhere = 0
        """Those of them that are kept for clients of other brokers."""
        self.refused = 0
        """Registrations that were refused for want of memory."""
        self.shortened = 0
        """How often a queue lost its oldest notifications for want of memory."""
        self.ended = 0
        """Clients that were disconnected, or waited for no longer, for want of memory."""

    def add(self, owner: str, size: int) -> None:
        """So much more is kept, or less."""
        self.total += size
        used = self._used.get(owner, 0) + size
        if used:
            self._used[owner] = used
        else:
            self._used.pop(owner, None)

    def exceeded_by(self, owner: str) -> bool:
        """Whether this one has more than it may."""
        return self._used.get(owner, 0) > self._per_identity

    @property
    def exceeded(self) -> bool:
        """Whether all together have more than they may."""
        return self.total > self._in_all

    def register(self, link: Link, size: int) -> None:
        """A client registers a filter of this size, or ends one; `BudgetExceeded` if there is no room for it."""
        owner, copy = link.owner, link.principal != link.name
        own = _spared(self._per_identity) if copy else self._per_identity
        if size > 0 and self._used.get(owner, 0) + size > own:
            self.refused += 1
            raise BudgetExceeded(
                f"'{owner}' uses {self._used.get(owner, 0):,} bytes of this broker's memory, and one more registration "
                f"would exceed the {own:,} of `identity_bytes`; end some, or use wider filters"
            )
        most = self._in_all // REGISTRATIONS_PART
        if copy:
            most = _spared(most)
        if size > 0 and (self._registered + size > most or self.total + size > self._in_all):
            self.refused += 1
            raise BudgetExceeded(
                f"this broker keeps {self.total:,} bytes for its clients, {self._registered:,} of them for their "
                f"registrations; one more would exceed the {self._in_all:,} of `memory_bytes`, or the {most:,} of it "
                f"that registrations may use; try again later, or use another broker"
            )
        self._registered += size
        self.add(owner, size)

    # --- what is kept for clients that are elsewhere --------------------------------------------------

    def has_room(self, owner: str, size: int = 0) -> bool:
        """Whether so much more may be kept for clients of this one that are elsewhere."""
        if self._used.get(owner, 0) + size > _spared(self._per_identity):
            return False
        return self.elsewhere + size <= self._in_all // COPIES_PART and self.total + size <= self._in_all

    def count(self, owner: str, own: int, in_all: int) -> None:
        """So much more is kept for them, or less; what several owners share counts in all once."""
        self.elsewhere += in_all
        self.add(owner, own)
        self.total += in_all - own


def _spared(most: int) -> int:
    """What copies may take of this."""
    return most - most // SPARED_PART
