"""How long the command line takes to start, in processor time, beside a Python that does nothing."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys

from . import Report

ROUNDS = 7
SECONDS = 0.2
"""The most that somebody who asks for little may wait for."""
COMPLETE = {"_TIDINGS_COMPLETE": "complete_bash"}
STARTS: dict[str, tuple[list[str], dict[str, str]]] = {
    "tidings --version": (["--version"], {}),
    "TAB for a command": ([], {**COMPLETE, "COMP_WORDS": "tidings s", "COMP_CWORD": "1"}),
    "TAB for an option of pub": ([], {**COMPLETE, "COMP_WORDS": "tidings pub --", "COMP_CWORD": "2"}),
}


def run(report: Report) -> None:
    """Start each a few times."""
    report.figure("python -c pass", _seconds(["-c", "pass"], {}) * 1e3, "ms")
    for what, (words, env) in STARTS.items():
        report.limit(what, _seconds(["-m", "tidings", *words], env) * 1e3, "ms", at_most=SECONDS * 1e3)
    report.figure("tidings --help", _seconds(["-m", "tidings", "--help"], {}) * 1e3, "ms")


def _seconds(words: list[str], env: dict[str, str]) -> float:
    """The processor time of one start, the median of several."""
    took = []
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], env={**os.environ, **env}, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(took)
