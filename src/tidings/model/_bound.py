"""Bounds: how far a subscription reaches into the past.

    last(10)                the last ten notifications that pass the filter
    since("5m")             those of the last five minutes
    since(instant)          those published at this instant or later
    last(10, since="5m")    the last ten of the last five minutes

A duration counts back from the moment at which the broker takes the subscription, by the broker's clock; an instant is
the same for every broker. A bound is checked where it is made, so an impossible one never leaves the application.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import msgspec

from ._errors import BoundError

MAX_COUNT = 1_000_000
"""The most notifications that `last` may ask for."""
MAX_DURATION = 100 * 365 * 86_400 * 1_000_000
"""The longest duration, in microseconds: a century."""
CLOCK_SKEW = 60_000_000
"""Microseconds by which the clock of an application may be ahead of its broker's."""
MAX_INSTANT = 2**63 - 1
"""The last instant, in microseconds since 1970 UTC."""

MAX_DIGITS = 20
"""The most digits that are read as a number."""

Reach: TypeAlias = str | float | timedelta | datetime
"""How far back: a duration (`"5m"`, seconds, a timedelta) or an instant (a datetime, UTC if it names no zone)."""

_UNITS = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000, "w": 604_800_000_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_REMEDY = 'give a duration like "90s", "5m" or timedelta(hours=1), or a datetime'


class Bound(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a subscription reaches into the past. Made by `last` and `since`."""

    count: int | None = None
    """The most notifications; None: as many as there are."""
    within: int | None = None
    """Published at most this many microseconds before the broker takes the subscription."""
    instant: int | None = None
    """Published at this instant or later, in microseconds since 1970 UTC."""

    def check(self, now: int | None = None) -> None:
        """Raise `BoundError` if this bound is impossible. For a bound from elsewhere, call it with a clock."""
        if self.count is None and self.within is None and self.instant is None:
            raise BoundError(
                "this bound limits nothing, so it asks for everything ever published; use last(n) or since(...)"
            )
        if self.count is not None and not 0 <= self.count <= MAX_COUNT:
            raise BoundError(f"last({self.count}): give a number from 0 to {MAX_COUNT:,}")
        if self.within is not None and not 0 < self.within <= MAX_DURATION:
            seconds = self.within / 1_000_000
            raise BoundError(f"since a duration of {seconds:g} seconds; give one above 0 and of at most a century")
        if self.within is not None and self.instant is not None:
            raise BoundError("a bound cannot have both a duration and an instant; choose one")
        if self.instant is not None and not -MAX_INSTANT <= self.instant <= MAX_INSTANT:
            raise BoundError(f"since {self.instant} microseconds after 1970: no such time exists")
        if now is not None and self.instant is not None and self.instant > now + CLOCK_SKEW:
            raise BoundError(f"{self} lies in the future; to get only what is still to come, subscribe without `past`")

    @property
    def asks_for_nothing(self) -> bool:
        """Whether a subscription with this bound is a plain one."""
        return self.count == 0

    def reference(self, now: int) -> int | None:
        """Return the instant at which the past begins, or None if only a count limits it.

        `now` is when the broker took the subscription.
        """
        return now - self.within if self.within is not None else self.instant

    def __str__(self) -> str:
        reach = ""
        if self.within is not None:
            reach = f'"{_written(self.within)}"'
        elif self.instant is not None:
            reach = f'"{_moment(self.instant)}"'
        if self.count is None:
            return f"since({reach})"
        return f"last({self.count}, since={reach})" if reach else f"last({self.count})"


def last(count: int, *, since: Reach | None = None) -> Bound:
    """Ask for the last `count` notifications that pass the filter; with `since`, only for those of that time.

    >>> print(last(10), last(10, since="5m"))
    last(10) last(10, since="5m")
    """
    if isinstance(count, bool) or not isinstance(count, int):
        raise BoundError(f"last({count!r}): give a whole number of notifications, or use since(...) for a time")
    within, instant = (None, None) if since is None else _reach(since)
    bound = Bound(count, within, instant)
    bound.check()
    return bound


def since(reach: Reach) -> Bound:
    """Ask for the notifications that pass the filter and were published at that time or later.

    >>> print(since("1h30m"), since(2.5))
    since("1h30m") since("2s500ms")
    """
    bound = Bound(None, *_reach(reach))
    bound.check()
    return bound


def bound_of(given: Bound | int | str | timedelta | datetime) -> Bound:
    """A bound as people write it, in Python and on the command line.

    A number, as itself or as text, is how many; a text with units is how long; both are joined by a comma. In the place
    of a duration there may be an instant.

    >>> print(bound_of(10), bound_of("5m"), bound_of("10,5m"), bound_of("2026-11-16T03:00Z"))
    last(10) since("5m") last(10, since="5m") since("2026-11-16T03:00:00+00:00")
    """
    match given:
        case Bound():
            given.check()
            return given
        case str():
            return _parsed(given)
        case bool() | float():
            pass
        case int():
            return last(given)
        case timedelta() | datetime():
            return since(given)
    raise BoundError(
        f'{given!r:.60} does not say how far back; give 10 for the last ten, "5m" for five minutes, '
        'or tidings.last(10, since="5m") for both'
    )


def _parsed(text: str) -> Bound:
    """`10`, `5m`, `10,5m`, or an instant in the place of the duration."""
    count, comma, reach = text.partition(",")
    if not comma and not count.isdecimal():
        count, reach = "", text
    try:
        if count and not count.isdecimal():
            raise BoundError(f"'{count}' is not a number")
        if comma and not reach:
            raise BoundError("nothing follows the comma")
        if len(count) > MAX_DIGITS:
            raise BoundError(f"a number of {len(count)} digits; give one from 0 to {MAX_COUNT:,}")
        number = int(count) if count else None
        if not reach:
            bound = Bound(number)
        elif reach[:4].isdecimal() and "-" in reach:
            bound = Bound(number, None, _instant(_moment_of(reach)))
        else:
            if not _PART.match(reach):
                raise BoundError(f"'{reach[:40]}' is neither a duration nor an instant")
            bound = Bound(number, duration(reach))
        bound.check()
    except BoundError as error:
        raise BoundError(f"{text[:60]}: {error}; write 10, 5m, or 10,5m") from None
    return bound


def _moment_of(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.upper())
    except ValueError:
        raise BoundError(
            f"'{text[:40]}' is not an instant; write one like 2026-11-16T03:00Z (UTC if no zone is given)"
        ) from None


def duration(text: str) -> int:
    """Microseconds, from one or several numbers with units.

    >>> duration("5m"), duration("1h30m"), duration("250ms")
    (300000000, 5400000000, 250000)
    """
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise BoundError(f"{text!r} is not a duration; write one like 90s, 5m, 2h, 1h30m or 7d")
    found = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if found > MAX_DURATION:
        raise BoundError(f"{text[:40]!r} is too long; give a duration of at most a century")
    return round(found)


def _reach(reach: Reach) -> tuple[int | None, int | None]:
    """As microseconds back, or as an instant."""
    match reach:
        case str():
            return duration(reach), None
        case timedelta():
            return reach // timedelta(microseconds=1), None
        case datetime():
            return None, _instant(reach)
        case bool():
            pass
        case int() | float():
            if not math.isfinite(reach) or abs(reach) > MAX_DURATION / 1e6:
                raise BoundError(f"since({reach}): {reach} is not a usable number of seconds; {_REMEDY}")
            return round(reach * 1_000_000), None
    raise BoundError(f"since({reach!r}): {type(reach).__name__} is neither a duration nor an instant; {_REMEDY}")


def _instant(moment: datetime) -> int:
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _written(microseconds: int) -> str:
    """A duration in the largest units that say it exactly."""
    text = ""
    for unit in "dhms":
        if microseconds >= _UNITS[unit]:
            text += f"{microseconds // _UNITS[unit]}{unit}"
            microseconds %= _UNITS[unit]
    return text + (f"{microseconds / 1_000:g}ms" if microseconds else "")


def _moment(instant: int) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=instant)).isoformat()
    except OverflowError:
        return f"{instant} microseconds after 1970"
