"""Filters that cover another one together: what is said is so, value by value."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.model import Filter, Notification, Value
from tidings.scopes._together import cover_together

VALUES: list[Value] = [0, 1, 2, 2.5, 3, 4, "x", "y", True, (), (0, 3), (1, "x"), (2, 4), ("x", "y"), (1, 2, 4)]
SAMPLES = [
    Notification({name: value for name, value in (("a", one), ("b", two)) if value is not None})
    for one, two in itertools.product([None, *VALUES], [None, 1, "x", (1, 2)])
]
CONDITIONS = st.sampled_from(
    [
        *(
            "a > 1",
            "a <= 1",
            "a < 3",
            "a >= 3",
            "a = 2",
            "a <> 2",
            "a IN (0, 1, 2)",
            "a IN (2, 3, 4)",
            "a NOT IN (1, 4)",
        ),
        *("a = 'x'", "a <> 'x'", "a IS NULL", "a IS NOT NULL", "b = 1", "b <> 1", "b IS NULL", "NOT a > 2"),
    ]
)
conjunctions = st.lists(CONDITIONS, min_size=1, max_size=3).map(lambda parts: f"({' AND '.join(parts)})")
filters = st.lists(conjunctions, min_size=1, max_size=2).map(lambda parts: Filter.parse(" OR ".join(parts)))


@settings(max_examples=600)
@given(filters, st.lists(filters, max_size=3))
def test_nothing_passes_the_one_and_none_of_those_that_cover_it(one: Filter, others: list[Filter]) -> None:
    if cover_together(others, one):
        for sample in SAMPLES:
            assert not one.matches(sample) or any(other.matches(sample) for other in others), sample


def test_a_text_passes_neither_a_comparison_nor_its_opposite() -> None:
    """So the two together do not cover that there is a value; where one compares anyway, they do."""
    halves = [Filter.parse("a > 3"), Filter.parse("a <= 3")]
    assert not cover_together(halves, Filter.parse("a IS NOT NULL"))
    assert not cover_together(halves, Filter.parse("b = 1"))
    assert cover_together([Filter.parse("a > 3"), Filter.parse("NOT a > 3")], Filter.parse("a < 9"))


def test_a_text_is_not_excluded_by_what_excludes_a_number() -> None:
    assert not cover_together([Filter.parse("a > 1 OR a <> 2")], Filter.parse("a = 'x'"))
    assert cover_together([Filter.parse("a > 1 OR a <> 2")], Filter.parse("a < 5"))


def test_regions_are_bounded() -> None:
    others = [Filter.parse(f"a{number} > 1 AND b{number} > 1 AND c{number} > 1") for number in range(12)]
    wide = " AND ".join(f"{letter}{number} > 0" for number in range(12) for letter in "abc")
    assert not cover_together(others, Filter.parse(wide))
