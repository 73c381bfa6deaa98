"""`credentials`: only those that hold the privilege that a notification demands.

    credentials(attribute="clearance", demanded="secrecy")   as high as the notification's `secrecy`
    credentials(attribute="clearance", level=3)              at least 3, for every notification

What a candidate holds is what administrators say about it: its attributes in the graph. A notification without the
attribute `demanded` demands nothing. A candidate without the attribute holds nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from tidings.model import Notification, ScopeError

from ._policy import Policy, PolicyContext, number, only, text

MOST = 1e9
"""The highest level."""


class Credentials(Policy):
    """Candidates with the demanded level of a privilege."""

    def init(self, context: PolicyContext) -> None:
        only(context, "attribute", "demanded", "level")
        self._attribute = text(context, "attribute")
        self._demanded = text(context, "demanded", "")
        self._level: float | None = None
        if "level" in context.parameters:
            self._level = number(context, "level", least=-MOST, most=MOST)
        if bool(self._demanded) is (self._level is not None):
            raise ScopeError("the privilege is demanded by the attribute `demanded`, or is `level`; give one of them")

    def select(self, notification: Notification, eligible: Collection[str], context: PolicyContext) -> Collection[str]:
        demanded = self._level if self._level is not None else notification.get(self._demanded)
        if demanded is None:
            return eligible
        return [node for node in eligible if _holds(context.attributes(node).get(self._attribute), demanded)]


def _holds(held: object, demanded: object) -> bool:
    return _is_level(held) and _is_level(demanded) and held >= demanded  # type: ignore[operator]


def _is_level(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
