"""The panes of one key: where records go, and what a window that has closed contains.

Records arrive in any order within `lateness`. The window w is told once, when the broker's clock has passed its end by
`lateness`; its panes are final then. What belongs to a pane that has closed is not taken, and is counted in `late`: the
archive has it, so history shows it. With an inverse the next window costs two steps, without one as many as it has
panes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from tidings.model import AggregateError

from ._aggregate import Aggregate
from ._windows import LATENESS, Sliding

P = TypeVar("P")

MAX_AHEAD = 60_000
"""How far ahead of this broker's clock a record may be, in milliseconds: so the panes of a key are bounded."""


class Panes(Generic[P]):
    """What has been lifted for one key, by panes.

    >>> from ._counts import Count
    >>> panes = Panes(Count(window=Sliding("10s", "5s")), now_ms=0)
    >>> panes.add(1_000, 1), panes.add(7_000, 1)
    (True, True)
    >>> list(panes.close(11_000))
    [(1, 1), (2, 2)]
    >>> panes.add(9_000, 1), panes.late
    (False, 1)
    """

    def __init__(self, aggregate: Aggregate[P], now_ms: int, lateness_ms: int = LATENESS) -> None:
        if aggregate.window is None:
            raise AggregateError(f"{aggregate.name} has no window; give it one, such as Tumbling('60s')")
        self._aggregate = aggregate
        self._window: Sliding = aggregate.window
        self._lateness = lateness_ms
        self._panes: dict[int, P] = {}
        self._told = self._window.closed(now_ms, lateness_ms)
        self._total: P | None = None
        self._gone: P | None = None
        self._ahead = self._window.panes + 1 + (lateness_ms + MAX_AHEAD) // self._window.slide_ms
        self.late = 0
        """How many records came after their pane had closed."""
        self.early = 0
        """How many records lay further ahead than clocks may differ."""

    def add(self, ts_ms: int, partial: P) -> bool:
        """Take what a record of that time contributes; False if its pane has closed, or lies too far ahead."""
        pane = self._window.pane(ts_ms)
        if pane > self._told + self._ahead:
            self.early += 1
            return False
        if pane < self._told:
            self.late += 1
            return False
        held = self._panes.get(pane)
        self._panes[pane] = partial if held is None else self._aggregate.combine(held, partial)
        return True

    def __len__(self) -> int:
        """How many panes hold something."""
        return len(self._panes)

    def holds(self, ts_ms: int) -> bool:
        """Whether the pane of that time holds something."""
        return self._window.pane(ts_ms) in self._panes

    def close(self, now_ms: int) -> Iterator[tuple[int, P]]:
        """The windows that have closed since the last time and contain something, each with its partial, in order."""
        newest = self._window.closed(now_ms, self._lateness)
        while self._told < newest:
            if not self._panes:
                self._told, self._total = newest, None
                return
            first = min(self._panes)
            if self._told < first:  # nothing is in the windows before
                self._told, self._total = min(first, newest), None
                continue
            self._told += 1
            partial = self._slide(self._told)
            if any(pane in self._panes for pane in self._window.covers(self._told)):
                yield self._told, partial
            self._panes.pop(self._told - self._window.panes, None)

    def current(self) -> P:
        """What is in the panes of the newest window so far, the open ones included."""
        partial = self._aggregate.zero()
        if self._panes:
            for pane in self._window.covers(max(max(self._panes) + 1, self._told)):
                if pane in self._panes:
                    partial = self._aggregate.combine(partial, self._panes[pane])
        return partial

    @property
    def empty(self) -> bool:
        """Whether nothing is held: the key can be forgotten."""
        return not self._panes

    def _slide(self, window: int) -> P:
        """The partial of a window, from that of the window before if there is an inverse."""
        aggregate, covered = self._aggregate, self._window.covers(window)
        if aggregate.invertible and self._total is not None:
            total = self._total
            if (newest := self._panes.get(window - 1)) is not None:
                total = aggregate.combine(total, newest)
            if (oldest := self._gone) is not None:
                total = aggregate.combine(total, aggregate.invert(oldest))
        else:
            total = aggregate.zero()
            for pane in covered:
                if pane in self._panes:
                    total = aggregate.combine(total, self._panes[pane])
        self._gone = self._panes.get(covered.start)
        self._total = total
        return total
