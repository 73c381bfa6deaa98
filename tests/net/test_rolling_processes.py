"""Six brokers and thirty clients in processes of their own: each broker is evacuated, stopped and started again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from net.roamer import Roamer, roamer

import tidings
from tidings.mobility.workload import BUILDING

CLIENTS = 30
LINKS = sorted((one, other) for one, others in BUILDING.items() for other in others if one < other)


class Broker:
    """A broker that comes back where it was."""

    def __init__(self, name: str, directory: Path, neighbours: list[Broker]) -> None:
        self._links = [part for one in neighbours for part in ("--neighbour", one.url)]
        self._command = [sys.executable, "-m", "tidings", "serve", "--json", "--name", name]
        self._command += ["--data", str(directory / name)]
        self._log = directory / f"{name}.log"
        self._port = 0

    @property
    def url(self) -> str:
        return f"tidings://127.0.0.1:{self._port}"

    def start(self) -> None:
        with self._log.open("ab") as log:
            command = [*self._command, "--port", str(self._port), *self._links]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self._log.read_text()
        self._port = json.loads(line)["port"]

    async def stop(self) -> None:
        """In order."""
        self.process.terminate()
        while self.process.poll() is None:
            await asyncio.sleep(0.05)
        self.process.communicate()
        assert self.process.returncode == 0, self._log.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


async def joined(url: str, count: int) -> None:
    """Wait until a broker reaches so many others."""
    async with tidings.connect(url, wait=30) as client, asyncio.timeout(60):
        while len((await client.status()).tree.hops) < count:
            await asyncio.sleep(0.1)


async def heard(phone: Roamer, count: int) -> tuple[list[int], list[float]]:
    """What a client got until it had so many, and the pauses of its moves."""
    numbers: list[int] = []
    pauses: list[float] = []
    while len(numbers) < count:
        line: dict[str, Any] = await phone.any_line()
        assert "gap" not in line, line
        if "n" in line:
            numbers.append(line["n"])
        elif "pause" in line:
            pauses.append(line["pause"])
    return numbers, pauses


async def rolling(directory: Path, clients: int = CLIENTS) -> None:
    rng = random.Random(1)
    brokers: dict[str, Broker] = {}
    async with contextlib.AsyncExitStack() as stack:
        for name in sorted(BUILDING):
            broker = brokers[name] = Broker(name, directory, [brokers[one] for one, two in LINKS if two == name])
            broker.start()
            stack.callback(broker.kill)
        for broker in brokers.values():
            await joined(broker.url, len(brokers) - 1)
        phones = []
        for number in range(clients):
            own = [brokers[one].url for one in rng.sample(sorted(brokers), 3)]
            phones.append(await stack.enter_async_context(roamer(*own, name=f"phone-{number}")))
        feed = await stack.enter_async_context(tidings.connect([one.url for one in brokers.values()], name="feed"))
        count, going_on = 0, True

        async def publish() -> None:
            nonlocal count
            while going_on:
                await feed.publish(n=count)
                count += 1
                await asyncio.sleep(0.05)

        publishing = asyncio.create_task(publish())
        gone = 0
        for name, broker in brokers.items():
            async with tidings.connect(broker.url, name="admin", wait=30) as admin, asyncio.timeout(60):
                status = await admin.evacuate(name)
                while not status.done:
                    await asyncio.sleep(0.05)
                    status = await admin.evacuate(name, begin=False)
            assert not status.staying, status
            gone += sum(status.gone.values())
            await broker.stop()
            broker.start()
            await joined(broker.url, len(brokers) - 1)
        going_on = False
        await publishing
        await feed.flush()
        async with asyncio.timeout(60):
            results = [await heard(phone, count) for phone in phones]
        await asyncio.sleep(1)
        pauses = sorted(pause for _, some in results for pause in some)
        for numbers, _ in results:
            assert numbers == list(range(count)), "lost, repeated, or out of order"
        for phone in phones:
            assert await phone.is_quiet(), "nothing comes twice"
        assert gone >= clients
        assert len(pauses) >= clients
        print(
            f"{gone} clients sent elsewhere, {count} publications to {clients} clients; "
            f"pause: median {pauses[len(pauses) // 2] * 1000:.0f} ms, longest {pauses[-1] * 1000:.0f} ms"
        )


@pytest.mark.soak
def test_six_brokers_are_restarted_while_thirty_processes_listen(tmp_path: Path) -> None:
    begun = time.monotonic()
    asyncio.run(rolling(tmp_path))
    print(f"{time.monotonic() - begun:.0f} s")
