"""What callers may give as a word, a text or seconds, as what it means.

What means nothing is refused before anything is done, by an error that names it and what would do.
"""

from __future__ import annotations

import enum
from typing import TypeVar

from tidings.model import Filter, Matches, TidingsError

_Choice = TypeVar("_Choice", bound=enum.Enum)


def filter_of(given: Matches | str) -> Matches:
    """A filter, or its text."""
    return Filter.parse(given) if isinstance(given, str) else given


def choice_of(
    kind: type[_Choice], given: _Choice | str, what: str, refusal: type[TidingsError] = TidingsError
) -> _Choice:
    """A member of an enum, or its name in letters of any size. `what` says in the refusal what was to be chosen."""
    if isinstance(given, kind):
        return given
    chosen = kind.__members__.get(given.upper()) if isinstance(given, str) else None
    if chosen is None:
        *words, last = (f'"{name.lower()}"' for name in kind.__members__)
        raise refusal(f"{given!r} is no {what}; choose {', '.join(words)} or {last}")
    return chosen


def microseconds_of(seconds: float, what: str, most: int) -> int:
    """Microseconds, at most `most`. `what` says in the refusal what the seconds are."""
    if not 0 <= seconds <= most / 1_000_000:  # refuses NaN, too
        raise TidingsError(f"{what} of {seconds} seconds; give one from 0 to {most // 1_000_000:,}")
    return min(round(seconds * 1_000_000), most)
