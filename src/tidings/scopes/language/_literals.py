"""Values as the scope language writes them: those of the filter language, and strings in either quotes."""

from __future__ import annotations

import math
from datetime import datetime

from tidings.model import Location, TidingsError, Value, ValueRefused, checked_value

from ._mistakes import Misfit
from ._tokens import Token


def text_of(token: Token) -> str:
    """What stands between the quotes of a token."""
    quote = token.text[-1]
    return token.text[token.text.index(quote) + 1 : -1].replace(quote * 2, quote)


def value_of(token: Token) -> Value:
    """The value that a token stands for."""
    try:
        return checked_value(_value(token), "this value")
    except TidingsError as error:
        raise Misfit(str(error), token.at) from None
    except ValueError:
        raise Misfit(f"{token.text:.40} cannot be read", token.at, _EXAMPLES[token.type]) from None


_EXAMPLES = {
    "TIME": 'Write it like TIMESTAMP "2026-11-15T12:00:00Z".',
    "BYTES": 'Write two hexadecimal digits for each byte: X"0AFF".',
    "INTEGER": "Write fewer digits.",
    "NUMBER": "Write fewer digits.",
}


def _value(token: Token) -> object:
    match token.type:
        case "TRUE" | "FALSE":
            return token.type == "TRUE"
        case "INTEGER":
            return int(token.text)
        case "NUMBER":
            number = float(token.text)
            if math.isinf(number):
                raise ValueRefused(f"{token.text:.40} is larger than any float; the largest is about 1.8e308")
            return number
        case "TIME":
            moment = datetime.fromisoformat(text_of(token))
            if moment.tzinfo is None:
                raise ValueRefused("a time without a time zone; add Z for UTC")
            return moment
        case "PLACE":
            return Location(text_of(token))
        case "BYTES":
            return bytes.fromhex(text_of(token))
    return text_of(token)


def written(value: object) -> str:
    """A value as the language writes it; it is read back exactly.

    >>> written("it's"), written((1, 2.5)), written(True)
    ('"it\\'s"', '[1, 2.5]', 'TRUE')
    """
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float():
            return _number(value)
        case tuple():
            return f"[{', '.join(map(written, value))}]"
        case datetime():
            return f"TIMESTAMP {quoted(value.isoformat().replace('+00:00', 'Z'))}"
        case Location():
            return f"LOCATION {quoted(str(value))}"
        case bytes():
            return f"X{quoted(value.hex())}"
    return quoted(str(value))


def quoted(text: str) -> str:
    """A text in double quotes."""
    return '"' + text.replace('"', '""') + '"'


def _number(value: int | float) -> str:
    return repr(value)
