"""What a command is busy with, said on stderr when it takes longer than anybody waits without a word."""

from __future__ import annotations

import asyncio
from types import TracebackType

from ._errors import complain

PATIENCE = 1.0
"""Seconds for which a command says nothing."""
AGAIN = 5.0
"""Seconds after which it says again that it goes on."""


class Progress:
    """Says on stderr what is being done, if that takes longer than a second."""

    def __init__(self) -> None:
        self._what = ""
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Progress:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.now("")

    def now(self, what: str) -> None:
        """This is being done from now on; "": nothing, or it is somebody else's turn."""
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._what, self._since = what, loop.time()
        self._timer = loop.call_later(PATIENCE, self._tell) if what else None

    def _tell(self) -> None:
        loop = asyncio.get_running_loop()
        complain(f"{self._what}; {loop.time() - self._since:.0f} s so far")
        self._timer = loop.call_later(AGAIN, self._tell)
