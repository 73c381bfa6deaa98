"""A broker whose journal forgets while it is written, until it is killed.

    python prune_child.py DIRECTORY

One client acknowledges one number after the other. A line is printed when a slice may have been forgotten.
"""

from __future__ import annotations

import os
import random
import sys
import threading

from tidings.store import JournalKind, JournalRecord, Store, _journal_retention

SUBSCRIBED = {"id": "s1", "number": 1, "filter": "TRUE", "scope": "/", "after": '{"o": [1, 0]}'}


def main(directory: str) -> None:
    _journal_retention.SLICE_ROWS, _journal_retention.SLICE_RECORDS = 3, 50
    store = Store.open(directory, post=lambda call: call())
    seq = max((int(value) for value in store.items("last").values()), default=0)
    if not seq:
        store.record(JournalRecord(JournalKind.ATTACH, 0, "c"))
        store.record(JournalRecord(JournalKind.SUBSCRIBE, 0, "c", dict(SUBSCRIBED)))
        store.record(JournalRecord(JournalKind.SETTLED, 0, "c", {"id": "s1", "number": 1, "marks": "{}"}))
    while True:
        for _ in range(random.randrange(1, 40)):
            seq += 1
            store.record(JournalRecord(JournalKind.ACKNOWLEDGE, seq, "c", {"origin": "o", "epoch": 1, "seq": seq}))
        store.retain(journal_before=seq - random.randrange(100))
        synced = threading.Event()
        store.put("last", "", str(seq).encode(), synced.set)
        synced.wait()
        os.write(1, b".\n")


if __name__ == "__main__":
    main(sys.argv[1])
