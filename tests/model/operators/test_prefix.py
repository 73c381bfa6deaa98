"""`LIKE 'abc%'`."""

from __future__ import annotations

import pytest

from tidings.model import Filter
from tidings.model.operators import Equal, Member, Prefix, Range, Suffix, like


@pytest.mark.parametrize(
    ("cover", "covered"),
    [
        ("x LIKE 'a%'", "x LIKE 'ab%'"),
        ("x LIKE 'a%'", "x = 'abc'"),
        ("x LIKE 'a%'", "x LIKE 'ab_d%e'"),
        ("x LIKE 'a%'", "x IN ('a', 'b') AND x <> 'b'"),
        ("x LIKE '%'", "x LIKE '%a'"),
        ("x LIKE '%'", "x > 'a'"),
        ("x NOT LIKE 'ab%'", "x NOT LIKE 'a%'"),
        ("x NOT LIKE 'ab%'", "x NOT LIKE 'a%' AND y = 1"),
    ],
)
def test_covers(cover: str, covered: str) -> None:
    assert Filter.parse(cover).covers(Filter.parse(covered))


@pytest.mark.parametrize(
    ("cover", "covered"),
    [
        ("x LIKE 'ab%'", "x LIKE 'a%'"),
        ("x LIKE 'ab%'", "x LIKE 'a_%'"),
        ("x LIKE 'a%'", "x LIKE '%a%'"),
        ("x LIKE '%'", "x EXISTS"),
        ("x LIKE '%'", "x <> 'a'"),  # the empty list
        ("x LIKE 'a%'", "x BETWEEN 'a' AND 'ab'"),  # the list ['', 'b']
        ("x NOT LIKE 'a%'", "x NOT LIKE 'ab%'"),
    ],
)
def test_does_not_cover(cover: str, covered: str) -> None:
    assert not Filter.parse(cover).covers(Filter.parse(covered))


@pytest.mark.parametrize(
    ("one", "two", "overlap"),
    [
        ("x LIKE 'a%'", "x LIKE 'ab%'", True),
        ("x LIKE 'a%'", "x LIKE 'b%'", False),
        ("x LIKE 'a%'", "x LIKE '%b'", True),
        ("x LIKE 'ab%'", "x LIKE '_a%'", False),
        ("x LIKE 'ab%'", "x = 'a'", False),
        ("x LIKE 'ab%'", "x > 'b'", False),
        ("x LIKE 'ab%'", "x NOT LIKE 'a%'", False),
        ("x LIKE 'a%'", "x NOT LIKE 'ab%'", True),
        ("x LIKE 'a%'", "x > 3", False),
    ],
)
def test_overlaps(one: str, two: str, overlap: bool) -> None:
    assert Filter.parse(one).overlaps(Filter.parse(two)) is overlap
    assert Filter.parse(two).overlaps(Filter.parse(one)) is overlap


def test_the_hull_is_the_common_start() -> None:
    assert Prefix("x", "abc").hull(Prefix("x", "abd")) == Prefix("x", "ab")
    assert Prefix("x", "abc").hull(Equal("x", "ax")) == Prefix("x", "a")
    assert Prefix("x", "abc").hull(Member("x", ("abd", "abx"))) == Prefix("x", "ab")
    assert Prefix("x", "abc").hull(Prefix("x", "b")) is None
    assert Prefix("x", "abc").hull(Equal("x", 3)) is None
    assert Prefix("x", "abc").hull(Range("x", "a")) == Range("x", "a")
    assert like("x", "ab_%").hull(Prefix("x", "abd")) == like("x", "ab_%")
    assert type(like("x", "ab_").hull(Prefix("x", "abd"))) is Prefix
    assert Prefix("x", "a").hull(Suffix("x", "a")) is None


def test_the_union_is_the_shorter_one() -> None:
    assert Prefix("x", "abc").union(Prefix("x", "a")) == Prefix("x", "a")
    assert Prefix("x", "abc").union(Prefix("x", "abd")) is None
