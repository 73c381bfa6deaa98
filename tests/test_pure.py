"""What is tested with the compiled engine holds without it, too: the same tests once more, in pure Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidings import _native

HERE = Path(__file__).parent
CODE = """
import sys, pytest
from tidings import _native
assert _native.engine is None
sys.exit(pytest.main(sys.argv[1:]))
"""

QUICK = (
    "matching/test_counting.py",
    "wire/test_headers.py",
    "broker/test_lane.py",
    "broker/test_forwarding.py",
    "net/test_order.py",
    "client/test_client.py",
)
"""Some of each that a broker does with an engine, in seconds."""
ALL = ("matching", "wire", "broker")
"""What an engine stands in for; tests of the network and of clients wait long for processes."""

compiled = pytest.mark.skipif(_native.engine is None, reason="all tests run in pure Python here")


def passed(*paths: str, but: str = "nothing") -> int:
    """How many of these tests pass in a process without the engine; none may fail."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"TIDINGS_PURE": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    options = ["-q", "-n", "0", "-m", "not soak", "-k", f"not {but}", "-p", "no:cacheprovider"]
    words = [*options, *[str(HERE / path) for path in paths]]
    done = subprocess.run(
        [sys.executable, "-c", CODE, *words],
        env=environment,
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-10_000:]
    found = re.search(r"(\d+) passed", done.stdout)
    assert found is not None, done.stdout
    return int(found[1])


@compiled
def test_matching_wire_broker_network_and_client_work_in_pure_python() -> None:
    assert passed(*QUICK, but="world") > 80  # a client in a simulated world needs no engine


@compiled
@pytest.mark.soak
def test_all_of_matching_wire_and_broker_works_in_pure_python() -> None:
    assert passed(*ALL) > 1_000
