"""`producer`: by who published it and how it came, which no filter can see.

    producer(publishers=["@bank", "@desk"])     from these clients only
    producer(roles="trader")                    from clients with one of these roles
    producer(through="audited")                 what has come through one of these scopes
    producer(publishers="@robot", deny=TRUE)    from everybody else

A notification must satisfy each of `publishers`, `roles` and `through` that is given.
"""

from __future__ import annotations

from collections.abc import Collection

from tidings.model import Notification, ScopeError

from ._policy import Policy, PolicyContext, only, texts


class Producer(Policy):
    """All candidates or none, by the publisher and the path."""

    def init(self, context: PolicyContext) -> None:
        only(context, "publishers", "roles", "through", "deny")
        self._publishers = frozenset(texts(context, "publishers"))
        self._roles = frozenset(texts(context, "roles"))
        self._through = frozenset(texts(context, "through"))
        self._deny = context.parameters.get("deny", False)
        if not isinstance(self._deny, bool):
            raise ScopeError(f"deny is {self._deny!r:.60}; give TRUE or FALSE")
        if not (self._publishers or self._roles or self._through):
            raise ScopeError("nobody is named; give publishers, roles or through")

    def select(self, notification: Notification, eligible: Collection[str], context: PolicyContext) -> Collection[str]:
        return () if self._names(context) is self._deny else eligible

    def _names(self, context: PolicyContext) -> bool:
        if self._publishers and context.publisher not in self._publishers:
            return False
        if self._roles and self._roles.isdisjoint(context.roles(context.publisher)):
            return False
        return not self._through or not self._through.isdisjoint(context.path)
