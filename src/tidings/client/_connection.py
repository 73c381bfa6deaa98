"""A connection of the client's link: the hello, then parts in both directions."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tidings.wire import Part, Reject, Stream, Welcome, WireError, decode_words

from ._address import ConnectionFailed, NotAdmitted

if TYPE_CHECKING:
    from ._link import Link

log = logging.getLogger("tidings.client")


class Connection(Stream):
    """One connection of a link, from its hello on."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link
        self.answer: asyncio.Future[Welcome] = self.loop.create_future()
        self.gone: asyncio.Future[None] = self.loop.create_future()
        self.farewell: Reject | None = None

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
                raise WireError(f"a hello is answered by WELCOME or REJECT, not by kind {kind}")
            welcome = decode_words(payload, Welcome)
            self.link.welcomed(self, welcome)
            self.answer.set_result(welcome)
        if parts:
            self.link.received(self, parts)

    def bad_input(self, error: WireError) -> None:
        log.warning("the broker does not speak the protocol: %s", error)
        self.farewell = Reject("protocol", str(error))
        self.abort()

    def lost(self, error: Exception | None) -> None:
        if not self.gone.done():
            self.gone.set_result(None)
        if not self.answer.done():
            if self.farewell is not None:
                refusal = NotAdmitted(self.farewell.reason)
                refusal.retry = self.farewell.retry
                self.answer.set_exception(refusal)
            else:
                why = f"the connection was closed ({error or 'without a word'}); a broker with TLS is at tidings+tls://"
                self.answer.set_exception(ConnectionFailed(why))

    def slow(self) -> None:
        self.link.taken(self)

    def ready(self) -> None:
        self.link.taken(self)
