"""Partials as bytes: canonical JSON, and small integers in as few bytes as they need.

One value has one encoding, and `decode` accepts no other: whatever was decoded encodes to the bytes that came. So two
brokers that agree on a value agree on its bytes, and a partial that a neighbour made up is refused here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from tidings.model import PartialRefused, shortened

Plain: TypeAlias = "bool | int | str | list[Plain] | dict[str, Plain] | None"
"""What the default encoding takes. There are no floats: adding them depends on the order."""

MAX_PARTIAL = 4_096
"""The most bytes of a partial that travels, unless a definition asks for more."""
MAX_NESTING = 16
"""How deep lists and dictionaries may be nested in a partial."""
MAX_DIGITS = 4_000
"""The most digits of an integer in a partial."""

_LARGEST = 10**MAX_DIGITS


def canonical(value: Plain) -> bytes:
    """The one encoding of a plain value; raises `PartialRefused` for any other.

    >>> canonical({"b": [1, True], "a": "x"})
    b'{"a":"x","b":[1,true]}'
    """
    _checked(value, "the partial", 0)
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise PartialRefused("a text in the partial is not Unicode (a lone surrogate); leave it out") from None


def plain(data: bytes) -> Any:
    """The value that bytes are the canonical encoding of, or `PartialRefused`."""
    try:
        value = json.loads(data)
        encoded = canonical(value)
    except (ValueError, RecursionError) as error:
        raise PartialRefused(f"{_shown(data)} is not a partial: {shortened(str(error), 120)}") from None
    if encoded != data:
        raise PartialRefused(f"{_shown(data)} is not written canonically; the encoding is {_shown(encoded)}")
    return value


def _checked(value: object, place: str, depth: int) -> None:
    if depth > MAX_NESTING:
        raise PartialRefused(f"{place} is nested deeper than {MAX_NESTING} levels; use a flatter partial")
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return
    if kind is int:
        if not -_LARGEST < value < _LARGEST:
            raise PartialRefused(f"{place} is an integer of more than {MAX_DIGITS:,} digits; keep partials small")
    elif kind is list:
        for at, item in enumerate(value):  # type: ignore[arg-type, var-annotated]
            _checked(item, f"{place}[{at}]", depth + 1)
    elif kind is dict:
        for name, item in value.items():  # type: ignore[attr-defined]
            if type(name) is not str:
                raise PartialRefused(f"{place} has the key {name!r:.40}; keys are texts: use {str(name)!r:.40}")
            _checked(item, f"{place}[{name!r:.40}]", depth + 1)
    else:
        raise PartialRefused(f"{place} is {value!r:.40}, of type {kind.__name__}; {_REMEDIES.get(kind, _REMEDY)}")


_REMEDY = "use integers, texts, lists and dictionaries, or define encode and decode"
_REMEDIES: dict[type, str] = {
    float: "adding floats depends on the order: use integers, such as thousandths, and divide in present",
    tuple: "it would be decoded as a list: use a list, or define encode and decode",
    set: "it has no order: use a sorted list, or define encode and decode",
    frozenset: "it has no order: use a sorted list, or define encode and decode",
}


def _shown(data: bytes) -> str:
    return shortened(repr(data), 60)


def whole(value: object, place: str, *, least: int | None = None) -> int:
    """The value if it is an integer, and not below the least; else `PartialRefused`."""
    if type(value) is not int or (least is not None and value < least):
        above = "" if least is None else f" of at least {least}"
        raise PartialRefused(f"{place} is {value!r:.40}, not an integer{above}")
    return value


def sequence(value: object, place: str, length: int) -> Sequence[Any]:
    """The value if it is a list of that length, else `PartialRefused`."""
    if type(value) is not list or len(value) != length:
        raise PartialRefused(f"{place} is {value!r:.40}, not a list of {length}")
    return value


def canonical_number(value: int | float | None) -> bytes:
    """The encoding of a number that is only compared, never added: floats are exact here.

    >>> canonical_number(2.5), canonical_number(3), canonical_number(None)
    (b'2.5', b'3', b'null')
    """
    return json.dumps(value).encode()


def plain_number(data: bytes) -> int | float | None:
    """The number that bytes are the encoding of, or `PartialRefused`."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = ""
    known = value is None or type(value) is int or (type(value) is float and math.isfinite(value))
    if not known or (type(value) is float and value.is_integer()) or canonical_number(value) != data:
        raise PartialRefused(f"{_shown(data)} is not a number as partials write it")
    return value  # type: ignore[no-any-return]


def varint(number: int) -> bytes:
    """An integer that is not negative, in seven bits a byte, the lowest first.

    >>> varint(300)
    b'\\xac\\x02'
    """
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class Reader:
    """Bytes, read from the front; whatever does not fit is `PartialRefused`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def varint(self) -> int:
        """The next integer; only its shortest form is accepted."""
        number = shift = 0
        while True:
            if self._at >= len(self._data) or shift > 7 * 20:
                raise PartialRefused(f"{_shown(self._data)} ends within a number, or the number has no end")
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                if not byte and shift > 7:
                    raise PartialRefused(f"{_shown(self._data)} writes a number longer than it is")
                return number

    def take(self, length: int) -> bytes:
        """The next so many bytes."""
        if length > len(self._data) - self._at:
            raise PartialRefused(f"{_shown(self._data)} is cut off: {length:,} bytes more were announced")
        self._at += length
        return self._data[self._at - length : self._at]

    @property
    def ended(self) -> bool:
        """Whether everything has been read."""
        return self._at == len(self._data)

    def end(self) -> None:
        """Nothing may follow."""
        if not self.ended:
            raise PartialRefused(f"{_shown(self._data)} goes on where the partial has ended")
