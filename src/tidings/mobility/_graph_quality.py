"""How good a neighbour graph is: what was counted since the start, and two ratios over a window.

`F_neg`, the share of hand-offs for which an edge had to be added, falls to 0 when the graph knows all movements.
`F_pos`, removals times the edge timeout by the time that edges were there, is above 0 when there were edges that
nobody used.
"""

from __future__ import annotations

from collections import deque

SLOTS = 60
"""Parts of the window in which hand-offs are counted."""
MAX_EVENTS = 10_000
"""The most additions and removals of the window that are remembered; the earliest go first."""


class GraphQuality:
    """Counts what happens to one graph."""

    def __init__(self, window: int) -> None:
        """`window` is in microseconds."""
        self._window = window
        self._slot = max(window // SLOTS, 1)
        self._handoffs: dict[int, int] = {}
        self._additions: deque[int] = deque(maxlen=MAX_EVENTS)
        self._removals: deque[tuple[int, int]] = deque(maxlen=MAX_EVENTS)
        """When each removed edge came and went."""
        self.handoffs = 0
        """Since the start: hand-offs that were seen,"""
        self.additions = 0
        """edges that were added,"""
        self.removals = 0
        """edges that were removed,"""
        self.hits = 0
        """clients that found a copy that was ready,"""
        self.early = 0
        """a copy that was not ready yet,"""
        self.misses = 0
        """or none."""

    def handed_off(self, at: int) -> None:
        """A client has moved."""
        self.handoffs += 1
        slot = at // self._slot
        self._handoffs[slot] = self._handoffs.get(slot, 0) + 1
        self._forget(at)

    def added(self, at: int) -> None:
        """An edge is new."""
        self.additions += 1
        self._additions.append(at)

    def removed(self, created_at: int, at: int) -> None:
        """An edge is gone."""
        self.removals += 1
        self._removals.append((created_at, at))

    def _forget(self, at: int) -> None:
        since = at - self._window
        while self._handoffs and (next(iter(self._handoffs)) + 1) * self._slot <= since:
            del self._handoffs[next(iter(self._handoffs))]
        while self._additions and self._additions[0] < since:
            self._additions.popleft()
        while self._removals and self._removals[0][1] < since:
            self._removals.popleft()

    def f_neg(self, at: int) -> float:
        """Additions by hand-offs; 0 without any."""
        self._forget(at)
        handoffs = sum(self._handoffs.values())
        return min(len(self._additions) / handoffs, 1.0) if handoffs else 0.0

    def f_pos(self, at: int, edge_timeout: int, created: list[int]) -> float:
        """Removals times `edge_timeout` by the time that edges were there; `created`: when those there now came."""
        self._forget(at)
        since = at - self._window
        there = sum(at - max(one, since) for one in created if one < at)
        there += sum(gone - max(came, since) for came, gone in self._removals)
        return len(self._removals) * edge_timeout / there if there > 0 else 0.0
