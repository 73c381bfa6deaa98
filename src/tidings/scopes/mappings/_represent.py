"""Represent: the same thing written in another way, numbers as text, text as bytes in some encoding.

Text and bytes are taken there and back before they are believed: where an encoding would not give back what went
in, the step is undefined. So no two texts become the same bytes, and a constant in a filter has one source.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from tidings.model import Kind, MappingError, Scalar
from tidings.scopes._plain import number_in

from ._elementwise import Elementwise, twins
from ._step import Step, checked_names

ENCODINGS = frozenset(
    (
        "utf-8",
        "utf-16-le",
        "utf-16-be",
        "ascii",
        "latin-1",
        "iso8859-15",
        "cp1252",
        "cp437",
        "cp850",
        "cp037",  # EBCDIC from here: the United States and Canada,
        "cp273",  # Germany and Austria,
        "cp500",  # international,
        "cp1140",  # and cp037 with the euro
    )
)
"""The encodings that may be named; Python's list is longer, and holds some that are slow, or no encodings at all."""


class How(enum.Enum):
    """From what to what."""

    NUMBER_TO_TEXT = "number to text"
    TEXT_TO_NUMBER = "text to number"
    TEXT_TO_BYTES = "text to bytes"
    BYTES_TO_TEXT = "bytes to text"


_KINDS = {
    How.NUMBER_TO_TEXT: (Kind.NUMBER, Kind.TEXT),
    How.TEXT_TO_NUMBER: (Kind.TEXT, Kind.NUMBER),
    How.TEXT_TO_BYTES: (Kind.TEXT, Kind.BYTES),
    How.BYTES_TO_TEXT: (Kind.BYTES, Kind.TEXT),
}
_BACK = {
    How.NUMBER_TO_TEXT: How.TEXT_TO_NUMBER,
    How.TEXT_TO_NUMBER: How.NUMBER_TO_TEXT,
    How.TEXT_TO_BYTES: How.BYTES_TO_TEXT,
    How.BYTES_TO_TEXT: How.TEXT_TO_BYTES,
}


class Represent(Elementwise, frozen=True):
    """The attribute in another representation.

    >>> Represent("note", How.TEXT_TO_BYTES, "cp500").run({"note": "SAP"})
    {'note': b'\\xe2\\xc1\\xd7'}
    """

    name: str
    how: How
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        checked_names(self, self.name)
        if not isinstance(self.how, How):
            raise MappingError(f"Represent: {self.how!r} is not known; use one of {', '.join(map(str, How))}")
        if self.encoding not in ENCODINGS:
            raise MappingError(
                f"Represent: the encoding {self.encoding!r} is not one of {', '.join(sorted(ENCODINGS))}"
            )

    @property
    def source(self) -> str:
        """The attribute."""
        return self.name

    @property
    def target(self) -> str:
        """The same attribute."""
        return self.name

    @property
    def kinds(self) -> tuple[Kind, Kind]:
        """As the names of `How` say."""
        return _KINDS[self.how]

    def image(self, scalar: Any) -> Scalar | None:
        """The scalar in the other representation, None where it has none."""
        match self.how:
            case How.NUMBER_TO_TEXT:
                return repr(scalar) if type(scalar) in (int, float) else None
            case How.TEXT_TO_NUMBER:
                return number_in(scalar) if type(scalar) is str else None
            case How.TEXT_TO_BYTES:
                return self._encoded(scalar) if type(scalar) is str else None
            case How.BYTES_TO_TEXT:
                return self._decoded(scalar) if type(scalar) is bytes else None

    def preimages(self, value: Any) -> Sequence[Scalar] | None:
        """The one scalar that is written so; many texts stand for one number."""
        match self.how:
            case How.NUMBER_TO_TEXT:
                number = number_in(value)
                return () if number is None or value not in map(repr, twins(number)) else (number,)
            case How.TEXT_TO_NUMBER:
                return None
            case How.TEXT_TO_BYTES:
                source: Scalar | None = self._decoded(value)
            case How.BYTES_TO_TEXT:
                source = self._encoded(value)
        return () if source is None else (source,)

    def _encoded(self, text: str) -> bytes | None:
        try:
            data = text.encode(self.encoding)
            return data if data.decode(self.encoding) == text else None
        except UnicodeError:
            return None

    def _decoded(self, data: bytes) -> str | None:
        try:
            text = data.decode(self.encoding)
            return text if text.encode(self.encoding) == data else None
        except UnicodeError:
            return None

    def inverse(self) -> Step:
        """The way back: exact, though a number has many texts, of which one comes back."""
        return Represent(self.name, _BACK[self.how], self.encoding)
