"""How sure one can be of a mean that was measured, and of a number that a model predicts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from tidings.model import TidingsError

NORMAL_95 = 1.96
"""Standard deviations on each side that 95 % of a normal distribution lie within."""
VALIDITY = 3.0
"""Standard deviations within which a binomial distribution must lie to be taken for a normal one."""
_STEPS = 2_000
"""Of an integral."""


class Interval(NamedTuple):
    """From, to."""

    low: float
    high: float

    def overlaps(self, other: Interval) -> bool:
        """Whether the difference of two is not significant."""
        return self.low <= other.high and other.low <= self.high


def student_ci(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Within which the true mean lies, from a few measurements."""
    if len(values) < 2:
        raise TidingsError(f"{len(values)} measurements say nothing about their spread; give at least 2")
    half = student_t(len(values) - 1, confidence) * statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.fmean(values)
    return Interval(mean - half, mean + half)


def student_t(freedom: int, confidence: float = 0.95) -> float:
    """The t within which, on both sides of 0, this share of Student's distribution lies."""
    if not 0 < confidence < 1:
        raise TidingsError(f"confidence {confidence}; give a share between 0 and 1")
    low, high = 0.0, 1.0
    while _within(high, freedom) < confidence:
        low, high = high, high * 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return (low + high) / 2


def _within(t: float, freedom: int) -> float:
    """The share of Student's distribution between -t and t, with t = sqrt(freedom) * tan(angle): Simpson's rule."""
    angle = math.atan(t / math.sqrt(freedom))
    logarithm = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(math.pi) / 2
    step = angle / _STEPS
    total = 0.0
    for at in range(_STEPS + 1):
        factor = 1 if at in {0, _STEPS} else 4 if at % 2 else 2
        total += factor * math.cos(at * step) ** (freedom - 1)
    return 2 * math.exp(logarithm) * total * step / 3


def binomial_bounds(clients: int, share: float, *, validity: float = VALIDITY, z: float = NORMAL_95) -> Interval | None:
    """Within which the number of clients in a state lies, 95 times out of 100; None where that cannot be said.

    It cannot where the distribution is too lopsided to be taken for a normal one: where `validity` standard deviations
    reach below 0 or above all clients.
    """
    mean = clients * share
    deviation = math.sqrt(mean * (1 - share))
    if not (mean - validity * deviation > 0 and mean + validity * deviation < clients):
        return None
    return Interval(mean - z * deviation, mean + z * deviation)
