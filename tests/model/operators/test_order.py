"""`<`, `<=`, `>`, `>=`, `BETWEEN`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import pytest

from tidings.model import Filter, FilterError, Negated, Scalar, Value
from tidings.model.operators import Equal, Member, Prefix, Range


@pytest.mark.parametrize(
    ("value", "passes"),
    [(3, True), (5.0, True), (2, False), ("4", False), (None, False), ((), False), ((4,), True), ((2, 10), True)],
)
@pytest.mark.req("VIS-107")
def test_each_bound_asks_for_some_element(value: Value | None, passes: bool) -> None:
    assert Range("x", 3, 5).passes(value) is passes


@pytest.mark.parametrize(
    ("cover", "covered"),
    [
        ("x > 10", "x = 20"),
        ("x >= 10", "x > 10"),
        ("x > 10", "x > 10.0"),
        ("x > 10", "x BETWEEN 11 AND 12"),
        ("x BETWEEN 1 AND 9", "x BETWEEN 2 AND 9"),
        ("x BETWEEN 1 AND 9", "x = 5"),
        ("x BETWEEN 1 AND 9", "x > 2 AND x < 3 AND y = 1"),
        ("x BETWEEN 1 AND 9", "x = 5 AND x = 20"),
        ("x > 3", "x >= 3 AND x <> 3"),
        ("x > 3 AND x < 5", "x BETWEEN 3 AND 5 AND x NOT IN (3, 5)"),
        ("x >= 'ab'", "x LIKE 'ab%'"),
        ("x < 'ac'", "x LIKE 'ab%'"),
        ("x >= ''", "x LIKE '%a%'"),
        ("x >= 9007199254740993", "x > 9007199254740992.0 AND x = 9007199254740993"),
        ("x > TIMESTAMP '2026-01-01T00:00:00Z'", "x >= TIMESTAMP '2026-01-02T00:00:00Z'"),
        ("x < X'61'", "x = X''"),
        ("x > 5", "x < ''"),  # nothing is less than the empty text
    ],
)
def test_covers(cover: str, covered: str) -> None:
    assert Filter.parse(cover).covers(Filter.parse(covered))


@pytest.mark.parametrize(
    ("cover", "covered"),
    [
        ("x > 10", "x >= 10"),
        ("x > 10", "x < 20"),
        ("x > 10", "x = 'z'"),
        ("x BETWEEN 1 AND 9", "x > 1"),
        ("x = 3", "x >= 3 AND x <= 3"),  # the list [2, 4]
        ("x > 'ab'", "x LIKE 'ab%'"),
        ("x <= 'ac'", "x LIKE 'ac%'"),
        ("x LIKE 'ab%'", "x >= 'ab' AND x < 'ac'"),  # the list ['b', 'a']
        ("x <> 3", "x > 3 AND x < 5"),
    ],
)
def test_does_not_cover(cover: str, covered: str) -> None:
    assert not Filter.parse(cover).covers(Filter.parse(covered))


@pytest.mark.parametrize(
    ("one", "two", "overlap"),
    [
        ("x > 3", "x < 3", False),
        ("x >= 3", "x <= 3", True),
        ("x >= 3", "x <= 3 AND x <> 3", False),
        ("x BETWEEN 1 AND 3", "x BETWEEN 4 AND 5", False),
        ("x BETWEEN 1 AND 3", "x BETWEEN 2 AND 5", True),
        ("x > 3", "x < 'a'", False),
        ("x < 'ab'", "x LIKE 'ab%'", False),
        ("x < 'b'", "x LIKE 'ab%'", True),
        ("x BETWEEN 3 AND 5", "x = 1 OR x = 10", True),  # promises the list [1, 10]
        ("x BETWEEN 3 AND 5", "x = 1 OR x = 2", False),
        ("x > 3", "x <> 4", True),
    ],
)
def test_overlaps(one: str, two: str, overlap: bool) -> None:
    assert Filter.parse(one).overlaps(Filter.parse(two)) is overlap
    assert Filter.parse(two).overlaps(Filter.parse(one)) is overlap


@pytest.mark.parametrize(
    ("one", "two", "union"),
    [
        (Range("x", 3, 5), Range("x", 5, 8), Range("x", 3, 8)),
        (Range("x", 3, 5, high_open=True), Range("x", 5, 8), Range("x", 3, 8)),
        (Range("x", 3, 5, high_open=True), Range("x", 5, 8, low_open=True), None),
        (Range("x", 3, 5), Range("x", 6, 8), None),
        (Range("x", 3, 9), Range("x", 5, 8), Range("x", 3, 9)),
        (Range("x", 3), Range("x", 1, 4), Range("x", 1)),
        (Range("x", 3), Range("x", None, 4), None),
        (Range("x", 3), Range("x", 5), Range("x", 3)),
        (Range("x", 3, low_open=True), Equal("x", 3), Range("x", 3)),
        (Range("x", 3, 5, high_open=True), Equal("x", 5), Range("x", 3, 5)),
        (Range("x", 3, 5), Equal("x", 6), None),
        (Range("x", 3, 2, low_open=True), Equal("x", 3), None),
        (Range("x", 3, 5), Range("x", "a", "b"), None),
    ],
)
def test_ranges_that_overlap_or_touch_are_one(one: Range, two: Range, union: Range | None) -> None:
    assert one.union(two) == union
    assert two.union(one) == union or isinstance(two, Equal)


@pytest.mark.parametrize(
    ("one", "two", "hull"),
    [
        (Range("x", 3, 5), Range("x", 7, 9, high_open=True), Range("x", 3, 9, high_open=True)),
        (Range("x", 3, 5), Range("x", 7), Range("x", 3)),
        (Range("x", None, 5), Range("x", 7), None),
        (Range("x", 3, 5), Member("x", (1, 9)), Range("x", 1, 9)),
        (Range("x", 3, 5), Equal("x", "a"), None),
        (Range("x", "a", "b"), Prefix("x", "c"), None),
    ],
)
def test_the_hull_reaches_from_the_lowest_to_the_highest(one: Range, two: Range, hull: Range | None) -> None:
    assert one.hull(two) == hull


@pytest.mark.parametrize(
    ("some", "others", "inside"),
    [
        (Range("x", 1, 5), (Range("x", 1, 3), Range("x", 3, 5)), True),
        (Range("x", 1, 5), (Range("x", 1, 3, high_open=True), Range("x", 3, 5, low_open=True)), False),
        (Range("x", 1, 5), (Range("x", 1, 3, high_open=True), Range("x", 3, 5, low_open=True), Equal("x", 3)), True),
        (Range("x", 1), (Range("x", 1, 9), Range("x", 8)), True),
        (Range("x", 1), (Range("x", 1, 9),), False),
        (Range("x", None, ""), (), False),
        (Range("x", None, "", high_open=True), (), True),
        (Range("x", sys.float_info.max, low_open=True), (), True),
        (Range("x", None, datetime.min.replace(tzinfo=UTC), high_open=True), (), True),
    ],
)
def test_ranges_laid_side_by_side_leave_a_gap_or_none(some: Range, others: tuple[Range, ...], inside: bool) -> None:
    assert some.inside(others) is inside


@pytest.mark.parametrize("low", [0, 2.5, 2**63 - 1, -1e308, "b", b"b", datetime(2026, 1, 1, tzinfo=UTC)])
def test_there_are_examples_right_beside_an_open_bound(low: Scalar) -> None:
    assert list(Range("x", low, low_open=True).examples())
    assert list(Range("x", None, low, high_open=True).examples())


def test_a_canonical_conjunction_has_one_range_of_a_kind() -> None:
    same = ["x BETWEEN 3 AND 5", "x <= 5 AND x >= 3", "x >= 3.0 AND x <= 5 AND x > 2 AND x BETWEEN 1 AND 9"]
    assert len({Filter.parse(text).id for text in same}) == 1
    assert Filter.parse("x >= 3 AND x <> 3").canonical() == Filter.parse("x > 3 AND x <> 3").canonical()
    assert Filter.parse("x > 1 AND x = 5").canonical() == Filter.parse("x = 5")
    assert len(Filter.parse("x > 1 AND x > 'a'").canonical().conjunctions[0]) == 2


def test_the_opposite_of_a_bound_is_the_other_side() -> None:
    assert ~Filter.parse("x > 5") == Filter.parse("x <= 5")
    assert ~Filter.parse("x BETWEEN 3 AND 5") == Filter.parse("x < 3 OR x > 5")
    assert ~Filter([]) == Filter.parse("TRUE")
    assert Negated(Range("x", 3)).passes((1, 2))


def test_what_has_no_order_is_refused() -> None:
    for low, high in ((True, None), (None, None), (1, "a")):
        with pytest.raises(FilterError):
            Range("x", low, high)
