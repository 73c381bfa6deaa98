"""The laws of the algebra for every pair of operators, tried on every value of a small world.

For the operators of the house the answers are not only safe but exact: what the world cannot tell
apart, the algebra does not tell apart either.
"""

from __future__ import annotations

import functools
import itertools

import pytest
from small_world import DOMAIN, EVERY, POOL, accepted, passing, promised, shown

from tidings.model import Conjunction, Constraint
from tidings.model._algebra import canonical, covers, merge, overlaps, precision, witness

PAIRS = list(itertools.product(POOL, POOL))
STRANGERS = {"newcomer", "odd"}
IS_SCALAR = sum(1 << at for at, value in enumerate(DOMAIN) if value is not None and not isinstance(value, tuple))


def each_pair(first: str, second: str) -> list[tuple[Constraint, Constraint]]:
    return list(itertools.product(POOL[first], POOL[second]))


@functools.cache
def one(constraint: Constraint) -> tuple[Conjunction]:
    return (Conjunction((constraint,)),)


for_each_pair_of_operators = pytest.mark.parametrize(("first", "second"), PAIRS, ids=map(" with ".join, PAIRS))


@for_each_pair_of_operators
@pytest.mark.req("VIS-107", "VIS-114", "ARC-197")
def test_what_is_covered_passes_the_cover_and_nothing_less_is_claimed(first: str, second: str) -> None:
    for mine, theirs in each_pair(first, second):
        missed = passing(theirs) & ~passing(mine)
        claimed = covers(one(mine), one(theirs))
        assert not (claimed and missed), f"{mine} does not cover {theirs}: {shown(missed)}"
        if not STRANGERS & {first, second}:
            assert claimed or missed, f"{mine} covers {theirs}"


@for_each_pair_of_operators
@pytest.mark.req("VIS-114", "ARC-197")
def test_filters_that_do_not_overlap_share_nothing_that_is_promised(first: str, second: str) -> None:
    for mine, theirs in each_pair(first, second):
        shared = passing(mine) & promised(passing(theirs)) | promised(passing(mine)) & passing(theirs)
        claimed = overlaps(one(mine), one(theirs))
        assert claimed or not shared, f"{mine} overlaps {theirs}: {shown(shared)}"
        assert claimed is overlaps(one(theirs), one(mine))
        if not any(operator in STRANGERS or operator.startswith("not ") for operator in (first, second)):
            assert shared or not claimed, f"{mine} does not overlap {theirs}"


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations_with_replacement(POOL, 2)))
@pytest.mark.req("VIS-114", "ARC-197")
def test_a_merger_accepts_what_its_parts_accept_and_a_perfect_one_nothing_else(first: str, second: str) -> None:
    for mine, theirs in each_pair(first, second):
        wanted = passing(mine) | passing(theirs)
        parts = (*one(mine), *one(theirs))
        perfect, rough = (merge(one(mine), one(theirs), least) for least in (1.0, 0.2))
        for merger in filter(None, (perfect, rough)):
            missed, extra = wanted & ~accepted(merger), accepted(merger) & ~wanted
            assert len(merger) == 1
            assert not missed, f"{merger} lacks {shown(missed)} of {mine} and {theirs}"
            assert covers(merger, parts)
            if merger == perfect:
                assert not extra, f"{merger} adds {shown(extra)} to {mine} and {theirs}"
            else:
                assert precision(merger, parts) >= 0.2 - 1e-9


@for_each_pair_of_operators
def test_the_relations_of_two_operators_are_true(first: str, second: str) -> None:
    for mine, theirs in each_pair(first, second):
        my_scalars, their_scalars = passing(mine) & IS_SCALAR, passing(theirs) & IS_SCALAR
        if mine.includes(theirs):
            assert not their_scalars & ~my_scalars, f"{mine} does not include {theirs}"
        if theirs.inside((mine,)):
            assert not their_scalars & ~my_scalars, f"{theirs} is not inside {mine}"
        if not mine.meets(theirs):
            assert not my_scalars & their_scalars, f"{mine} meets {theirs}"
        if mine.follows_from(theirs):
            assert not passing(theirs) & ~passing(mine), f"{mine} does not follow from {theirs}"
        if (union := mine.union(theirs)) is not None:
            assert passing(union) == passing(mine) | passing(theirs), f"{union} is not {mine} or {theirs}"
        if (hull := mine.hull(theirs)) is not None:
            assert not (passing(mine) | passing(theirs)) & ~passing(hull), f"{hull} is not around {mine} and {theirs}"


@pytest.mark.parametrize("constraint", EVERY, ids=str)
def test_the_simplest_form_means_the_same(constraint: Constraint) -> None:
    assert passing(constraint.simplest()) == passing(constraint)
    assert str(constraint.simplest().simplest()) == str(constraint.simplest())
    assert accepted(canonical(one(constraint))) == passing(constraint)


@pytest.mark.parametrize("constraint", EVERY, ids=str)
def test_every_example_and_every_witness_passes(constraint: Constraint) -> None:
    assert all(map(constraint.holds, constraint.examples()))
    (conjunction,) = one(constraint)
    attributes = witness(conjunction)
    if attributes is not None:
        assert conjunction.passes(attributes)
    else:
        assert not passing(constraint) or constraint in POOL["newcomer"]


@pytest.mark.parametrize("constraint", EVERY, ids=str)
@pytest.mark.req("VIS-107")
def test_a_missing_attribute_fails_everything_but_is_null(constraint: Constraint) -> None:
    assert constraint.passes(None) is (str(constraint) == "x IS NULL")
