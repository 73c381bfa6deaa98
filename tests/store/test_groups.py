"""One answer for many publications."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from store_world import Loop, envelope, numbers

from tidings.store import StoreError, StoreFailed
from tidings.wire import Envelope


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_all_that_one_commit_holds_is_heard_of_at_once(tmp_path: Path, loop: Loop) -> None:
    heard: list[list[int]] = []

    def hear(envelopes: Sequence[Envelope], error: StoreError | None) -> None:
        assert error is None
        heard.append([one.identity.seq for one in envelopes])

    with loop.open(tmp_path) as store:
        for seq in range(1, 201):
            store.keep(envelope(store.epoch, seq), hear)
            if seq == 100:
                store.put("t", "k", b"between")
        while sum(map(len, heard)) < 200:
            loop.turn()
        assert [seq for group in heard for seq in group] == list(range(1, 201))
        assert len(heard) <= store.statistics().batches
        assert numbers(store) == list(range(1, 201))


def test_what_the_disk_refuses_is_heard_of_with_the_reason(tmp_path: Path, loop: Loop) -> None:
    told: list[tuple[int, StoreError | None]] = []

    def hear(envelopes: Sequence[Envelope], error: StoreError | None) -> None:
        told.extend((one.identity.seq, error) for one in envelopes)

    with loop.open(tmp_path) as store:
        (pages,) = store._writing.execute("PRAGMA page_count").fetchone()
        store._writing.execute(f"PRAGMA max_page_count={pages}")
        for seq in (1, 2, 3):
            store.keep(envelope(store.epoch, seq, noise=random.Random(seq).randbytes(60_000)), hear)
        while len(told) < 3:
            loop.turn()
        assert [seq for seq, _ in told] == [1, 2, 3]
        assert all(isinstance(error, StoreFailed) for _, error in told)
