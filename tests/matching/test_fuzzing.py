"""The engine under sanitizers: broken bytes of every kind, while filters and plans come and go."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from soaking import SOAK_SECONDS

from tidings import _native

ROOT = Path(__file__).parents[2]


@pytest.mark.soak
@pytest.mark.skipif(_native.engine is None, reason=f"pure Python: {_native.WHY_PURE}")
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_no_sanitizer_speaks() -> None:
    seconds = SOAK_SECONDS * 2 / 3  # 10 minutes of the 15 that `make soak` takes
    words = ["make", "--no-print-directory", "fuzz-native", f"FUZZ_SECONDS={seconds:.0f}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-8_000:]
    assert "o sanitizer spoke" in done.stdout
