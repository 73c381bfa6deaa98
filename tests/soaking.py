"""How long a test marked `soak` goes on, and with which seeds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import pytest

SOAK_SECONDS = float(os.environ.get("SOAK_SECONDS", "60"))
"""For all of them together, roughly; `make soak` sets it."""


SOAK_FAULTS = int(os.environ.get("SOAK_FAULTS", "0"))
"""How many faults the random runs of acknowledged groups simulate, whatever time that takes; 0: they go by the time."""


def long(*values: object) -> object:
    """A case of a parametrized test that takes long: it is left to `make soak`."""
    return pytest.param(*values, marks=pytest.mark.soak)


def soak_seeds(seconds: float, first: int | None = None) -> Iterator[int]:
    """Seeds, each one more than the one before, until the time is used up; fresh ones if no first one is named.

    They are printed, so that a run that fails can be repeated.
    """
    deadline = time.monotonic() + seconds
    begin = seed = time.time_ns() if first is None else first
    print(f"seeds from {begin}")
    while time.monotonic() < deadline:
        yield seed
        seed += 1
    print(f"seeds {begin} to {seed - 1}: {seed - begin:,} runs, none failed")


def fault_seeds(part: int, faults: Callable[[], int]) -> Iterator[int]:
    """The seeds of one of eight parts, until there have been enough faults in it, if `SOAK_FAULTS` says how many."""
    if not SOAK_FAULTS:
        yield from spread_seeds(part)
        return
    seed = 1_000_000 * (part + 1) + int(os.environ.get("SOAK_OFFSET", "0"))
    while faults() < SOAK_FAULTS / 8:
        yield seed
        seed += 1


def spread_seeds(part: int) -> Iterator[int]:
    """The seeds of one of eight parts that the processes share: each takes three tenths of the time of all of them."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    first = 1_000_000 * (part + 1) + int(os.environ.get("SOAK_OFFSET", "0"))
    return soak_seeds(SOAK_SECONDS * workers / 8 * 0.3, first)
