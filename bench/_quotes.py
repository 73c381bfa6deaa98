"""Publications to measure the store with: quotes of 8 attributes, of about 110 bytes, as a broker stamps them."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from tidings.model import ROOT_ROUTE, Identity
from tidings.wire import Envelope, Quality, encode_body

from ._workloads import stock

PUBLISHERS = 50
SYNCS = 200


def quotes(count: int, epoch: int = 1) -> list[Envelope]:
    """The first `count` publications of a broker, one every 10 microseconds."""
    source = stock(500).notification
    start = 1_760_000_000_000_000
    return [
        Envelope(
            Identity("b1", epoch, seq, f"client-{seq % PUBLISHERS}", seq // PUBLISHERS, start + 10 * seq),
            (ROOT_ROUTE,),
            encode_body(source()),
            Quality.STORED,
        )
        for seq in range(1, count + 1)
    ]


def disk_sync_milliseconds(directory: Path) -> float:
    """The disk's own time for making 16 KiB at the end of a file durable: median."""
    return statistics.median(disk_syncs(directory)) * 1e3


def disk_syncs(directory: Path) -> list[float]:
    """The disk's own times, in seconds, for making 16 KiB at the end of a file durable."""
    times = []
    with tempfile.NamedTemporaryFile(dir=directory, buffering=0) as file:
        for _ in range(SYNCS):
            file.write(b"\x5a" * 16_384)
            start = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - start)
    return times
