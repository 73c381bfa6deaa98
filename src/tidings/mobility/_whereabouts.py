"""Whereabouts: which broker keeps which durable subscription, as far as this broker was told; and what brokers say.

A *stamp* orders what is known of one durable subscription: the epoch of its client, and the time within it. A pointer
without a broker says that it was forgotten.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from tidings.broker import Log
from tidings.model import Position, TidingsError
from tidings.wire import unpacker

MAX_POINTERS = 100_000
"""The most pointers that one broker keeps; at the limit the oldest goes."""
MAX_KEYS = 8
"""The most durable subscriptions in one question: each may be large."""
_TABLE = "whereabouts"

Stamp = tuple[int, int]
"""An epoch of the client, and a time in microseconds since 1970 UTC."""
NEVER: Stamp = (0, 0)


class Key(msgspec.Struct, frozen=True, array_like=True):
    """A durable subscription: whose client it is, what that is called, and what it is called itself."""

    owner: str
    client: str
    name: str


class Pointer(msgspec.Struct, frozen=True, array_like=True):
    """Where a durable subscription is kept since then; "": it was forgotten."""

    stamp: Stamp
    broker: str


class Moves(msgspec.Struct, frozen=True, array_like=True):
    """Durable subscriptions that are kept elsewhere from now on, or no longer."""

    pointers: tuple[tuple[Key, Pointer], ...]


class Copy(msgspec.Struct, frozen=True, array_like=True):
    """What a broker keeps of a durable subscription."""

    stamp: Stamp
    broker: str
    filter: str
    positions: dict[str, Position]


_Stamped = TypeVar("_Stamped", Copy, Pointer)


class Find(msgspec.Struct, frozen=True, array_like=True):
    """What is asked of every broker: what it keeps of these, and what it knows of them."""

    keys: tuple[Key, ...]


class Found(msgspec.Struct, frozen=True, array_like=True):
    """What some brokers keep and know, in the order of the keys."""

    brokers: tuple[str, ...]
    """Those that answer."""
    copies: tuple[Copy | None, ...]
    pointers: tuple[Pointer | None, ...]


class PassedOn(msgspec.Struct, frozen=True, array_like=True, tag="keep"):
    """A client of a broker without a store says how far it has come; whoever has the record keeps that."""

    number: int
    """The answer repeats it."""
    key: Key
    filter: str
    positions: dict[str, Position]
    stamp: Stamp


class PassedBack(msgspec.Struct, frozen=True, array_like=True, tag="kept"):
    """The record is on disk, or why it is not."""

    number: int
    error: str = ""


_read_passed = msgspec.msgpack.Decoder(PassedOn | PassedBack).decode


def read_passed(body: bytes) -> PassedOn | PassedBack:
    """What one broker says to another about a record."""
    said: PassedOn | PassedBack = _read_passed(body)
    return said


read_find, read_found, read_moves = unpacker(Find), unpacker(Found), unpacker(Moves)


def combined(answers: list[Found]) -> Found:
    """One answer for several: of each subscription the newest copy, and the newest pointer."""
    copies = [_newest(several) for several in zip(*(one.copies for one in answers), strict=True)]
    pointers = [_newest(several) for several in zip(*(one.pointers for one in answers), strict=True)]
    brokers = sorted({broker for one in answers for broker in one.brokers})
    return Found(tuple(brokers), tuple(copies), tuple(pointers))


def _newest(several: Iterable[_Stamped | None]) -> _Stamped | None:
    known = [one for one in several if one is not None]
    return max(known, key=lambda one: (one.stamp, one.broker), default=None)


class Whereabouts:
    """The pointers that one broker knows. They are on its disk, if it has one; one that is lost is told again."""

    def __init__(self, log: Log | None) -> None:
        self._log = log
        self._pointers: dict[str, Pointer] = {}
        read = unpacker(Pointer)
        for key, value in (log.items(_TABLE) if log is not None else {}).items():
            try:
                self._pointers[key] = read(value)
            except msgspec.MsgspecError:
                continue  # as good as lost

    def __len__(self) -> int:
        return len(self._pointers)

    def get(self, key: Key) -> Pointer | None:
        """What is known of a durable subscription."""
        return self._pointers.get(_text(key))

    def note(self, key: Key, pointer: Pointer) -> None:
        """Note something, unless what is known is newer."""
        text = _text(key)
        known = self._pointers.get(text)
        if known is not None and known.stamp > pointer.stamp:
            return
        if known is None and len(self._pointers) >= MAX_POINTERS:
            oldest = next(iter(self._pointers))
            del self._pointers[oldest]
            self._write(oldest, None)
        self._pointers.pop(text, None)
        self._pointers[text] = pointer
        self._write(text, pointer)

    def _write(self, text: str, pointer: Pointer | None) -> None:
        if self._log is None:
            return
        with contextlib.suppress(TidingsError):  # a disk that takes nothing: a pointer that is lost is told again
            if pointer is None:
                self._log.delete(_TABLE, text)
            else:
                self._log.put(_TABLE, text, msgspec.msgpack.encode(pointer))


def _text(key: Key) -> str:
    return msgspec.json.encode((key.client, key.name)).decode()
