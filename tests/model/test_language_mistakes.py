"""Texts that are no filters: what a mistake is told, what is too large, and that nothing else ever happens."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import KINDS, SOAK, filters

from tidings.model import (
    MAX_CONJUNCTIONS,
    MAX_CONSTRAINTS,
    MAX_FILTER_TEXT,
    Filter,
    FilterError,
    FilterSyntaxError,
    FilterTooLarge,
    attr,
)
from tidings.model._expression import MAX_DEPTH
from tidings.model._language import _remembered, parse
from tidings.model._names import KEYWORDS

# What a mistake is told: the text, the column, a part of the remedy.

MISTAKES = [
    ("", 1, "Write TRUE"),
    ("  \n ", 1, "Write TRUE"),
    ("quotes.>", 1, "Write type = 'quotes', or if it is published on subjects, subject.1 = 'quotes'."),
    ("orders.*", 1, "subject.1 = 'orders' AND subject.2 EXISTS AND subject.3 IS NULL."),
    ("*.new", 1, "Write type = 'new', or"),
    ("sensors/+/temp", 1, "subject.1 = 'sensors' AND subject.2 EXISTS AND subject.3 = 'temp' AND subject.4 IS NULL."),
    ("sensors/#", 1, "Write type = 'sensors', or if it is published on subjects, subject.1 = 'sensors'."),
    ("/sensors/kitchen", 1, "Write type = 'sensors'"),
    ("#/temp", 1, "Write type = 'temp'."),
    ("*", 1, "Write TRUE"),
    (">", 1, "Write TRUE"),
    ("price/2", 6, "do not calculate"),
    ("venue.city", 1, "venue.city EXISTS"),
    ("price => 5", 7, "Write >="),
    ("price =< 5", 7, "Write <="),
    ("price == 5", 7, "Write ="),
    ("a = 1 && b = 2", 7, "Write AND"),
    ("a = 1 || b = 2", 7, "Write OR"),
    ("a = 1 | b = 2", 7, "Write OR"),
    ("!urgent", 1, "Write NOT"),
    ("price ~ 5", 7, "LIKE"),
    ("price =~ 'x'", 7, "LIKE"),
    ("price ≥ 5", 7, "Write >="),
    ('price > "100"', 9, "single quotes: '100'"),
    ("symbol = SAP", 10, "single quotes: 'SAP'"),
    ("symbol = SAP AG", 10, "single quotes: 'SAP"),
    ("symbol = 'SAP", 10, "Close the text"),
    ("symbol = 'it''s", 10, "Close the text"),
    ('"symbol = 5', 1, "Close the name"),
    ("symbol = ‘SAP’", 10, "straight quotes"),
    ("symbol = 'it's'", 14, "double a '"),
    ("(a = 1", 1, "Close it"),
    ("((a = 1) AND (b = 2)", 1, "Close it"),
    ("a IN (1, 2", 6, "Close it"),
    ("a = 1)", 6, "Remove it"),
    ("()", 2, "price > 20"),
    ("a = 1 b = 2", 7, "AND or OR"),
    ("a = 1 (b = 2)", 7, "AND or OR"),
    ("a = 1 AND", 10, "price > 20"),
    ("a = 1 OR OR b = 2", 10, "double quotes"),
    ("AND", 1, "double quotes"),
    ("a =", 4, "Write a number"),
    ("a = = 5", 5, "Write a number"),
    ("= 5", 1, "Begin with a name"),
    ("a = 1;", 6, "without a semicolon"),
    ("urgent", 1, "Write urgent = TRUE"),
    ("NOT urgent AND a = 1", 5, "Write urgent = TRUE"),
    ("5", 1, "price > 20"),
    ("'SAP' AND a = 1", 1, "price > 20"),
    ("5 < 7", 1, "on the left"),
    ("'price' > 5", 1, "double quotes: price"),
    ("5 LIKE 'a'", 1, "on the left of LIKE"),
    ("a = b", 5, "constant"),
    ("a < b", 5, "constant"),
    ("a = 1 + 2", 7, "do not calculate"),
    ("a * 2 = 4", 3, "do not calculate"),
    ("a -2 = 4", 3, "do not calculate"),
    ("building-3 = 4", 9, "double quotes"),
    ("1 < a < 5", 7, "1 < price AND price < 5"),
    ("price LIKE 5", 12, "single quotes"),
    ("price LIKE name", 12, "single quotes"),
    ("a LIKE 'x' ESCAPE 'xy'", 19, "one character"),
    ("a LIKE 'x!' ESCAPE '!'", 20, "double it"),
    ("a < TRUE", 5, "="),
    ("a > LOCATION '/x'", 5, "="),
    ("a BETWEEN TRUE AND 5", 11, "="),
    ("a BETWEEN 1 AND 'x'", 17, "one kind"),
    ("a BETWEEN 1", 12, "BETWEEN 1 AND 5"),
    ("a BETWEEN 1, 5", 12, "BETWEEN 1 AND 5"),
    ("a IN ()", 6, "at least one"),
    ("a IN (1, 'x', 2)", 10, "one IN per kind"),
    ("a IN 5", 6, "Write IN"),
    ("a IN (1 2)", 9, "Write IN (1, 2, 3)"),
    ("a IN (1, b)", 10, "constant"),
    ("a IN (1, )", 10, "Write a number"),
    ("a = NULL", 5, "IS NULL"),
    ("NULL <> a", 1, "IS NULL"),
    ("a IS 5", 6, "a = 5"),
    ("a IS NOT TRUE", 10, "a <> TRUE"),
    ("a IS", 5, "IS NULL"),
    ("a NOT = 5", 3, "NOT in front"),
    ("a CONTAINS 'x'", 3, "LIKE '%part%'"),
    ("a NOT CONTAINS", 7, "LIKE '%part%'"),
    ("a frobs 5", 3, "Operators are"),
    ("a b = 5", 3, "Operators are"),
    ("price 20", 7, "Operators are"),
    ("in = 5", 1, "double quotes"),
    ("EXISTS a", 8, "EXISTS (price)"),
    ("EXISTS (5)", 9, "on the left of EXISTS"),
    ("a = myloc", 5, "WITHIN myloc"),
    ("a WITHIN '/x'", 10, "LOCATION '/x'"),
    ("a WITHIN 5", 10, "LOCATION"),
    ("a WITHIN myloc(99)", 16, "myloc(2)"),
    ("a WITHIN myloc(-1)", 16, "myloc(2)"),
    ("a WITHIN LOCATION '/x'(2)", 24, "myloc(2)"),
    ("a WITHIN LOCATION '/x//y'", 10, "/berlin/campus"),
    ("a > TIMESTAMP '2026-11-15T12:00:00'", 5, "Add Z for UTC"),
    ("a > TIMESTAMP '2026-11-15'", 5, "Add Z for UTC"),
    ("a > TIMESTAMP 'noon'", 5, "TIMESTAMP '2026-"),
    ("a > TIMESTAMP '0001-01-01T00:00:00+14:00'", 5, ""),
    ("a = X'0AF'", 5, "two hexadecimal"),
    ("a = X'zz'", 5, "two hexadecimal"),
    ("a = 9223372036854775808", 5, "float or a string"),
    ("a = " + "9" * 5000, 5, "float"),
    ("a = 1e999", 5, "1.8e308"),
    ("a = 1.2.3", 5, "numbers look like"),
    ("a = 1_000", 5, "numbers look like"),
    ("2a = 1", 1, "double quotes"),
    ('"" = 1', 1, "not empty"),
    ('"' + "n" * 300 + '" = 1', 1, ""),
    ("a = :limit", 5, "build the filter in Python"),
    ("a = $5", 5, "double quotes"),
    ("a = '\ud800'", 5, "bytes"),
]


@pytest.mark.parametrize(("text", "column", "remedy"), MISTAKES)
def test_a_mistake_is_shown_with_its_column_and_a_remedy(text: str, column: int, remedy: str) -> None:
    with pytest.raises(FilterSyntaxError) as raised:
        parse(text)
    error = raised.value
    assert (error.column, error.text) == (column, text)
    assert remedy in error.remedy
    assert error.remedy in str(error)
    assert error.problem
    assert len(str(error)) < 600
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None


def test_the_message_points_at_the_column() -> None:
    with pytest.raises(FilterSyntaxError) as raised:
        parse("type = 'quote' AND price => 5")
    assert str(raised.value) == (
        "column 26: => is not an operator\n"
        "  type = 'quote' AND price => 5\n"
        "                           ^\n"
        "Write >= for 'greater or equal'."
    )


@pytest.mark.parametrize("text", [None, 5, b"a = 1", ["a = 1"]])
def test_only_text_is_parsed(text: object) -> None:
    with pytest.raises(FilterError, match="a filter's text is a string"):
        Filter.parse(text)  # type: ignore[arg-type]


# Limits.


@pytest.mark.parametrize("factors", [10, 40, 400])
def test_a_product_that_would_explode_is_refused_before_it_is_computed(factors: int) -> None:
    text = " AND ".join(f"(a{i} = 1 OR b{i} = 2)" for i in range(factors))
    with pytest.raises(FilterTooLarge, match="alternatives"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "NOT (" + " OR ".join(f"(a{i} = 1 AND b{i} = 2)" for i in range(40)) + ")",
        " AND ".join(f"a{i} NOT BETWEEN 1 AND 2" for i in range(40)),
        " OR ".join(f"a = {i}" for i in range(MAX_CONJUNCTIONS + 1)),
        " AND ".join(f"a{i}=1" for i in range(MAX_CONSTRAINTS + 1)),
        "(" * (MAX_DEPTH + 1) + "a = 1" + ")" * (MAX_DEPTH + 1),
        "NOT " * (MAX_DEPTH + 1) + "a = 1",
        "a = '" + "x" * MAX_FILTER_TEXT + "'",
    ],
)
def test_beyond_a_limit_is_too_large(text: str) -> None:
    with pytest.raises(FilterTooLarge, match=r"at most|deeper than"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        " OR ".join(f"a = {i}" for i in range(MAX_CONJUNCTIONS)),
        " AND ".join(f"a{i}=1" for i in range(MAX_CONSTRAINTS)),
        "(" * MAX_DEPTH + "a <> 1" + ")" * MAX_DEPTH,
        "NOT " * MAX_DEPTH + "a = 1",
        "a = 1" + " " * (MAX_FILTER_TEXT - 5),
        " OR ".join(["a = 1"] * (MAX_CONJUNCTIONS + 1)),
        " AND ".join(f"(a = {i} OR b = {i})" for i in range(7)),
    ],
)
def test_at_a_limit_is_accepted(text: str) -> None:
    assert parse(text).conjunctions


@pytest.mark.parametrize(
    "unit",
    ["(", ")", "NOT ", "'", '"', "''", "a", "1", "-", ".", "a.", "a=1 AND ", "a IN (", "X'", "TIMESTAMP '"],
)
def test_a_monotonous_text_is_refused_before_the_sun_goes_down(unit: str) -> None:
    text = (unit * MAX_FILTER_TEXT)[:MAX_FILTER_TEXT]
    with pytest.raises(FilterError):
        parse(text)


def test_a_filter_that_would_print_too_long_is_refused_where_it_is_made() -> None:
    long, other = "x" * (MAX_FILTER_TEXT // 2), "y" * (MAX_FILTER_TEXT // 2)
    with pytest.raises(FilterTooLarge, match="a text of"):
        attr.a == "x" * MAX_FILTER_TEXT  # noqa: B015
    with pytest.raises(FilterTooLarge, match="a text of"):
        (attr.a == long) | (attr.b == other)
    with pytest.raises(FilterTooLarge, match="a text of"):
        parse(f"a = '{long}' AND (b = 1 OR b = 2)")


def test_a_merger_that_could_not_travel_is_none() -> None:
    low = Filter.parse(f"a IN ({', '.join(map(str, range(10_000, 12_000)))})")
    high = Filter.parse(f"a IN ({', '.join(map(str, range(20_000, 22_000)))})")
    assert low.merge(high) is None
    assert parse("a IN (1, 2)").merge(parse("a IN (3, 4)")) == parse("a IN (1, 2, 3, 4)")


def test_the_memory_of_texts_is_bounded() -> None:
    for i in range(2_000):
        parse(f"a = {i}")
    info = _remembered.cache_info()
    assert info.maxsize is not None
    assert info.currsize <= info.maxsize


# Fuzzing: whatever the text, a filter or a `FilterError`.

_PIECES = [
    *sorted(KEYWORDS),
    *["=", "<>", "!=", "<", "<=", ">", ">=", "(", ")", ",", "'", '"', "''", "==", "&&", "*", "-", ".", ";"],
    *["a", "b.c", "in", '"q"', "5", "-2.5", "1e400", "'t'", "'%_'", "X'0A'", "X'0'", "LOCATION '/p'"],
    *["TIMESTAMP '2026-01-01T00:00:00Z'", "TIMESTAMP", "LOCATION", "X", "\x00", "é", "\ud800", "9" * 30],
]


def _refuses_politely(text: str) -> None:
    try:
        f = parse(text)
    except FilterError as error:
        refusal = error
    else:
        assert f.matches({"a": 1, "b.c": "t"}) in {True, False}
        assert parse(str(f)) == f
        return
    assert str(refusal)
    if isinstance(refusal, FilterSyntaxError):
        assert 1 <= refusal.column <= len(text) + 1
        assert refusal.problem
    else:
        assert isinstance(refusal, FilterTooLarge)


def _mutated(text: str, edits: list[tuple[int, str]]) -> str:
    for at, piece in edits:
        cut = at % (len(text) + 1)
        text = text[:cut] + piece + text[cut + (at % 3) :]
    return text


_ANY_TEXT = st.text(max_size=60)
_SOUP = st.lists(st.sampled_from(_PIECES), max_size=20).map(" ".join)
_TIGHT_SOUP = st.lists(st.sampled_from(_PIECES), max_size=20).map("".join)
_MUTANTS = st.builds(
    _mutated,
    filters(kinds=KINDS).map(str),
    st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(_PIECES) | st.just("")), min_size=1, max_size=3),
)


@settings(max_examples=300)
@example("\ud800")
@example("a = '\x00'")
@given(_ANY_TEXT | _SOUP | _TIGHT_SOUP)
def test_any_text_is_a_filter_or_refused_politely(text: str) -> None:
    _refuses_politely(text)


@settings(max_examples=300)
@given(_MUTANTS)
def test_a_damaged_filter_is_a_filter_or_refused_politely(text: str) -> None:
    _refuses_politely(text)


@pytest.mark.soak
@SOAK
@given(_ANY_TEXT | _SOUP | _TIGHT_SOUP | _MUTANTS)
def test_soak_any_text_is_a_filter_or_refused_politely(text: str) -> None:
    _refuses_politely(text)
