"""Room: the memory of a broker for clients that are not there.

Records of copies, what copies and virtual clients hold, and tombstones are counted for the identity of their client,
and for all together. The server counts them in its own budget, with what it keeps for clients that are there.
"""

from __future__ import annotations

from typing import Protocol

IDENTITY_BYTES = 134_217_728
"""What is kept for the clients of one identity, where nobody else counts."""
ALL_BYTES = 100_663_296
"""What is kept for all of them."""


class Room(Protocol):
    """Who counts."""

    def has_room(self, owner: str, size: int = 0) -> bool:
        """Whether so much more may be kept for clients of an identity; without a size, whether this much may."""
        ...

    def count(self, owner: str, own: int, in_all: int) -> None:
        """So much more is kept, or less. What several identities share counts for each of them, and in all once."""
        ...


class OwnRoom:
    """Counts only what is kept for clients that are not there."""

    def __init__(self, per_identity: int = IDENTITY_BYTES, in_all: int = ALL_BYTES) -> None:
        self._per_identity = per_identity
        self._in_all = in_all
        self._used: dict[str, int] = {}
        self.total = 0

    def has_room(self, owner: str, size: int = 0) -> bool:
        """Whether so much more may be kept for clients of an identity."""
        return self._used.get(owner, 0) + size <= self._per_identity and self.total + size <= self._in_all

    def count(self, owner: str, own: int, in_all: int) -> None:
        """So much more is kept, or less."""
        self.total += in_all
        used = self._used.get(owner, 0) + own
        if used:
            self._used[owner] = used
        else:
            self._used.pop(owner, None)
