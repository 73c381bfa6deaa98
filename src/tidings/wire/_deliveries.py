"""Deliveries: notifications for a client, many at once from the bytes of a read.

Where there is a compiled engine, `take_deliveries` reads a run of them: see docs/native.md. What it does not take is
read one by one, as everything is without an engine.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import msgspec

from tidings._native import engine
from tidings.model import Notification, Route, Value

from ._body import decode_body
from ._frame import Hop

MAX_DELIVERIES = 500
"""The most notifications in a run."""
_MAX_SHAPES = 1_000
"""How many ways of being sent are remembered."""


class Received(Notification):
    """A notification as its client receives it: an attribute is decoded when it is asked for."""

    # The engine fills these, and puts its own `__getitem__` and `_attributes` here: see receiver.cpp.
    __slots__ = ("_body", "_looks")

    def __reduce__(self) -> tuple[Any, ...]:
        return Notification.trusted, (self.attributes,)

    def __repr__(self) -> str:
        return repr(Notification.trusted(self.attributes))


class Deliveries(NamedTuple):
    """Notifications of one publisher that came together by the same routes, for the same subscriptions, in order."""

    upto: int
    """Where the part behind them begins."""
    routes: bytes
    closing: bytes
    """The subscriptions that they are for, and the hop, as they came."""
    origin: str
    epoch: int
    first: int
    """The number that the broker of their origin has given to the first."""
    last: int
    """And to the last."""
    publisher: str
    numbers: list[int]
    """Those of their publisher."""
    notifications: list[Notification]

    @property
    def shape(self) -> tuple[Route, tuple[str, ...]] | None:
        """The first route, and the subscriptions; None: they cannot be read, and who reads single frames says why."""
        key = self.routes, self.closing
        try:
            return _shapes[key]
        except KeyError:
            if len(_shapes) >= _MAX_SHAPES:
                _shapes.clear()
            shape = _shapes[key] = _read_shape(*key)
            return shape


_Shape = tuple[Route, tuple[str, ...]]
_shapes: dict[tuple[bytes, bytes], _Shape | None] = {}
_read_routes = msgspec.msgpack.Decoder(tuple[Route, ...]).decode
_read_closing = msgspec.msgpack.Decoder(tuple[tuple[str, ...], Hop]).decode


def _read_shape(routes: bytes, closing: bytes) -> _Shape | None:
    try:
        return _read_routes(routes)[0], _read_closing(b"\x92" + closing)[0]
    except (msgspec.DecodeError, UnicodeDecodeError, IndexError):
        return None


def _attributes(body: bytes) -> dict[str, Value]:
    return decode_body(body).attributes


_receiver = engine.Receiver(Received, _attributes) if engine is not None else None


def take_deliveries(data: bytes, at: int, most: int = MAX_DELIVERIES) -> Deliveries | None:
    """The notifications whose parts begin at this place, as far as they are plain; None: the first one is not."""
    if _receiver is None:
        return None
    found = _receiver.take(data, at, most)
    return None if found is None else Deliveries(*found)


def takes_deliveries(data: bytes, limit: int) -> bool:
    """Whether it is worth trying: there is an engine, and each part in these bytes has a kind and a size that can be.

    Bytes of which one part cannot be are refused as a whole, which is done elsewhere.
    """
    return _receiver is not None and cast(bool, _receiver.is_sound(data, limit))
