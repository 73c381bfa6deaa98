"""MATCHES: the regular expressions of `re` without backtracking."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scopes.language.script_world import carried_out, connected, members, refusal

from tidings.model import ScopeError
from tidings.scopes.language._patterns import Pattern

R = "INTEGRATED_ROUTING"
ATOMS = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\w", r"\.", "^", "$", "c{,2}", "[]a]", r"[\]b]", r"\x61", "{"]
)
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda part: st.one_of(
        st.tuples(part, part).map("".join),
        st.tuples(part, part).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(part, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{1,}", "*?"])).map(
            lambda two: f"({two[0]}){two[1]}"
        ),
    ),
    max_leaves=6,
)


@given(EXPRESSIONS, st.text("abc.]", max_size=6))
def test_a_text_matches_exactly_if_it_does_with_re(expression: str, text: str) -> None:
    assert Pattern(expression).matches(text) == bool(re.fullmatch(expression, text))


@pytest.mark.parametrize(
    "expression", ["(a+)+", "(a|a)*", "(a|aa)+", "a*a*a*a*a*a*a*a*", "(?:a?){40}a{40}", "(.*)*(.*)*"]
)
def test_no_expression_takes_long(expression: str) -> None:
    begun = time.process_time()
    assert not Pattern(expression).matches("a" * 2_000 + "!") or expression.startswith("(.")
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    "expression", [r"(a)\1", "(?=a)a", "(?<!a)b", r"\bx", "(?i)a", "a++", "(?>a)", "(?P<x>a)(?P=x)"]
)
def test_what_needs_backtracking_is_refused(expression: str) -> None:
    with pytest.raises(ScopeError, match="is not supported"):
        Pattern(expression)


def test_what_is_too_large_is_refused() -> None:
    for expression in ("(a{1000}){1000}", "(" * 400 + "a" + ")" * 400, "a" * 1_001):
        with pytest.raises(ScopeError):
            Pattern(expression)
    with pytest.raises(ScopeError, match="is too long for this regular expression"):
        Pattern("a*" * 400).matches("a" * 100_000)


def test_a_selection_by_an_explosive_expression_is_worked_out() -> None:
    clients = connected(x={"k": "a" * 32 + "!"}, y={"k": "aaa"})
    graph = carried_out(f'DEPLOY AS s FROM MEMBERS(world) WHERE k MATCHES "(a+)+" {R}', clients=clients)
    assert members(graph, "s") == {"@y"}
    assert "is not supported" in refusal(r'DEFINE SCOPE s AS FROM @x WHERE k MATCHES "(a)\1"')
