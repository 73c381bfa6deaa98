"""What is wrong with a text of the scope language: where it is, and what would be right."""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tidings.model import ScopeError

MAX_MISTAKES = 50
"""The most mistakes that are shown of one text; the others are counted."""
MAX_SHOWN = 100
"""The most characters of a line that are shown."""


class Misfit(Exception):
    """One mistake, at a place of the text; whoever knows the text makes a `Mistake` of it."""

    def __init__(self, problem: str, at: int, remedy: str = "", kind: type[ScopeError] = ScopeError) -> None:
        self.problem = problem
        self.at = at
        self.remedy = remedy
        self.kind = kind
        super().__init__(problem)

    def as_error(self) -> ScopeError:
        """The same of a statement that stands in no text."""
        remedy = self.remedy.removesuffix(".")
        if remedy[1:2].islower():
            remedy = remedy[:1].lower() + remedy[1:]
        return self.kind(f"{self.problem}; {remedy}" if remedy else self.problem)


class Source:
    """A text, and the file that it came from."""

    def __init__(self, text: str, name: str = "") -> None:
        self.text = text
        self.name = name

    @functools.cached_property
    def _starts(self) -> list[int]:
        lengths = (len(line) + 1 for line in self.text.split("\n"))
        return list(itertools.accumulate(lengths, initial=0))

    def place(self, at: int) -> tuple[int, int]:
        """The line and the column of a character; both count from 1."""
        line = bisect.bisect_right(self._starts, at) - 1
        return line + 1, at - self._starts[line] + 1

    def mistake(self, misfit: Misfit) -> Mistake:
        """A misfit, with the line that it is in."""
        line, column = self.place(min(misfit.at, len(self.text)))
        text = self.text[self._starts[line - 1] :].split("\n", 1)[0].rstrip("\r")
        return Mistake(self.name, line, column, misfit.problem, misfit.remedy, text, misfit.kind)


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong with a text."""

    file: str
    line: int
    column: int
    problem: str
    remedy: str
    text: str
    """The whole line."""
    kind: type[ScopeError] = ScopeError
    """What was raised if this were all."""

    def __str__(self) -> str:
        at = self.column - 1
        start = max(0, min(at - MAX_SHOWN // 2, len(self.text) - MAX_SHOWN))
        shown = self.text[start : start + MAX_SHOWN].replace("\t", " ")
        place = f"{self.file or 'line'}:{self.line}:{self.column}" if self.file else f"line {self.line}:{self.column}"
        remedy = f"\n  {self.remedy}" if self.remedy else ""
        return f"{place}: {self.problem}\n    {shown}\n    {' ' * (at - start)}^{remedy}"


class ScriptError(ScopeError):
    """What is wrong with a text of the scope language: everything that was found at once. Nothing was changed."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__(self.mistakes)

    def __str__(self) -> str:
        shown = "\n".join(map(str, self.mistakes[:MAX_MISTAKES]))
        more = len(self.mistakes) - MAX_MISTAKES
        return shown if more <= 0 else f"{shown}\nand {more} more mistakes; correct these first"
