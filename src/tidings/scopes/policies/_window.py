"""`window`: only what was published at certain times of the day.

    window(opens="09:00", closes="17:30")
    window(opens="22:00", closes="06:00", days=["mon", "tue", "wed", "thu", "fri"])

Times and days are in UTC, and are those of the publication: so a notification that comes late is judged as it would
have been in time. A window that closes before it opens closes on the next day; its days are those on which it opens.
"""

from __future__ import annotations

from collections.abc import Collection

from tidings.model import Notification, ScopeError

from ._policy import Policy, PolicyContext, only, text, texts

DAYS = "mon", "tue", "wed", "thu", "fri", "sat", "sun"
_MINUTE = 60_000_000
_DAY = 1_440
_FIRST_DAY = 3
"""1 January 1970 was a Thursday."""


class Window(Policy):
    """All candidates or none, by the time of publication."""

    def init(self, context: PolicyContext) -> None:
        only(context, "opens", "closes", "days")
        self._opens, self._closes = (_minutes(name, text(context, name)) for name in ("opens", "closes"))
        days = texts(context, "days") or DAYS
        for day in days:
            if day not in DAYS:
                raise ScopeError(f"days has {day!r:.60}; give some of {', '.join(DAYS)}")
        self._days = {DAYS.index(day) for day in days}
        if self._opens == self._closes:
            raise ScopeError("opens and closes are the same time; leave the policy out for a window of a whole day")

    def select(self, notification: Notification, eligible: Collection[str], context: PolicyContext) -> Collection[str]:
        day, minute = divmod(context.published_at // _MINUTE, _DAY)
        if self._opens < self._closes:
            is_open = self._opens <= minute < self._closes
        else:
            is_open = minute >= self._opens or minute < self._closes
            day -= minute < self._closes
        return eligible if is_open and (day + _FIRST_DAY) % len(DAYS) in self._days else ()


def _minutes(name: str, value: str) -> int:
    hours, colon, minutes = value.partition(":")
    if colon and hours.isdecimal() and minutes.isdecimal() and len(minutes) == 2:
        found = int(hours) * 60 + int(minutes)
        if found <= _DAY and int(minutes) < 60:
            return found % _DAY if name == "opens" else found
    raise ScopeError(f"{name} is {value!r:.60}; give a time of the day in UTC, as in '17:30'")
