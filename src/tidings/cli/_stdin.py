"""Lines from stdin, as they come, while the event loop goes on: from a file, or a pipe that is still written."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import threading
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from ._errors import UsageError

MAX_LINE = 8_388_608
"""The most bytes of one line: the largest notification fits, even if every byte of it has to be escaped."""
MAX_AHEAD = 16
"""Reads that may wait for the loop before the reading thread waits, too."""


class Readable(Protocol):
    """A stream of bytes that gives what is there."""

    def fileno(self) -> int:
        """Its descriptor; OSError if it has none."""

    def read1(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""


async def lines(stream: Readable) -> AsyncIterator[bytes]:
    """The lines of a stream, without their ends.

    A thread of its own reads, one that nobody waits for: reading from a terminal cannot be interrupted.
    """
    loop = asyncio.get_running_loop()
    take = _reader(stream)
    arrived: asyncio.Queue[list[bytes] | None] = asyncio.Queue()
    room = threading.Semaphore(MAX_AHEAD)

    def post(batch: list[bytes] | None) -> None:
        room.acquire()
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it the interest in more
            loop.call_soon_threadsafe(arrived.put_nowait, batch)

    def read() -> None:
        rest = b""
        with contextlib.suppress(OSError, ValueError):  # a stream that is closed has ended
            while chunk := take(65_536):
                *whole, rest = (rest + chunk).split(b"\n")
                post(whole)
                if len(rest) > MAX_LINE:
                    break
        post([rest] if rest else [])
        post(None)

    threading.Thread(target=read, name="tidings stdin", daemon=True).start()
    while (batch := await arrived.get()) is not None:
        room.release()
        for line in batch:
            if len(line) > MAX_LINE:
                raise UsageError(f"a line has more than {MAX_LINE:,} bytes; write one JSON object per line")
            yield line.rstrip(b"\r")


def _reader(stream: Readable) -> Callable[[int], bytes]:
    """Read the descriptor itself: a thread that waits inside a buffered stream holds its lock, and Python aborts if it
    has to end then, as after Ctrl-C.
    """
    try:
        descriptor = stream.fileno()
    except OSError:  # only in memory
        return stream.read1
    return functools.partial(os.read, descriptor)
