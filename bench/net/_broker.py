"""One of our brokers as a process: `python -m bench.net._broker [--data DIRECTORY] NAME PORT [NEIGHBOUR_URL ...]`."""

from __future__ import annotations

import argparse
import asyncio
import resource
import signal
from pathlib import Path

from tidings.matching import Calm
from tidings.net import Options, serve


async def main(name: str, port: int, neighbours: tuple[str, ...], data: Path | None = None) -> None:
    """Serve until told to stop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    Calm().start()  # as `tidings serve` does
    async with serve(Options(name=name, port=port, neighbours=neighbours, data=data)):
        await stop.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, help="where its store is; none without it")
    parser.add_argument("name")
    parser.add_argument("port", type=int)
    parser.add_argument("neighbours", nargs="*")
    given = parser.parse_args()
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main(given.name, given.port, tuple(given.neighbours), given.data))
