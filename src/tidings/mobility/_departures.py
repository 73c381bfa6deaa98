"""Departures: where clients have gone from a broker, for as long as a question may have passed their new one."""

from __future__ import annotations

from ._claims import Claim, Held

MOVED_TIME = 10_000_000
"""Microseconds for which a broker remembers where a client has gone: longer than a question is under way."""
MAX_MOVED = 100_000
"""The most clients of which it does."""


class Departures:
    """The clients that one broker has let go lately."""

    def __init__(self) -> None:
        self._gone: dict[str, Held] = {}
        """Where, and when, the earliest first."""

    def note(self, claim: Claim, now: int) -> None:
        """A client goes to the broker that claims it."""
        while self._gone and (len(self._gone) >= MAX_MOVED or next(iter(self._gone.values())).since < now - MOVED_TIME):
            del self._gone[next(iter(self._gone))]
        self._gone.pop(claim.name, None)
        self._gone[claim.name] = Held(claim.name, claim.broker, claim.epoch, now)

    def known(self, claim: Claim, now: int) -> Held | None:
        """Where a client is that another broker asks for, if it has just gone there from here."""
        gone = self._gone.get(claim.name)
        return gone if gone is not None and gone.broker != claim.broker and gone.since >= now - MOVED_TIME else None
