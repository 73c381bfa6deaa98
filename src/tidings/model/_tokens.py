"""From the text of a filter to its tokens, and what to say about characters that form none.

One regular expression recognises every token, the wrong ones too: `==` is read as one wrong operator
with a remedy of its own, not as two right ones in a wrong place. All quantifiers over quoted text are
possessive, so that no text takes more than linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lark import Token

from ._names import KEYWORDS

END = "$END"
"""The type of the token after the last one (the name is lark's)."""

_TOKEN = re.compile(
    r"""
      (?P<SPACE> \s+ )
    | (?P<NUMBER> [+-]?+ (?: [0-9]++ (?:\.[0-9]*+)?+ | \.[0-9]++ ) (?:[eE][+-]?[0-9]+)?+ (?![\w.]) )
    | (?P<BYTES> [xX] '(?:[^']|'')*+' )
    | (?P<TIME> (?i:TIMESTAMP) \s*+ '(?:[^']|'')*+' )
    | (?P<PLACE> (?i:LOCATION) \s*+ '(?:[^']|'')*+' )
    | (?P<TEXT> '(?:[^']|'')*+' )
    | (?P<QUOTED> "(?:[^"]|"")*+" )
    | (?P<NAME> [^\W\d]\w*+ (?:\.\w++)*+ )
    | (?P<WRONG> == | => | =< | <=> | =~ | !~ | && | \|\| | \*\* | !(?!=) | [~&|^*/%+-] )
    | (?P<COMPARISON> <> | != | <= | >= | [=<>] )
    | (?P<LPAR> \( )
    | (?P<RPAR> \) )
    | (?P<COMMA> , )
    | (?P<MALFORMED> [0-9.][\w.]*+ )
    | (?P<STRAY> . )
    """,
    re.VERBOSE | re.DOTALL,
)

_ARITHMETIC = "Filters do not calculate: compute the value first and write it as a constant."
_WRONG = {
    "==": "Write = to compare.",
    "=>": "Write >= for 'greater or equal'.",
    "=<": "Write <= for 'less or equal'.",
    "<=>": "Write = to compare.",
    "&&": "Write AND.",
    "&": "Write AND.",
    "||": "Write OR.",
    "|": "Write OR.",
    "!": "Write NOT, or <> for 'unequal'.",
    "~": "Write LIKE with % and _ as wildcards, or NOT.",
    "=~": "Write LIKE with % and _ as wildcards.",
    "!~": "Write NOT LIKE with % and _ as wildcards.",
}
_STRAY = {
    "≠": "Write <> for 'unequal'.",
    "≤": "Write <= for 'less or equal'.",
    "≥": "Write >= for 'greater or equal'.",
    ";": "A filter is one condition, without a semicolon.",
    "?": "There are no parameters; build the filter in Python: attr.price > limit.",
    ":": "There are no parameters; build the filter in Python: attr.price > limit.",
    "[": "Write a list of values in parentheses: IN (1, 2).",
    "{": "Write a list of values in parentheses: IN (1, 2).",
    **dict.fromkeys("‘’´`“”„«»", "Use straight quotes: 'text' for a text, \"name\" for a name."),
}
_QUOTES = {
    "'": "Close the text with ', and double a ' inside it: 'it''s'.",
    '"': 'Close the name with ", and double a " inside it.',
}


class Misfit(Exception):
    """Something in the text that does not fit; the parser adds the text and raises `FilterSyntaxError`."""

    def __init__(self, problem: str, at: int, remedy: str) -> None:
        self.problem = problem
        self.at = at
        self.remedy = remedy
        super().__init__(problem)


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a text, an `END` last; `start_pos` counts from 0. Raises `Misfit`.

    >>> [token.type for token in tokens("price >= 20 AND symbol LIKE 'SA%'")]
    ['NAME', 'COMPARISON', 'NUMBER', 'AND', 'NAME', 'LIKE', 'TEXT', '$END']
    """
    end = 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind == "SPACE":
            continue
        at, written = match.start(), match.group()
        if kind == "NAME" and written.isascii() and (word := written.upper()) in KEYWORDS:
            kind = word
        elif kind in _MISFITS:
            raise _misfit(kind, written, at)
        end = match.end()
        yield Token(kind, written, at)
    yield Token(END, "", end)


def least_cost(text: str) -> int:
    """What a filter that is written so costs at least (see `Filter.cost`), or would if it repeated nothing.

    It is counted without parsing: comparisons stand between AND and OR, and what costs 1 takes at most 12 tokens, as
    `NOT a IN (1, 2, 3) AND` does.

    >>> least_cost("a = 1 OR a BETWEEN 2 AND 3 AND b = 1")
    3
    """
    words, comparisons = 0, 1
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        words += kind != "SPACE"
        if kind == "NAME":
            comparisons += _JOINTS.get(match.group().upper(), 0)
    return max(comparisons, words // 12)


_JOINTS = {"AND": 1, "OR": 1, "BETWEEN": -1}
_MISFITS = frozenset({"WRONG", "MALFORMED", "STRAY"})


def _misfit(kind: str, written: str, at: int) -> Misfit:
    if kind == "WRONG":
        return Misfit(f"{written} is not an operator", at, _WRONG.get(written, _ARITHMETIC))
    if kind == "MALFORMED":
        remedy = "Write a name that starts with a digit in double quotes; numbers look like 5, -2.5 or 1e6."
        return Misfit(f"{shortened(written)} is neither a number nor a name", at, remedy)
    if written in _QUOTES:
        return Misfit("this quote is never closed", at, _QUOTES[written])
    remedy = _STRAY.get(written, "Write a name with such a character in double quotes, and text in single quotes.")
    return Misfit(f"{written!r} has no meaning here", at, remedy)


def shortened(text: str, width: int = 40) -> str:
    """The text, cut where a message would become unreadable.

    >>> shortened("a name that goes on and on", 12)
    'a name th...'
    """
    return text if len(text) <= width else text[: width - 3] + "..."
