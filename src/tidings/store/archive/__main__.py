"""`python -m tidings.store.archive DATA ARCHIVE BYTES [PROMOTED ...]`: a roll, for a broker that does not wait for it.

If the files of the broker have more than so many bytes then, the oldest are removed; `-` is no limit. Prints one line
of JSON at the end: how far the archive reaches, how much was added and removed. Errors go to stderr.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys

from tidings.model import TidingsError
from tidings.store import StoreLocked, StoreReader
from tidings.store._promoted import Promoted

from ._maintenance import trim
from ._roller import roll

_NICE = 10
"""A broker that needs the processor comes first."""
_FILE_PART = 8
"""A file has at most this part of the limit."""


def main(data: str, archive: str, most: str, *promoted: str) -> int:
    """Roll, and tell."""
    parent = os.getppid()

    def go_on(count: int) -> None:
        if os.getppid() != parent:
            raise SystemExit(1)  # nobody listens; the next broker will start again here

    with contextlib.suppress(AttributeError, OSError):
        os.nice(_NICE)
    try:
        limit = math.inf if most == "-" else int(most)
        columns = [Promoted.parse(text) for text in promoted]
        rolled = roll(data, archive, columns, file_bytes=limit / _FILE_PART, progress=go_on)
        removed = 0 if limit == math.inf else _trimmed(data, archive, int(limit))
    except (TidingsError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    damage = [one._asdict() for one in rolled.damage]
    told = {"epoch": rolled.position.epoch, "seq": rolled.position.seq, "count": rolled.count, "damage": damage}
    told["removed"] = removed
    print(json.dumps({**told, "files": [str(path) for path in rolled.files]}), flush=True)
    return 0


def _trimmed(data: str, archive: str, most: int) -> int:
    with StoreReader(data) as log:
        origin = log.owner
    try:
        return trim(archive, origin, most).before
    except StoreLocked:
        return 0  # somebody maintains it; after the next roll


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
