"""What the tests of the archive share: a store with given publications, and the archive that is made of it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from store_world import Loop

from tidings.model import ROOT_ROUTE, Identity, Notification, Route
from tidings.wire import Envelope, Quality, encode_body

HOUR = 3_600_000_000
START = 490_000 * HOUR
"""An hour in 2025."""


def publication(
    origin: str, epoch: int, seq: int, at: int, notification: Notification, *routes: Route, ttl: int | None = None
) -> Envelope:
    identity = Identity(origin, epoch, seq, f"p{seq % 3}", seq, at, seq % 2, ttl)
    return Envelope(identity, routes or (ROOT_ROUTE,), encode_body(notification), Quality.STORED)


def fill(
    directory: Path, content: Sequence[tuple[int, Notification]], origin: str = "berlin", *, batch: int | None = None
) -> list[Envelope]:
    """Append to the store of a broker, in a new epoch, and close it; in batches of this size, if one is given."""
    loop = Loop()
    with loop.open(directory, owner=origin) as store:
        envelopes = [
            publication(origin, store.epoch, 2 * number, at, notification)
            for number, (at, notification) in enumerate(content, 1)
        ]
        for count, envelope in enumerate(envelopes, 1):
            store.append(envelope, lambda seq=envelope.identity.seq: loop.synced.append(seq))  # type: ignore[misc]
            while batch and count % batch == 0 and len(loop.synced) < count:
                loop.turn()
    return envelopes


def quotes(count: int, step: int = 1_000_000, start: int = START) -> list[tuple[int, Notification]]:
    """A quote every second."""
    return [
        (
            start + step * n,
            Notification(type="quote" if n % 10 else "trade", symbol=f"S{n * 7 % 50:02d}", price=n % 200 / 2, n=n),
        )
        for n in range(count)
    ]


def in_duckdb(*queries: str) -> list[list[Any]]:
    """What DuckDB answers to each query: the first column.

    It runs in a process of its own. In one that has also run Spark it reports a leak of all its types at the end.
    """
    script = "import duckdb, json, sys; ask = duckdb.connect().execute; "
    script += "print(json.dumps([[row[0] for row in ask(query).fetchall()] for query in json.load(sys.stdin)]))"
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, input=json.dumps(queries), capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    answers: list[list[Any]] = json.loads(done.stdout)
    return answers


@contextlib.contextmanager
def child(script: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own, which can be killed, and is in the end; `script` is roll or maintain."""
    here = Path(__file__).parent
    command = [sys.executable, str(here / "store" / f"{script}_child.py"), *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), *sys.path])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, bufsize=0) as process:
        try:
            yield process
        finally:
            process.kill()


def kill_at_some_point(child: subprocess.Popen[bytes], rng: random.Random) -> bytes:
    """Kill it when it has said something, a random time later; what it said."""
    assert child.stdout is not None
    said = child.stdout.readline()
    time.sleep(rng.uniform(0, 0.15))
    child.kill()
    said += child.stdout.read()
    child.wait()
    return said
