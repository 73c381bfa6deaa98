"""Arithmetic over attributes: `(price - cost) * size / 100`. Parsed here, never evaluated by Python.

    sum      = product { ("+" | "-") product }
    product  = factor { ("*" | "/") factor }
    factor   = number | name | "-" factor | "(" sum ")"

A name is a word, or words joined by dots, or anything in double quotes, as in the filter language.
"""

from __future__ import annotations

import functools
import operator
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from tidings.model import MappingError

Number: TypeAlias = int | float

MAX_EXPRESSION = 1_024
"""The most characters of an expression."""
MAX_DEPTH = 32
"""How deep parentheses and signs may be nested."""

_TOKEN = re.compile(
    r"""\s*(?: (?P<number> (?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)? )
             | (?P<name> [A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)* | "(?:[^"]|"")+" )
             | (?P<sign> [-+*/()] ) )""",
    re.VERBOSE,
)
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


class Expression(NamedTuple):
    """A parsed expression: the attributes that it needs, and its operations in the order of a stack machine."""

    names: tuple[str, ...]
    program: tuple[Number | str | Callable[[Any, Any], Any], ...]

    def evaluate(self, attributes: Mapping[str, Any]) -> Number:
        """The result; arithmetic may raise `ZeroDivisionError` or `OverflowError`."""
        stack: list[Any] = []
        for item in self.program:
            if callable(item):
                right = stack.pop()
                stack.append(item(stack.pop(), right))
            else:
                stack.append(attributes[item] if isinstance(item, str) else item)
        result: Number = stack.pop()
        return result


@functools.lru_cache(maxsize=1024)
def parsed(text: str) -> Expression:
    """The expression that a text means, or `MappingError`, which points at the column."""
    if len(text) > MAX_EXPRESSION:
        raise MappingError(f"an expression of {len(text):,} characters, at most {MAX_EXPRESSION:,} are allowed")
    parser = _Parser(text)
    parser.sum(0)
    if parser.kind:
        raise parser.refused("an operator or the end")
    names = dict.fromkeys(item for item in parser.program if isinstance(item, str))
    return Expression(tuple(names), tuple(parser.program))


class _Parser:
    """Recursive descent, one token ahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.program: list[Number | str | Callable[[Any, Any], Any]] = []
        self.at = self.end = 0
        self.kind = self.word = ""
        self.advance()

    def advance(self) -> None:
        """To the next token; its kind is empty at the end."""
        rest = self.text[self.end :]
        self.at = self.end + len(rest) - len(rest.lstrip())
        match = _TOKEN.match(self.text, self.end)
        if match is None or match.lastgroup is None:
            self.kind, self.word = ("unknown", self.text[self.at]) if rest.strip() else ("", "")
        else:
            self.kind, self.word, self.end = match.lastgroup, match[match.lastgroup], match.end()

    def refused(self, expected: str) -> MappingError:
        """What is wrong at this token."""
        found = repr(self.word) if self.kind else "the end"
        return MappingError(f"{self.text!r}, column {self.at + 1}: {found}; write {expected}")

    def sum(self, depth: int) -> None:
        """Products, joined."""
        self._joined("+-", lambda: self._joined("*/", lambda: self._factor(depth)))

    def _joined(self, signs: str, part: Callable[[], None]) -> None:
        part()
        while self.kind == "sign" and self.word in signs:
            operation = _OPERATIONS[self.word]
            self.advance()
            part()
            self.program.append(operation)

    def _factor(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self.refused(f"at most {MAX_DEPTH} levels of parentheses and signs")
        word, kind = self.word, self.kind
        if kind not in ("number", "name") and word not in ("-", "("):
            raise self.refused("a number, an attribute or '('")
        self.advance()
        if kind == "number":
            self.program.append(self._number(word))
        elif kind == "name":
            self.program.append(word[1:-1].replace('""', '"') if word.startswith('"') else word)
        elif word == "-":
            self.program.append(0)
            self._factor(depth + 1)
            self.program.append(operator.sub)
        else:
            self.sum(depth + 1)
            if self.word != ")":
                raise self.refused("')'")
            self.advance()

    def _number(self, word: str) -> Number:
        number = int(word) if word.isdecimal() else float(word)
        if number > sys.float_info.max:
            raise MappingError(f"{self.text!r}: {word} is larger than any float; the largest is about 1.8e308")
        return number
