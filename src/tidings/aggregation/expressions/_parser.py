"""From the text of a question to its syntax.

    question  = measure { "," measure } [ "BY" name { "," name } ] "WINDOW" duration [ "SLIDE" duration ] [ "WHERE"
    filter ] measure   = function "(" [ sum { "," number } ] ")"
    sum       = product { ("+" | "-") product }
    product   = factor { ("*" | "/") factor }
    factor    = number | name | "-" factor | "(" sum ")"

Recursive descent, one token ahead; the filter is the filter language's own. A text is bounded in characters, parts
and nesting before anything is built of it, so that reading one, and later computing it, costs no more than these say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tidings.aggregation.definitions import MAX_PARTS, Sliding
from tidings.model import (
    EVERYTHING,
    MAX_FILTER_TEXT,
    MAX_NAME,
    AggregateError,
    ExpressionError,
    Filter,
    FilterError,
    FilterSyntaxError,
    shortened,
)

from ._functions import FUNCTIONS, OF_SUBSCRIPTIONS, function_of
from ._syntax import CLAUSES, Calculation, Measure, Name, Negative, Number, Operand, Question

MAX_TEXT = MAX_FILTER_TEXT + 2_048
"""The most characters of a question, its filter included."""
MAX_OPERATIONS = 64
"""The most numbers, attributes and operators of all measures together."""
MAX_NESTING = 16
"""How deep parentheses and signs may be nested."""
MAX_GROUPING = 8
"""The most attributes after BY."""

_TOKEN = re.compile(
    r"""\s*+(?: (?P<name> [^\W\d]\w*+ (?:\.\w++)*+ )
              | (?P<duration> (?:[0-9]++(?:\.[0-9]++)?+(?:ms|[smhdw]))++ (?!\w) )
              | (?P<number> (?: [0-9]++ (?:\.[0-9]*+)?+ | \.[0-9]++ ) (?:[eE][+-]?[0-9]++)?+ (?![\w.]) )
              | (?P<quoted> "(?:[^"]|"")++" )
              | (?P<sign> [-+*/(),] )
              | (?P<stray> \S ) )""",
    re.VERBOSE,
)


def parse(text: str) -> Question:
    """The question that a text asks, or `ExpressionError`, which points at the column.

    >>> print(parse("count(), p95(load) by rack window 60s where type = 'load'"))
    count(), p95(load) BY rack WINDOW 1m WHERE type = 'load'
    """
    if not isinstance(text, str):
        raise AggregateError(f'a question is a text, not {type(text).__name__}; write "count() WINDOW 60s"')
    if len(text) > MAX_TEXT:
        raise AggregateError(f"a question of {len(text):,} characters, at most {MAX_TEXT:,} are allowed; ask several")
    return _Parser(text).question()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._end = 0
        self._kind = self._word = ""
        self._operations = 0
        self._advance()

    def question(self) -> Question:
        if not self._kind:
            self._refuse("the question is empty", "Write what to count, and over which time: count() WINDOW 60s.")
        measures = self._listed(self._measure, "measures", MAX_PARTS)
        by: Sequence[str] = ()
        if self._clause("BY"):
            by = self._listed(self._name, "attributes after BY", MAX_GROUPING)
            if len(set(by)) < len(by):
                self._refuse("BY names an attribute twice", "Name each attribute once.")
        of_subscriptions = [measure.function in OF_SUBSCRIPTIONS for measure in measures]
        if any(of_subscriptions) and (by or not all(of_subscriptions)):
            self._refuse(
                "subscriptions are measured together with something else",
                "Ask about them by themselves, without BY: they have no attributes.",
            )
        window = self._window()
        return Question(tuple(measures), window, tuple(by), self._where())

    def _measure(self) -> Measure:
        at = self._at
        if self._kind != "name" or self._word.upper() in CLAUSES:
            names = ", ".join(sorted(FUNCTIONS))
            self._refuse(f"{self._found()} is not a function", f"Functions are {names}, median and p0 to p100, as p95.")
        name = self._word.lower()
        function = function_of(name)
        if function is None:
            self._unknown(name)
        self._advance()
        self._sign("(", f"Write {name}({'' if function.takes is None else 'load'}).")
        operand = None
        numbers: list[int | float] = []
        if self._word != ")":
            operand = self._sum(0)
            while self._word == ",":
                self._advance()
                numbers.append(self._signed())
        end = self._at
        self._sign(")", "Close the parenthesis with ).")
        if problem := function.misfit(operand, numbers):
            self._refuse(f"{name}: {problem}", f"Write {function.example}.", at if operand is None else end)
        return Measure(function.canonical(name), operand, tuple(numbers))

    def _unknown(self, name: str) -> NoReturn:
        near = {
            "average": "mean",
            "total": "sum",
            "maximum": "max",
            "minimum": "min",
            "top": "frequent",
            "uniq": "distinct",
        }
        names = ", ".join(sorted(FUNCTIONS))
        remedy = f"Write {near[name]}." if name in near else f"Functions are {names}, median and p0 to p100, as p95."
        self._refuse(f"{shortened(name)} is not a function", remedy)

    def _signed(self) -> int | float:
        negative = self._word == "-"
        if negative:
            self._advance()
        if self._kind != "number":
            self._refuse(f"{self._found()} is not a number", "After the first comma there are numbers only.")
        self._count()
        number = self._number()
        return -number if negative else number

    def _sum(self, depth: int) -> Operand:
        return self._joined("+-", lambda: self._joined("*/", lambda: self._factor(depth)))

    def _joined(self, signs: str, part: Callable[[], Operand]) -> Operand:
        left = part()
        while self._kind == "sign" and self._word in signs:
            sign = self._word
            self._count()
            self._advance()
            left = Calculation(sign, left, part())
        return left

    def _factor(self, depth: int) -> Operand:
        if depth > MAX_NESTING:
            self._refuse(f"nested deeper than {MAX_NESTING} levels", "Remove some parentheses and signs.")
        self._count()
        if self._kind == "number":
            return Number(self._number())
        if self._kind in ("name", "quoted"):
            return Name(self._name())
        if self._word not in ("-", "("):
            remedy = "Write an attribute, a number or a calculation; texts are compared in WHERE only."
            self._refuse(f"{self._found()} is not something to measure", remedy)
        word = self._word
        self._advance()
        if word == "-":
            return Negative(self._factor(depth + 1))
        inner = self._sum(depth + 1)
        self._sign(")", "Close the parenthesis with ).")
        return inner

    def _count(self) -> None:
        self._operations += 1
        if self._operations > MAX_OPERATIONS:
            self._refuse(f"more than {MAX_OPERATIONS} numbers, attributes and operators", "Ask several questions.")

    def _number(self) -> int | float:
        word = self._word
        number = int(word) if word.isdecimal() else float(word)
        if number >= 2**63 if isinstance(number, int) else not math.isfinite(number):
            self._refuse(f"{shortened(word)} is too large", "Integers have 64 bits, and floats end at 1.8e308.")
        self._advance()
        return number

    def _name(self) -> str:
        if self._kind == "name" and self._word.upper() not in CLAUSES:
            name = self._word
        elif self._kind == "quoted":
            name = self._word[1:-1].replace('""', '"')
        else:
            remedy = "Write one like rack; one that is a word of the language, or has spaces, in double quotes."
            self._refuse(f"{self._found()} is not an attribute", remedy)
        if len(name) > MAX_NAME:
            self._refuse(f"a name of {len(name):,} characters", f"Names have at most {MAX_NAME}.")
        self._advance()
        return name

    def _window(self) -> Sliding:
        at = self._at
        if not self._clause("WINDOW"):
            if self._kind == "name" and self._word.upper() not in CLAUSES:
                remedy = "The order is measures, BY, WINDOW, SLIDE, WHERE, with commas between measures."
                self._refuse(f"{shortened(self._word)} does not fit here", remedy)
            self._refuse("there is no window", "Say over which time: WINDOW 60s, before WHERE.")
        size = self._duration()
        slide = self._duration() if self._clause("SLIDE") else size
        try:
            return Sliding(size, slide)
        except AggregateError as error:
            raise ExpressionError(str(error), self._text, at + 1) from None

    def _duration(self) -> str:
        word = self._word
        if self._kind != "duration":
            self._refuse(f"{self._found()} is not a duration", "Write one like 250ms, 60s, 5m or 1h30m.")
        self._advance()
        return word

    def _where(self) -> Filter:
        if not self._kind:
            return EVERYTHING
        if self._kind != "name" or self._word.upper() != "WHERE":
            remedy = "The order is measures, BY, WINDOW, SLIDE, WHERE."
            self._refuse(f"{self._found()} does not fit here", remedy)
        start = self._end
        text = self._text[start:]
        try:
            where = Filter.parse(text)
        except FilterSyntaxError as error:
            raise ExpressionError(error.problem, self._text, start + error.column, error.remedy) from None
        except FilterError as error:
            raise ExpressionError(str(error), self._text, start + 1) from None
        if where.has_marker:
            raise ExpressionError("a question has no place of its own, so myloc means nothing", self._text, start + 1)
        return where

    def _listed(self, one: Callable[[], Any], what: str, most: int) -> list[Any]:
        found = [one()]
        while self._kind == "sign" and self._word == ",":
            if len(found) == most:
                self._refuse(f"more than {most} {what}", "Ask several questions.")
            self._advance()
            found.append(one())
        return found

    def _clause(self, word: str) -> bool:
        fits = self._kind == "name" and self._word.upper() == word
        if fits:
            self._advance()
        return fits

    def _sign(self, sign: str, remedy: str) -> None:
        if self._kind != "sign" or self._word != sign:
            self._refuse(f"{self._found()} stands where {sign} is expected", remedy)
        self._advance()

    def _advance(self) -> None:
        """To the next token; its kind is empty at the end."""
        match = _TOKEN.match(self._text, self._end)
        if match is None or match.lastgroup is None:
            self._at = len(self._text.rstrip())
            self._kind = self._word = ""
        else:
            self._kind, self._word = match.lastgroup, match[match.lastgroup]
            self._at, self._end = match.start(match.lastgroup), match.end()

    def _found(self) -> str:
        return shortened(self._word) if self._kind else "the end"

    def _refuse(self, problem: str, remedy: str, at: int | None = None) -> NoReturn:
        raise ExpressionError(problem, self._text, (self._at if at is None else at) + 1, remedy)
