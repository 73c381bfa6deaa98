"""`rate-limit`: each member gets at most so many notifications of any stretch of time; it does not get the others.

    rate-limit(count=10, seconds=1)

Time is that of publication, so a notification that comes late is not held against those of now: a member gets it if it
was given fewer than `count` of all that were published less than `seconds` before it or after it. So of all that were
published within any `seconds`, it gets at most `count`. Which of them depends on the order in which they came to the
deciding point of the scope; what a member was given there is remembered, and is handed over to the next point.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Collection, Iterable
from typing import TypeAlias

import msgspec

from tidings.model import Notification, ScopeError

from ._policy import Policy, PolicyContext, number, only, text

MAX_COUNT = 1_000
"""The most notifications that may be allowed."""
MAX_SECONDS = 86_400
"""The longest stretch of time, in seconds: a day."""
MAX_MEMBERS = 10_000
"""Of how many members it remembers what they were given, the last ones."""
MAX_GIVEN = 2_000
"""How much it remembers of one member; it gives it nothing that was published before that, or too little later."""
MAX_TOTAL = 400_000
"""How much it remembers of all members together; each of them has the same part of it."""
MAX_REMEMBERED = 2_000
"""The most notifications, the last ones, that the next deciding point is told of."""

Given: TypeAlias = tuple[int, str, int, int]
"""When a notification was published, and where: origin, epoch, number."""


class _Share:
    """What one member was given."""

    def __init__(self, since: int = 0) -> None:
        self.given: list[Given] = []
        """In the order of publication."""
        self.since = since
        """What was published before this, in microseconds since 1970 UTC, is not known any more."""

    def has_room(self, this: Given, count: int, stretch: int) -> bool:
        """Whether a member may get this, too."""
        at = this[0]
        if self.since and at - stretch < self.since:
            return False
        first = bisect_left(self.given, (at - stretch + 1, "", 0, 0))
        return bisect_left(self.given, (at + stretch, "", 0, 0)) - first < count

    def has(self, this: Given) -> bool:
        """Whether a member was given this."""
        at = bisect_left(self.given, this)
        return at < len(self.given) and self.given[at] == this

    def add(self, these: Iterable[Given], most: int) -> None:
        """It is given these; only so many are remembered."""
        for one in these:
            if not self.has(one):
                insort(self.given, one)
        if len(self.given) > most:
            self.since = max(self.since, self.given[-most - 1][0] + 1)
            del self.given[:-most]


class RateLimit(Policy):
    """The candidates that have not been given too much."""

    def init(self, context: PolicyContext) -> None:
        only(context, "count", "seconds", "point")
        count = number(context, "count", least=1, most=MAX_COUNT)
        if count != int(count):
            raise ScopeError(f"count is {count!r:.60}; give a whole number")
        self._count = int(count)
        self._stretch = round(number(context, "seconds", least=0.001, most=MAX_SECONDS) * 1_000_000)
        text(context, "point", "")
        self._shares: OrderedDict[str, _Share] = OrderedDict()
        """By member, who was asked about last at the end."""

    def select(self, notification: Notification, eligible: Collection[str], context: PolicyContext) -> Collection[str]:
        identity = context.identity
        assert identity is not None
        this = (identity.published_at, identity.origin, identity.epoch, identity.seq)
        return [node for node in sorted(eligible) if self._takes(node, this)]

    def _takes(self, node: str, this: Given) -> bool:
        share = self._shares.setdefault(node, _Share())
        self._shares.move_to_end(node)
        if len(self._shares) > MAX_MEMBERS:
            self._shares.popitem(last=False)
        if share.has(this):
            return True  # another form of it
        if not share.has_room(this, self._count, self._stretch):
            return False
        share.add((this,), self._room)
        return True

    @property
    def _room(self) -> int:
        return min(MAX_GIVEN, MAX_TOTAL // len(self._shares))

    def remember(self) -> bytes:
        last = sorted(((one, node) for node, share in self._shares.items() for one in share.given), reverse=True)
        told: dict[str, tuple[int, list[Given]]] = {}
        since = last[MAX_REMEMBERED][0][0] + 1 if len(last) > MAX_REMEMBERED else 0
        for one, node in last[:MAX_REMEMBERED]:
            told.setdefault(node, (max(since, self._shares[node].since), []))[1].append(one)
        return msgspec.msgpack.encode(told)

    def recall(self, state: bytes) -> None:
        for node, (since, given) in msgspec.msgpack.decode(state, type=dict[str, tuple[int, list[Given]]]).items():
            share = self._shares.setdefault(node, _Share())
            share.since = max(share.since, since)
            share.add(given, self._room)
