"""Maintains an archive, or reads it over and over, until it is killed.

    python maintain_child.py maintain ARCHIVE | python maintain_child.py read ARCHIVE

Maintaining prints when a job is done. Reading prints how many publications it has found each time, and complains of
numbers that are missing or there twice.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import time
from pathlib import Path

import pyarrow.dataset as ds

from tidings.store.archive import ArchiveReader, Promoted, _maintenance, _rewriting, compact, sort

BY = [[Promoted("type")], [Promoted("symbol"), Promoted("type")]]


def maintain(archive: str) -> None:
    _maintenance.FILE_ROWS, _maintenance.LARGE_ROWS, _rewriting.ROW_GROUP_ROWS = 300, 150, 64
    rng = random.Random()
    while True:
        if Path(archive).exists():
            compact(archive) if rng.random() < 0.7 else sort(archive, rng.choice(BY))
            os.write(1, b"done\n")
        time.sleep(0.001)


def read(archive: str) -> None:
    while not Path(archive).exists():
        time.sleep(0.01)
    for round_ in itertools.count():
        if round_ % 2:
            reader = ArchiveReader(archive)
            found = [(one.identity.epoch, one.identity.seq) for one in reader.query()]
            problem = reader.damage
        else:
            found, problem = plain(archive), ()
        by_epoch: dict[int, list[int]] = {}
        for epoch, seq in found:
            by_epoch.setdefault(epoch, []).append(seq)
        whole = all(numbers == list(range(1, len(numbers) + 1)) for numbers in by_epoch.values())
        os.write(1, f"{len(found) if whole and not problem else f'WRONG {problem} {found}'}\n".encode())


def plain(archive: str) -> list[tuple[int, int]]:
    """As somebody reads it who knows nothing of Tidings; a file that is gone means: again."""
    while True:
        files = sorted(map(str, Path(archive).glob("date=*/hour=*/*.parquet")))
        try:
            table = ds.dataset(files, format="parquet").to_table(columns=["epoch", "seq"])
        except FileNotFoundError:
            continue
        return sorted(zip(table["epoch"].to_pylist(), table["seq"].to_pylist(), strict=True))


if __name__ == "__main__":
    {"maintain": maintain, "read": read}[sys.argv[1]](sys.argv[2])
