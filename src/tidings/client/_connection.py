"""A connection of the client's link: the hello, then parts in both directions."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from tidings.wire import (
    NO_ANSWER,
    TAKEN_OVER,
    Hello,
    Part,
    Reject,
    Stream,
    Welcome,
    WireError,
    decode_words,
    dial_problem,
    encode_words,
    part,
)

from ._address import Address, ConnectionFailed, NotAdmitted, TakenOver
from ._vigil import Vigil

if TYPE_CHECKING:
    from ._uplink import Uplink

HANDSHAKE = 5.0
"""Seconds that a broker may take to answer a hello."""


@contextlib.asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    """Whatever goes wrong on the way to a broker is a `ConnectionFailed`."""
    try:
        async with asyncio.timeout(HANDSHAKE):
            yield
    except TimeoutError:
        raise ConnectionFailed("no answer came in time") from None
    except ConnectionFailed:
        raise
    except ssl.SSLError as error:
        refusal = NotAdmitted(dial_problem(error))
        refusal.retry = not isinstance(error, ssl.SSLCertVerificationError)  # the broker may be on its way down
        raise refusal from None
    except OSError as error:
        raise ConnectionFailed(dial_problem(error)) from None


class Connection(Stream):
    """One connection of a link, from its hello on."""

    def __init__(self, link: Uplink, address: Address) -> None:
        super().__init__()
        self.link = link
        self.address = address
        self.answer: asyncio.Future[Welcome] = self.loop.create_future()
        self.gone: asyncio.Future[None] = self.loop.create_future()
        self.greeted = False
        """Whether the broker may know of this client by this connection."""
        self.farewell: Reject | None = None
        self.place = ""
        """Where its broker stands."""
        self.vigil: Vigil | None = None
        """Watches it, once the broker has let this client in."""

    async def dial(self, tls: ssl.SSLContext | None, hello: Hello) -> None:
        """Connect, say hello, and wait until the broker lets this client in; else `ConnectionFailed`."""
        async with _in_time():
            await self._reach(tls)
            await self._enter(hello)

    async def reach(self, tls: ssl.SSLContext | None) -> None:
        """Connect, and say nothing yet; else `ConnectionFailed`."""
        async with _in_time():
            await self._reach(tls)

    async def enter(self, hello: Hello) -> None:
        """Say hello, and wait until the broker lets this client in; else `ConnectionFailed`."""
        async with _in_time():
            await self._enter(hello)

    async def _reach(self, tls: ssl.SSLContext | None) -> None:
        address = self.address
        context = (tls or ssl.create_default_context()) if address.tls else None
        await self.loop.create_connection(lambda: self, address.host, address.port, ssl=context)

    async def _enter(self, hello: Hello) -> None:
        self.write(part(Part.HELLO, encode_words(hello)))
        self.greeted = True
        await self.answer

    def give_up(self) -> None:
        """Nobody waits for this connection any more."""
        if self.answer.done() and not self.answer.cancelled():
            self.answer.exception()  # somebody has seen it
        self.answer.cancel()  # an answer that comes now is too late
        self.abort()

    def watch(self, heartbeat: float) -> None:
        """Give signs of life and look for them, until the connection is gone."""
        self.vigil = Vigil(self, heartbeat)

    async def answers(self) -> bool:
        """Return whether the broker is there, now; if it gives no sign of life, the connection is given up."""
        return self.vigil is not None and await self.vigil.ask()

    def data_received(self, data: bytes) -> None:
        """Bytes have come: some of them may be taken as they are."""
        traffic = self.link.traffic
        if self is not traffic.connection:
            super().data_received(data)
            return
        self.last_heard = self.loop.time()
        try:
            if data := self._parser.begun(data):
                if traffic.takes(data, self._parser.limit):
                    if self.vigil is not None:
                        self.vigil.heard()
                    traffic.read(self, data, self._parser)
                elif parts := self._parser.feed(data):
                    self.parts_received(parts)
        except WireError as error:
            self.bad_input(error)

    def parts_received(self, parts: list[tuple[int, bytes]]) -> None:
        if self.answer.cancelled():
            return
        if not self.answer.done():
            kind, payload = parts.pop(0)
            if kind == Part.REJECT:
                self.farewell = decode_words(payload, Reject)
                self.close()
                return
            if kind != Part.WELCOME:
                raise WireError(f"the answer to a hello is WELCOME or REJECT, not a part of kind {kind}")
            welcome = decode_words(payload, Welcome)
            self.place = welcome.place
            self.link.welcomed(self, welcome)
            self.answer.set_result(welcome)
        if self.vigil is not None:
            self.vigil.heard()
        if parts:
            self.link.traffic.came(self, parts)

    def bad_input(self, error: WireError) -> None:
        self.farewell = Reject("protocol", str(error))
        self.abort()

    def lost(self, error: Exception | None) -> None:
        if self.vigil is not None:
            self.vigil.end()
        if not self.gone.done():
            self.gone.set_result(None)
        if not self.answer.done():
            if self.farewell is not None:
                kind = TakenOver if self.farewell.code == TAKEN_OVER else NotAdmitted
                refusal = kind(self.farewell.reason)
                refusal.retry, refusal.code = self.farewell.retry, self.farewell.code
                self.answer.set_exception(refusal)
            else:
                self.answer.set_exception(ConnectionFailed(NO_ANSWER))

    def slow(self) -> None:
        self.link.traffic.taken(self)

    def ready(self) -> None:
        self.link.traffic.taken(self)
