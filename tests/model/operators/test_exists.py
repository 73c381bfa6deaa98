"""`EXISTS` and `IS NULL`."""

from __future__ import annotations

import pytest

from tidings.model import Filter
from tidings.model.operators import Equal, Exists, IsNull, Range


@pytest.mark.parametrize(
    ("cover", "covered", "covers"),
    [
        ("x EXISTS", "x = 1", True),
        ("x EXISTS", "x <> 1", True),
        ("x EXISTS", "x BETWEEN 1 AND 2", True),
        ("x EXISTS", "x = 'a' OR x > 3", True),
        ("x IS NULL", "x IS NULL AND y = 1", True),
        ("y = 1", "x IS NULL AND x EXISTS", True),  # which nothing passes
        ("x EXISTS", "x IS NULL", False),
        ("x IS NULL", "x EXISTS", False),
        ("x IS NULL", "y = 1", False),
        ("x EXISTS", "y = 1", False),
        ("x IS NULL AND x = 1", "x IS NULL", False),
    ],
)
def test_covering(cover: str, covered: str, covers: bool) -> None:
    assert Filter.parse(cover).covers(Filter.parse(covered)) is covers


@pytest.mark.parametrize(
    ("one", "two", "overlap"),
    [
        ("x EXISTS", "x = 1", True),
        ("x IS NULL", "x <> 1", False),
        ("x IS NULL", "x EXISTS", False),
        ("x IS NULL", "x IS NULL", True),
        ("x IS NULL", "y = 1", True),
        ("y = 1", "x IS NULL AND x EXISTS", False),
    ],
)
def test_overlaps(one: str, two: str, overlap: bool) -> None:
    assert Filter.parse(one).overlaps(Filter.parse(two)) is overlap


def test_the_two_are_opposites_and_together_they_are_nothing() -> None:
    assert ~Filter.parse("x EXISTS") == Filter.parse("x IS NULL")
    assert ~Filter.parse("x IS NULL") == Filter.parse("x EXISTS")
    assert Filter.parse("x EXISTS").merge(Filter.parse("x IS NULL")) == Filter.parse("TRUE")
    assert Filter.parse("y = 1 AND x EXISTS").merge(Filter.parse("y = 1 AND x IS NULL")) == Filter.parse("y = 1")


def test_presence_is_redundant_beside_anything_else() -> None:
    assert Filter.parse("x EXISTS AND x = 1").canonical() == Filter.parse("x = 1")
    assert Filter.parse("x EXISTS AND x <> 1").canonical() == Filter.parse("x <> 1")
    assert Filter.parse("x IS NULL AND x = 1").canonical() == Filter.parse("FALSE")


def test_unions() -> None:
    assert Exists("x").union(Equal("x", 1)) == Exists("x")
    assert Range("x", 1, 2).union(Exists("x")) == Exists("x")
    assert IsNull("x").union(Equal("x", 1)) is None
    assert IsNull("x").union(IsNull("x")) == IsNull("x")
