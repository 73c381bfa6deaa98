"""`delay`: nobody gets it before a time has passed since it was published.

    delay(seconds=900)
    delay(seconds=900, filter="type = 'quote'")   others at once

It is held at the broker of each reader, until `published_at` and the delay; then it is judged once more, by the graph
as it is then.
"""

from __future__ import annotations

from tidings.model import Notification

from ._policy import Policy, PolicyContext, filter_in, number, only

MAX_SECONDS = 86_400 * 7
"""The longest delay, in seconds: a week."""


class Delay(Policy):
    """All candidates, later."""

    def init(self, context: PolicyContext) -> None:
        only(context, "seconds", "filter")
        self._delay = round(number(context, "seconds", least=0, most=MAX_SECONDS) * 1_000_000)
        self._filter = filter_in(context, "filter")

    def not_before(self, notification: Notification, context: PolicyContext) -> int:
        if self._filter is not None and not self._filter.matches(notification):
            return 0
        return context.published_at + self._delay
