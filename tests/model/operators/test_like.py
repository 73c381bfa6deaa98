"""`LIKE`, in general: patterns against patterns, by brute force over all short texts."""

from __future__ import annotations

import functools
import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.model import Filter, Negated, Notification
from tidings.model._automaton import UNDECIDED, find
from tidings.model.operators import Equal, Like, Prefix, Range, like
from tidings.model.operators.like import ANY, MAX_PATTERN, ONE, Tokens

TEXTS = ["".join(letters) for length in range(6) for letters in itertools.product("abc", repeat=length)]
PATTERNS = ["".join(letters) for length in range(4) for letters in itertools.product("ab%_", repeat=length)]


@functools.cache
def fitting(pattern: str) -> int:
    """The texts that fit the pattern, as bits."""
    constraint = like("x", pattern)
    return sum(1 << at for at, text in enumerate(TEXTS) if constraint.holds(text))


@pytest.mark.parametrize("outer", PATTERNS)
def test_inclusion_and_intersection_of_patterns_are_exact(outer: str) -> None:
    wide = like("x", outer)
    for inner in PATTERNS:
        narrow = like("x", inner)
        assert wide.includes(narrow) is not bool(fitting(inner) & ~fitting(outer)), (outer, inner)
        assert wide.meets(narrow) is bool(fitting(inner) & fitting(outer)), (outer, inner)


@given(st.text("ab%_", max_size=6), st.text("ab%_", max_size=6), st.text("ab%_", max_size=4))
def test_a_pattern_without_another_is_inside_a_third_exactly_if_no_text_says_otherwise(
    some: str, banned: str, outer: str
) -> None:
    inside = like("x", some).inside((like("x", outer), like("x", banned)))
    missed = fitting(some) & ~fitting(outer) & ~fitting(banned)
    assert not (inside and missed)


@given(st.text("ab%_", max_size=6), st.text("abc", max_size=8))
def test_a_pattern_holds_for_what_it_describes(pattern: str, text: str) -> None:
    assert like("x", pattern).holds(text) is _fits(pattern, text)


def _fits(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(_fits(pattern[1:], text[at:]) for at in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and _fits(pattern[1:], text[1:])


@pytest.mark.parametrize(
    ("cover", "covered"),
    [
        ("x LIKE 'a_%'", "x LIKE 'a%' AND x <> 'a'"),
        ("x LIKE '_%'", "x > ''"),
        ("x LIKE 'a%'", "x LIKE 'a_' AND x NOT LIKE 'ab%'"),
        ("x LIKE '%a%b%'", "x LIKE '%a_b_'"),
        ("x NOT LIKE 'a%b'", "x NOT LIKE 'a%'"),
        ("x NOT LIKE '_%'", "x NOT LIKE '_' AND x NOT LIKE '__%'"),
        ("x LIKE '100\\%%' ESCAPE '\\'", "x = '100% wool'"),
    ],
)
def test_covers(cover: str, covered: str) -> None:
    assert Filter.parse(cover).covers(Filter.parse(covered))


@pytest.mark.parametrize(
    "tokens", [("a", "b", ANY), ("", "ab", ANY, ANY), ("ab", ANY, ""), (ANY, ONE, ANY), (ONE, ANY), ("ab",), ()]
)
def test_the_simplest_form_of_any_tokens_means_the_same(tokens: Tokens) -> None:
    written = Like("x", tokens)
    simplest = written.simplest()
    assert all(written.holds(text) is simplest.holds(text) for text in TEXTS)
    assert written.includes(written)
    assert simplest.simplest() == simplest


def test_wildcards_in_a_row_are_kept_in_one_order() -> None:
    assert like("x", "%_%_").simplest() == like("x", "__%") == like("x", "_%_")
    assert type(like("x", "a%%")) is Prefix
    assert like("x", "a\\%", escape="\\") == Equal("x", "a%")


def test_a_pattern_is_matched_in_time_however_it_is_meant() -> None:
    pattern = like("x", "%a" * 20 + "%b")
    started = time.perf_counter()
    assert not pattern.holds("a" * 20_000)
    assert time.perf_counter() - started < 2


def test_what_takes_too_long_to_compare_is_left_undecided() -> None:
    hard = [like("x", "%" + letter + "_" * 40 + "%") for letter in "abcdef"]
    machines = [one.automaton() for one in hard]
    assert find(machines) is UNDECIDED or isinstance(find(machines), str)  # type: ignore[arg-type]
    assert not hard[0].inside(hard[1:])
    long = like("x", "a" * MAX_PATTERN + "_b")
    assert long.automaton() is None
    assert long.includes(long)
    assert long.meets(like("x", "a%"))
    assert not like("x", "a%_b").includes(long)
    assert not Range("x", "a").includes(Negated(long))


def test_a_pattern_without_single_wildcards_takes_time_in_proportion_to_the_text() -> None:
    text = Notification(x="a" * 1_000_000)
    for pattern in ("%" + "a" * 8_000 + "b%c%", "a%" + "a" * 8_000 + "%b%c", "%" + "ab" * 4_000 + "%c%"):
        begun = time.process_time()
        assert not Filter.parse(f"x LIKE '{pattern}'").matches(text)
        assert time.process_time() - begun < 2, "it took half a minute when each place was compared"


@pytest.mark.parametrize(
    ("pattern", "cost"),
    [
        ("a%b%", 3),
        ("%" + "a" * 8_000 + "%b", 3),
        ("a_b", 2),
        ("%" + "a" * 31 + "_%", 4),
        ("%" + "a" * 41 + "_%", 14),
        ("%" + "a" * 41 + "_%" + "b" * 41 + "_%", 26),
    ],
    ids=["parts", "long", "one", "short with one", "long with one", "two of them"],
)
def test_a_long_part_with_a_single_wildcard_costs_more(pattern: str, cost: int) -> None:
    assert Filter.parse(f"x LIKE '{pattern}'").cost == cost
