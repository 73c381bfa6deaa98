"""`IN` and `NOT IN`."""

from __future__ import annotations

import pytest

from tidings.model import Filter, FilterError
from tidings.model.operators import Equal, Member, Range


@pytest.mark.parametrize(
    ("cover", "covered"),
    [
        ("x IN (1, 2, 3)", "x IN (1, 3)"),
        ("x IN (1, 2)", "x = 2.0"),
        ("x IN (1, 2)", "x IN (1, 2, 3) AND x <> 3"),
        ("x > 2", "x IN (1, 3) AND x <> 1"),
        ("x = 1 OR x = 2", "x IN (1, 2)"),
        ("x = 1 AND y > 1 OR x = 2", "x IN (1, 2) AND y = 2"),
        ("x NOT IN (1, 2)", "x <> 1 AND x <> 2"),
        ("x NOT IN ('a', 'ab')", "x NOT LIKE 'a%'"),
        ("x LIKE 'a%'", "x IN ('a', 'ab')"),
    ],
)
def test_covers(cover: str, covered: str) -> None:
    assert Filter.parse(cover).covers(Filter.parse(covered))


@pytest.mark.parametrize(
    ("cover", "covered"),
    [
        ("x IN (1, 2)", "x IN (2, 3)"),
        ("x IN (1, 2)", "x BETWEEN 1 AND 2"),
        ("x IN (1, 2) AND x IN (2, 3)", "x IN (1, 3)"),
        ("x = 2", "x IN (1, 2) AND x IN (2, 3)"),  # the list [1, 3]
        ("x = 1 OR x = 2", "x IN (1, 2, 3)"),
        ("x NOT IN (1, 2)", "x <> 1"),
    ],
)
def test_does_not_cover(cover: str, covered: str) -> None:
    assert not Filter.parse(cover).covers(Filter.parse(covered))


@pytest.mark.parametrize(
    ("one", "two", "overlap"),
    [
        ("x IN (1, 2)", "x IN (2, 3)", True),
        ("x IN (1, 2)", "x IN (3, 4)", False),
        ("x IN (1, 2)", "x > 2", False),
        ("x IN (1, 2)", "x NOT IN (1, 2, 3)", False),
        ("x IN (1, 2) AND x <> 1", "x <> 2", False),
        ("x IN (1, 2)", "x IN (2, 3) AND x <> 2", False),
        ("x IN (1, 10)", "x BETWEEN 3 AND 5", True),  # the list [1, 10] passes BETWEEN, and is in IN element by element
    ],
)
def test_overlaps(one: str, two: str, overlap: bool) -> None:
    assert Filter.parse(one).overlaps(Filter.parse(two)) is overlap


def test_unions_of_values() -> None:
    assert Member("x", (1, 2)).union(Member("x", (2, 3))) == Member("x", (1, 2, 3))
    assert Member("x", (1, 2)).union(Equal("x", 3)) == Member("x", (1, 2, 3))
    assert Member("x", (1, 2)).union(Equal("x", "a")) is None
    assert Member("x", (1, 2)).union(Range("x", 1)) == Range("x", 1)
    assert Member("x", (1, 3)).union(Range("x", 1, 3, low_open=True)) is None
    assert Range("x", 1, 3, low_open=True, high_open=True).union(Member("x", (1, 3))) == Range("x", 1, 3)


def test_canonical_filters_write_a_list_in_one_way() -> None:
    assert Filter.parse("x IN (2.0, 1, 2)").canonical() == Filter.parse("x IN (1, 2)")
    assert str(Filter.parse("x IN (2.0)").canonical()) == "x = 2"
    assert str(Filter.parse("x NOT IN (1) AND x <> 2").canonical()) == "x NOT IN (1, 2)"
    assert len(Filter.parse("x IN (1, 2) AND x IN (2, 3)").canonical().conjunctions[0]) == 2


def test_an_empty_list_and_a_list_of_mixed_kinds_are_refused() -> None:
    with pytest.raises(FilterError, match="at least one value"):
        Member("x", ())
    with pytest.raises(FilterError, match="mixes number and text"):
        Member("x", (1, "a"))
