"""`chain`: from one handler to the next.

    chain(members=["@check", "@book", "@print"])

What anybody else publishes goes to the first handler alone. What a handler publishes goes to the one after it; what the
last one publishes goes to all members that are no handlers. So each sees a notification when the one before it has
handled it and published it again.
"""

from __future__ import annotations

from collections.abc import Collection

from tidings.model import Notification, ScopeError

from ._policy import Policy, PolicyContext, only, texts


class Chain(Policy):
    """The candidate that comes next."""

    def init(self, context: PolicyContext) -> None:
        only(context, "members")
        self._members = texts(context, "members")
        if not self._members or len({*self._members}) < len(self._members):
            raise ScopeError("members names the handlers in their order, each once; give at least one")

    def select(self, notification: Notification, eligible: Collection[str], context: PolicyContext) -> Collection[str]:
        source = context.source
        place = self._members.index(source) + 1 if source in self._members else 0
        if place == len(self._members):
            return [node for node in eligible if node not in self._members]
        return [node for node in eligible if node == self._members[place]]
