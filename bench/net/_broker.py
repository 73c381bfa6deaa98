"""One of our brokers as a process: `python -m bench.net._broker NAME PORT [NEIGHBOUR_URL ...]`."""

from __future__ import annotations

import asyncio
import resource
import signal
import sys

from tidings.matching import Calm
from tidings.net import Options, serve


async def main(name: str, port: int, neighbours: tuple[str, ...]) -> None:
    """Serve until told to stop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    Calm().start()  # as `tidings serve` does
    async with serve(Options(name=name, port=port, neighbours=neighbours)):
        await stop.wait()


if __name__ == "__main__":
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), tuple(sys.argv[3:])))
