"""The shortcut for plain texts: what it reads, the grammar reads so, too; of the rest it says nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import SOAK, conjunctions

from tidings.model import Filter
from tidings.model._language import _parsed_by_grammar
from tidings.model._plain_texts import plain_filter

PLAIN = [
    "type = 'quote'",
    "type='quote'AND price>=20 and price<30",
    "price BETWEEN 1 AND 5 AND symbol = 'it''s'",
    "a.b = -0.0 AND _x > +5 AND aé = 1",
    "TIMESTAMP = 5 AND x = 'a'",
    " a = 1\n  AND\tb = 2 ",
]
LEFT = [
    "",
    "price",
    "price = 20 OR price = 30",
    "NOT price = 20",
    "price <> 20",
    "price =",
    "price == 20",
    "price => 20",
    "price =< 20",
    "price <=> 20",
    "price =~ 'a'",
    "price = 20 AND",
    "price = 20 AND.b = 3",
    "price = 20AND b = 3",
    "price = 5.",
    "price = 1.2.3",
    "price = 9223372036854775808",
    "price BETWEEN 1 AND 'a'",
    "price BETWEEN1 AND 5",
    "in = 5",
    "x'00' = 5",
    "a = X'00'",
    "a = 'never closed",
    "a = '\ud800'",
    " AND ".join(f"a{n} = 1" for n in range(33)),
]
WORDS = [
    *("a", "b.c", "in", "AND", "and", "OR", "NOT", "BETWEEN", "between", "TRUE", "TIMESTAMP", "x", "_"),
    *("=", "<", "<=", ">", ">=", "<>", "==", "=~", "(", ")", ","),
    *("1", "-1", "+1", "1.5", "5.", ".5", "1e3", "00", "'a'", "''", "'it''s'", "'", '"a"', "X'00'", "é", "٣"),
]


@pytest.mark.parametrize("text", PLAIN)
def test_a_plain_text_is_read_as_the_grammar_reads_it(text: str) -> None:
    assert plain_filter(text) == _parsed_by_grammar(text)
    assert str(plain_filter(text)) == str(_parsed_by_grammar(text))


@pytest.mark.parametrize("text", LEFT)
def test_other_texts_are_left_to_the_grammar(text: str) -> None:
    assert plain_filter(text) is None


def agrees(text: str) -> bool:
    """Whether the shortcut took it."""
    plain = plain_filter(text)
    if plain is None:
        return False
    parsed = _parsed_by_grammar(text)
    assert (plain, str(plain)) == (parsed, str(parsed))
    assert [list(map(repr, one)) for one in plain.conjunctions] == [list(map(repr, one)) for one in parsed.conjunctions]
    return True


texts = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(["", " ", " ", "\n"])), max_size=12).map(
    lambda pieces: "".join(word + space for word, space in pieces)
)
values = st.sampled_from(["1", "-2", "0.5", "-0.0", "'a'", "''", "'b''c'"])
conditions = st.tuples(st.sampled_from(["a", "b", "in"]), st.sampled_from(["=", "<", "<=", ">", ">="]), values) | (
    st.tuples(st.just("a"), st.just("BETWEEN"), values, st.just("AND"), values)
)
joined = st.lists(conditions.map(" ".join), min_size=1, max_size=4).map(" AND ".join)


@given(texts | joined | conjunctions(wild=True).map(lambda one: str(Filter([one]))))
@settings(max_examples=300)
def test_what_it_takes_the_grammar_takes_with_the_same_meaning(text: str) -> None:
    agrees(text)


@pytest.mark.soak
@given(texts | joined | conjunctions(wild=True).map(lambda one: str(Filter([one]))))
@SOAK
def test_many_texts_mean_the_same(text: str) -> None:
    agrees(text)


def test_most_filters_of_the_readme_are_plain() -> None:
    assert all(map(agrees, ("type = 'quote' AND symbol = 'SAP' AND price > 100", "type = 'load' AND rack = 'r1'")))
