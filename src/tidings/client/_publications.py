"""The publications of a client that have not been acknowledged: how many there may be, and what becomes of them."""

from __future__ import annotations

import asyncio

from tidings.model import EventKey, TidingsError
from tidings.wire import Quality

from ._receipt import Receipt


class Publications:
    """What was published, until the service has acknowledged or refused it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._receipts: dict[int, Receipt] = {}
        self._unheard: list[TidingsError] = []
        """Refusals that nobody has asked about."""
        self._moved = asyncio.Event()

    def __len__(self) -> int:
        return len(self._receipts)

    @property
    def full(self) -> bool:
        """Whether the next publication has to wait."""
        return len(self._receipts) >= self._most

    def add(self, number: int) -> Receipt:
        """One is under way."""
        receipt = self._receipts[number] = Receipt(number)
        return receipt

    async def moved(self) -> None:
        """Wait until there are fewer."""
        self._moved.clear()
        await self._moved.wait()

    async def flush(self) -> None:
        """Wait until none is left; raise the first refusal that nobody has asked about."""
        while self._receipts:
            await self.moved()
        if self._unheard:
            unheard, self._unheard = self._unheard, []
            raise unheard[0]

    # --- what the service says ------------------------------------------------------------------------

    def acknowledged(self, number: int, key: EventKey, quality: Quality) -> None:
        """One has reached this quality."""
        receipt = self._receipts.pop(number, None)
        if receipt is not None:
            receipt.done(key, quality)
            self._moved.set()

    def refused(self, number: int, error: TidingsError) -> None:
        """One was refused."""
        receipt = self._receipts.pop(number, None)
        if receipt is None:
            self._unheard.append(error)  # of quality FIRE: nobody else would hear of it
        else:
            receipt.failed(error, self._unheard)
            self._moved.set()

    def waits(self, number: int, reason: str) -> None:
        """The broker says what one waits for."""
        if (receipt := self._receipts.get(number)) is not None:
            receipt.waits_for = reason

    def failed(self, error: TidingsError) -> None:
        """Nothing more will be heard of any."""
        for number in list(self._receipts):
            self.refused(number, error)
