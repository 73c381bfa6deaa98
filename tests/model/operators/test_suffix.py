"""`LIKE '%abc'`."""

from __future__ import annotations

import pytest

from tidings.model import Filter
from tidings.model.operators import Equal, Suffix, like


@pytest.mark.parametrize(
    ("cover", "covered", "covers"),
    [
        ("x LIKE '%b'", "x LIKE '%ab'", True),
        ("x LIKE '%b'", "x = 'ab'", True),
        ("x LIKE '%b'", "x LIKE 'a%_b'", True),
        ("x LIKE '%b'", "x LIKE '%b%'", False),
        ("x LIKE '%ab'", "x LIKE '%b'", False),
        ("x LIKE '%ab'", "x LIKE '%_b'", False),
        ("x LIKE '%b'", "x = 'ba'", False),
        ("x NOT LIKE '%ab'", "x NOT LIKE '%b'", True),
    ],
)
def test_covering(cover: str, covered: str, covers: bool) -> None:
    assert Filter.parse(cover).covers(Filter.parse(covered)) is covers


@pytest.mark.parametrize(
    ("one", "two", "overlap"),
    [
        ("x LIKE '%b'", "x LIKE '%ab'", True),
        ("x LIKE '%b'", "x LIKE '%a'", False),
        ("x LIKE '%ab'", "x LIKE '_'", False),
        ("x LIKE '%ab'", "x LIKE 'b%'", True),
        ("x LIKE '%b'", "x IN ('a', 'ba')", False),
    ],
)
def test_overlaps(one: str, two: str, overlap: bool) -> None:
    assert Filter.parse(one).overlaps(Filter.parse(two)) is overlap


def test_the_hull_is_the_common_end() -> None:
    assert Suffix("x", "xyz").hull(Suffix("x", "ayz")) == Suffix("x", "yz")
    assert Suffix("x", "xyz").hull(Equal("x", "z")) == Suffix("x", "z")
    assert type(Suffix("x", "xyz").hull(like("x", "a%yz"))) is Suffix
    assert Suffix("x", "a").hull(Suffix("x", "b")) is None
