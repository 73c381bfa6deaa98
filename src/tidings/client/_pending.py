"""What somebody waits for until the service says it: the answer to a question, that something is known everywhere."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from tidings.model import TidingsError

_T = TypeVar("_T")


class Pending(Generic[_T]):
    """What is waited for, by the id under which it comes."""

    def __init__(self) -> None:
        self._futures: dict[str, asyncio.Future[_T]] = {}

    async def wait(self, id: str) -> _T:
        """What comes under this id; a refusal is raised."""
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._futures[id] = future
        try:
            return await future
        finally:
            del self._futures[id]

    def came(self, id: str, what: _T) -> None:
        """Here it is. What nobody waits for, or no longer, is dropped."""
        future = self._futures.get(id)
        if future is not None and not future.done():
            future.set_result(what)

    def refused(self, id: str, error: TidingsError) -> bool:
        """It will not come; whether anybody had waited for it."""
        future = self._futures.get(id)
        if future is not None and not future.done():
            future.set_exception(error)
        return future is not None

    def failed(self, error: TidingsError) -> None:
        """Nothing will come any more."""
        for id in self._futures:
            self.refused(id, error)
