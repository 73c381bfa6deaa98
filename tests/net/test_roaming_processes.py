"""Readers and brokers as processes of their own: a reader is killed, and goes on at another broker."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

from net.faults import Process
from net.world import PATIENCE, running

import tidings


async def _reader(port: int, *options: str) -> asyncio.subprocess.Process:
    command = ("-m", "tidings", "sub", "n >= 0", "--json", "--client", "reader", "--durable", "all")
    return await asyncio.create_subprocess_exec(
        sys.executable, *command, "-b", f"tidings://127.0.0.1:{port}", *options, stdout=asyncio.subprocess.PIPE
    )


async def _numbers(reader: asyncio.subprocess.Process, count: int) -> list[int]:
    assert reader.stdout is not None
    async with asyncio.timeout(PATIENCE / 2):
        return [json.loads(await reader.stdout.readline())["n"] for _ in range(count)]


@running
async def test_a_killed_reader_goes_on_at_another_broker(tmp_path: Path) -> None:
    one = Process("a", tmp_path, ())
    await one.start()
    two = Process("b", tmp_path, (f"tidings://127.0.0.1:{one.port}",))
    await two.start()
    try:
        async with tidings.connect(f"tidings://127.0.0.1:{one.port}", wait=10) as writer:
            begun = await _reader(one.port, "--timeout", "0.1")  # from now on nothing is missed
            assert begun.stdout is not None
            await begun.stdout.read()
            await begun.wait()
            await writer.publish_many([{"n": 1}, {"n": 2}], quality="stored")
            reader = await _reader(one.port)
            assert await _numbers(reader, 2) == [1, 2]
            reader.send_signal(signal.SIGKILL)
            await reader.wait()
            await writer.publish_many([{"n": 3}, {"n": 4}], quality="stored")
            again = await _reader(two.port)
            got = await _numbers(again, 1)
            while got[-1] != 4:
                got += await _numbers(again, 1)
            again.send_signal(signal.SIGKILL)
            await again.wait()
            assert got == list(range(got[0], 5))  # what was not acknowledged when the reader died comes again
            assert got[0] <= 3
    finally:
        await two.end()
        await one.end()
