"""Tombstones: up to which epoch nothing that is said of the copy of a client counts any more.

One is left where a copy was deleted, or where its client has arrived, so that a message that comes late does not bring
the copy back. It is forgotten when no such message can be under way. Where there is no room for one it is not left: a
copy that came back then would serve nobody, and expire.
"""

from __future__ import annotations

from typing import NamedTuple

from ._room import Room
from ._woven import Woven

MAX_TOMBSTONES = 100_000
"""The most at one broker; at the limit the oldest goes."""
TOMBSTONE_BYTES = 300
"""What one takes in memory beside the name."""


class _Tombstone(NamedTuple):
    owner: str
    epoch: int
    at: int
    """When it was left."""


class Tombstones:
    """Those at one broker, the oldest first."""

    def __init__(self, feature: Woven, room: Room, span: int) -> None:
        """`span`: for how many microseconds each stays."""
        self._feature = feature
        self._room = room
        self._span = span
        self._known: dict[str, _Tombstone] = {}
        self._looking = False

    def __len__(self) -> int:
        return len(self._known)

    def epoch_of(self, name: str) -> int:
        """The epoch up to which nothing counts that is said of a client; 0: everything does."""
        known = self._known.get(name)
        return known.epoch if known is not None else 0

    def leave(self, name: str, owner: str, epoch: int) -> None:
        """Nothing up to this epoch counts any more."""
        epoch = max(epoch, self.epoch_of(name))
        self._remove(name)
        if not self._room.has_room(owner, _size(name)):
            return
        self._room.count(owner, _size(name), _size(name))
        self._known[name] = _Tombstone(owner, epoch, self._feature.context.now())
        if len(self._known) > MAX_TOMBSTONES:
            self._remove(next(iter(self._known)))
        self._look_in(self._span)

    def _remove(self, name: str) -> None:
        if (known := self._known.pop(name, None)) is not None:
            self._room.count(known.owner, -_size(name), -_size(name))

    def _look_in(self, delay: int) -> None:
        if not self._looking:
            self._looking = True
            self._feature.context.call_later(delay, self._forget)

    def _forget(self) -> None:
        """Forget those that are old, and look again when the next one is."""
        self._looking = False
        now = self._feature.context.now()
        while self._known:
            name, known = next(iter(self._known.items()))
            if known.at + self._span > now:
                self._look_in(known.at + self._span - now)
                return
            self._remove(name)


def _size(name: str) -> int:
    return len(name) + TOMBSTONE_BYTES
