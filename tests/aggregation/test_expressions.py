"""Questions as text: what they mean, how they print, and what is said about one that is wrong."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from aggregation.catalogue_world import folded
from hypothesis import given
from hypothesis import strategies as st
from soaking import SOAK_SECONDS, soak_seeds
from strategies import filters

from tidings.aggregation.definitions import JP, Composite, Record, Sliding, group_of
from tidings.aggregation.expressions import (
    MAX_NESTING,
    MAX_OPERATIONS,
    Calculation,
    Measure,
    Name,
    Negative,
    Number,
    Question,
    compiled,
    parse,
)
from tidings.model import AggregateError, ExpressionError, Filter, TidingsError

names = st.one_of(
    st.sampled_from(["load", "rack", "a.b", "window", "BY", "Where", "p95", "two words", 'q"t', "1st", "é"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9),
)
plain_numbers = st.one_of(st.integers(0, 2**63 - 1), st.floats(0, allow_infinity=False, allow_nan=False))
operands = st.recursive(
    st.one_of(names.map(Name), plain_numbers.map(Number)),
    lambda inner: st.one_of(inner.map(Negative), st.builds(Calculation, st.sampled_from("+-*/"), inner, inner)),
    max_leaves=5,
)
edges = st.lists(st.integers(-99, 99), min_size=1, max_size=4, unique=True).map(lambda found: tuple(sorted(found)))
measures = st.one_of(
    st.sampled_from([Measure("count"), Measure("rate")]),
    st.builds(Measure, st.sampled_from(["sum", "mean", "max", "distinct", "p95", "p99.9", "values"]), operands),
    st.builds(Measure, st.just("histogram"), operands, edges),
)
windows = st.tuples(st.integers(1, 5), st.sampled_from([1, 250, 5_000, 86_400_000])).map(
    lambda shape: Sliding(f"{shape[0] * shape[1]}ms", f"{shape[1]}ms")
)
questions = st.builds(
    Question,
    st.lists(measures, min_size=1, max_size=3).map(tuple),
    windows,
    st.lists(names, max_size=3, unique=True).map(tuple),
    filters().map(lambda drawn: Filter.parse(str(drawn))),
)


@given(questions)
def test_what_is_printed_parses_back(question: Question) -> None:
    text = str(question)
    assert parse(text) == question
    assert compiled(text).name == str(parse(text))


def record(**attrs: Any) -> Record:
    return Record(ts_ms=1, broker="b1", jp=JP.PUBLISHED, topic=attrs.get("type", ""), attrs=attrs)


def test_the_example_counts_and_takes_the_percentile_by_group() -> None:
    both = compiled("count(), p95(load) BY rack WINDOW 60s WHERE type = 'load'")
    assert isinstance(both, Composite)
    seen = [record(type="load", rack="r1", load=load) for load in range(1, 101)]
    others = [record(type="quote", rack="r1", load=1), record(type="load", rack="r2", load=7)]
    groups = {both.key(one) for one in seen}
    assert [group_of(key) for key in groups] == [("r1",)]
    count, p95 = both.present(folded(both, seen))
    assert count == 100
    assert abs(p95 - 95) <= 95 / 33
    assert both.lift(others[0]) is None
    assert group_of(both.key(others[1])) == ("r2",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sum(a + b * 2) WINDOW 1s", 8),
        ("sum((a + b) * 2) WINDOW 1s", 10),
        ("sum(a - b - 1) WINDOW 1s", -2),
        ("sum(-a * -b) WINDOW 1s", 6),
        ("sum(b / a) WINDOW 1s", 1.5),
        ("sum(b / (a - 2)) WINDOW 1s", 0),
        ("sum(missing + 1) WINDOW 1s", 0),
        ("sum(text * 2) WINDOW 1s", 0),
        ("sum(1e308 * 10 * a) WINDOW 1s", 0),
        ("count(missing) WINDOW 1s", 0),
        ("avg(a) WINDOW 1s", 2),
        ("MEDIAN(a) window 1s", 2),
        ("histogram(a, 1, 2, 3) WINDOW 1s", [0, 1, 0, 0]),
    ],
)
def test_calculations_are_those_of_school(text: str, expected: Any) -> None:
    aggregate = compiled(text)
    found = aggregate.present(folded(aggregate, [record(a=2, b=3, text="x", flag=True)]))
    assert found == pytest.approx(expected, rel=0.04) if isinstance(found, float) else found == expected


MISTAKES = [
    ("", 1, "the question is empty", r"count\(\) WINDOW 60s"),
    ("counts() WINDOW 1s", 1, "counts is not a function", "Functions are bit_and"),
    ("average(x) WINDOW 1s", 1, "average is not a function", "Write mean."),
    ("p101(x) WINDOW 1s", 1, "p101 is not a function", "p0 to p100"),
    ("count( WINDOW 1s", 8, "WINDOW is not something to measure|WINDOW is not an attribute", "double quotes"),
    ("count) WINDOW 1s", 6, r"\) stands where \( is expected", r"Write count\(\)"),
    ("sum() WINDOW 1s", 1, "it needs to know of what", r"Write sum\(size\)"),
    ("sum('a') WINDOW 1s", 5, "' is not something to measure", "compared in WHERE only"),
    ("sum(a, 2) WINDOW 1s", 9, "it takes one argument", "Write sum"),
    ("histogram(a, 2, 1) WINDOW 1s", 18, r"\[2, 1\]", "Write histogram"),
    ("histogram(a, b) WINDOW 1s", 14, "b is not a number", "numbers only"),
    ("sum(a +) WINDOW 1s", 8, r"\) is not something", "Write an attribute"),
    ("sum((a) WINDOW 1s", 9, r"WINDOW stands where \) is expected", "Close the parenthesis"),
    ("count()", 8, "there is no window", "WINDOW 60s"),
    ("count() WHERE a = 1", 9, "there is no window", "before WHERE"),
    ("count() p95(a) WINDOW 1s", 9, "p95 does not fit here", "commas between measures"),
    ("count() WINDOW 60", 16, "60 is not a duration", "60s"),
    ("count() WINDOW 60s SLIDE 7s", 9, "take 56s or 1m3s", ""),
    ("count() BY a, a WINDOW 1s", 17, "twice", "once"),
    ("count() BY WINDOW 1s", 12, "WINDOW is not an attribute", "double quotes"),
    ("count() WINDOW 1s BY a", 19, "BY does not fit here", "The order is"),
    ("count() WINDOW 1s WHERE a ==1", 27, "== is not an operator", "Write ="),
    ("count() WINDOW 1s WHERE", 24, "the filter is empty", "TRUE"),
    ("count() WINDOW 1s WHERE a WITHIN myloc", 24, "myloc means nothing", ""),
    ("sum(99999999999999999999) WINDOW 1s", 5, "too large", "64 bits"),
    ("sum(1e999) WINDOW 1s", 5, "too large", "1.8e308"),
]


@pytest.mark.parametrize(("text", "column", "problem", "remedy"), MISTAKES)
def test_a_mistake_is_explained_where_it_is(text: str, column: int, problem: str, remedy: str) -> None:
    with pytest.raises(ExpressionError, match=problem) as caught:
        parse(text)
    assert caught.value.column == column
    assert not remedy or re.search(remedy, str(caught.value))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sum(" + "(" * 40 + "a" + ")" * 40 + ") WINDOW 1s", f"nested deeper than {MAX_NESTING}"),
        ("sum(" + "-" * 40 + "a) WINDOW 1s", f"nested deeper than {MAX_NESTING}"),
        ("sum(" + "a+" * 100 + "a) WINDOW 1s", f"more than {MAX_OPERATIONS} numbers"),
        (",".join(["count()"] * 9) + " WINDOW 1s", "more than 8 measures"),
        ("count() BY " + ",".join("abcdefghi") + " WINDOW 1s", "more than 8 attributes after BY"),
        ("sum(" + "a" * 300 + ") WINDOW 1s", "a name of 300 characters"),
        ("x" * 20_000, "a question of 20,000 characters"),
    ],
)
def test_a_question_is_bounded(text: str, said: str) -> None:
    with pytest.raises(AggregateError, match=said):
        parse(text)


_WORDS = [
    "count",
    "(",
    ")",
    ",",
    "p95",
    "load",
    "BY",
    "rack",
    "WINDOW",
    "SLIDE",
    "60s",
    "5s",
    "WHERE",
    "type",
    "=",
    "'load'",
    "+",
    "-",
    "*",
    "/",
    "1.5",
    '"x_y"',
    "histogram",
    "AND",
    "'",
    '"',
    "é",
    "==",
    "9e999",
    "count()",
    "sum(load)",
    "WINDOW",
]


def _fuzz(seed: int) -> None:
    draw = random.Random(seed)
    text = draw.choice(["", " "]).join(draw.choices(_WORDS, k=draw.randrange(1, 14)))
    if draw.random() < 0.3:
        text += chr(draw.randrange(1, 0x2FF))
    try:
        question = parse(text)
    except TidingsError:
        return
    assert parse(str(question)) == question
    compiled(question)


def test_whatever_is_written_is_a_question_or_is_explained() -> None:
    for seed in range(1_500):
        _fuzz(seed)


@pytest.mark.soak
def test_whatever_is_written_is_a_question_or_is_explained_for_long() -> None:
    for seed in soak_seeds(SOAK_SECONDS / 20):
        _fuzz(seed)
