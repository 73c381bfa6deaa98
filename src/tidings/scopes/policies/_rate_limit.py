"""`rate-limit`: each member gets at most so many notifications of any stretch of time; it does not get the others.

    rate-limit(count=10, seconds=1)

Time is that of publication, so a notification that comes late is not held against those of now: of all that were
published within any `seconds`, a member gets at most `count`. Which of them depends on the order in which they came to
the deciding point of the scope; what a member was given there is remembered, and is handed over to the next point.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
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
MAX_REMEMBERED = 2_000
"""The most notifications, the last ones, that the next deciding point is told of."""

Given: TypeAlias = tuple[int, str, int, int]
"""When a notification was published, and where: origin, epoch, number."""


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
        self._given: OrderedDict[str, set[Given]] = OrderedDict()
        """By member, who was given something last at the end."""

    def select(self, notification: Notification, eligible: Collection[str], context: PolicyContext) -> Collection[str]:
        identity = context.identity
        assert identity is not None
        this = (identity.published_at, identity.origin, identity.epoch, identity.seq)
        return [node for node in sorted(eligible) if self._takes(node, this)]

    def _takes(self, node: str, this: Given) -> bool:
        given = self._given.setdefault(node, set())
        self._given.move_to_end(node)
        if this in given:
            return True  # it did not arrive, and is decided again
        newest = max(given, default=this)[0]
        # What is far behind can meet only what comes that late itself.
        given.difference_update([one for one in given if one[0] < newest - 2 * self._stretch])
        if sum(abs(one[0] - this[0]) < self._stretch for one in given) >= self._count:
            return False
        given.add(this)
        if len(self._given) > MAX_MEMBERS:
            self._given.popitem(last=False)
        return True

    def remember(self) -> bytes:
        last = sorted(((one, node) for node, given in self._given.items() for one in given), reverse=True)
        told: dict[str, list[Given]] = {}
        for one, node in last[:MAX_REMEMBERED]:
            told.setdefault(node, []).append(one)
        return msgspec.msgpack.encode(told)

    def recall(self, state: bytes) -> None:
        for node, given in msgspec.msgpack.decode(state, type=dict[str, list[Given]]).items():
            self._given.setdefault(node, set()).update(given)
