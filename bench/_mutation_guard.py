"""A pytest plugin that ends a test which goes on without end, as it may in broken code; `bench.mutate` loads it."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from types import FrameType

import pytest

CPU_SECONDS = 30.0
"""No test of the quick suite needs as much processor time."""
REAL_SECONDS = 240.0
"""For a test that waits. No test of the quick suite takes as long, unless the machine is very busy."""
LIMIT = "MUTATE_CPU_SECONDS"
"""The variable that says how much processor time all tests together may use."""
ENDLESS = "a test goes on without end: "
"""How the last line of the process begins if a test was ended."""


_OUT = os.dup(1)
"""Where output goes before pytest captures it."""


def pytest_configure() -> None:
    """Be told when a test has had its time, and end when all of them have."""
    if limit := int(os.environ.get(LIMIT, "0")):
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    signal.signal(signal.SIGVTALRM, _stop)
    signal.signal(signal.SIGALRM, _stop)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Give a test its time."""
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, REAL_SECONDS)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)


def _stop(number: int, frame: FrameType | None) -> None:
    """End the process: an exception might be handled by the code under test."""
    os.write(_OUT, f"\n{ENDLESS}{os.environ.get('PYTEST_CURRENT_TEST', '')}\n".encode())
    os._exit(1)
