"""`key-dispatch`: by a value in the notification, to the member that is there for it.

    key-dispatch(attribute="symbol", table=["SAP=@engine1", "BMW=@engine2"], others="@engine3")

A notification whose value is in no row goes to `others`; without that, to nobody.
"""

from __future__ import annotations

from collections.abc import Collection

from tidings.model import Notification, ScopeError

from ._policy import Policy, PolicyContext, only, text, texts


class KeyDispatch(Policy):
    """The candidate that a table names."""

    def init(self, context: PolicyContext) -> None:
        only(context, "attribute", "table", "others")
        self._attribute = text(context, "attribute")
        self._others = text(context, "others", "")
        self._table: dict[str, str] = {}
        for row in texts(context, "table"):
            key, equals, node = row.rpartition("=")
            if not equals or not node:
                raise ScopeError(f"table has the row {row!r:.60}; write a value, '=' and a member, as in 'SAP=@engine'")
            if key in self._table:
                raise ScopeError(f"table has two rows for {key!r:.60}; leave one of them out")
            self._table[key] = node
        if not self._table:
            raise ScopeError("table has no rows; give at least one, as in 'SAP=@engine'")

    def select(self, notification: Notification, eligible: Collection[str], context: PolicyContext) -> Collection[str]:
        value = notification.get(self._attribute)
        chosen = self._others if value is None else self._table.get(str(value), self._others)
        return [node for node in eligible if node == chosen]
