"""`=` and `<>`."""

from __future__ import annotations

import pytest

from tidings.model import Filter, Location, Negated, Value
from tidings.model.operators import Equal, Exists, Member, Prefix, Range, Within


@pytest.mark.parametrize(
    ("value", "operand", "passes"),
    [
        (3, 3, True),
        (3.0, 3, True),
        (2**53 + 1, float(2**53), False),
        (True, 1, False),
        ("3", 3, False),
        (b"a", "a", False),
        (None, 3, False),
        ((), 3, False),
        ((1, 3), 3, True),
        (("3", True), 3, False),
    ],
)
@pytest.mark.req("VIS-107")
def test_equality_is_by_value_within_one_kind_and_means_membership_in_lists(
    value: Value | None, operand: Value, passes: bool
) -> None:
    assert Equal("x", operand).passes(value) is passes  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "passes"),
    [(4, True), (3, False), ("4", False), (None, False), ((), True), ((1, 4), True), ((3, 4), False), (("a",), True)],
)
def test_the_opposite_refuses_other_kinds_but_no_list_without_the_value(value: Value | None, passes: bool) -> None:
    assert Negated(Equal("x", 3)).passes(value) is passes


@pytest.mark.parametrize(
    ("cover", "covered"),
    [
        ("x = 3", "x = 3.0"),
        ("x = 3", "x = 3 AND y = 1"),
        ("x = 3", "x = 3 AND x = 4"),
        ("x = 3", "x IN (3, 4) AND x <> 4"),
        ("x = 'a'", "x LIKE 'a' AND x < 'b'"),
        ("x <> 3", "x NOT IN (2, 3)"),
        ("x <> 3", "x <> 2 AND x <> 3"),
        ("x <> 'ab'", "x NOT LIKE 'a%'"),
        ("x <> LOCATION '/p/q'", "x NOT WITHIN LOCATION '/p'"),
    ],
)
def test_covers(cover: str, covered: str) -> None:
    assert Filter.parse(cover).covers(Filter.parse(covered))


@pytest.mark.parametrize(
    ("cover", "covered"),
    [
        ("x = 3", "x = TRUE"),
        ("x = 3", "x BETWEEN 3 AND 3"),  # the list [2, 4]
        ("x = 3", "x EXISTS"),
        ("x = FALSE", "x <> TRUE"),  # the list ['a']
        ("x <> 5", "x > 5"),  # the list [5, 7]
        ("x <> 5", "x = 6"),  # the list [5, 6]
        ("x <> 5", "x = 'a'"),  # the scalar 'a'
        ("x NOT IN (2, 3)", "x <> 3"),
    ],
)
def test_does_not_cover(cover: str, covered: str) -> None:
    assert not Filter.parse(cover).covers(Filter.parse(covered))


@pytest.mark.parametrize(
    ("one", "two", "overlap"),
    [
        ("x = 1", "x = 2", False),
        ("x = 1", "x = 1.0", True),
        ("x = 1", "x = TRUE", False),
        ("x = 1", "x <> 1", False),
        ("x = 1", "x <> 2", True),
        ("x = 1", "y = 2", True),
        ("x = 1 AND y = 1", "x = 1 AND y = 2", False),
        ("x = 1", "x IS NULL", False),
        ("x <> 1", "x <> 'a'", True),  # the empty list
    ],
)
def test_overlap_understands_lists_element_by_element(one: str, two: str, overlap: bool) -> None:
    assert Filter.parse(one).overlaps(Filter.parse(two)) is overlap


def test_values_of_one_kind_join_into_a_list() -> None:
    assert Equal("x", 1).union(Equal("x", 2)) == Member("x", (1, 2))
    assert Equal("x", 1).union(Member("x", (2, 3))) == Member("x", (1, 2, 3))
    assert Equal("x", 1).union(Equal("x", "a")) is None
    assert Equal("x", 1).union(Equal("x", True)) is None


def test_what_includes_the_value_is_the_union() -> None:
    wide = (Range("x", 0), Exists("x"), Equal("x", 1.0), Member("x", (1, 2)))
    assert [Equal("x", 1).union(one) for one in wide] == [*wide[:2], Equal("x", 1), wide[3]]
    assert Equal("x", "ab").union(Prefix("x", "a")) == Prefix("x", "a")
    assert Equal("x", Location("/p/q")).union(Within("x", Location("/p"))) == Within("x", Location("/p"))


def test_numbers_are_written_plainly_in_canonical_filters() -> None:
    assert str(Equal("x", 3.0).simplest()) == "x = 3"
    assert str(Equal("x", -0.0).simplest()) == "x = 0"
    assert str(Equal("x", 1e300).simplest()) == "x = 1e+300"
    assert str(Equal("x", 10**18).simplest()) == str(Equal("x", 1e18).simplest()) == "x = 1e+18"
    assert str(Equal("x", 2**53 + 1).simplest()) == "x = 9007199254740993"
