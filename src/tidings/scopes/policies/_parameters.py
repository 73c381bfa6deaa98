"""`parameters`: to the members whose attribute names the value that the notification has.

    parameters(attribute="symbol", member="symbols")

A member with the attribute `symbols = ["SAP", "BMW"]` gets notifications with `symbol = 'SAP'`. What administrators say
about members decides, and nothing else; a notification without the attribute goes to nobody.
"""

from __future__ import annotations

from collections.abc import Collection

from tidings.model import Notification

from ._policy import Policy, PolicyContext, only, text


class Parameters(Policy):
    """Candidates whose attribute has the value."""

    def init(self, context: PolicyContext) -> None:
        only(context, "attribute", "member")
        self._attribute = text(context, "attribute")
        self._member = text(context, "member", self._attribute)

    def select(self, notification: Notification, eligible: Collection[str], context: PolicyContext) -> Collection[str]:
        value = notification.get(self._attribute)
        if value is None:
            return ()
        wanted = value if isinstance(value, tuple) else (value,)
        return [node for node in eligible if _names(context.attributes(node).get(self._member), wanted)]


def _names(held: object, wanted: tuple[object, ...]) -> bool:
    values = held if isinstance(held, tuple) else (held,)
    return any(type(one) is type(other) and one == other for one in values for other in wanted)
