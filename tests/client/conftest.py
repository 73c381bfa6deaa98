"""Tests of the client run on both transports: see `transports`."""

from __future__ import annotations

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make two tests of one that runs on both."""
    if hasattr(metafunc.function, "transport"):
        metafunc.fixturenames.append("transport")
        metafunc.parametrize("transport", ["sockets", "world"], indirect=True)


@pytest.fixture
def transport(request: pytest.FixtureRequest) -> None:
    request.function.transport = request.param
