"""The edges of a neighbour graph on the disk of its broker. One that is lost is learned again."""

from __future__ import annotations

import contextlib

import msgspec

from tidings.broker import Log
from tidings.model import TidingsError
from tidings.wire import unpacker

from ._neighbour_graph import Edge

_TABLE = "neighbours"
_read = unpacker(Edge)


class KeptEdges:
    """What is on disk; without one, nothing."""

    def __init__(self, log: Log | None) -> None:
        self._log = log

    def read(self) -> list[Edge]:
        """All that can be read."""
        found = []
        for value in (self._log.items(_TABLE) if self._log is not None else {}).values():
            with contextlib.suppress(msgspec.MsgspecError, ValueError):  # as good as lost
                found.append(_read(value))
        return found

    def put(self, edge: Edge) -> None:
        """Keep an edge, or its newer times and weight."""
        if self._log is not None:
            with contextlib.suppress(TidingsError):  # a disk that takes nothing
                self._log.put(_TABLE, _key(edge), msgspec.msgpack.encode(edge))

    def delete(self, edge: Edge) -> None:
        """Keep it no longer."""
        if self._log is not None:
            with contextlib.suppress(TidingsError):
                self._log.delete(_TABLE, _key(edge))


def _key(edge: Edge) -> str:
    return msgspec.json.encode((edge.old, edge.new)).decode()
