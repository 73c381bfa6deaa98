"""Debts: what origins owe to subscriptions, found by origin and by subscription.

Several subscriptions that are owed the same share one `Suspension`. An origin owes a subscription one thing at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tidings.broker.interest import Registration

from ._suspension import Suspension

MAX_SUSPENSIONS = 10_000
"""The most origins and positions that are waited for at a time; beyond, clients that have their share wait in line."""
SUSPENSIONS_SHARE = 100
"""What the clients of one owner may have of these even then, so that nobody can keep others from coming back."""
MAX_OWN_SUSPENSIONS = 1_000
"""The most origins and positions that the clients of one owner may have waited for."""

_NOTHING: Mapping[str, Suspension] = {}
_NOBODY: Mapping[Registration, Suspension] = {}


class Debts:
    """The suspensions of one broker."""

    def __init__(self) -> None:
        self.origins: dict[str, dict[Suspension, None]] = {}
        """The origins that owe something, and what; to be read only. It is looked at for every notification."""
        self._owed: dict[str, dict[Registration, Suspension]] = {}
        """By origin and subscription."""
        self._to: dict[Registration, dict[str, Suspension]] = {}
        """By subscription and origin."""
        self._owners: Counter[str] = Counter()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, suspension: Suspension) -> bool:
        return suspension in self.origins.get(suspension.origin, ())

    def __iter__(self) -> Iterator[Suspension]:
        return iter([suspension for known in self.origins.values() for suspension in known])

    def of(self, origin: str) -> list[Suspension]:
        """What an origin owes."""
        return list(self.origins.get(origin, ()))

    def owed(self, origin: str) -> Mapping[Registration, Suspension]:
        """The subscriptions that an origin owes something."""
        return self._owed.get(origin, _NOBODY)

    def to(self, registration: Registration) -> Mapping[str, Suspension]:
        """What a subscription is owed, by origin."""
        return self._to.get(registration, _NOTHING)

    def of_owner(self, owner: str) -> int:
        """How many debts there are because clients of one owner have come back."""
        return self._owners[owner]

    def has_room(self, owner: str, more: int) -> bool:
        """Whether clients of an owner that have come back may have so much more waited for now."""
        total, own = self._count + more, self._owners[owner] + more
        most = SUSPENSIONS_SHARE if total > MAX_SUSPENSIONS else MAX_OWN_SUSPENSIONS
        return total <= SUSPENSIONS_SHARE or own <= most

    # --- changes --------------------------------------------------------------------------------------

    def add(self, suspension: Suspension) -> None:
        """An origin owes something from now on."""
        self.origins.setdefault(suspension.origin, {})[suspension] = None
        self._count += 1
        if suspension.owner:
            self._owners[suspension.owner] += 1
        for registration in suspension.owed:
            self._note(suspension, registration)

    def share(self, suspension: Suspension, registration: Registration) -> None:
        """Another subscription is owed the same."""
        suspension.owed[registration] = None
        self._note(suspension, registration)

    def end(self, suspension: Suspension) -> None:
        """Nothing of it is owed any more; who was owed it stays noted in the suspension."""
        for registration in suspension.owed:
            self._forget(suspension, registration)
        known = self.origins[suspension.origin]
        del known[suspension]
        self._count -= 1
        if suspension.owner:
            self._owners[suspension.owner] -= 1
        if not known:
            del self.origins[suspension.origin]

    def drop(self, suspension: Suspension, registration: Registration) -> None:
        """One subscription is owed it no longer."""
        del suspension.owed[registration]
        self._forget(suspension, registration)

    def replace(self, suspension: Suspension, old: Registration, new: Registration) -> None:
        """Owe to one subscription what another was owed."""
        self._forget(suspension, old)
        suspension.replace(old, new)
        self._note(suspension, new)

    def _note(self, suspension: Suspension, registration: Registration) -> None:
        debts = self._to.setdefault(registration, {})
        assert suspension.origin not in debts, "an origin owes a subscription one thing at a time"
        debts[suspension.origin] = suspension
        self._owed.setdefault(suspension.origin, {})[registration] = suspension

    def _forget(self, suspension: Suspension, registration: Registration) -> None:
        origin = suspension.origin
        del self._owed[origin][registration]
        if not self._owed[origin]:
            del self._owed[origin]
        del self._to[registration][origin]
        if not self._to[registration]:
            del self._to[registration]
