"""A first look at a large frame of a client: does it hold what clients say, with a text in the place of a filter?

The decoder makes objects of whatever stands in the place of a filter before it can be looked at, and some messages
between brokers have tables without a bound. A client could send megabytes of either, and hold up everybody else for
seconds. A sketch of a frame has a few fields only; the decoder skips the rest, which takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from tidings.model import Position

LARGE = 65_536
"""The bytes from which on a frame of a client is looked at first."""

_Text: TypeAlias = str | tuple[str, str]
_M = TypeVar("_M")


class _Tagged(msgspec.Struct, frozen=True, array_like=True):
    tag: str


class _Filtering(_Tagged, frozen=True, array_like=True):
    id: str
    filter: _Text = ""


class _Reading(_Tagged, frozen=True, array_like=True):
    id: str
    after: Position
    upto: Position
    filter: _Text = ""


class _Sketch(msgspec.Struct, Generic[_M], frozen=True, array_like=True):
    message: _M


_OTHERS = (
    "DeliverAck",
    "Extension",
    "Forget",
    "Keep",
    "Measure",
    "MobilityRequest",
    "Publish",
    "Recall",
    "StatusRequest",
)
_SKETCHES: dict[str, Any] = dict.fromkeys((*_OTHERS, "Unadvertise", "Unsubscribe"))
_SKETCHES |= dict.fromkeys(("Advertise", "Browse", "Subscribe"), _Sketch[_Filtering])
_SKETCHES["Read"] = _Sketch[_Reading]
"""What clients say, with a sketch of what holds a filter."""


def look_first(data: bytes, decode: Callable[..., Any]) -> None:
    """Raise what a decoder raises for a frame that should not be decoded; `decode` is that of msgpack or JSON."""
    tag = decode(data, type=_Sketch[_Tagged]).message.tag
    if tag not in _SKETCHES:
        raise ValueError(f"'{tag}' is nothing that a client says")
    if (sketch := _SKETCHES[tag]) is not None:
        decode(data, type=sketch)
