"""How large a filter may become.

A filter is kept as a disjunction of conjunctions, and `(a OR b) AND (c OR d) AND ...` doubles with
every factor. So the size of a result is checked *before* the result is computed, by `checked_size`
where it can be predicted and by `checked`, which stops drawing at the limit, everywhere else.

Filters travel as text, so the limit on a text holds for what a filter prints as, too: a filter that could
not be read at the other end is refused where it is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ._errors import FilterTooLarge

if TYPE_CHECKING:
    from ._conjunction import Conjunction

MAX_FILTER_TEXT = 16_384
"""The most characters of a filter's text."""
MAX_CONJUNCTIONS = 256
"""The most conjunctions of one filter."""
MAX_CONSTRAINTS = 1_024
"""The most constraints of one filter, in all its conjunctions together."""

_REMEDY = "use IN for many values of one attribute, or several subscriptions"


def checked_size(conjunctions: int, constraints: int) -> None:
    """Raise `FilterTooLarge` for a filter of this many conjunctions and constraints."""
    if conjunctions > MAX_CONJUNCTIONS:
        raise FilterTooLarge(
            f"the filter expands to {_rounded(conjunctions)} alternatives joined by OR, "
            f"at most {MAX_CONJUNCTIONS} are allowed; {_REMEDY}"
        )
    if constraints > MAX_CONSTRAINTS:
        raise FilterTooLarge(
            f"the filter expands to {_rounded(constraints)} comparisons, "
            f"at most {MAX_CONSTRAINTS:,} are allowed; {_REMEDY}"
        )


def checked(conjunctions: Iterable[Conjunction]) -> tuple[Conjunction, ...]:
    """The conjunctions, each once and in their order, or `FilterTooLarge`."""
    unique: dict[Conjunction, None] = {}
    constraints = length = 0
    for conjunction in conjunctions:
        if conjunction not in unique:
            unique[conjunction] = None
            constraints += len(conjunction)
            checked_size(len(unique), constraints)
            length += _printed(conjunction)
            checked_length(length)
    return tuple(unique)


def checked_length(characters: int) -> None:
    """Raise `FilterTooLarge` for a filter whose text is this long."""
    if characters > MAX_FILTER_TEXT:
        raise FilterTooLarge(
            f"the filter expands to a text of {characters:,} characters, at most {MAX_FILTER_TEXT:,} are allowed; "
            "use shorter constants, or several subscriptions"
        )


def printable(conjunctions: Iterable[Conjunction]) -> bool:
    """Whether the text of a filter stays within the limit."""
    return sum(map(_printed, conjunctions)) <= MAX_FILTER_TEXT


def _printed(conjunction: Conjunction) -> int:
    """How many characters a conjunction takes, with its parentheses and the OR after it."""
    return len(str(conjunction)) + len("() OR ")


def _rounded(count: int) -> str:
    return f"{count:,}" if count < 1_000_000 else "millions of"
