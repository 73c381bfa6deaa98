"""Positions in a log that the store remembers in its small state: how far it has been archived, and forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from tidings.model import NOWHERE, Position


class Remembered(NamedTuple):
    """The place of one position in the small state."""

    table: str
    key: str

    def written(self, position: Position) -> bytes:
        """A position as it is kept."""
        return msgspec.msgpack.encode(position)

    def read(self, items: Mapping[str, bytes]) -> Position:
        """The position among what its table holds; the beginning if nothing is known."""
        kept = items.get(self.key)
        try:
            return NOWHERE if kept is None else msgspec.msgpack.decode(kept, type=Position)
        except msgspec.MsgspecError:
            return NOWHERE  # the names of the files tell it, too


ARCHIVED = Remembered("archive", "position")
"""Everything up to here is in the archive."""
FORGOTTEN = Remembered("log", "forgotten")
"""Everything up to here was held once, and is not any more."""
