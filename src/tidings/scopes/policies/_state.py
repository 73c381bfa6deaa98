"""`state`: everybody or nobody, by what was published before.

    state(opens="type = 'open'", closes="type = 'close'")
    state(opens="type = 'open'", closes="type = 'close'", by="market", initially=TRUE)

The scope is open or closed. What passes the filter `opens` opens it, what passes `closes` closes it, and members get
both. They get other notifications while it is open. With `by`, there is one such state for each value of that
attribute, and one for notifications that have none.

What was published before what is a matter of the deciding point of the scope: the order in which it comes there. The
state is handed over to the next point.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

import msgspec

from tidings.model import Filter, Notification, ScopeError

from ._policy import Policy, PolicyContext, filter_in, only, text

MAX_VALUES = 10_000
"""Of how many values of an attribute the state is known, the last ones that changed; others are as at first."""

MAX_REMEMBERED = 2_000
"""Of how many of them the next deciding point is told."""


class State(Policy):
    """All candidates, as long as the scope is open."""

    def init(self, context: PolicyContext) -> None:
        only(context, "opens", "closes", "by", "initially", "point")
        self._opens, self._closes = (_filter(context, name) for name in ("opens", "closes"))
        self._by = text(context, "by", "")
        text(context, "point", "")
        self._initially = context.parameters.get("initially", False)
        if not isinstance(self._initially, bool):
            raise ScopeError(f"initially is {self._initially!r:.60}; give TRUE or FALSE")
        self._changed: OrderedDict[str, bool] = OrderedDict()
        """By value, whether it is open; the last one that changed at the end."""

    def select(self, notification: Notification, eligible: Collection[str], context: PolicyContext) -> Collection[str]:
        value = repr(notification.get(self._by)) if self._by else ""
        for filter, open in ((self._opens, True), (self._closes, False)):
            if filter.matches(notification):
                self._changed[value] = open
                self._changed.move_to_end(value)
                if len(self._changed) > MAX_VALUES:
                    self._changed.popitem(last=False)
                return eligible
        return eligible if self._changed.get(value, self._initially) else ()

    def remember(self) -> bytes:
        return msgspec.msgpack.encode(dict(list(self._changed.items())[-MAX_REMEMBERED:]))

    def recall(self, state: bytes) -> None:
        for value, open in msgspec.msgpack.decode(state, type=dict[str, bool]).items():
            self._changed.setdefault(value, open)


def _filter(context: PolicyContext, name: str) -> Filter:
    filter = filter_in(context, name)
    if filter is None:
        raise ScopeError(f"{name} is not given; say by a filter which notifications do that")
    return filter
