"""A seed plays the same run whichever engine matches: with the compiled one, and with Python alone."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from tidings._native import engine
from tidings.broker import Link
from tidings.sim import Scenario
from tidings.wire import Frame

NAMES = ("1", "b1", "bh4", "s2", "m3", "h4", "hs5", "r6", "a7", "w8")


def digest(name: str) -> str:
    """Everything that was sent in a run, from whom to whom and when."""
    network = Scenario.named(name).build()
    found = hashlib.blake2b(digest_size=6)

    def note(broker: str, link: Link, frame: Frame) -> None:
        found.update(repr((network.scheduler.now, broker, link.name, frame.hop, frame.message)).encode())

    network.tap = note
    network.run()
    return found.hexdigest()


@pytest.mark.skipif(engine is None, reason="the compiled engine was not built: there is one engine only")
def test_a_run_is_the_same_with_and_without_the_compiled_engine() -> None:
    environment = {**os.environ, "TIDINGS_PURE": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pure = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=True)
    assert pure.stdout.split() == ["None", *map(digest, NAMES)]


if __name__ == "__main__":
    print(engine, *map(digest, NAMES))
