"""The texts that most filters are, read at once: comparisons of a name with a constant, joined by AND.

The grammar of `_language` is the contract; this is a shortcut through it. Such a text becomes the filter that the
parser would make of it, in a sixth of the time. Of any other text, a wrong one among them, nothing is said here: the
parser reads it, and finds the words for what is wrong.
"""

from __future__ import annotations

import re

from ._constraint import Constraint
from ._errors import FilterError, ValueRefused
from ._expression import filter_of_term
from ._filter import Filter
from ._names import KEYWORDS, MAX_NAME
from ._values import Scalar, checked_scalar
from .operators import Equal, Range

_MAX_CONDITIONS = 32
"""Longer texts are left to the parser, which counts what they cost."""

_CONSTANT = r"(?:[+-]?[0-9]{1,15}+(?:\.[0-9]{1,15}+)?(?![\w.])|'(?:[^']|'')*+')"
_CONDITION = re.compile(
    rf"""
    \s*+ ([A-Za-z_]\w*+(?:\.\w++)*+) \s*+
    (?: (=|<=|>=|<(?![=>])|>(?!=)) (?![=~>]) \s*+ ({_CONSTANT})
      | (?i:BETWEEN) \s++ ({_CONSTANT}) \s*+ (?i:AND) \s++ ({_CONSTANT}) )
    \s*+ (?: \Z | (?i:(AND)) \s )
    """,
    re.VERBOSE,
)


def plain_filter(text: str) -> Filter | None:
    """The filter that a text means, if it is plain; None if it takes the parser to tell.

    >>> plain_filter("type = 'quote' AND price >= 20")
    Filter.parse("price >= 20 AND type = 'quote'")
    >>> plain_filter("price = 20 OR price = 30") is None
    True
    """
    term: list[Constraint] = []
    at, more = 0, True
    try:
        while more:
            found = _CONDITION.match(text, at)
            if found is None or len(term) == _MAX_CONDITIONS:
                return None
            written, sign, operand, low, high, joint = found.groups()
            if written.upper() in KEYWORDS:
                return None
            if len(written) > MAX_NAME:
                return None  # otherwise it is a name: the expression above has seen to that
            term.append(_constraint(written, sign, operand, low, high))
            at, more = found.end(), joint is not None
        return filter_of_term(tuple(term))
    except (FilterError, ValueRefused):
        return None


def _constraint(name: str, sign: str | None, operand: str, low: str, high: str) -> Constraint:
    if sign is None:
        return Range(name, _constant(low), _constant(high))
    value = _constant(operand)
    if sign == "=":
        return Equal(name, value)
    if sign[0] == ">":
        return Range(name, value, low_open=sign == ">")
    return Range(name, high=value, high_open=sign == "<")


def _constant(written: str) -> Scalar:
    if written[0] == "'":
        return checked_scalar(written[1:-1].replace("''", "'"), written)
    return float(written) if "." in written else int(written)
