"""The brokers of the demonstration: three real processes in a line, each with a store in a temporary directory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import tidings
from tidings.net import StartError

NAMES = ("berlin", "paris", "rome")
"""From one end of the line to the other; the first one orders the scopes."""
PATIENCE = 30.0
"""Seconds that anything may take before the demonstration gives up."""


class Broker:
    """One broker, which can be killed and started again on the same port, with the same store."""

    def __init__(self, name: str, home: Path, neighbour: Broker | None) -> None:
        self.name = name
        self.port = 0
        self._home = home
        self._neighbour = neighbour
        self._process: Process | None = None

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"tidings://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self._process is not None, "it has been started"
        return self._process.pid

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        words = ["--name", self.name, "--port", str(self.port), "--data", str(self._home / self.name)]
        words += ["--authority", NAMES[0], "--log-level", "error", "--json"]
        words += ["--neighbour", self._neighbour.url] if self._neighbour is not None else []
        log = self._home / f"{self.name}.log"
        with log.open("wb") as errors:
            self._process = process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", f"{__package__}._broker", *words),
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for the demonstration, which ends its brokers
            )
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await process.stdout.readline()
        if not line:
            told = log.read_text(errors="replace").strip().rpartition("\n")[2]
            raise StartError(f"broker {self.name} did not start: {told or 'it said nothing'}")
        self.port = json.loads(line)["port"]

    async def kill(self) -> None:
        """`kill -9`: it has no time to say or save anything."""
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def stop(self) -> None:
        """End it in order, or without."""
        if self._process is None or self._process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(PATIENCE):
                await self._process.wait()
        except TimeoutError:
            await self.kill()


class Network:
    """Three brokers in a line."""

    def __init__(self, home: Path) -> None:
        self.berlin = Broker(NAMES[0], home, None)
        self.paris = Broker(NAMES[1], home, self.berlin)
        self.rome = Broker(NAMES[2], home, self.paris)

    @property
    def brokers(self) -> tuple[Broker, Broker, Broker]:
        """All of them, in line."""
        return self.berlin, self.paris, self.rome

    async def linked(self) -> None:
        """Wait until each can reach each."""
        async with asyncio.timeout(PATIENCE):
            for broker in self.brokers:
                async with tidings.connect(broker.url) as client:
                    while len((await client.status()).tree.edges) < len(NAMES) - 1:
                        await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """End all."""
        await asyncio.gather(*(broker.stop() for broker in self.brokers))


@contextlib.asynccontextmanager
async def network() -> AsyncIterator[Network]:
    """Brokers that are not started yet; in the end nothing is left of them."""
    with tempfile.TemporaryDirectory(prefix="tidings-demo-") as home:
        found = Network(Path(home))
        try:
            yield found
        finally:
            await asyncio.shield(found.stop())
