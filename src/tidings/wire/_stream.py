"""A stream: an asyncio connection that reads and writes parts, many at a time.

Everything written in one turn of the event loop goes out in one system call. Both the server and the client library
derive from it; what the parts mean is theirs.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from ._errors import WireError
from ._framing import MAX_PART, Parser, Part, part

WRITE_HIGH = 1_048_576
"""Bytes in the transport's buffer above which the peer counts as slow."""
READ_BYTES = 65_536
"""The most bytes of one read, where the transport lets us choose: asyncio's own 256 kB are allocated anew by the system
for every read, and what so many bytes become no longer fits into a processor's cache."""
CLOSE_SECONDS = 5.0
"""How long a peer may take to read the last bytes before the connection is closed without them."""


class Stream(asyncio.Protocol):
    """One connection. Override `parts_received`, `bad_input`, `lost`, `slow` and `ready`."""

    def __init__(self, limit: int = MAX_PART) -> None:
        self._parser = Parser(limit)
        self._out: list[bytes] = []
        self._closing: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport | None = None
        self.loop = asyncio.get_running_loop()
        self.last_heard = self.loop.time()
        self.paused = False
        """Whether this side does not read for now; then silence says nothing about the peer."""
        self.clogged = False
        """Whether the peer does not take what is sent; then nothing is sent that it could cause without end."""

    # --- what asyncio calls ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not every loop derives its transports from asyncio's classes: uvloop does not.
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_HIGH)
        if hasattr(transport, "max_size"):
            cast(Any, transport).max_size = READ_BYTES

    def data_received(self, data: bytes) -> None:
        """Bytes have come: hand over all whole parts at once."""
        self.last_heard = self.loop.time()
        try:
            parts = self._parser.feed(data)
            if parts:
                self.parts_received(parts)
        except WireError as error:
            self.bad_input(error)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
        self.lost(error)

    def pause_writing(self) -> None:
        """The peer does not take what is sent."""
        self.clogged = True
        self.slow()

    def resume_writing(self) -> None:
        """The peer takes again."""
        self.clogged = False
        self.ready()

    # --- what the owner calls -------------------------------------------------------------------------

    @property
    def half_read(self) -> int:
        """The bytes of a part that is not whole yet."""
        return self._parser.held

    def write(self, data: bytes) -> None:
        """Send bytes, at the end of this turn of the loop."""
        if not self._out:
            self.loop.call_soon(self._flush)
        self._out.append(data)

    def write_now(self, data: bytes) -> None:
        """Send bytes at once, behind what was written before."""
        if self._out:
            self._out.append(data)
            self._flush()
        elif self.transport is not None:
            self.transport.write(data)

    def _flush(self) -> None:
        if not self._out:
            return
        out, self._out = self._out, []
        if self.transport is not None:
            self.transport.write(b"".join(out))

    def pong(self, payload: bytes = b"") -> None:
        """Answer a ping; a peer that takes nothing gets no answer either."""
        if not self.clogged:
            self.write(part(Part.PONG, payload))

    def pause(self) -> None:
        """Do not read for now."""
        if not self.paused and self.transport is not None and not self.transport.is_closing():
            self.paused = True
            self.transport.pause_reading()

    def unpause(self) -> None:
        """Read again."""
        if self.paused and self.transport is not None and not self.transport.is_closing():
            self.paused = False
            self.last_heard = self.loop.time()
            self.transport.resume_reading()

    def close(self) -> None:
        """Send what is written, then close."""
        if self._out:
            self._flush()
        if self.transport is not None and self._closing is None:
            self.transport.close()
            self._closing = self.loop.call_later(CLOSE_SECONDS, self.abort)

    def abort(self) -> None:
        """Close at once."""
        if self.transport is not None:
            self.transport.abort()

    # --- to override ----------------------------------------------------------------------------------

    def parts_received(self, parts: list[tuple[int, bytes]]) -> None:
        """Whole parts have come."""

    def bad_input(self, error: WireError) -> None:
        """What came is not the protocol."""

    def lost(self, error: Exception | None) -> None:
        """The connection is gone."""

    def slow(self) -> None:
        """The peer does not take what is sent."""

    def ready(self) -> None:
        """The peer takes again."""
