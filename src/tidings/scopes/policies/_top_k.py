"""`top-k`: the best of the members that would get a notification, by what administrators say about them, or by load.

    top-k(k=3, attribute="rank")         the three whose attribute `rank` in the graph is greatest
    top-k(k=2, by="least-loaded")        the two with the least under way, then those that were given least

Of equals, those with the smaller names count. A member without the attribute, or with something else than a number
there, comes behind all others. The deciding point of the scope chooses; `point` names the broker that this is.
"""

from __future__ import annotations

from collections.abc import Collection

from tidings.model import Notification, ScopeError

from ._policy import Policy, PolicyContext, number, only, text

MAX_K = 1_000
"""The most members that it chooses."""
_WAYS = ("attribute", "least-loaded")


class TopK(Policy):
    """The first few of the candidates, by rank."""

    def init(self, context: PolicyContext) -> None:
        only(context, "k", "by", "attribute", "point")
        k = number(context, "k", least=1, most=MAX_K)
        if k != int(k):
            raise ScopeError(f"k is {k!r:.60}; give a whole number")
        self._k = int(k)
        by = text(context, "by", "attribute")
        if by not in _WAYS:
            raise ScopeError(f"by is {by!r:.60}; choose one of {', '.join(_WAYS)}")
        if (by == "attribute") is not ("attribute" in context.parameters):
            raise ScopeError("by='attribute' and the parameter `attribute` go together; give both or none")
        text(context, "point", "")
        self._attribute = text(context, "attribute", "")

    def select(self, notification: Notification, eligible: Collection[str], context: PolicyContext) -> Collection[str]:
        return sorted(eligible, key=lambda node: (self._rank(node, context), node))[: self._k]

    def _rank(self, node: str, context: PolicyContext) -> tuple[float, ...]:
        if not self._attribute:
            return context.load(node)
        value = context.attributes(node).get(self._attribute)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return (1.0,)
        return 0.0, -value
