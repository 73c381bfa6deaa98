"""Operators that users add to the language: a word, and what makes the constraint.

    size DIVISIBLE_BY 4          factory("size", 4)
    position NEAR (52.5, 13.4)   factory("position", 52.5, 13.4)

A word is an operator only between a name and its operands, so it stays free as a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from ._constraint import Constraint
from ._errors import FilterError
from ._names import KEYWORDS

OperatorFactory: TypeAlias = Callable[..., Constraint]
"""Takes the name of the attribute and the operands, gives the constraint."""

_FACTORIES: dict[str, OperatorFactory] = {}
_WORD = re.compile(r"[A-Z_][A-Z0-9_]*")


def register_operator(word: str, factory: OperatorFactory) -> None:
    """Let the filter language read `name WORD operand` and `name WORD (operand, ...)`.

    Register in every process that parses filters: a word means nothing where it is not known.
    """
    key = word.upper()
    if not _WORD.fullmatch(key) or key in KEYWORDS:
        raise FilterError(f"{word!r} cannot be an operator; use a word of letters, digits and _ that is not taken")
    if _FACTORIES.setdefault(key, factory) is not factory:
        raise FilterError(f"the operator {key} exists; choose another word")


def operator_of(word: str) -> OperatorFactory | None:
    """What makes the constraint for this word, if it is known."""
    return _FACTORIES.get(word.upper())
