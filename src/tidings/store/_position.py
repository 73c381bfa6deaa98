"""How far a log has been archived, as the store remembers it in its small state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

TABLE, KEY = "archive", "position"


class Position(NamedTuple):
    """Everything up to this number of this epoch, and all of the epochs before."""

    epoch: int = 0
    seq: int = 0

    def encoded(self) -> bytes:
        """As it is kept."""
        return msgspec.msgpack.encode(self)


def position_in(items: Mapping[str, bytes]) -> Position:
    """The position among the small state of the table `archive`; the beginning if nothing is known."""
    kept = items.get(KEY)
    try:
        return Position() if kept is None else msgspec.msgpack.decode(kept, type=Position)
    except msgspec.MsgspecError:
        return Position()  # the names of the files tell it, too
