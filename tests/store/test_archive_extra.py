"""The archive is an extra: nothing loads it until it is wanted."""

from __future__ import annotations

import subprocess
import sys


def test_nobody_else_imports_pyarrow() -> None:
    program = "import sys, tidings, tidings.store, tidings.net, tidings.cli; print('pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
