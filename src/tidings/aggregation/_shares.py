"""Shares: how a bound on the error of a value is divided between a broker and the brokers below it.

Theory of operation
-------------------
A broker that has to know a value within a bound T gets what its neighbours know, each within its share, and keeps a
share for itself: the *slack*, by which what it has told may differ from what it knows. Where errors add up, slack and
shares together must not exceed T; then the error of what is told never does, by induction over the tree.

Where the function is idempotent (a maximum), errors of neighbours do not add up, but the slack of a broker still comes
on top of the error of what it was told: along a path they add up. So each neighbour gets all that the broker does not
keep, and a broker keeps an equal part of what is left for each level below it.

With `ADAPTIVE`, shares follow the load. Something that changes at random by v a second is told about v / s^2 times a
second if its share is s; so how often a neighbour tells, and its share, give v. The fewest updates in all come with
shares that are as the cube roots of these. A broker looks again whenever a neighbour has told `ADAPT_AFTER` times, and
leaves shares alone that are about right: each other share is a message, and a narrower one may be an update.

If distances are whole numbers, a share below 1 suppresses nothing. Then whole units are given out, and what remains
goes to the neighbours that have told most.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import NamedTuple

from tidings.model import ArgumentRefused

_CAUTION = 1 - 1e-12
"""What a share loses, so that shares never add up to more than the bound because of rounding."""


_PARTS = 1_000_000
"""Into how many parts a bound is divided by need."""
ADAPT_AFTER = 16
"""After how many updates of a neighbour a broker looks whether shares should be others."""
TOLERANCE = 0.25
"""The part by which a share may be too small or too large."""


class Policy(enum.Enum):
    """How a bound is divided."""

    UNIFORM = "uniform"
    """The broker and each neighbour below it get the same."""
    LEAF = "leaf"
    """Brokers at the ends of the tree get everything, all the same."""
    SIZE = "size"
    """Every broker below gets the same, however far away."""
    ADAPTIVE = "adaptive"
    """The broker keeps the same as if all were equal; neighbours that tell more often get more of the rest."""
    WHOLE = "whole"
    """Each neighbour gets all that the broker does not keep: for functions whose errors do not add up."""


class Below(NamedTuple):
    """What lies behind a neighbour, seen from one broker."""

    brokers: int = 1
    leaves: int = 1
    """Those of them at the ends of the tree."""
    height: int = 1
    """The most links from this broker to one of them."""
    told: int = 0
    """How often the neighbour has told something lately."""
    share: float = 0
    """What it was given before; 0: nothing."""


class Split(NamedTuple):
    """What becomes of a bound."""

    slack: float
    """What the broker keeps."""
    shares: tuple[float, ...]
    """What each neighbour gets."""


def split(policy: Policy, bound: float, below: Sequence[Below], *, whole_units: bool) -> Split:
    """Divide a bound.

    >>> split(Policy.UNIFORM, 7, [Below(told=1), Below(told=5)], whole_units=True)
    Split(slack=2, shares=(2, 3))
    """
    if not below:
        return Split(math.floor(bound) if whole_units else bound, ())
    if policy is Policy.WHOLE:
        own = bound / (1 + max(one.height for one in below))
        own = math.floor(own) if whole_units else own * _CAUTION
        return Split(own, tuple(_rest(bound, own, whole_units) for _ in below))
    weights = _weights(policy, below, bound)
    if not whole_units:
        slack, *shares = (bound * weight / sum(weights) * _CAUTION for weight in weights)
        return Split(slack, tuple(shares))
    return _in_units(math.floor(bound), weights, below)


def _rest(bound: float, own: float, whole_units: bool) -> float:
    return math.floor(bound) - own if whole_units else (bound - own) * _CAUTION


def is_about_right(policy: Policy, bound: float, below: Sequence[Below]) -> bool:
    """Whether the shares that neighbours have are near those that they would be given."""
    shares = split(policy, bound, below, whole_units=False).shares
    return all(abs(new - one.share) <= max(1, TOLERANCE * one.share) for new, one in zip(shares, below, strict=True))


def _weights(policy: Policy, below: Sequence[Below], bound: float) -> list[int]:
    """That of the broker itself, and of each neighbour."""
    match policy:
        case Policy.LEAF:
            return [0, *(one.leaves for one in below)]
        case Policy.SIZE:
            return [1, *(one.brokers for one in below)]
        case Policy.ADAPTIVE if any(one.told for one in below):
            even = bound / (len(below) + 1)
            needs = [math.cbrt((one.told + 1) * max(one.share or even, 0.5) ** 2) for one in below]
            parts = [round(_PARTS * need / sum(needs)) for need in needs]
            return [round(_PARTS / len(below)), *parts]
        case _:
            return [1] * (len(below) + 1)


def _in_units(bound: int, weights: list[int], below: Sequence[Below]) -> Split:
    whole = sum(weights)
    slack, *shares = (bound * weight // whole for weight in weights)
    left = bound - slack - sum(shares)  # at most one for each neighbour
    busiest = sorted(range(len(below)), key=lambda at: -below[at].told)
    for at in busiest[:left]:
        shares[at] += 1
    return Split(slack, tuple(shares))


def check_bound(given: object) -> float:
    """A bound on an error, or `ArgumentRefused`."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < math.inf:
        raise ArgumentRefused(f"max_error={given!r:.60}; give a number, 0 or above: 0 asks for the exact value")
    return given or 0  # one zero for all who ask for the exact value
