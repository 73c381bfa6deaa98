"""How many get a publication: what a client asks its broker around it, and what it is told."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import NamedTuple

from tidings.aggregation.receiving import (
    Abandon,
    AnyMessage,
    Declined,
    Follow,
    Names,
    Received,
    Reserve,
    Reserved,
    Who,
    decode,
    encode,
)
from tidings.model import ROOT_SCOPE, AggregateError, ArgumentRefused, TidingsError
from tidings.wire import Quality, Refused

from ._arguments import microseconds_of, name_of
from ._pending import Pending
from ._receipt import ReceiverCount, error_of

log = logging.getLogger("tidings.client")

COUNT_WITHIN = 2.0
"""Seconds that the acknowledgements of receivers are waited for."""
MAX_COUNT_WITHIN = 60_000_000
"""The most microseconds of that."""
ANSWER_TIMEOUT = 10.0
"""Seconds that a broker may take to answer, beside what it waits for acknowledgements."""


class Identities(NamedTuple):
    """Clients that could hear something."""

    names: tuple[str, ...]
    """In order."""
    left_out: int
    """How many more there are at least."""
    complete: bool
    """Whether every broker has told the names of its clients."""


class CountTerms(NamedTuple):
    """Where receivers are counted, and how long they have."""

    scope: str
    within: int
    """Microseconds."""

    @classmethod
    def checked(cls, where: bool | str, within: float, quality: Quality) -> CountTerms:
        """What `publish` was given; `ArgumentRefused` if it makes no sense."""
        if quality is Quality.FIRE:
            raise ArgumentRefused(
                "quality='fire' and count_receivers: what is not acknowledged is not counted; choose another quality"
            )
        scope = ROOT_SCOPE if where is True else name_of(where, "count_receivers", "give True, or the name of a scope")
        return cls(scope, microseconds_of(within, "count_within", MAX_COUNT_WITHIN))


NOT_KNOWN = ReceiverCount(None, None, complete=False)
"""The connection was lost before the answer came."""


class Counting:
    """The publications of one client whose receivers are counted."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._reserved: Pending[None] = Pending()
        self._named: Pending[Identities] = Pending()
        self._received: dict[str, asyncio.Future[ReceiverCount]] = {}

    async def who(self, key: str, probe: bytes, scope: str, timeout: float | None) -> Identities:
        """Ask for the names of clients."""
        id = f"n{next(self._numbers)}"
        try:
            async with asyncio.timeout(timeout):
                self._say(Who(id, key, probe, scope))
                return await self._named.wait(id)
        except TimeoutError:
            raise AggregateError(
                f"the broker has told no names in {timeout:g} seconds; it may be of a version without that, or have "
                "aggregation switched off"
            ) from None

    async def reserve(self, terms: CountTerms) -> str:
        """Ask for a count, before anything is published; return its id, or raise why there is none."""
        id = f"r{next(self._numbers)}"
        self._say(Reserve(id, terms.scope, terms.within))
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                await self._reserved.wait(id)
        except TimeoutError:
            raise AggregateError(
                f"the broker has not said in {ANSWER_TIMEOUT:g} seconds whether it counts receivers, and nothing was "
                "published; it may be of a version without that, or have aggregation switched off"
            ) from None
        return id

    def follow(self, id: str, number: int) -> None:
        """The publication of this number comes next."""
        self._received[id] = asyncio.get_running_loop().create_future()  # the answer may come with its acknowledgement
        self._say(Follow(id, number))

    def abandon(self, id: str) -> None:
        """The publication will not come."""
        self._received.pop(id, None)
        self._say(Abandon(id))

    async def received(self, id: str, terms: CountTerms) -> ReceiverCount:
        """What the broker says, when it does."""
        try:
            async with asyncio.timeout(terms.within / 1_000_000 + ANSWER_TIMEOUT):
                return await self._received[id]
        except TimeoutError:
            return NOT_KNOWN
        finally:
            del self._received[id]

    def _say(self, message: AnyMessage) -> None:
        self._send(encode(message))

    # --- for the client -------------------------------------------------------------------------------

    def heard(self, body: bytes) -> None:
        """The broker has sent something about receivers."""
        try:
            message = decode(body)
        except TidingsError as error:
            log.warning("the broker has sent something that this client cannot read: %s", error)
            return
        match message:
            case Reserved(id):
                self._reserved.came(id, None)
            case Received(id, handled, unknown, complete, withheld):
                self._came(id, ReceiverCount(handled, unknown, complete, withheld))
            case Names(id, names, left_out, complete):
                self._named.came(id, Identities(tuple(names), left_out, complete))
            case Declined(id):
                refusal = error_of(Refused(message.error, message.reason, id))
                self._reserved.refused(id, refusal)
                self._named.refused(id, refusal)
                self._came(id, NOT_KNOWN)

    def _came(self, id: str, count: ReceiverCount) -> None:
        future = self._received.get(id)
        if future is not None and not future.done():
            future.set_result(count)

    def renewed(self) -> None:
        """The session is new, and its broker knows nothing of what was asked before."""
        lost = AggregateError("the connection was lost before the broker answered; try again")
        self.failed(lost)

    def failed(self, error: TidingsError) -> None:
        """Nothing will come any more."""
        self._reserved.failed(error)
        self._named.failed(error)
        for id in self._received:
            self._came(id, NOT_KNOWN)
