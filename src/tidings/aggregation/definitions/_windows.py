"""Windows of time, kept as panes.

A window of size W that slides by S (W is a multiple of S) is kept as W/S partials, one for each *pane* of length S.
Panes are aligned to multiples of S since 1970: pane = floor(ts / S). The window that ends at w*S covers the panes w
- W/S to w - 1, that is the times [w*S - W, w*S). Times are those at which a notification was published, never when
it arrived; so brokers and Spark put a record into the same pane.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from tidings.model import AggregateError, BoundError, duration

LATENESS = 1_000
"""Milliseconds after its end at which a pane closes; what comes later is in history only, and counted."""
MAX_PANES = 10_000
"""The most panes of one window."""
MIN_SLIDE = 100
"""How often brokers compute a window, in milliseconds: each of them tells its neighbours as often. History has no such
limit."""
MAX_SIZE = 366 * 86_400_000
"""The longest window: 366 days, in milliseconds."""


@dataclass(frozen=True, slots=True, init=False)
class Sliding:
    """A window that is evaluated every `slide`, over the last `size`; both as `"60s"`, or as a `timedelta`.

    >>> window = Sliding("60s", "5s")
    >>> window.panes, window.pane(12_345), window.covers(12)
    (12, 2, range(0, 12))
    """

    size_ms: int
    slide_ms: int
    panes: int = field(compare=False, repr=False)
    """How many panes make a window."""

    def __init__(self, size: str | timedelta, slide: str | timedelta) -> None:
        size_ms, slide_ms = _milliseconds(size, "size"), _milliseconds(slide, "slide")
        if size_ms % slide_ms:
            below = size_ms // slide_ms * slide_ms
            raise AggregateError(
                f"a window of {shown(size_ms)} is not a multiple of its slide, {shown(slide_ms)}; "
                f"take {' or '.join(shown(one) for one in (below, below + slide_ms) if one)}"
            )
        if size_ms // slide_ms > MAX_PANES:
            raise AggregateError(
                f"a window of {shown(size_ms)} that slides by {shown(slide_ms)} has {size_ms // slide_ms:,} panes; "
                f"at most {MAX_PANES:,} are kept: slide by {shown(-(-size_ms // MAX_PANES))} or more"
            )
        object.__setattr__(self, "size_ms", size_ms)
        object.__setattr__(self, "slide_ms", slide_ms)
        object.__setattr__(self, "panes", size_ms // slide_ms)

    def check_live(self) -> None:
        """Raise `AggregateError` for a window that slides faster than brokers compute."""
        if self.slide_ms < MIN_SLIDE:
            raise AggregateError(
                f"a window that ends every {shown(self.slide_ms)}; brokers compute one every {shown(MIN_SLIDE)} at "
                "most: use a longer one, or a longer SLIDE"
            )

    def pane(self, ts_ms: int) -> int:
        """The pane that a time belongs to."""
        return ts_ms // self.slide_ms

    def covers(self, window: int) -> range:
        """The panes of the window that ends at `window * slide`."""
        return range(window - self.panes, window)

    def windows(self, pane: int) -> range:
        """The windows that a pane belongs to."""
        return range(pane + 1, pane + 1 + self.panes)

    def ends_at(self, window: int) -> int:
        """When a window ends, in milliseconds since 1970; itself excluded."""
        return window * self.slide_ms

    def closed(self, now_ms: int, lateness_ms: int = LATENESS) -> int:
        """The newest window whose last pane is closed at this time.

        >>> Sliding("60s", "5s").closed(60_999), Sliding("60s", "5s").closed(61_000)
        (11, 12)
        """
        return (now_ms - lateness_ms) // self.slide_ms

    def __str__(self) -> str:
        slide = "" if self.panes == 1 else f" SLIDE {shown(self.slide_ms)}"
        return f"WINDOW {shown(self.size_ms)}{slide}"


def Tumbling(size: str | timedelta) -> Sliding:
    """A window that slides by its size, so that each time belongs to one window.

    >>> print(Tumbling("1m"))
    WINDOW 1m
    """
    return Sliding(size, size)


def shown(milliseconds: int) -> str:
    """A duration in the largest units that say it exactly.

    >>> shown(60_000), shown(90_000), shown(1_500)
    ('1m', '1m30s', '1s500ms')
    """
    text, rest = "", milliseconds
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)):
        if rest >= size:
            text += f"{rest // size}{unit}"
            rest %= size
    return text or "0ms"


def _milliseconds(given: str | timedelta, what: str) -> int:
    if isinstance(given, timedelta):
        microseconds = given // timedelta(microseconds=1)
    elif isinstance(given, str):
        try:
            microseconds = duration(given)
        except BoundError as error:
            raise AggregateError(f"the {what} of a window: {error}") from None
    else:
        raise AggregateError(f'the {what} of a window is {given!r:.40}; write it like "60s"')
    if microseconds % 1_000 or not 0 < microseconds <= MAX_SIZE * 1_000:
        raise AggregateError(
            f"the {what} of a window is {given!s:.40}; it is "
            f"a whole number of milliseconds, from 1ms to {shown(MAX_SIZE)}"
        )
    return microseconds // 1_000
