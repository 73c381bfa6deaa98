"""The moves of a blocking client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from tidings import client as asynchronous
from tidings.client import Move

from ._thread import LoopThread


class Moves:
    """The moves of one client. Iterating waits for the moves that end from then on, until the client is closed."""

    def __init__(self, thread: LoopThread, twin: asynchronous.Client) -> None:
        self._thread = thread
        self._twin = twin

    def __iter__(self) -> Iterator[Move]:
        stream = self._thread.visit(lambda: aiter(self._twin.moved))
        return _Moves(self._thread, stream)


class _Moves(Iterator[Move]):
    def __init__(self, thread: LoopThread, stream: AsyncIterator[Move]) -> None:
        self._thread = thread
        self._stream = stream

    def __next__(self) -> Move:
        move = self._thread.call(self._next())
        if move is None:
            raise StopIteration
        return move

    async def _next(self) -> Move | None:
        return await anext(self._stream, None)
