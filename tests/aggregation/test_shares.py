"""Bounds are divided, and never given twice."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.aggregation import Below, Policy, check_bound, split
from tidings.model import ArgumentRefused

bounds = st.one_of(st.integers(0, 1_000), st.floats(0, 1_000))
below = st.lists(
    st.builds(Below, st.integers(1, 50), st.integers(1, 20), st.integers(1, 9), st.integers(0, 99)), max_size=8
)
ADDING = (Policy.UNIFORM, Policy.LEAF, Policy.SIZE)


@pytest.mark.req("AGG-077")
@given(st.sampled_from(ADDING), bounds, below, st.booleans())
def test_where_errors_add_up_everything_given_is_within_the_bound(
    policy: Policy, bound: float, below: list[Below], whole: bool
) -> None:
    slack, shares = split(policy, bound, below, whole_units=whole)
    assert min((slack, *shares)) >= 0
    assert slack + sum(shares) <= bound
    if whole:
        assert slack + sum(shares) == math.floor(bound)
        assert all(float(one).is_integer() for one in (slack, *shares))


@given(bounds, below, st.booleans())
def test_where_errors_do_not_add_up_each_neighbour_gets_all_that_is_not_kept(
    bound: float, below: list[Below], whole: bool
) -> None:
    slack, shares = split(Policy.WHOLE, bound, below, whole_units=whole)
    assert all(slack + share <= bound for share in shares)
    if whole and below:
        assert set(shares) == {math.floor(bound) - slack}


def test_the_uniform_policy_gives_everybody_the_same() -> None:
    assert split(Policy.UNIFORM, 2, [Below()], whole_units=True) == (1, (1,))
    assert split(Policy.UNIFORM, 9, [Below(), Below()], whole_units=True) == (3, (3, 3))


@pytest.mark.req("AGG-076")
def test_the_bound_of_a_sum_is_divided_and_that_of_a_maximum_is_not() -> None:
    """Added up, the parts of n neighbours and the broker make the bound; of a maximum, each part may be nearly all."""
    for neighbours in (1, 2, 3, 5):
        below = [Below()] * neighbours
        slack, shares = split(Policy.UNIFORM, 60, below, whole_units=True)
        assert (slack, set(shares)) == (60 / (neighbours + 1), {60 / (neighbours + 1)})
        slack, shares = split(Policy.WHOLE, 60, below, whole_units=True)
        assert max(slack + share for share in shares) == 60
        assert len(set(shares)) == 1
        assert shares[0] == split(Policy.WHOLE, 60, [Below()], whole_units=True).shares[0], "however many there are"


def test_units_that_remain_go_to_those_that_tell_most() -> None:
    neighbours = [Below(told=1), Below(told=9), Below(told=5)]
    assert split(Policy.UNIFORM, 6, neighbours, whole_units=True) == (1, (1, 2, 2))
    assert split(Policy.UNIFORM, 1, neighbours, whole_units=True) == (0, (0, 1, 0))


def test_the_leaf_policy_keeps_nothing_but_at_the_ends() -> None:
    """The example of the theory: of a bound of 2, b1 and b4 keep nothing, b2 and b3 get 1 each."""
    assert split(Policy.LEAF, 2, [Below(brokers=4, leaves=2)], whole_units=True) == (0, (2,))
    assert split(Policy.LEAF, 2, [Below(leaves=1), Below(leaves=1, brokers=2)], whole_units=True) == (0, (1, 1))
    assert split(Policy.LEAF, 1, [], whole_units=True) == (1, ())


def test_the_size_policy_gives_every_broker_the_same_however_far_away() -> None:
    assert split(Policy.SIZE, 16, [Below(brokers=3), Below(brokers=12)], whole_units=True) == (1, (3, 12))


@pytest.mark.parametrize("bad", [-1, -0.5, math.nan, math.inf, "5", None, True])
def test_a_bound_below_zero_or_not_a_number_is_refused(bad: object) -> None:
    with pytest.raises(ArgumentRefused, match="max_error"):
        check_bound(bad)
