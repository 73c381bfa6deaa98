"""What callers may give as a seed, a number of seconds or a choice of faults.

What means nothing is refused before anything happens, by an error that names it and what would do: a test that draws no
fault, or runs no seed, passes and says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidings.model import ArgumentRefused

from ._fault_plan import Trouble

MAX_SHOWN = 60
"""The most characters of a value that an error shows."""
MAX_NAME = 256
"""The most characters of the name of a broker or application."""
MAX_SECONDS = 31_536_000.0
"""The most seconds of virtual time that can be asked for, a year."""


def shown(value: object) -> str:
    """A value as an error shows it."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def name_of(given: object, what: str) -> str:
    """The name of a broker or application: it stands in addresses, options and reports."""
    if isinstance(given, str) and 0 < len(given) <= MAX_NAME and given.isprintable() and not set(" /") & set(given):
        return given
    raise ArgumentRefused(
        f"{shown(given)} is no name for {what}; give a text of 1 to {MAX_NAME} printable characters, without spaces "
        "and slashes"
    )


def brokers_of(given: object) -> list[str]:
    """The names of brokers, one or more."""
    if isinstance(given, Iterable) and not isinstance(given, str) and (brokers := list(given)):
        return [name_of(broker, "a broker") for broker in brokers]
    raise ArgumentRefused(f"brokers={shown(given)}; give the names of one or more brokers, as in ['berlin']")


def seed_of(given: object, what: str = "seed") -> int:
    """A whole number."""
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    raise ArgumentRefused(f"{what}={shown(given)}; give a whole number, as in {what}=7")


def seconds_of(given: object, what: str, *, least: float = 0.0) -> float:
    """Seconds of virtual time, from `least` to a year."""
    if isinstance(given, int | float) and not isinstance(given, bool) and least <= given <= MAX_SECONDS:  # no NaN
        return given
    raise ArgumentRefused(f"{what}={shown(given)}; give seconds from {least:,.10g} to {MAX_SECONDS:,.10g}")


def kinds_of(given: object) -> tuple[Trouble, ...]:
    """Kinds of faults, one or more."""
    kinds = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else ()
    if kinds and all(isinstance(kind, Trouble) for kind in kinds):
        return kinds
    names = ", ".join(f"Trouble.{kind.name}" for kind in Trouble)
    raise ArgumentRefused(f"kinds={shown(given)}; give one or more of {names}, as in kinds=[Trouble.CRASH]")
