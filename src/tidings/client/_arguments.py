"""What callers may give as a word, a text or seconds, as what it means.

What means nothing is refused before anything is done, by an error that names it and what would do.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar

from tidings.broker import is_located
from tidings.model import ArgumentRefused, Filter, FilterError, Matches, Position, TidingsError

_Choice = TypeVar("_Choice", bound=enum.Enum)
_T = TypeVar("_T")

MAX_NAME = 256
"""The most characters of the name of a client or a durable subscription."""
MAX_SHOWN = 60
"""The most characters of a value that an error shows."""


def shown(value: object) -> str:
    """A value as an error shows it."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def filter_of(given: Matches | str, what: str = "a filter") -> Matches:
    """A filter, or its text."""
    if isinstance(given, str):
        return Filter.parse(given)
    if isinstance(given, Filter) or (not isinstance(given, type) and callable(getattr(given, "matches", None))):
        return given
    raise FilterError(
        f"{what} is a text or a Filter, not {shown(given)}; write one like \"type = 'quote' AND price > 100\", or "
        'build one like tidings.attr.price > 100; "TRUE" passes everything'
    )


def check_stays(filter: Matches) -> None:
    """Raise `FilterError` for a filter that means something else at each place, and cannot be durable."""
    if is_located(filter):
        raise FilterError(
            f"'{filter}' uses myloc, and a durable subscription keeps positions, which say nothing about places; name "
            "the place, or subscribe without `durable`"
        )


def choice_of(
    kind: type[_Choice], given: _Choice | str, what: str, refusal: type[TidingsError] = ArgumentRefused
) -> _Choice:
    """A member of an enum, or its name in letters of any size. `what` says in the refusal what was to be chosen."""
    if isinstance(given, kind):
        return given
    chosen = kind.__members__.get(given.upper()) if isinstance(given, str) else None
    if chosen is None:
        *words, last = (f'"{name.lower()}"' for name in kind.__members__)
        raise refusal(f"{shown(given)} is no {what}; choose {', '.join(words)} or {last}")
    return chosen


def microseconds_of(seconds: float, what: str, most: int) -> int:
    """Microseconds, at most `most`. `what` says in the refusal what the seconds are."""
    return min(round(seconds_of(seconds, what, most / 1_000_000) * 1_000_000), most)


def seconds_of(seconds: float, what: str, most: float, least: float = 0) -> float:
    """Seconds, from `least` to `most`. `what` says in the refusal what they are."""
    if not _is_number(seconds) or not least <= seconds <= most:  # refuses NaN, too
        raise ArgumentRefused(f"{what} of {shown(seconds)} seconds; give one from {least:g} to {int(most):,}")
    return seconds


def timeout_of(timeout: float | None) -> float | None:
    """How long to wait: seconds; None: for as long as it takes."""
    return None if timeout is None else seconds_of(timeout, "a timeout", MAX_WAIT)


MAX_WAIT = 31_536_000.0
"""The most seconds that a call waits, a year: beyond that, None says it better."""


def flag_of(given: object, name: str) -> bool:
    """True or False. Nothing else: "no" would be true."""
    if given is True or given is False:
        return given
    raise ArgumentRefused(f"{name}={shown(given)}; give True or False")


def name_of(given: object, name: str, remedy: str) -> str:
    """A name that can be sent."""
    if isinstance(given, str) and 0 < len(given) <= MAX_NAME and _is_unicode(given):
        return given
    raise ArgumentRefused(f"{name}={shown(given)}; {remedy}, a text of 1 to {MAX_NAME} characters")


def integer_of(given: object, name: str, least: int, most: int) -> int:
    """A whole number."""
    if isinstance(given, int) and not isinstance(given, bool) and least <= given <= most:
        return given
    raise ArgumentRefused(f"{name}={shown(given)}; give a whole number from {least:,} to {most:,}")


def instance_of(given: _T, kind: type[_T], name: str, remedy: str) -> _T:
    """An instance of a class."""
    if isinstance(given, kind):
        return given
    raise ArgumentRefused(f"{name}={shown(given)}; {remedy}")


def position_of(given: object, name: str, most: int) -> Position:
    """A position in a log: an epoch, and a number in it."""
    if isinstance(given, tuple | list) and len(given) == 2:
        epoch, number = given
        return Position(integer_of(epoch, f"{name}[0]", 0, most), integer_of(number, f"{name}[1]", 0, most))
    raise ArgumentRefused(f"{name}={shown(given)}; give an epoch and a number, as in (0, 0)")


def callback_of(given: Callable[..., object] | None, name: str) -> Callable[..., object] | None:
    """Something that can be called, or nothing."""
    if given is None or callable(given):
        return given
    raise ArgumentRefused(f"{name}={shown(given)}; give a function")


def plain_callback_of(given: Callable[..., object] | None, name: str) -> Callable[..., object] | None:
    """As `callback_of`, for what nobody could await."""
    if given is not None and is_async(given):
        raise ArgumentRefused(f"{name}={shown(given)}: it is called, not awaited; give a plain function")
    return callback_of(given, name)


def is_async(function: object) -> bool:
    """Whether calling it gives something to await: an `async def`, a part of one, or an object that is called so."""
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(vars(type(function)).get("__call__"))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def _is_number(given: Any) -> TypeGuard[float]:
    return isinstance(given, int | float) and not isinstance(given, bool)
