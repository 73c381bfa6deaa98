"""A stream: an asyncio connection that reads and writes parts, many at a time.

Everything written in one turn of the event loop goes out in one system call. Both the server and the client library
derive from it; what the parts mean is theirs.
"""

from __future__ import annotations

import asyncio

from ._codec import WireError
from ._framing import MAX_PART, Parser

WRITE_HIGH = 1_048_576
"""Bytes in the transport's buffer above which the peer counts as slow."""


class Stream(asyncio.Protocol):
    """One connection. Override `parts_received`, `bad_input`, `lost`, `slow` and `ready`."""

    def __init__(self, limit: int = MAX_PART) -> None:
        self._parser = Parser(limit)
        self._out: list[bytes] = []
        self.transport: asyncio.Transport | None = None
        self.loop = asyncio.get_running_loop()
        self.last_heard = self.loop.time()

    # --- what asyncio calls ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=WRITE_HIGH)

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
        """The connection is gone."""
        self.transport = None
        self.lost(error)

    def pause_writing(self) -> None:
        """The peer does not take what is sent."""
        self.slow()

    def resume_writing(self) -> None:
        """The peer takes again."""
        self.ready()

    # --- what the owner calls -------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes, at the end of this turn of the loop."""
        if not self._out:
            self.loop.call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self.transport is not None:
            self.transport.write(b"".join(out))

    def close(self) -> None:
        """Send what is written, then close."""
        if self._out:
            self._flush()
        if self.transport is not None:
            self.transport.close()

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
