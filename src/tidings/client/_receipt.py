"""A receipt: what became of a publication."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass

import msgspec

from tidings.model import EventKey, TidingsError, refusal
from tidings.wire import Quality, Refused


class RefusedByService(TidingsError):
    """The service refused a request with an error that this version has no class for."""


@dataclass(frozen=True, slots=True)
class ReceiverCount:
    """How many clients have got one publication."""

    handled: int | None
    """Clients that have acknowledged it; None: that is not known, or withheld."""
    unknown: int | None
    """Clients that were sent it or will be, and have not acknowledged it in time; None: that is not known, or
    withheld."""
    complete: bool
    """Whether every broker has answered."""
    withheld: bool = False
    """Whether there are some, and so few that this client is not told how many."""


class Receipt(msgspec.Struct, eq=False):
    """The receipt of one publication. `await` it for the key of the event, once the publication has its quality."""

    number: int
    """The number of the publication among those of this client."""
    quality: Quality | None = None
    """The quality that was reached; None until the acknowledgement arrives, and if the publication was refused."""
    _outcome: EventKey | TidingsError | None = None
    _asked: bool = False
    _future: asyncio.Future[None] | None = None  # made for whoever waits: most receipts are never looked at
    _failures: list[TidingsError] | None = None
    waits_for: str = ""
    """What the publication waits for at the broker, if it has waited for more than a moment."""
    receivers: ReceiverCount | None = None
    """How many have got it, if it was published with `count_receivers`."""
    quenched: bool = False
    """Whether it was published with `quench`, and not sent, because nobody wants it."""

    def __await__(self) -> Generator[None, None, EventKey | None]:
        self._asked = True
        if self._failures is not None and self._outcome in self._failures:
            self._failures.remove(self._outcome)  # whoever asks hears it here, not when flushing
        return self._heard().__await__()

    async def _heard(self) -> EventKey | None:
        if self._outcome is None:
            if self._future is None:
                self._future = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._future)
        if isinstance(self._outcome, TidingsError):
            raise self._outcome
        return None if self._outcome is UNHEARD else self._outcome

    def done(self, key: EventKey, quality: Quality) -> None:
        """Take the acknowledgement: the publication has reached this quality."""
        self.quality = quality
        self._settle(key)

    def failed(self, error: TidingsError, unasked: list[TidingsError]) -> None:
        """Take the refusal; if this receipt is not awaited, the error goes to `unasked`."""
        self._failures = unasked
        if not self._asked:
            unasked.append(error)
        self._settle(error)

    def _settle(self, outcome: EventKey | TidingsError) -> None:
        self._outcome = outcome
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


UNHEARD = EventKey("", 0, 0)
"""The outcome of a publication of which nothing will be heard, and for which nobody has to wait."""


def error_of(refused: Refused) -> TidingsError:
    """The error that the service meant, of the class it has here if there is one."""
    return error_from(refused.error, refused.reason)


def error_from(name: str, reason: str) -> TidingsError:
    """The error of this name, of the class it has here if there is one."""
    return refusal(name, reason) or RefusedByService(f"{name}: {reason}")
