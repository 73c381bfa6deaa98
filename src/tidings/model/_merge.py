"""Merging: one filter in place of two.

Theory of operation
-------------------
A *perfect* merger accepts exactly what the two accept. Two conjunctions that differ in one constraint, on
one attribute, are one: `R AND p OR R AND q` is `R AND (p OR q)`, and if `p OR q` is a constraint u for
every value, lists too, then `R AND u` is the merger. Which constraints have such a union the operators
know: values join into `IN`, ranges that touch into one; `IS NULL OR EXISTS` drops out.

An *imperfect* merger accepts more. It keeps, for each attribute that both constrain, what both imply and the
hulls of the rest: ranges grow, texts keep what they have in common, places move up to what is around
both. What nobody can widen usefully becomes EXISTS. It is used only as long as its estimated precision (see
`_precision`) stays above a threshold.

Disjunctions are merged pair by pair, always in the order of their texts, so the result depends on nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from ._canonical import canonical, maximal
from ._conjunction import Conjunction
from ._constraint import Constraint, Negated
from ._cover import covers, follows
from ._effort import Effort
from ._precision import precision
from ._terms import terms_of
from .operators import Exists, IsNull
from .operators.equal import among

MAX_MERGED = 256
"""The most constraints of two filters that are merged; of larger ones, one covers the other or they stay two."""
MAX_WIDENED = 8
"""The most conjunctions that are tried pair by pair for an imperfect merger."""
MAX_HULLS = 16
"""How many pairs of constraints on one attribute are widened to one each; what is left out is not asked for."""
TOLERANCE = 1e-9
"""What an estimate may lack to rounding."""

Conjunctions: TypeAlias = tuple[Conjunction, ...]


def merge(mine: Conjunctions, theirs: Conjunctions, least: float = 1.0) -> Conjunctions | None:
    """One filter of fewer conjunctions for both, at least this precise; None if there is none."""
    with Effort():
        return _merged(mine, theirs, least)


def _merged(mine: Conjunctions, theirs: Conjunctions, least: float) -> Conjunctions | None:
    if covers(mine, theirs):
        mutual = covers(theirs, mine)
        return min(mine, theirs, key=_size) if mutual and mine != theirs else mine
    if covers(theirs, mine):
        return theirs
    if least >= 1 and len(mine) == len(theirs) == 1 and not _alike(mine[0], theirs[0]):
        return None
    if sum(map(len, (*mine, *theirs))) > MAX_MERGED:
        return None
    parts = canonical((*mine, *theirs))
    merged = _perfect(parts)
    if least < 1:
        merged = _widened(merged, parts, least)
    return merged if len(merged) < len(mine) + len(theirs) else None


def _size(conjunctions: Conjunctions) -> tuple[int, list[str]]:
    return len(conjunctions), list(map(str, conjunctions))


def _alike(one: Conjunction, other: Conjunction) -> bool:
    """Whether the two constrain the same attributes, and all but one in the same way."""
    mine, theirs = one.by_name, other.by_name
    if mine.keys() != theirs.keys():
        return False
    different = 0
    for name, constraints in mine.items():
        if theirs[name] != constraints:
            different += 1
    return different == 1


# Perfect mergers.


def _perfect(parts: Conjunctions) -> Conjunctions:
    """The parts, merged as far as no notification is added."""
    while (fewer := _united(parts)) is not None:
        parts = maximal(sorted(fewer, key=str))
    return parts


def _united(parts: Conjunctions) -> list[Conjunction] | None:
    """The parts with at least one group of them merged; None if there is no such group."""
    groups: dict[tuple[str, tuple[Constraint, ...]], list[Constraint]] = {}
    for part in parts:
        for at, constraint in enumerate(part.constraints):
            rest = part.constraints[:at] + part.constraints[at + 1 :]
            groups.setdefault((constraint.name, rest), []).append(constraint)
    left = dict.fromkeys(parts)
    added: list[Conjunction] = []
    for (_, rest), group in groups.items():
        sources = [Conjunction((*rest, constraint)) for constraint in group] if len(group) > 1 else []
        free = [constraint for constraint, part in zip(group, sources, strict=False) if part in left]
        united = _union(free)
        if len(united) < len(free):
            for part in sources:
                left.pop(part, None)
            added += (Conjunction((*rest, *one)) for one in united)
    return [*left, *added] if added else None


def _union(constraints: Sequence[Constraint]) -> list[tuple[Constraint, ...]]:
    """The constraints, joined where that is exact; an empty one if together they pass everything."""
    joined: list[Constraint] = []
    for constraint in constraints:
        one: Constraint | None = constraint
        while one is not None:
            grown = next(((at, u) for at, two in enumerate(joined) if (u := _either(two, one)) is not None), None)
            if grown is None:
                joined.append(one)
                break
            at, one = grown
            del joined[at]
    if any(isinstance(one, IsNull) for one in joined) and any(isinstance(one, Exists) for one in joined):
        return [()]
    return [(one,) for one in joined]


def _either(one: Constraint, two: Constraint) -> Constraint | None:
    union = one.union(two)
    return two.union(one) if union is None else union


# Imperfect mergers.


def _widened(merged: Conjunctions, parts: Conjunctions, least: float) -> Conjunctions:
    """The conjunctions, with pairs replaced by their hulls, the most precise first."""
    while 1 < len(merged) <= MAX_WIDENED:
        hulls = (
            (precision((hull,), parts), hull, (one, two))
            for one, two in itertools.combinations(merged, 2)
            for hull in canonical((_hull(one, two),))
        )
        good = [found for found in hulls if found[0] >= least - TOLERANCE]
        if not good:
            break
        _, hull, pair = min(good, key=lambda found: (-found[0], str(found[1])))
        merged = maximal(sorted((hull, *(one for one in merged if one not in pair)), key=str))
    return merged


def _hull(one: Conjunction, two: Conjunction) -> Conjunction:
    """A conjunction that covers both."""
    shared = (name for name in one.by_name if name in two.by_name)
    return Conjunction(
        constraint for name in shared for constraint in _wider(name, one.by_name[name], two.by_name[name])
    )


def _wider(name: str, mine: Sequence[Constraint], theirs: Sequence[Constraint]) -> Iterator[Constraint]:
    """Constraints on one attribute that both sides imply."""
    my_terms, their_terms = terms_of(mine), terms_of(theirs)
    my_rest = [one for one in mine if not follows(terms_of((one,)), their_terms)]
    their_rest = [one for one in theirs if not follows(terms_of((one,)), my_terms)]
    found = False
    for one in (*mine, *theirs):
        if one not in my_rest and one not in their_rest:
            found = True
            yield one
    pairs = itertools.product(my_rest, their_rest)
    for one, two in itertools.islice(pairs, MAX_HULLS):
        if (hull := _around(one, two)) is not None:
            found = True
            yield hull
    if not found and not (my_terms.null or their_terms.null):
        yield Exists(name)


def _around(one: Constraint, two: Constraint) -> Constraint | None:
    if isinstance(one, Negated) and isinstance(two, Negated):
        return _excluded_by_both(one.inner, two.inner)
    hull = one.hull(two)
    return two.hull(one) if hull is None else hull


def _excluded_by_both(one: Constraint, two: Constraint) -> Constraint | None:
    if one.kind is not two.kind:  # what only one of them excludes: scalars of other kinds
        return None
    for first, second in ((one, two), (two, one)):
        if first.inside((second,)):
            return Negated(first)
        if first.values is not None and (common := tuple(filter(second.holds, first.values))):
            return Negated(among(one.name, common))
    return None
