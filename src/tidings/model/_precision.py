"""Shares: how much of what a merger accepts was asked for, by an estimate.

Theory of operation
-------------------
Nobody knows the traffic beforehand, so the estimate assumes what the first query optimisers assumed
(Selinger et al., System R, 1979) when they knew nothing: attributes are independent, values spread evenly,
and each operator lets a fixed share of an attribute's values pass:

    =, IN     1/10 for each value, 1/2 at most          LIKE, WITHIN   1/10
    <, >=     1/3                                       IS NULL        1/10
    BETWEEN   1/4                                       EXISTS         1
    anything unknown 1/3, an opposite what is left      each further character or level 1/10

Where the merger has the same sort of operator on the attribute, the share is measured instead: values are
counted, the lengths of ranges of numbers and times divided.

The *volume* of a part within a merger is the product of its shares over all attributes. The wanted volume
of several parts is their sum less what each two have in common. That is exact for two parts, and for
more never too large (Bonferroni), so neither is the precision: wanted volume by accepted volume.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ._conjunction import Conjunction
from ._constraint import Constraint, Negated
from ._cover import conjunction_covers, possible
from ._effort import Effort
from ._location import Location
from .operators import Exists, IsNull, Like, Range, Within
from .operators.equal import among

MAX_PARTS = 64
"""How many parts of a merger are measured; more can only make it more precise."""

ONE_OF_TEN = 1 / 10
ONE_SIDED = 1 / 3
TWO_SIDED = 1 / 4
UNKNOWN = 1 / 3


def precision(merger: tuple[Conjunction, ...], parts: tuple[Conjunction, ...]) -> float:
    """The estimated share of wanted notifications among those that the merger accepts.

    `parts` is what was wanted: all conjunctions of the filters that the merger stands for. The least
    precise conjunction of the merger counts.
    """
    with Effort():
        return min((_precision(one, parts) for one in merger if possible(one)), default=1.0)


def _precision(merger: Conjunction, parts: tuple[Conjunction, ...]) -> float:
    inside = {str(part): part for part in parts if conjunction_covers(merger, part)}
    if any(conjunction_covers(part, merger) for part in inside.values()):
        return 1.0
    measured = [inside[text] for text in sorted(inside)][:MAX_PARTS]
    volumes = [_volume(merger, part) for part in measured]
    common = sum(_volume(merger, one, two) for one, two in itertools.combinations(measured, 2))
    return min(1.0, max((*volumes, sum(volumes) - common), default=0.0))


def _volume(merger: Conjunction, *parts: Conjunction) -> float:
    """The share of what the merger accepts that all parts accept."""
    names = dict.fromkeys(name for part in parts for name in part.by_name)
    return math.prod(
        _portion(
            [constraint for part in parts for constraint in part.by_name.get(name, ())],
            merger.by_name.get(name, ()),
        )
        for name in names
    )


def _portion(constraints: Sequence[Constraint], accepted: Sequence[Constraint]) -> float:
    """The share of what is accepted of one attribute that passes all constraints."""
    further = [one for one in dict.fromkeys(constraints) if one not in accepted]
    if any(isinstance(one, IsNull) for one in further):
        return ONE_OF_TEN if len(further) == 1 else 0.0
    narrow = _narrowest(further)
    if any(one.inside(()) for one in narrow):
        return 0.0
    if any(not one.meets(two) for one, two in itertools.combinations(narrow, 2)):
        return 0.0
    return math.prod(
        max((_part(one, whole) for whole in accepted if whole.includes(one)), default=share(one)) for one in narrow
    )


def _narrowest(constraints: list[Constraint]) -> list[Constraint]:
    """Fewer constraints for the same scalars, where that is easy to see."""
    for one in constraints:
        if one.values is not None:
            common = tuple(value for value in one.values if all(other.holds(value) for other in constraints))
            return [among(one.name, common)] if common else constraints
    kept: list[Constraint] = []
    for one in constraints:
        for at, other in enumerate(kept):
            if isinstance(one, Range) and isinstance(other, Range) and one.kind is other.kind:
                kept[at] = one.intersection(other)
                break
            if one.includes(other):
                break
            if other.includes(one):
                kept[at] = one
                break
        else:
            kept.append(one)
    return kept


def share(constraint: Constraint) -> float:
    """The assumed share of an attribute's values that pass."""
    match constraint:
        case Negated(inner=inner):
            return 1 - share(inner)
        case Exists():
            return 1.0
        case Range():
            return ONE_SIDED if constraint.low is None or constraint.high is None else TWO_SIDED
        case Like() | Within() | IsNull():
            return ONE_OF_TEN
    if constraint.values is not None:
        return min(1 / 2, len(constraint.values) * ONE_OF_TEN)
    return UNKNOWN


def _part(part: Constraint, whole: Constraint) -> float:
    """The share of the scalars of `whole` that pass `part`, which is included in it."""
    count = None if part.values is None else len(part.values)
    if whole.values:
        return 1.0 if count is None else count / len(whole.values)
    match whole, part:
        case Range(), Range() if (length := _length(whole)) is not None:
            return (_length(whole.intersection(part)) or 0.0) / length
        case Range(), _ if count is not None and _length(whole) is not None:
            return 0.0
        case Like(), Like():
            return _narrowed(len(part.head + part.tail) - len(whole.head + whole.tail))
        case Within(place=Location() as outer), Within(place=Location() as inner):
            return _narrowed(len(inner.parts) - len(outer.parts))
    return share(part) / share(whole) if share(part) < share(whole) else 1.0


def _narrowed(levels: int) -> float:
    return ONE_OF_TEN ** max(levels, 0)


def _length(range: Range) -> float | None:
    """How long a range is; None if it has no end or cannot be measured."""
    if range.low is None or range.high is None:
        return None
    low, high = _measured(range.low), _measured(range.high)
    length = high - low if low is not None and high is not None else 0.0
    return length if 0 < length < math.inf else None


def _measured(bound: Any) -> float | None:
    if isinstance(bound, datetime):
        return bound.timestamp()
    return float(bound) if isinstance(bound, (int, float)) else None
