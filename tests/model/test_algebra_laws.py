"""The laws of the algebra for whole filters: random ones, tried on every notification of a small world."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from small_world import PLANE, POOL, Blank, accepted, accepted_in_plane, pool, promised_in_plane, shown
from strategies import SOAK, filters, notifications

from tidings.model import Conjunction, Constraint, Filter, Kind, Negated, Notification, kind_of
from tidings.model._algebra import canonical, covers, merge, negation, overlaps, precision, witness
from tidings.model.operators import Equal, Exists, IsNull, Member, Prefix, Range, Within

Conjunctions = tuple[Conjunction, ...]

_OTHER = pool("y")
_THEMES: list[list[str]] = [
    ["equal", "member", "numbers", "not equal", "not in"],
    ["equal", "member", "prefix", "like", "not equal", "not like"],
    ["texts", "prefix", "suffix", "contains", "like", "not like", "not equal"],
    ["equal", "within", "not within", "presence"],
    ["numbers", "not range", "not equal", "presence"],
    list(POOL),
]
"""Operators that have something to say to each other."""


def on_one_attribute(max_size: int = 4) -> SearchStrategy[Conjunction]:
    pools = [[one for operator in theme for one in POOL[operator]] for theme in _THEMES]
    return st.one_of([st.lists(st.sampled_from(some), min_size=1, max_size=max_size) for some in pools]).map(
        Conjunction
    )


def in_the_plane(max_conjunctions: int = 3) -> SearchStrategy[Conjunctions]:
    pools = [[one for operator in theme for one in POOL[operator] + _OTHER[operator]] for theme in _THEMES]
    conjunctions = [st.lists(st.sampled_from(some), max_size=4).map(Conjunction) for some in pools]
    return st.one_of([st.lists(one, max_size=max_conjunctions) for one in conjunctions]).map(tuple)


_SIMPLE = (Equal, Member, Range, Prefix, Within, Exists, IsNull)


def is_simple(conjunction: Conjunction) -> bool:
    """Whether its operators have but one way to write each set."""
    plain = [constraint.inner if isinstance(constraint, Negated) else constraint for constraint in conjunction]
    texts = {type(one) for one in plain if one.kind is Kind.TEXT} - {Equal, Member}
    return all(isinstance(one, _SIMPLE) for one in plain) and len(texts) < 2


@given(on_one_attribute(), on_one_attribute())
@settings(max_examples=500)
def test_a_cover_accepts_what_it_covers(mine: Conjunction, theirs: Conjunction) -> None:
    if covers((mine,), (theirs,)):
        missed = accepted([theirs]) & ~accepted([mine])
        assert not missed, f"{shown(missed)} passes {theirs}, not {mine}"


@given(on_one_attribute(), on_one_attribute(max_size=2))
@settings(max_examples=500)
def test_a_conjunction_covers_every_narrower_one(wide: Conjunction, more: Conjunction) -> None:
    assert covers((wide,), (wide & more,))
    assert covers((wide,), canonical((wide & more,)))


@given(in_the_plane(), in_the_plane())
@settings(max_examples=200)
@pytest.mark.req("ARC-197")
def test_a_disjunction_that_covers_accepts_what_it_covers(mine: Conjunctions, theirs: Conjunctions) -> None:
    if covers(mine, theirs):
        assert not accepted_in_plane(theirs) & ~accepted_in_plane(mine)


@given(in_the_plane(), in_the_plane(), in_the_plane())
@settings(max_examples=150)
@pytest.mark.req("ARC-197")
def test_covering_is_an_order(one: Conjunctions, two: Conjunctions, three: Conjunctions) -> None:
    assert covers(one, one)
    for a, b, c in itertools.permutations((one, two, (*one, *three))):
        assert not (covers(a, b) and covers(b, c)) or covers(a, c)


@given(on_one_attribute(), on_one_attribute(max_size=1))
@settings(max_examples=333)
@example(Filter.parse("NOT x BETWEEN 1 AND 3 AND x >= 1").conjunctions[0], Filter.parse("x >= 2").conjunctions[0])
def test_simple_conjunctions_that_cover_each_other_have_one_canonical_form(one: Conjunction, more: Conjunction) -> None:
    assume("<= ''" not in str(one))  # the same as = '', which the canonical form does not see
    other = one & more
    if is_simple(other) and covers((other,), (one,)):
        assert canonical((one,)) == canonical((other,))


@given(in_the_plane(), in_the_plane())
@settings(max_examples=200)
@pytest.mark.req("ARC-197")
def test_filters_that_do_not_overlap_share_nothing_that_is_promised(mine: Conjunctions, theirs: Conjunctions) -> None:
    assert overlaps(mine, theirs) is overlaps(theirs, mine)
    if not overlaps(mine, theirs):
        assert not accepted_in_plane(mine) & promised_in_plane(theirs)
        assert not promised_in_plane(mine) & accepted_in_plane(theirs)


@given(in_the_plane(), in_the_plane(), st.sampled_from([1.0, 0.9, 0.5, 0.1, 0.0]))
@settings(max_examples=266)
@pytest.mark.req("ARC-197")
def test_a_merger_is_smaller_and_accepts_what_its_parts_accept(
    mine: Conjunctions, theirs: Conjunctions, least: float
) -> None:
    merger = merge(mine, theirs, least)
    assert merge(theirs, mine, least) == merger
    if merger is None:
        return
    wanted = accepted_in_plane((*mine, *theirs))
    assert not wanted & ~accepted_in_plane(merger)
    if least == 1:
        assert accepted_in_plane(merger) == wanted
    if merger not in (mine, theirs):
        assert len(merger) < len(mine) + len(theirs)
        assert covers(merger, (*mine, *theirs))


@given(in_the_plane(), in_the_plane(max_conjunctions=1))
@settings(max_examples=150)
def test_precision_is_a_share(parts: Conjunctions, merger: Conjunctions) -> None:
    assert 0 <= precision(merger, parts) <= 1
    assert precision(parts, parts) == 1


@given(in_the_plane(), st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_the_canonical_form_means_the_same_whatever_the_order(some: Conjunctions, chance: random.Random) -> None:
    form = canonical(some)
    assert accepted_in_plane(form) == accepted_in_plane(some)
    assert canonical(form) == form
    shuffled = [Conjunction(chance.sample(one.constraints, len(one))) for one in (*some, *some[:1])]
    chance.shuffle(shuffled)
    assert list(map(str, canonical(tuple(shuffled)))) == list(map(str, form))
    assert covers(some, form)
    assert covers(form, some)


@given(filters(names=("x", "y"), max_conjunctions=2, max_size=3), notifications(names=("x", "y")))
@settings(max_examples=333)
@pytest.mark.req("VIS-107")
def test_nothing_without_lists_passes_a_filter_and_its_opposite(some: Filter, notification: Notification) -> None:
    opposite = ~some
    if not any(isinstance(value, tuple) for value in notification.values()):
        assert not (some.matches(notification) and opposite.matches(notification))
        if all(_compares(constraint, notification) for one in some.conjunctions for constraint in one):
            assert some.matches(notification) or opposite.matches(notification)


def _compares(constraint: Constraint, notification: Notification) -> bool:
    """Whether the constraint is true or false of the notification, not unknown."""
    if isinstance(constraint, (Exists, IsNull)):
        return True
    return constraint.name in notification and kind_of(notification[constraint.name]) is constraint.kind  # type: ignore[arg-type]


@given(in_the_plane(max_conjunctions=2))
@settings(max_examples=150)
def test_the_opposite_of_the_opposite_passes_no_more_where_nothing_is_missing(some: Conjunctions) -> None:
    twice = negation(negation(some))
    names = {constraint.name for one in some for constraint in one}
    scalars = [point for point in PLANE if not any(isinstance(value, tuple) for value in point.values())]
    for point in scalars:
        if names <= point.keys() and any(conjunction.passes(point) for conjunction in twice):
            assert any(conjunction.passes(point) for conjunction in some)


@given(on_one_attribute())
@example(Conjunction([Negated(Blank("x")), Equal("x", "")]))  # a text that an operator without a kind excludes
@settings(max_examples=333)
def test_a_witness_passes_and_is_found_where_one_exists(conjunction: Conjunction) -> None:
    attributes = witness(conjunction)
    if attributes is None:
        strangers = POOL["newcomer"] + POOL["odd"]  # operators that give no examples
        assert not accepted([conjunction]) or any(one in strangers for one in conjunction)
    else:
        assert conjunction.passes(attributes)


@given(filters(wild=True, max_conjunctions=1))
@settings(max_examples=166)
def test_a_witness_passes_whatever_the_operands(some: Filter) -> None:
    for conjunction in some.conjunctions:
        attributes = witness(conjunction)
        assert attributes is None or conjunction.passes(attributes)
        assert attributes is None or Notification(attributes).attributes == attributes


@pytest.mark.soak
@given(filters(), filters(), notifications())
@settings(SOAK)
def test_all_laws_hold_for_all_filters(one: Filter, two: Filter, notification: Notification) -> None:
    wide = one | two
    assert wide.covers(one)
    assert wide.covers(two)
    for some in (one, two):
        assert some.canonical().matches(notification) is some.matches(notification)
    if one.covers(two):
        assert one.matches(notification) or not two.matches(notification)
    merger = one.merge(two)
    assert merger is None or merger.matches(notification) is wide.matches(notification)
    rough = one.merge(two, precision=0.2)
    assert rough is None or rough.matches(notification) or not wide.matches(notification)


@example(Filter.parse("price > 20 AND a = 3"), Filter.parse("price < 5"))
@example(Filter.parse("price BETWEEN 1 AND 9"), Filter.parse("price >= 9.0 AND b = 1"))
@given(filters(max_conjunctions=1), filters(max_conjunctions=1))
def test_what_two_accept_has_the_form_that_it_has_if_it_is_written_as_one(one: Filter, two: Filter) -> None:
    assert one.meet(two) == (one & two).canonical()
    assert one.meet(two).canonical() == one.meet(two)
