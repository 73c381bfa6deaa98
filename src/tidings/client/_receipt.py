"""A receipt: what became of a publication."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

from tidings import model
from tidings.model import EventKey, TidingsError
from tidings.wire import Refused


class RefusedByService(TidingsError):
    """The service did not do what it was asked for; the text says why and what would help."""


class Receipt:
    """Of one publication. `await` it for the key of the event, once the publication has reached its quality."""

    __slots__ = ("_asked", "_error", "_failures", "future", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        """The publication's number among those of this client."""
        self.future: asyncio.Future[EventKey | None] = asyncio.get_running_loop().create_future()
        self._asked = False
        self._error: TidingsError | None = None
        self._failures: list[TidingsError] | None = None

    def __await__(self) -> Generator[None, None, EventKey | None]:
        self._asked = True
        if self._error is not None and self._failures is not None and self._error in self._failures:
            self._failures.remove(self._error)  # whoever asks hears it here, not when flushing
        return self._outcome().__await__()

    async def _outcome(self) -> EventKey | None:
        key = await asyncio.shield(self.future)
        if self._error is not None:
            raise self._error
        return key

    def done(self, key: EventKey | None) -> None:
        """It has reached its quality."""
        if not self.future.done():
            self.future.set_result(key)

    def failed(self, error: TidingsError, unasked: list[TidingsError]) -> None:
        """It was refused; if nobody waits for this receipt, the error goes to `unasked`."""
        self._error = error
        if not self._asked:
            self._failures = unasked
            unasked.append(error)
        if not self.future.done():
            self.future.set_result(None)


def error_of(refusal: Refused) -> TidingsError:
    """The error that the service meant, of the class it has here if there is one."""
    kind = getattr(model, refusal.error, None)
    if isinstance(kind, type) and issubclass(kind, TidingsError) and kind is not model.FilterSyntaxError:
        return kind(refusal.reason)
    return RefusedByService(f"{refusal.error}: {refusal.reason}")
