"""A TCP proxy that cuts, stalls, throttles and leaves connections half open, as told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

CHUNK = 65_536


class Proxy:
    """Stands between whoever connects to `port` and the target."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.closed = False
        """Whether new connections are refused."""
        self.bytes_per_second: float | None = None
        self.source: str | None = None
        """The address from which the target is dialled."""
        self.passed = 0
        """Bytes that went through, both ways."""
        self.connections = 0
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"tidings://127.0.0.1:{self.port}"

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", port, limit=CHUNK)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)

    # --- faults ---------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Reset every connection; what is under way is lost."""
        for writer in self._writers:
            writer.transport.abort()

    def stall(self) -> None:
        """Let nothing through, in either direction, and tell nobody: every connection is half open."""
        self._flowing.clear()

    def flow(self) -> None:
        """Go on."""
        self._flowing.set()

    def strand(self) -> None:
        """Let nothing through on the connections that there are, and tell nobody; new ones are not concerned."""
        self._flowing.clear()
        self._flowing = asyncio.Event()
        self._flowing.set()

    # --- work -----------------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        onward: asyncio.StreamWriter | None = None
        self.connections += 1
        try:
            if self.closed:
                return
            local = (self.source, 0) if self.source is not None else None
            back, onward = await asyncio.open_connection("127.0.0.1", self.target, limit=CHUNK, local_addr=local)
            self._writers.add(onward)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, onward, self._flowing))
                group.create_task(self._pump(back, writer, self._flowing))
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass
        finally:
            for one in (writer, onward):
                if one is not None:
                    self._writers.discard(one)
                    one.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flowing: asyncio.Event) -> None:
        """Pass bytes on; the end of one direction ends both."""
        while True:
            data = await reader.read(CHUNK)
            await flowing.wait()
            if not data:
                raise ConnectionResetError
            self.passed += len(data)
            if self.bytes_per_second is not None:
                await asyncio.sleep(len(data) / self.bytes_per_second)
            writer.write(data)
            await writer.drain()


@contextlib.asynccontextmanager
async def proxy(target: int) -> AsyncIterator[Proxy]:
    """A running proxy."""
    one = Proxy(target)
    await one.start()
    try:
        yield one
    finally:
        await one.stop()
