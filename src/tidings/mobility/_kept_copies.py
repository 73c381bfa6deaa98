"""The records of copies on the disk of their broker. One that is lost is a miss, so nothing waits for a sync.

What a copy holds is not written: after a restart it listens again from the same positions, and the origins are asked.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import msgspec

from tidings.broker import Log
from tidings.model import Position, TidingsError
from tidings.wire import unpacker

from ._copies import Propagate, Whose, read_record

_RECORDS, _LISTENING = "copies", "copies listening"


class _Record(msgspec.Struct, frozen=True, array_like=True):
    whose: Whose
    controller: str
    record: bytes


class _Listening(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    positions: dict[str, Position]


_read_record, _read_listening = unpacker(_Record), unpacker(_Listening)


class KeptCopy(NamedTuple):
    """What was on disk of one copy."""

    whose: Whose
    controller: str
    record: Propagate
    positions: dict[str, Position] | None
    """From where on it listened; None: it rested."""


class KeptCopies:
    """What is on disk; without one, nothing."""

    def __init__(self, log: Log | None) -> None:
        self._log = log

    def read(self) -> list[KeptCopy]:
        """All that can be read; what cannot is deleted."""
        if self._log is None:
            return []
        listening = self._log.items(_LISTENING)
        found = []
        for name, value in self._log.items(_RECORDS).items():
            try:
                kept = _read_record(value)
                record = read_record(kept.record)
                listens = _read_listening(listening[name]) if name in listening else None
            except (msgspec.MsgspecError, ValueError):
                self.delete(name)  # as good as lost
                continue
            positions = listens.positions if listens is not None and listens.epoch == kept.whose.epoch else None
            found.append(KeptCopy(kept.whose, kept.controller, record, positions))
        return found

    def put(self, whose: Whose, controller: str, record: bytes) -> None:
        """Keep the record of a copy, in the place of an older one."""
        self._put(_RECORDS, whose.name, msgspec.msgpack.encode(_Record(whose, controller, record)))

    def listens(self, whose: Whose, positions: dict[str, Position]) -> None:
        """Keep from where on a copy listens."""
        self._put(_LISTENING, whose.name, msgspec.msgpack.encode(_Listening(whose.epoch, positions)))

    def rests(self, name: str) -> None:
        """A copy does not listen any more."""
        self._delete(_LISTENING, name)

    def delete(self, name: str) -> None:
        """Keep it no longer."""
        self._delete(_LISTENING, name)
        self._delete(_RECORDS, name)

    def _put(self, table: str, name: str, value: bytes) -> None:
        if self._log is not None:
            with contextlib.suppress(TidingsError):  # a disk that takes nothing
                self._log.put(table, name, value)

    def _delete(self, table: str, name: str) -> None:
        if self._log is not None:
            with contextlib.suppress(TidingsError):
                self._log.delete(table, name)
