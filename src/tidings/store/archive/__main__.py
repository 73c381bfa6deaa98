"""`python -m tidings.store.archive DATA ARCHIVE [PROMOTED ...]`: one roll, for a broker that does not wait for it.

Prints one line of JSON at the end: how far the archive reaches and how much was added. Errors go to stderr.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys

from tidings.model import TidingsError
from tidings.store._promoted import Promoted

from ._roller import roll

_NICE = 10
"""A broker that needs the processor comes first."""


def main(data: str, archive: str, *promoted: str) -> int:
    """Roll, and tell."""
    parent = os.getppid()

    def go_on(count: int) -> None:
        if os.getppid() != parent:
            raise SystemExit(1)  # nobody listens; the next broker will start again here

    with contextlib.suppress(AttributeError, OSError):
        os.nice(_NICE)
    try:
        rolled = roll(data, archive, [Promoted.parse(text) for text in promoted], progress=go_on)
    except (TidingsError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    damage = [one._asdict() for one in rolled.damage]
    told = {"epoch": rolled.position.epoch, "seq": rolled.position.seq, "count": rolled.count, "damage": damage}
    print(json.dumps({**told, "files": [str(path) for path in rolled.files]}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
