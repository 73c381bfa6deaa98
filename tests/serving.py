"""A broker in a thread of its own, for tests that have no event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

from tidings.net import Options, serve


@contextlib.contextmanager
def serving(options: Options) -> Iterator[str]:
    """Serve; the address of the broker."""
    started = threading.Event()
    ports: list[int] = []
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def run() -> None:
        async with serve(options) as server:
            ports.append(server.port)
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    started.wait()
    try:
        yield f"tidings://127.0.0.1:{ports[0]}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
