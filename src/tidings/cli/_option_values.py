"""The values of options that are not plain text: each is read here, so that a wrong one is refused in our words."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import TypeVar

from ._errors import UsageError

_Choice = TypeVar("_Choice", bound=enum.Enum)


def whole(option: str, lowest: int, highest: int | None = None) -> Callable[[str | int], int]:
    """A whole number within bounds.

    >>> whole("--port", 0, 65_535)("7311")
    7311
    """
    upto = f"{lowest:,} or more" if highest is None else f"from {lowest:,} to {highest:,}"

    def read(value: str | int) -> int:
        found = int(value) if str(value).lstrip("-").isdecimal() and len(str(value)) < 20 else None
        if found is None or found < lowest or (highest is not None and found > highest):
            raise UsageError(f"{option} {value}: write a whole number, {upto}")
        return found

    return read


def finite(option: str) -> Callable[[str | float], float]:
    """A number that is not infinite.

    >>> finite("--edge")("-2.5")
    -2.5
    """

    def read(value: str | float) -> float:
        try:
            found = float(value)
        except ValueError:
            found = math.nan
        if not math.isfinite(found):
            raise UsageError(f"{option} {value}: write a number, like 10 or -2.5")
        return found

    return read


def seconds(option: str, lowest: float = 0) -> Callable[[str | float], float]:
    """A number of seconds.

    >>> seconds("--timeout")("0.5")
    0.5
    """

    def read(value: str | float) -> float:
        try:
            found = float(value)
        except ValueError:
            found = math.nan
        if not lowest <= found < math.inf:
            raise UsageError(f"{option} {value}: write a number of seconds, {lowest:g} or more, like 0.5 or 30")
        return found

    return read


def one_of(option: str, kind: type[_Choice]) -> Callable[[str | _Choice], _Choice]:
    """One of the words of an enumeration."""

    def read(value: str | _Choice) -> _Choice:
        if isinstance(value, kind):
            return value
        for member in kind:
            if member.value == value:
                return member
        raise UsageError(f"{option} {value}: choose one of {', '.join(str(member.value) for member in kind)}")

    return read


def words_of(kind: type[enum.Enum]) -> str:
    """The words of an enumeration, as help shows them."""
    return "|".join(str(member.value) for member in kind)
