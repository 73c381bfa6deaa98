"""A broker that appends, or a roll that archives, until it is killed.

    python roll_child.py append DATA | python roll_child.py roll DATA ARCHIVE

Appending prints the number of what is synced so far. Rolling goes on for ever, in small files, and prints when one is
done.
"""

from __future__ import annotations

import os
import random
import sys
import time

from archive_world import HOUR, START, publication

from tidings.model import Notification
from tidings.store import Store
from tidings.store.archive import Promoted, _gathering, _roller, roll


def append(data: str) -> None:
    synced = 0

    def count() -> None:
        nonlocal synced
        synced += 1

    def post(call) -> None:  # type: ignore[no-untyped-def]
        call()
        os.write(1, f"{synced}\n".encode())

    store = Store.open(data, post=post, owner="berlin")
    seq, at = 0, START + random.randrange(3 * HOUR)
    while True:
        for _ in range(random.randrange(1, 30)):
            seq += 1
            at += random.randrange(HOUR // 500)
            store.append(publication("berlin", store.epoch, seq, at, Notification(type="quote", n=seq)), count)
        time.sleep(0.02)


def archive(data: str, directory: str) -> None:
    _gathering.ROW_GROUP_ROWS, _gathering.PART_ROWS, _roller.FILE_ROWS = 100, 30, 200
    while True:
        rolled = roll(data, directory, [Promoted("type")])
        os.write(1, b"rolled\n" if rolled.count else b"nothing\n")
        time.sleep(0.002)


if __name__ == "__main__":
    append(sys.argv[2]) if sys.argv[1] == "append" else archive(*sys.argv[2:])
