"""`tidings pub -` at a terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from serving import serving

import tidings.sync
from tidings.net import Options

PATIENCE = 30.0


def test_ctrl_c_ends_pub_while_it_reads_from_a_terminal(tmp_path: Path) -> None:
    terminal, its_end = pty.openpty()
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with serving(Options(name="b", port=0)) as address, tidings.sync.connect(address) as client:
        heard = client.subscribe("EXISTS(n)")
        command = [sys.executable, "-m", "tidings", "pub", "-", "-b", address]
        process = subprocess.Popen(
            command, env=environment, stdin=its_end, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            os.close(its_end)
            assert process.stderr is not None
            assert process.stderr.readline() == "one JSON object per line; Ctrl-D ends\n"
            os.write(terminal, b'{"n": 1}\n')
            assert dict(next(iter(heard))) == {"n": 1}  # so it waits for the next line now
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
            process.communicate()
            os.close(terminal)
    assert (process.returncode, told) == (130, "")
