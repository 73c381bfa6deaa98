"""A curve through measured points, and what it predicts for other sizes.

What a broker does, throughput or any other measure, is taken as a function of the number of clients connected to it.
Fit it on one network, and read off what another one, of the same kind of brokers, will do. Beyond the points that it
was fitted on, a polynomial means nothing: `extrapolate` warns.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidings.model import TidingsError

from ._linear import solve


class OutsideFittedRange(UserWarning):
    """A curve was read where it was not fitted."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A polynomial, with the range of the points that it goes through."""

    coefficients: tuple[float, ...]
    """Of x^0, x^1 and so on."""
    low: float
    high: float
    r_squared: float
    measure: str = "throughput"
    unit: str = "messages/s"

    def __call__(self, x: float) -> float:
        """What it says, wherever that is."""
        value = 0.0
        for coefficient in reversed(self.coefficients):
            value = value * x + coefficient
        return value

    def covers(self, x: float) -> bool:
        """Whether it was fitted there."""
        return self.low <= x <= self.high


DOCUMENT_CURVE = Curve((1.7111, 12.362, -0.2256, 0.0019), 1.477, 29.536, 0.9198)
"""The document's throughput of a broker (6.18). The range of its points is lost: these are the means of its runs."""


def fit(
    xs: Sequence[float],
    ys: Sequence[float],
    degree: int = 3,
    *,
    measure: str = "throughput",
    unit: str = "messages/s",
) -> Curve:
    """The polynomial with the least squares. Raises `TidingsError` if there are too few different points."""
    if len(xs) != len(ys):
        raise TidingsError(f"{len(xs)} numbers of clients and {len(ys)} measurements; give as many of each")
    if degree < 0 or len(set(xs)) <= degree:
        raise TidingsError(
            f"degree {degree} with {len(set(xs))} different points; give a degree from 0 and below the number of points"
        )
    middle, half = (max(xs) + min(xs)) / 2, (max(xs) - min(xs)) / 2 or 1.0
    scaled = [(x - middle) / half for x in xs]  # else the powers differ so much that the equations cannot be solved
    powers = [[x**power for power in range(degree + 1)] for x in scaled]
    normal = [[sum(row[i] * row[j] for row in powers) for j in range(degree + 1)] for i in range(degree + 1)]
    right = [sum(row[i] * y for row, y in zip(powers, ys, strict=True)) for i in range(degree + 1)]
    coefficients = _unscaled(solve(normal, right), middle, half)
    curve = Curve(coefficients, min(xs), max(xs), 0.0, measure, unit)
    mean = sum(ys) / len(ys)
    total = sum((y - mean) ** 2 for y in ys)
    missed = sum((y - curve(x)) ** 2 for x, y in zip(xs, ys, strict=True))
    return Curve(coefficients, curve.low, curve.high, 1 - missed / total if total else 1.0, measure, unit)


def _unscaled(coefficients: Sequence[float], middle: float, half: float) -> tuple[float, ...]:
    """The polynomial in x of one in (x - middle) / half."""
    found = [0.0]
    for coefficient in reversed(coefficients):
        times_x = [0.0, *(one / half for one in found)]
        found = [one - middle / half * other for one, other in zip(times_x, [*found, 0.0], strict=True)]
        found[0] += coefficient
    return tuple(found[: len(coefficients)])


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a curve says about each broker."""

    values: dict[str, float]
    outside: tuple[str, ...]
    """Brokers at which it was read outside the range that it was fitted on."""

    @property
    def total(self) -> float:
        """Of all brokers together."""
        return sum(self.values.values())


def extrapolate(clients: Mapping[str, float], curve: Curve) -> Prediction:
    """What a curve says, given the clients at each broker; warns where it was not fitted."""
    outside = tuple(broker for broker, count in clients.items() if not curve.covers(count))
    if outside:
        counts = [clients[broker] for broker in outside]
        warnings.warn(
            f"{len(outside)} of {len(clients)} brokers have {min(counts):.1f} to {max(counts):.1f} clients, but the "
            f"curve was fitted on {curve.low:.1f} to {curve.high:.1f}: its {curve.measure} there means little",
            OutsideFittedRange,
            stacklevel=2,
        )
    return Prediction({broker: curve(count) for broker, count in clients.items()}, outside)
