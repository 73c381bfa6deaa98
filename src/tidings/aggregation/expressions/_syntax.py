"""A question as it was written: measures, groups, a window and a filter. Printing one gives a text that parses back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from tidings.aggregation.definitions import Sliding
from tidings.model import EVERYTHING, Filter

CLAUSES = frozenset({"BY", "WINDOW", "SLIDE", "WHERE"})
"""Words that begin a clause; an attribute of such a name stands in double quotes."""
RANKS = {"+": 1, "-": 1, "*": 2, "/": 2}
"""How tightly the operators bind."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*")
_UNARY = 3


@dataclass(frozen=True, slots=True)
class Number:
    """A number, which is not negative."""

    value: int | float

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class Name:
    """An attribute."""

    name: str

    def __str__(self) -> str:
        return quoted(self.name)


@dataclass(frozen=True, slots=True)
class Negative:
    """The opposite."""

    part: Operand

    def __str__(self) -> str:
        return f"-{_inside(self.part, _UNARY)}"


@dataclass(frozen=True, slots=True)
class Calculation:
    """Two operands with an operator between them."""

    sign: str
    left: Operand
    right: Operand

    def __str__(self) -> str:
        rank = RANKS[self.sign]
        return f"{_inside(self.left, rank)} {self.sign} {_inside(self.right, rank + 1)}"


Operand: TypeAlias = Number | Name | Negative | Calculation


@dataclass(frozen=True, slots=True)
class Measure:
    """A function of the catalogue: `p95(load)`, `histogram(load, 50, 90)`."""

    function: str
    operand: Operand | None = None
    numbers: tuple[int | float, ...] = ()

    def __str__(self) -> str:
        operand = () if self.operand is None else (str(self.operand),)
        return f"{self.function}({', '.join([*operand, *map(repr, self.numbers)])})"


@dataclass(frozen=True, slots=True)
class Question:
    """A whole text."""

    measures: tuple[Measure, ...]
    window: Sliding
    by: tuple[str, ...] = ()
    where: Filter = EVERYTHING

    def __str__(self) -> str:
        by = f" BY {', '.join(map(quoted, self.by))}" if self.by else ""
        where = "" if self.where == EVERYTHING else f" WHERE {self.where}"
        return f"{', '.join(map(str, self.measures))}{by} {self.window}{where}"


def quoted(name: str) -> str:
    """An attribute as it stands in a text: plain where it can be, in double quotes elsewhere."""
    if _PLAIN.fullmatch(name) and name.upper() not in CLAUSES:
        return name
    return '"' + name.replace('"', '""') + '"'


def _inside(part: Operand, rank: int) -> str:
    """A part of a calculation, in parentheses where it binds less tightly than what is around it."""
    binds = RANKS[part.sign] if isinstance(part, Calculation) else _UNARY
    return f"({part})" if binds < rank else str(part)
