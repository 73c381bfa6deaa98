"""The command line of a worker: this interpreter, isolated from its environment, with the modules of this one and
no others.
"""

from __future__ import annotations

import sys

from ._isolation import MEMORY

_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[3:]; from tidings.aggregation.workers._child import main; main(sys.argv[1:3])"
)


def command(*, both: bool = True, memory: int = MEMORY) -> list[str]:
    """The words that start a worker; it needs no environment. With `both`, layer 2 is tried as well."""
    paths = [path for path in sys.path if path]
    return [sys.executable, "-I", "-S", "-B", "-c", _PROGRAM, str(memory), "both" if both else "one", *paths]
