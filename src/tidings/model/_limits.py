"""How large a filter may become.

A filter is kept as a disjunction of conjunctions, and `(a OR b) AND (c OR d) AND ...` doubles with
every factor. So the size of a result is checked *before* the result is computed, by `checked_size`
where it can be predicted and by `checked`, which stops drawing at the limit, everywhere else.
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
            f"the filter comes to {_rounded(conjunctions)} alternatives joined by OR, "
            f"at most {MAX_CONJUNCTIONS} are allowed; {_REMEDY}"
        )
    if constraints > MAX_CONSTRAINTS:
        raise FilterTooLarge(
            f"the filter comes to {_rounded(constraints)} comparisons, "
            f"at most {MAX_CONSTRAINTS:,} are allowed; {_REMEDY}"
        )


def checked(conjunctions: Iterable[Conjunction]) -> tuple[Conjunction, ...]:
    """The conjunctions, each once and in their order, or `FilterTooLarge`."""
    unique: dict[Conjunction, None] = {}
    constraints = 0
    for conjunction in conjunctions:
        if conjunction not in unique:
            unique[conjunction] = None
            constraints += len(conjunction)
            checked_size(len(unique), constraints)
    return tuple(unique)


def _rounded(count: int) -> str:
    return f"{count:,}" if count < 1_000_000 else "millions of"
