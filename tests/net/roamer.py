"""A client in a process of its own, which prints what happens to it as lines of JSON.

`python -m net.roamer '{"urls": [...], "name": "phone", ...}'`: `durable` is the name of its subscription, if that is to
be kept; everything else goes to `tidings.connect`. `Roamer` runs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import tidings

TESTS = Path(__file__).parents[1]


def _say(**what: object) -> None:
    print(json.dumps({**what, "at": time.time()}), flush=True)


async def _tell_moves(client: tidings.Client) -> None:
    async for move in client.moved:
        _say(old=move.old, new=move.new, missed=move.missed, pause=move.pause)


async def main(urls: list[str], durable: str | None = None, filter: str = "EXISTS(n)", **settings: Any) -> None:
    async with tidings.connect(urls, **settings) as client:
        subscription = await client.subscribe(filter, durable=durable, on_gap=lambda gap: _say(gap=str(gap)))
        telling = asyncio.create_task(_tell_moves(client))
        _say(broker=client.statistics().broker)
        async for notification in subscription:
            _say(n=notification["n"])
        await telling


class Roamer:
    """Such a client, as a test sees it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self, key: str) -> dict[str, Any]:
        """The next line with this key."""
        while key not in (line := await self.any_line()):
            pass
        return line

    async def any_line(self) -> dict[str, Any]:
        """The next line."""
        assert self._process.stdout is not None
        return dict(json.loads(await self._process.stdout.readline()))

    async def is_quiet(self) -> bool:
        """Whether no notification has come that was not read."""
        try:
            async with asyncio.timeout(0.2):
                await self.line("n")
        except TimeoutError:
            return True
        return False

    async def numbers(self, count: int) -> list[int]:
        """The next notifications."""
        return [(await self.line("n"))["n"] for _ in range(count)]

    def sleep(self) -> None:
        """Stand still, as an application does that its system has suspended."""
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """kill -9."""
        self._process.send_signal(signal.SIGKILL)


@contextlib.asynccontextmanager
async def roamer(*urls: str, **settings: Any) -> AsyncIterator[Roamer]:
    """A client that is connected and subscribed; killed in the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "net.roamer", json.dumps({"urls": urls, **settings})),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
    )
    one = Roamer(process)
    try:
        await one.line("broker")
        yield one
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        assert process.stdout is not None
        await process.stdout.read()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(main(**json.loads(sys.argv[1])))
