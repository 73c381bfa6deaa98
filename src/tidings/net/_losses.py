"""Losses: what a queue has dropped, told by as few gaps as it takes.

Each notification names the subscriptions that it was for, and no two need name the same ones. So losses are kept for
each subscription, as one range of numbers for each epoch of an origin; subscriptions that lack the same range share a
gap. If that is still too many, one gap tells all subscriptions of an origin's epoch the whole range.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from tidings.wire import Gap

_Range: TypeAlias = tuple[int, int | None, bool]
"""From where to where, and whether marks say nothing about some of it."""


class Losses:
    """What is dropped from one queue in one go."""

    def __init__(self) -> None:
        self._lost: dict[tuple[str, int], dict[str, _Range]] = {}

    def add(self, gap: Gap) -> None:
        """A notification is lost, or a gap that told of others."""
        lost = self._lost.setdefault((gap.origin, gap.epoch), {})
        missing = (gap.first, gap.last, gap.unmarked)
        for id in gap.subscriptions:
            lost[id] = _joined(lost[id], missing) if id in lost else missing

    def gaps(self, most: int) -> Iterator[Gap]:
        """All of it; more than so many gaps for one epoch of an origin become one."""
        for (origin, epoch), lost in self._lost.items():
            groups: dict[_Range, list[str]] = {}
            for id, missing in lost.items():
                groups.setdefault(missing, []).append(id)
            if len(groups) > max(1, most):
                whole = next(iter(groups))
                for missing in groups:
                    whole = _joined(whole, missing)
                groups = {whole: list(lost)}
            for (first, last, unmarked), ids in groups.items():
                yield Gap(origin, epoch, first, last, tuple(ids), unmarked)


def _joined(one: _Range, two: _Range) -> _Range:
    last = None if one[1] is None or two[1] is None else max(one[1], two[1])
    return min(one[0], two[0]), last, one[2] or two[2]
