"""Who may ask, how often, and which numbers are too small to be told.

A number tells about others. An administrator of the broker, or of the scope, is told every number. Others need the
right to count in the scope, and are told no number between 0 and a threshold: it would say too much about too few.
Whoever may ask for many filters can subtract what it is told. So what the clients of one identity may ask is bounded.

A question about publications needs no such right of a member of the scope to whom all that it asks about is visible:
it could subscribe, and measure for itself.
"""

from __future__ import annotations

from collections.abc import Callable

from tidings.broker import Link, View
from tidings.model import AccessDenied, BudgetExceeded, Filter, TidingsError

from ._options import AggregationOptions

MINUTE = 60_000_000
"""Microseconds."""
MAX_IDENTITIES = 10_000
"""How many identities are remembered that have asked lately."""


class Rights:
    """What the clients of one broker may ask."""

    def __init__(self, options: AggregationOptions, now: Callable[[], int]) -> None:
        self._options = options
        self._now = now
        self._lately: dict[str, tuple[int, int]] = {}
        """For each identity that is no administrator: since when its minute runs, and how much it has asked in it."""

    def may_look(self, link: Link) -> None:
        """Raise `AccessDenied` unless a client may see what others ask."""
        if link.guard is not None and not link.guard.administer:
            raise AccessDenied(
                f"'{link.guard.name}' may not see what is counted here; ask the administrator for `administer` for "
                "this identity"
            )

    def threshold(self, link: Link, scope: str, view: View) -> int:
        """Below which numbers are withheld from a client; 0: none are. `AccessDenied` if it may not count at all."""
        guard = link.guard
        if guard is None or guard.administer or view.administers(link.name, scope):
            return 0
        if guard.may_count(scope):
            return self._options.threshold
        raise AccessDenied(
            f"'{guard.name}' may not count in {named(scope)}: counts tell about "
            "other clients; ask the administrator for `count` for this identity"
        )

    def may_administer(self, link: Link, scope: str, view: View) -> None:
        """Raise `AccessDenied` unless a client is an administrator: of the broker, or of a scope."""
        if self.threshold(link, scope, view):
            raise AccessDenied(
                f"'{link.owner}' may not measure what clients do in {named(scope)}, only count them; ask the "
                "administrator for `administer` for this identity"
            )

    def may_measure(self, link: Link, scope: str, where: Filter, view: View) -> None:
        """Raise `AccessDenied` unless a client may measure these publications in a scope."""
        guard = link.guard
        if guard is None or guard.administer or view.administers(link.name, scope):
            return
        passage = view.memberships(link.principal).get(scope)
        if passage is not None and passage.exact:
            try:
                guard.check_subscribe(where)
            except TidingsError as error:
                raise AccessDenied(f"{error}, and so only measure within that; narrow WHERE") from None
            return
        raise AccessDenied(
            f"'{guard.name}' may not measure what is published in {named(scope)}: "
            f"it is no member there that sees everything; ask the administrator for `administer` for this identity"
        )

    def take(self, link: Link) -> None:
        """Count a request, or raise `BudgetExceeded`."""
        if link.guard is None or link.guard.administer:
            return
        now, owner = self._now(), link.owner
        since, asked = self._lately.pop(owner, (now, 0))
        if now - since >= MINUTE:
            since, asked = now, 0
        refused = asked >= self._options.requests_per_minute
        self._lately[owner] = since, asked + (not refused)
        while len(self._lately) > MAX_IDENTITIES:
            del self._lately[next(iter(self._lately))]
        if refused:
            left = (since + MINUTE - now) // 1_000_000
            raise BudgetExceeded(
                f"'{owner}' has asked {asked:,} times within a minute; ask again in {left} seconds, or raise "
                "requests_per_minute in [aggregation]"
            )


def named(scope: str) -> str:
    """A scope, in a message."""
    return f"scope '{scope:.80}'" if scope else "the root scope"


def withheld(low: float, high: float, threshold: int) -> bool:
    """Whether a number that is within a range may not be told: it is not 0, and may be below the threshold."""
    return bool(threshold) and high > 0 and low < threshold
