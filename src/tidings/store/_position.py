"""Positions in a log that the store remembers in its small state: how far it has been archived, and forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple, Self, TypeAlias

import msgspec

Place: TypeAlias = tuple[int, int]
"""An epoch, and a number in it."""


class _Place(NamedTuple):
    epoch: int = 0
    seq: int = 0


class Position(_Place):
    """Everything up to this number of this epoch, and all of the epochs before."""

    __slots__ = ()

    TABLE: ClassVar[str] = "archive"
    KEY: ClassVar[str] = "position"

    def encoded(self) -> bytes:
        """As it is kept."""
        return msgspec.msgpack.encode(tuple(self))

    @classmethod
    def in_(cls, items: Mapping[str, bytes]) -> Self:
        """The position among the small state of its table; the beginning if nothing is known."""
        kept = items.get(cls.KEY)
        try:
            return cls() if kept is None else cls(*msgspec.msgpack.decode(kept, type=tuple[int, int]))
        except msgspec.MsgspecError:
            return cls()  # the names of the files tell it, too


class Forgotten(Position):
    """Everything up to here was held once, and is not any more."""

    __slots__ = ()

    TABLE: ClassVar[str] = "log"
    KEY: ClassVar[str] = "forgotten"
