"""A limit of bytes is a limit of the disk: the file and the write-ahead log beside it."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from store_world import Loop, numbers

from tidings.store import JournalKind, JournalRecord, Store, StoreReader
from tidings.store._retention import content_bytes, limit_for, log_bytes
from tidings.store._shrinking import disk_bytes

MB = 1_000_000


@pytest.fixture
def loop() -> Loop:
    return Loop()


class Watch:
    """Looks at the disk again and again, and remembers the most it has seen."""

    def __init__(self, path: Path) -> None:
        self.most = 0
        self._path = path
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ended.wait(0.002):
            self.most = max(self.most, disk_bytes(self._path))

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def burst(loop: Loop, store: Store, size: int, first: int = 1) -> int:
    """Publish so many bytes that nothing can compress, as fast as the store takes them; the last number."""
    last = first + size // 2_000 - 1
    for seq in range(first, last + 1):
        loop.append(store, seq, blob=os.urandom(2_000))
        while store.full:
            loop.turn()
    while not loop.synced or loop.synced[-1] < last:
        loop.turn()
        assert not loop.failed
    return last


def tell(loop: Loop, store: Store, **limits: Any) -> None:
    """Tell the limits, once."""
    heard = threading.Event()
    store.retain(**limits, synced=heard.set)
    while not heard.is_set():
        loop.turn()


def settle(loop: Loop, store: Store, **limits: Any) -> int:
    """Tell the limits again and again, as a keeper does, until the disk is within them; what it takes in the end."""
    deadline = time.monotonic() + 20
    while disk_bytes(store.path) > limits["max_bytes"] and time.monotonic() < deadline:
        tell(loop, store, **limits)
        time.sleep(0.02)
    return disk_bytes(store.path)


@pytest.mark.parametrize("limit", [MB, 4 * MB])
def test_a_burst_stays_within_twice_the_limit_and_is_within_it_soon(tmp_path: Path, loop: Loop, limit: int) -> None:
    with loop.open(tmp_path) as store, Watch(store.path) as watch:
        tell(loop, store, max_bytes=limit)
        last = burst(loop, store, 18 * limit)
        assert settle(loop, store, max_bytes=limit) <= limit
        kept = numbers(store)
        assert kept == list(range(kept[0], last + 1)), "the newest, without a hole"
        assert len(kept) * 2_000 > limit // 4, "no more is forgotten than has to be"
    assert limit // 2 < watch.most <= 2 * limit


@pytest.mark.parametrize("old", [False, True])
def test_a_limit_that_comes_late_gives_the_disk_back_what_is_beyond_it(tmp_path: Path, loop: Loop, old: bool) -> None:
    with loop.open(tmp_path) as store:
        last = burst(loop, store, 12 * MB)
    if old:  # stores from before could not be cut
        with sqlite3.connect(store.path, isolation_level=None) as connection:
            connection.execute("PRAGMA auto_vacuum=NONE")
            connection.execute("VACUUM")
        connection.close()
    assert disk_bytes(store.path) > 12 * MB
    with loop.open(tmp_path) as later:
        assert settle(loop, later, max_bytes=3 * MB) <= 3 * MB
        kept = numbers(later, store.epoch)
        assert kept == list(range(kept[0], last + 1))
        assert kept
    with StoreReader(tmp_path) as reader:
        assert [one.identity.seq for one in reader.query()] == kept
        assert reader.damage == ()


def test_what_is_not_archived_stays_whatever_the_limit_says(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path) as store:
        tell(loop, store, max_bytes=MB, archived=(store.epoch, 100))
        last = burst(loop, store, 4 * MB)
        for _ in range(3):
            tell(loop, store, max_bytes=MB, archived=(store.epoch, 100))
        kept = numbers(store)
        assert kept[0] <= 501, "a batch goes as a whole"
        assert kept == list(range(kept[0], last + 1))


def test_a_reader_in_the_log_costs_space_and_no_publication(tmp_path: Path, loop: Loop) -> None:
    """The log cannot be emptied while somebody reads a moment of it; that must not look like too many publications."""
    limit = 2 * MB
    with loop.open(tmp_path) as store:
        tell(loop, store, max_bytes=limit)
        burst(loop, store, MB // 2)
        with StoreReader(tmp_path) as reader, reader.moment():
            assert list(reader.query())
            last = burst(loop, store, 3 * limit, first=MB // 2 // 2_000 + 1)
            tell(loop, store, max_bytes=limit)
            kept = numbers(store)
            assert kept[-1] == last
            assert len(kept) * 2_000 > limit // 4
        assert settle(loop, store, max_bytes=limit) <= limit


def test_a_long_journal_does_not_displace_the_publications(tmp_path: Path, loop: Loop) -> None:
    limit = 2 * MB
    with loop.open(tmp_path) as store:
        tell(loop, store, max_bytes=limit)
        for at in range(1, 3_000):
            store.record(JournalRecord(JournalKind.DETACH, at, f"client-{at}", {"reason": os.urandom(1_000).hex()}))
        last = burst(loop, store, MB // 4)
        assert settle(loop, store, max_bytes=limit) <= limit
        assert numbers(store) == list(range(1, last + 1))
        times = [record.at for record in store.journal()]
        assert times
        assert times == list(range(times[0], 3_000)), "the oldest went"


def test_the_log_and_the_file_have_their_shares() -> None:
    for limit in (MB, 10 * MB, 1_000 * MB, 10**12):
        assert content_bytes(limit) + 4 * log_bytes(limit) == limit
        assert content_bytes(limit) >= limit // 2
        assert limit <= content_bytes(limit_for(limit)) < 1.1 * limit
