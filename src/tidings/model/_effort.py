"""Effort: a stranger's filter must not keep a broker busy, however it is written.

Comparing two patterns can take thousands of steps, and a filter of the largest size holds hundreds of patterns
to compare with hundreds of others. So the walks of one operation of the algebra (see `_automaton`) share one
allowance of steps. When it is spent, every further question about texts is answered with what is safe.

A pair of conjunctions or constraints that are compared counts as some steps, whether there is a walk or not: a filter
of hundreds of alternatives has tens of thousands of pairs. Whoever does several operations at once, as a broker does
that places a filter among others, lets them share one allowance.

What an answer costs is charged even if it is remembered from before; so results depend on the filters alone,
never on what a broker did earlier.
"""

from __future__ import annotations

import threading
from types import TracebackType

MAX_STEPS = 4_000
"""How many steps the machines of one walk may take together (about 2 ms)."""
MAX_EFFORT = 20_000
"""How many steps all walks of one operation may take together (about 10 ms)."""
KEPT_STEPS = 8_000
"""How many steps a result may take that is kept with a filter (about 4 ms)."""
PAIR_STEPS = 4
"""As how many steps the comparison of two conjunctions, or of two constraints on one attribute, counts."""
MAX_TOGETHER = 16
"""With how many sets at once a set is compared; with more, it is compared one by one only."""


class _Allowance(threading.local):
    left: int | None = None


_ALLOWANCE = _Allowance()


class Effort:
    """One operation of the algebra: `with Effort(): ...`. An operation within another shares its allowance."""

    __slots__ = ("_before", "_steps")

    def __init__(self, steps: int = MAX_EFFORT, *, apart: bool = False) -> None:
        """With `apart`, the operation has an allowance of its own: for results that are kept."""
        self._before = _ALLOWANCE.left
        self._steps = steps if apart or self._before is None else None

    def __enter__(self) -> Effort:
        if self._steps is not None:
            _ALLOWANCE.left = self._steps
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._steps is not None:
            _ALLOWANCE.left = self._before


def is_spent() -> bool:
    """Whether nothing is left for this operation."""
    return _ALLOWANCE.left == 0


def afford(steps: int) -> bool:
    """Take this many steps from the allowance; False, and nothing left, if there are not as many."""
    left = _ALLOWANCE.left
    if left is None:
        return True
    _ALLOWANCE.left = max(left - steps, 0)
    return steps <= left
