"""From a token to the name or the constant that it stands for; each refusal points at the token."""

from __future__ import annotations

import math
from datetime import datetime

from lark import Token

from ._errors import FilterError, ValueRefused
from ._location import Location
from ._names import checked_name
from ._tokens import Misfit, shortened
from ._values import Scalar, checked_scalar

_MAX_DIGITS = 400
"""The most characters of a number; the longest that a float can print is shorter."""


def attribute(token: Token, operator: str) -> str:
    """The name that a token stands for, on the left of an operator."""
    if token.type == "NAME":
        return _checked_name(str(token), token)
    if token.type == "QUOTED":
        return _checked_name(token[1:-1].replace('""', '"'), token)
    if token.type == "TEXT":
        remedy = f"Write a name plain or in double quotes: {shortened(token[1:-1])}."
        raise misfit(token, f"{shortened(token)} in single quotes is text, not an attribute", remedy)
    remedy = f"Write the attribute on the left of {operator} and constants on its right."
    raise misfit(token, f"{shortened(token)} is not an attribute", remedy)


def constant(token: Token) -> Scalar:
    """The value that a token stands for, on the right of an operator."""
    match token.type:
        case "TRUE" | "FALSE":
            return token.type == "TRUE"
        case "NUMBER":
            value: Scalar = _number(token)
        case "TEXT":
            value = _unquoted(token)
        case "BYTES":
            value = _bytes(token)
        case "TIME":
            value = _time(token)
        case "PLACE":
            value = _place(token)
        case _:
            raise _not_a_constant(token)
    try:
        return checked_scalar(value, shortened(token))
    except ValueRefused as error:
        raise misfit_of(error, token) from None


def is_name(token: Token) -> bool:
    """Whether the token names an attribute."""
    return token.type in {"NAME", "QUOTED"}


def misfit(token: Token, problem: str, remedy: str) -> Misfit:
    return Misfit(problem, token.start_pos or 0, remedy)


def misfit_of(error: FilterError | ValueRefused, token: Token) -> Misfit:
    """What an operator or a value refused, at the token that it came from."""
    problem, _, remedy = str(error).rpartition("; ")
    return misfit(token, problem or remedy, f"{remedy[:1].upper()}{remedy[1:]}." if problem else "")


def _checked_name(name: str, token: Token) -> str:
    try:
        return checked_name(name, shortened(token))
    except ValueRefused as error:
        raise misfit_of(error, token) from None


def _unquoted(token: Token) -> str:
    """What stands between the single quotes."""
    return token[token.index("'") + 1 : -1].replace("''", "'")


def _number(token: Token) -> int | float:
    if len(token) > _MAX_DIGITS:
        raise misfit(token, f"a number of {len(token):,} digits is too long", "Write it as a float, like 1e20.")
    if token.lstrip("+-").isdecimal():
        return int(token)
    number = float(token)
    if math.isinf(number):
        raise misfit(token, f"{token} is larger than any float", "The largest is about 1.8e308.")
    return number


def _bytes(token: Token) -> bytes:
    try:
        return bytes.fromhex(_unquoted(token))
    except ValueError:
        remedy = "Write two hexadecimal digits for each byte: X'0AFF'."
        raise misfit(token, f"{shortened(token)} does not spell bytes", remedy) from None


def _time(token: Token) -> datetime:
    written = _unquoted(token)
    try:
        moment = datetime.fromisoformat(written)
    except ValueError:
        remedy = "Write it like TIMESTAMP '2026-11-15T12:00:00Z'."
        raise misfit(token, f"{shortened(token)} is not a time", remedy) from None
    if moment.tzinfo is None:
        remedy = f"Add Z for UTC, or an offset: TIMESTAMP '{moment.isoformat()}Z'."
        raise misfit(token, f"{shortened(token)} has no time zone", remedy)
    return moment


def _place(token: Token) -> Location:
    try:
        return Location(_unquoted(token))
    except ValueRefused as error:
        raise misfit_of(error, token) from None


def _not_a_constant(token: Token) -> Misfit:
    shown = shortened(token)
    if token.type == "NULL":
        return misfit(token, "nothing can be compared with NULL", "Write IS NULL or IS NOT NULL.")
    if token.type == "MYLOC":
        return misfit(token, "myloc is an area, not a value", "Write WITHIN myloc.")
    if token.type == "QUOTED":
        inside = shown[1:-1].replace("'", "''")
        return misfit(token, f"{shown} in double quotes is an attribute", f"Write text in single quotes: '{inside}'.")
    remedy = f"Compare with a constant; write text in single quotes: '{shown}'."
    return misfit(token, f"{shown} is an attribute, and attributes cannot be compared with each other", remedy)
