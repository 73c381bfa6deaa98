"""What all tests share."""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A busy machine is not a bug: time is measured where a test is about time.
settings.register_profile("tidings", deadline=None)
settings.load_profile("tidings")


@pytest.fixture(autouse=True)
def _logs_stay_as_they_are() -> Iterator[None]:
    """Commands that run in the process of a test send the log to their stderr, at a level of their own."""
    logger = logging.getLogger("tidings")
    handlers, level = logger.handlers[:], logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)
