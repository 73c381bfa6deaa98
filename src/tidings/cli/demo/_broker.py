"""`python -m tidings.cli.demo._broker ...`: `tidings serve ...`, which ends when the demonstration does.

The demonstration holds the other end of this process's stdin. However it ends, also by `kill -9`, that end closes, and
no broker is left behind.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

PATIENCE = 5.0
"""Seconds in which a broker may end in order."""


def main() -> None:
    """Serve until told to stop, or until nobody holds stdin any more."""
    from tidings.cli import app  # noqa: PLC0415 - first watch, then load

    app(["serve", *sys.argv[1:]], prog_name="tidings")


def _end_with_stdin() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    main()
