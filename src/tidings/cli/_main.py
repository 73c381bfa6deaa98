"""The way into the command line: quick for what needs little, and quiet when it is interrupted early.

Loading what a command needs takes longer than most people wait before they notice a wrong word and press Ctrl-C. Until
then, Ctrl-C ends the process as it ends any program that does not care: at once, without a traceback.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] == ["--version"]:
        from tidings import __version__  # noqa: PLC0415 - everything here is loaded late
        from tidings._native import describe  # noqa: PLC0415

        print(f"tidings {__version__} ({describe()})")
        return
    with dying_quietly():
        from ._app import app  # noqa: PLC0415
    app(prog_name="tidings")


@contextlib.contextmanager
def dying_quietly() -> Iterator[None]:
    """Let Ctrl-C kill the process while modules are loaded; whoever handles it otherwise does so again afterwards."""
    try:
        before = signal.getsignal(signal.SIGINT)
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    except ValueError:  # not in the main thread: not our Ctrl-C
        before = None
    try:
        yield
    finally:
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.default_int_handler)
