"""A broker that appends until it is killed, and prints each number that it was told is synced.

    python crash_child.py DIRECTORY

It prints its epoch first. Before each publication it keeps its number as small state, then as a line of the journal.
"""

from __future__ import annotations

import os
import random
import sys
import time

from store_world import envelope

from tidings.store import JournalKind, JournalRecord, Store


def main(directory: str) -> None:
    synced: list[int] = []

    def tell() -> None:
        os.write(1, "".join(f"{seq}\n" for seq in synced).encode())
        synced.clear()

    def post(call) -> None:  # type: ignore[no-untyped-def]
        call()
        tell()

    store = Store.open(directory, post=post)
    os.write(1, f"{store.epoch}\n".encode())
    seq = 0
    while True:
        for _ in range(random.randrange(1, 300)):
            seq += 1
            store.put("last", str(store.epoch), str(seq).encode())
            store.record(JournalRecord(JournalKind.ACKNOWLEDGE, seq, "c", {"epoch": store.epoch, "seq": seq}))
            store.append(envelope(store.epoch, seq), lambda seq=seq: synced.append(seq))
        while store.full:
            time.sleep(0.001)
        time.sleep(random.choice([0, 0, 0.001, 0.01]))


if __name__ == "__main__":
    main(sys.argv[1])
