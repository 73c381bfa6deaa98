"""`LIKE '%abc%'`."""

from __future__ import annotations

import pytest

from tidings.model import Filter


@pytest.mark.parametrize(
    ("cover", "covered", "covers"),
    [
        ("x LIKE '%b%'", "x LIKE '%abc%'", True),
        ("x LIKE '%b%'", "x LIKE 'ab%'", True),
        ("x LIKE '%b%'", "x LIKE '%b'", True),
        ("x LIKE '%b%'", "x = 'abc'", True),
        ("x LIKE '%b%'", "x LIKE '_b_'", True),
        ("x LIKE '%ab%'", "x LIKE '%a%b%'", False),
        ("x LIKE '%ab%'", "x LIKE '%a_b%'", False),
        ("x LIKE '%abc%'", "x LIKE '%b%'", False),
        ("x NOT LIKE '%abc%'", "x NOT LIKE '%b%'", True),
        ("x NOT LIKE '%b%'", "x <> 'b'", False),
    ],
)
def test_covering(cover: str, covered: str, covers: bool) -> None:
    assert Filter.parse(cover).covers(Filter.parse(covered)) is covers


@pytest.mark.parametrize(
    ("one", "two", "overlap"),
    [
        ("x LIKE '%ab%'", "x LIKE '%c%'", True),
        ("x LIKE '%ab%'", "x LIKE '_'", False),
        ("x LIKE '%ab%'", "x LIKE 'c%'", True),
        ("x LIKE '%ab%'", "x = 'ba'", False),
        ("x LIKE '%ab%'", "x NOT LIKE '%a%'", False),
    ],
)
def test_overlaps(one: str, two: str, overlap: bool) -> None:
    assert Filter.parse(one).overlaps(Filter.parse(two)) is overlap
