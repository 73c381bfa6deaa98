"""`one-of-n` and `single`: one of the members that would get a notification does.

    one-of-n()                                     in turn
    one-of-n(by="random")                          any of them, the same one whenever it is asked
    one-of-n(by="least-loaded")                    the one with the least under way, then the one that was given least
    one-of-n(by="attribute", attribute="account")  the same one for the same value, as long as it is there
    single()                                       the one with the smallest name

These compare members, so they are asked once for each notification, at the deciding point of the scope. `point` names
the broker that this is; without it, it is the one with the smallest name that has members of the scope.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import TypeAlias

import msgspec

from tidings.model import Notification, ScopeError

from ._policy import Policy, PolicyContext, only, text

MAX_TURNS = 10_000
"""Of how many members `one-of-n` remembers when it chose them last."""
MAX_REMEMBERED = 1_000
"""Of how many of them the next deciding point is told."""

_Pick: TypeAlias = Callable[[Notification, list[str], PolicyContext], str]


class OneOfN(Policy):
    """One of the candidates."""

    asks_again = True

    def init(self, context: PolicyContext) -> None:
        only(context, "by", "attribute", "point")
        ways: dict[str, _Pick] = {
            "turn": self._next,
            "random": _drawn,
            "least-loaded": _idlest,
            "attribute": self._stuck,
        }
        by = text(context, "by", "turn")
        if by not in ways:
            raise ScopeError(f"by is {by!r:.60}; choose one of {', '.join(ways)}")
        if (by == "attribute") is not ("attribute" in context.parameters):
            raise ScopeError("by='attribute' and the parameter `attribute` go together; give both or none")
        text(context, "point", "")
        self._attribute = text(context, "attribute", "")
        self._pick = ways[by]
        self._chosen: OrderedDict[str, int] = OrderedDict()
        """Whom it chose, the last one last, each with the number of the choice."""
        self._number = 0

    def select(self, notification: Notification, eligible: Collection[str], context: PolicyContext) -> Collection[str]:
        return [self._pick(notification, sorted(eligible), context)] if eligible else ()

    def remember(self) -> bytes:
        return msgspec.msgpack.encode(list(self._chosen)[-MAX_REMEMBERED:])

    def recall(self, state: bytes) -> None:
        known = msgspec.msgpack.decode(state, type=list[str])
        order = [*(one for one in known if one not in self._chosen), *self._chosen]
        self._chosen = OrderedDict((node, number) for number, node in enumerate(order))
        self._number = len(order)

    def _next(self, notification: Notification, eligible: list[str], context: PolicyContext) -> str:
        chosen = min(eligible, key=lambda node: self._chosen.get(node, -1))
        self._chosen[chosen] = self._number
        self._chosen.move_to_end(chosen)
        self._number += 1
        if len(self._chosen) > MAX_TURNS:
            self._chosen.popitem(last=False)
        return chosen

    def _stuck(self, notification: Notification, eligible: list[str], context: PolicyContext) -> str:
        value = repr(notification.get(self._attribute))
        return max(eligible, key=lambda node: _number(value, node))


class Single(Policy):
    """The first of the candidates."""

    asks_again = True

    def init(self, context: PolicyContext) -> None:
        only(context, "point")
        text(context, "point", "")

    def select(self, notification: Notification, eligible: Collection[str], context: PolicyContext) -> Collection[str]:
        return [min(eligible)] if eligible else ()


def _drawn(notification: Notification, eligible: list[str], context: PolicyContext) -> str:
    identity = context.identity
    assert identity is not None
    return eligible[_number(identity.origin, identity.epoch, identity.seq) % len(eligible)]


def _idlest(notification: Notification, eligible: list[str], context: PolicyContext) -> str:
    return min(eligible, key=context.load)


def _number(*parts: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "big")
