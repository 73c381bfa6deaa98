"""Publishing nothing in vain: what nobody wants does not leave the client."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from tidings.aggregation.quenching import Denied, Grant, Interest, Wanted, decode, encode
from tidings.model import AggregateError, ArgumentRefused, Notification, TidingsError
from tidings.wire import Quality, Refused

from ._receipt import UNHEARD, Receipt, error_of

log = logging.getLogger("tidings.client")

ANSWER_TIMEOUT = 10.0
"""Seconds that a broker may take to say whether it has a store."""
_LEFT_OUT = Receipt(0, None, UNHEARD, quenched=True)


class Quenching:
    """What one client leaves out."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._interest = Interest(lambda message: send(encode(message)))
        self._stores: bool | None = None
        """Whether the broker has a store; None: it has not said."""
        self._refusal: TidingsError | None = None
        self._answered = asyncio.Event()
        self.count = 0
        """How many publications were left out."""

    def leaves_out(self, content: Notification | Mapping[str, object], quality: Quality) -> Receipt | None:
        """The receipt of a publication that nobody wants; None: publish it. Raise why that may not be asked.

        A quality that may be stored needs `answered` first.
        """
        if quality is Quality.STORED:
            raise ArgumentRefused(
                "quality='stored' and quench: what is left out is not stored, and so it would be missing from the "
                "past; choose another quality, or publish without `quench`"
            )
        heard = self._interest.hears(content, time.monotonic())
        if self._refusal is not None:
            raise self._refusal
        if self._stores and quality is not Quality.FIRE:
            raise ArgumentRefused(
                "quench at a broker with a store: what is left out would be missing from the past; pass "
                "quality='fire', or publish without `quench`"
            )
        if heard:
            return None
        self.count += 1
        return _LEFT_OUT

    async def answered(self, quality: Quality) -> None:
        """Wait until the broker has said whether it has a store, where that matters."""
        if quality is Quality.STORED or self._stores is not None or self._refusal is not None:
            return
        self._interest.ask(time.monotonic())
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                await self._answered.wait()
        except TimeoutError:
            raise AggregateError(
                f"the broker has not said in {ANSWER_TIMEOUT:g} seconds whether it has a store, and nothing was "
                "published; it may be of a version without `quench`, or have aggregation switched off"
            ) from None

    # --- for the client -------------------------------------------------------------------------------

    def heard(self, body: bytes) -> None:
        """The broker has sent something about what is wanted."""
        try:
            message = decode(body)
        except TidingsError as error:
            log.warning("the broker has sent something that this client cannot read: %s", error)
            return
        match message:
            case Wanted():
                self._interest.told(message)
            case Grant():
                self._stores = message.stores
                self._interest.granted(message)
                self._answered.set()
            case Denied(kind, reason):
                self._refusal = error_of(Refused(kind, reason, ""))
                self._answered.set()

    def disconnected(self) -> None:
        """The connection is lost."""
        self._interest.lost()

    def renewed(self) -> None:
        """The session is new, and its broker knows nothing of this client."""
        self._interest.renewed()
        self._stores = self._refusal = None
        self._answered.clear()

    def end(self) -> None:
        """The client closes: nothing shall wait for what it knows."""
        self._interest.end()
