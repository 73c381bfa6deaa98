"""What is kept back from subscriptions that are owed something takes memory: a burst, while an origin is waited for.

With `TIDINGS_BASE=DIR`, a checkout of another revision, its memory is measured, too, in a process of its own. A run
keeps 1,000 notifications back from 10,000 subscriptions, `--full` 10,000.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

from bench import Report
from bench._runtime import Idle
from tidings.broker import Broker, Link, LinkKind
from tidings.model import EVERYTHING, ROOT_ROUTE, Identity, Notification
from tidings.wire import Envelope, Frame, Quality, Subscribe, encode_body

CLIENTS, EACH = 100, 100
"""Subscriptions of each client."""
COUNT, FULL_COUNT = 1_000, 10_000
BASE = os.environ.get("TIDINGS_BASE")


def _suspended() -> Broker:
    """A broker that waits for an origin, for all its subscriptions."""
    broker = Broker("a", Idle())
    for n in range(CLIENTS):
        link = Link(f"c{n}", LinkKind.CLIENT)
        broker.attach(link)
        for id in range(EACH):
            broker.receive(link, Frame(Subscribe(f"s{id}", EVERYTHING)))
    broker.progress.advance("origin", 1, 0)
    broker.recovery.new_tree()
    return broker


def _memory(count: int) -> tuple[int, float]:
    """The bytes that so many notifications take while they are kept back, and the seconds that each takes."""
    broker = _suspended()
    clients = [(link, list(broker.registrations.subscriptions(link).values())) for link in broker.clients]
    body = encode_body(Notification(type="quote", symbol="SAP", price=182.4))
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    start = time.process_time()
    for seq in range(1, count + 1):
        identity = Identity("origin", 1, seq, "publisher", seq, 0, 0)
        envelope = Envelope(identity, (ROOT_ROUTE,), bytes(bytearray(body)), Quality.ACCEPTED)
        for link, subscriptions in clients:
            broker.delivery.deliver(ROOT_ROUTE, envelope, link, list(subscriptions))
    elapsed = time.process_time() - start
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return after - before, elapsed / count


def run(report: Report) -> None:
    """Measure it here and, if there is one, in the base."""
    count = FULL_COUNT if report.full else COUNT
    what = f"{count:,} notifications kept back from {CLIENTS * EACH:,} subscriptions"
    own, each = _memory(count)
    report.figure(f"{what}, memory", own / 2**20, "MiB")
    report.figure("one of them, processor time with memory traced", each * 1e3, "ms")
    if BASE:
        here = Path(__file__).parents[1]
        environment = {**os.environ, "PYTHONPATH": f"{Path(BASE) / 'src'}{os.pathsep}{here}"}
        command = [sys.executable, "-m", "bench.kept", str(count)]
        done = subprocess.run(command, env=environment, cwd=here, capture_output=True, check=True)
        report.limit(f"{what}, memory / that of the base", own / int(done.stdout), "x", at_most=1.2)


if __name__ == "__main__":
    print(_memory(int(sys.argv[1]))[0])
