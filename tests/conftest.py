"""What all tests share."""

import logging
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A busy machine is not a bug: time is measured where a test is about time.
settings.register_profile("tidings", deadline=None)
settings.load_profile("tidings")
COUNTED = ("simulated faults", "jobs given", "again because of cuts and crashes", "again for no reason", "lost")
"""What the random runs of acknowledged groups record as properties of their tests, in this order."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many faults the random runs of acknowledged groups have simulated."""
    counted: Counter[str] = Counter()
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        if report.when == "call":
            counted.update({name: count for name, count in report.user_properties if name in COUNTED})
    if counted:
        text = ", ".join(f"{counted[name]:,} {name}" for name in COUNTED)
        terminalreporter.write_line(f"acknowledged groups in random runs: {text}")


@pytest.fixture(autouse=True)
def _logs_stay_as_they_are() -> Iterator[None]:
    """Commands that run in the process of a test send the log to their stderr, at a level of their own."""
    logger = logging.getLogger("tidings")
    handlers, level = logger.handlers[:], logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)
