"""What to say about a token that does not fit where it stands.

The parser knows which tokens would have fitted; what the writer of the filter *meant* shows in the
tokens around. Each function here knows one way to go wrong; the first that recognises it speaks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from lark import Token

from ._names import KEYWORDS
from ._operator_words import operator_of
from ._tokens import END, Misfit, shortened

_VALUES = frozenset({"NUMBER", "TEXT", "BYTES", "TIME", "PLACE", "TRUE", "FALSE"})
_NAMES = frozenset({"NAME", "QUOTED"})
_OPERANDS = _VALUES | _NAMES | {"NULL", "MYLOC"}

_WORDS = {
    "CONTAINS": "Write LIKE '%part%'.",
    "STARTSWITH": "Write LIKE 'start%'.",
    "ENDSWITH": "Write LIKE '%end'.",
    "ILIKE": "LIKE is case-sensitive, and no operator ignores case.",
    "REGEXP": "Write LIKE with % and _ as wildcards.",
    "RLIKE": "Write LIKE with % and _ as wildcards.",
    "MATCHES": "Write LIKE with % and _ as wildcards.",
    "EQ": "Write =.",
    "NE": "Write <>.",
    "LT": "Write <.",
    "LE": "Write <=.",
    "GT": "Write >.",
    "GE": "Write >=.",
    "XOR": "Write (a OR b) AND NOT (a AND b).",
}
_OPERATORS = "Operators are = <> < <= > >= BETWEEN IN LIKE IS EXISTS WITHIN."


class Place:
    """The token that does not fit, the ones before it, and what would have fitted."""

    def __init__(self, read: Sequence[Token], token: Token, expected: frozenset[str]) -> None:
        self.read = read
        self.token = token
        self.expected = expected

    def before(self, steps: int = 1) -> str:
        """The type of an earlier token; empty before the first."""
        return self.read[-steps].type if len(self.read) >= steps else ""

    def opened(self) -> list[Token]:
        """The parentheses that are open here."""
        stack: list[Token] = []
        for token in self.read:
            if token.type == "LPAR":
                stack.append(token)
            elif token.type == "RPAR":
                stack.pop()
        return stack

    def says(self, problem: str, remedy: str, token: Token | None = None) -> Misfit:
        """A misfit at a token, by default the one that does not fit."""
        return Misfit(problem, _at(token or self.token), remedy)


def unexpected(read: Sequence[Token], token: Token, expected: frozenset[str]) -> Misfit:
    """Why this token does not fit after those that were read, and what would."""
    place = Place(read, token, expected)
    for recognise in _MISTAKES:
        if misfit := recognise(place):
            return misfit
    return place.says(f"{_shown(token)} does not fit here", f"Expected {_listed(expected)}.")


def unknown_operator(word: Token) -> Misfit:
    """A name where an operator belongs."""
    remedy = _WORDS.get(word.upper(), _OPERATORS)
    return Misfit(f"{shortened(word)} is not an operator", _at(word), remedy)


def _never_opened(place: Place) -> Misfit | None:
    if place.token.type == "RPAR" and not place.opened():
        return place.says("this parenthesis was never opened", "Remove it, or add the opening one.")
    return None


def _missing_quotes(place: Place) -> Misfit | None:
    """`symbol = SAP AG`, `symbol = SAP'`."""
    if place.token.type in _OPERANDS and place.before() in _NAMES and place.before(2) in {"COMPARISON", "LIKE"}:
        name = place.read[-1]
        remedy = f"Write text in single quotes: '{shortened(name)} ...'."
        return place.says(f"{shortened(name)} is the name of an attribute here", remedy, name)
    return None


def _word_operator(place: Place) -> Misfit | None:
    """`text CONTAINS`, `a b = 3`: a name where an operator belongs."""
    if place.before() != "NAME" or operator_of(place.read[-1]) is not None:
        return None
    if place.before(2) in _OPERANDS or (place.before(2) == "NOT" and place.before(3) in _OPERANDS):
        return unknown_operator(place.read[-1])
    return None


def _arithmetic(place: Place) -> Misfit | None:
    """`price -5 > 3`."""
    if place.token.type == "NUMBER" and place.token[0] in "+-" and place.before() in _OPERANDS:
        remedy = "Filters do not calculate; write a name that contains - in double quotes."
        return place.says(f"{place.token} follows a value", remedy)
    return None


def _chained(place: Place) -> Misfit | None:
    """`1 < price < 5`."""
    if place.token.type == "COMPARISON" and place.before() in _OPERANDS and place.before(2) == "COMPARISON":
        remedy = "Write 1 < price AND price < 5, or price BETWEEN 1 AND 5."
        return place.says("a comparison has only two sides", remedy)
    if place.token.type == "COMPARISON" and place.before() == "NOT":
        return place.says(f"NOT {place.token} is not an operator", "Write NOT in front: NOT price = 5.", place.read[-1])
    return None


def _keyword_as_operand(place: Place) -> Misfit | None:
    """`in = 5`, `price = AND`."""
    if "NAME" in place.expected and "TEXT" in place.expected and place.token.type in KEYWORDS:
        remedy = f"A value or a name is missing before it; to use {place.token} as a name, put it in double quotes."
        return place.says(f"{place.token} is a reserved word", remedy)
    return None


def _missing_operand(place: Place) -> Misfit | None:
    """`price >`, `a = 1 AND`, `()`."""
    if "TEXT" not in place.expected:
        return None
    if not place.read:
        return place.says(f"{_shown(place.token)} cannot begin a filter", "Begin with a name: price > 20.")
    last = place.read[-1]
    if last.type in {"AND", "OR", "NOT", "LPAR"}:
        example = "Write one like price > 20."
        return place.says(f"a condition is missing after {last}", example)
    if last.type == "IS":
        return place.says("NULL is missing after IS", "Write IS NULL or IS NOT NULL.")
    return place.says(f"a value is missing after {last}", "Write a number, or text in single quotes.")


def _missing_parenthesis(place: Place) -> Misfit | None:
    opened = place.opened()
    if place.token.type == END and "RPAR" in place.expected and opened:
        return place.says("this parenthesis is never closed", "Close it with ).", opened[-1])
    if place.expected == {"LPAR"}:
        last = place.read[-1]
        example = "EXISTS (price)" if last.type == "EXISTS" else "IN ('a', 'b')"
        return place.says(f"a parenthesis is missing after {last}", f"Write {example}.")
    if "COMMA" in place.expected and place.token.type in _OPERANDS:
        return place.says(f"a comma is missing before {_shown(place.token)}", "Write IN (1, 2, 3).")
    return None


def _between(place: Place) -> Misfit | None:
    """`price BETWEEN 1`, `price BETWEEN 1, 5`."""
    if place.expected == {"AND"}:
        return place.says("BETWEEN takes two values joined by AND", "Write price BETWEEN 1 AND 5.")
    return None


def _missing_join(place: Place) -> Misfit | None:
    """`a = 1 b = 2`."""
    starts = _OPERANDS | {"LPAR", "NOT", "EXISTS"}
    if "AND" in place.expected and "COMPARISON" not in place.expected and place.token.type in starts:
        remedy = "Join conditions with AND or OR; double a ' inside a text."
        return place.says(f"{_shown(place.token)} follows a complete condition", remedy)
    return None


def _missing_operator(place: Place) -> Misfit | None:
    """`price 20`, `price (`."""
    if "COMPARISON" in place.expected:
        return place.says(f"{_shown(place.token)} follows a name or value without an operator", _OPERATORS)
    return None


_Mistake: TypeAlias = Callable[[Place], Misfit | None]
_MISTAKES: tuple[_Mistake, ...] = (
    _never_opened,
    _missing_quotes,
    _word_operator,
    _arithmetic,
    _chained,
    _keyword_as_operand,
    _missing_operand,
    _missing_parenthesis,
    _between,
    _missing_join,
    _missing_operator,
)


def _at(token: Token) -> int:
    return token.start_pos or 0


def _shown(token: Token) -> str:
    return "the end of the text" if token.type == END else shortened(token)


def _listed(expected: frozenset[str]) -> str:
    signs = {"LPAR": "(", "RPAR": ")", "COMMA": "a comma", "NAME": "a name", "COMPARISON": "a comparison"}
    words = {signs.get(kind, kind) for kind in expected} - {"QUOTED"}
    words = {"a value" if word in _VALUES - {"TRUE", "FALSE"} else word for word in words}
    words = {"the end" if word == END else word for word in words}
    return " or ".join(sorted(words))
