"""A run is kept as if its publications had come one by one, while it waits for the disk and afterwards."""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from store_world import Loop, envelope, numbers

from tidings.model import Filter
from tidings.store import StoreError, StoreFull
from tidings.store._packing import BATCH_COUNT, batches, count_of, pack, pack_publications
from tidings.store._queue import COMMIT_COUNT, Operation, WriteQueue
from tidings.wire import MAX_RUN, Envelope, Quality, Run


def run(envelopes: Sequence[Envelope]) -> Run:
    """As the plane makes it."""
    data, places = b"", b""
    for one in envelopes:
        encoded = msgspec.msgpack.encode(one)
        places += struct.pack("=II", len(data) + len(encoded) - 1 - len(one.body), len(one.body))
        data += encoded
    size = sum(len(one.body) for one in envelopes)
    return Run(envelopes[0].identity, Quality.STORED, data, places, size)


def some(epoch: int, first: int, last: int) -> list[Envelope]:
    return [envelope(epoch, seq, type="odd" if seq % 2 else "even") for seq in range(first, last + 1)]


def test_a_run_says_what_its_publications_say() -> None:
    envelopes = some(1, 5, 30)
    one = run(envelopes)
    assert one.envelopes() == envelopes
    assert one.envelopes(3) == envelopes[3:]
    assert one.bodies() == [envelope.body for envelope in envelopes]
    assert (len(one), one.last, one.last_of_publisher) == (26, 30, 30)
    assert one.size_of(2, 4) == len(envelopes[2].body) + len(envelopes[3].body)
    assert one.has("p", 5)
    assert not one.has("p", 31)
    assert not one.has("q", 6)


def test_a_batch_with_runs_is_the_batch_of_their_envelopes() -> None:
    for first, last in ((1, 3), (1, 20), (1, 400)):
        envelopes = some(1, first, last)
        assert pack_publications([run(envelopes)]) == pack(envelopes)
        assert pack_publications([envelopes[0], run(envelopes[1:])]) == pack(envelopes)


def test_batches_stay_within_their_bounds() -> None:
    items = [run(some(1, first, first + 199)) for first in range(1, 2_000, 200)]
    cut = list(batches(items))
    assert [one for batch in cut for one in batch] == items
    assert all(count_of(batch) <= BATCH_COUNT for batch in cut)
    assert MAX_RUN <= BATCH_COUNT


def test_what_waits_and_what_is_synced_is_read_and_asked_for_alike(tmp_path: Path) -> None:
    loop = Loop()
    heard: list[tuple[int, Exception | None]] = []

    def hear(kept: Sequence[Envelope | Run], error: Exception | None) -> None:
        heard.append((sum(len(one) if isinstance(one, Run) else 1 for one in kept), error))

    with loop.open(tmp_path) as store:
        gate = threading.Event()
        store._writer._post, post = (lambda call: gate.wait(20) and post(call)), store._writer._post
        epoch = store.epoch
        store.keep(run(some(epoch, 1, 50)), hear)
        store.keep(envelope(epoch, 51, type="odd"), hear)
        store.keep(run(some(epoch, 52, 90)), hear)
        odd = Filter.parse("type = 'odd'")
        for _ in ("while it waits", "when it is synced"):
            assert numbers(store, after=20) == list(range(21, 91))
            found = [one.identity.seq for one in store.query(odd)]
            assert found == list(range(1, 91, 2))
            gate.set()
            while sum(count for count, _ in heard) < 90:
                loop.turn()
        assert all(error is None for _, error in heard)
        assert store.statistics().synced == 90
        with pytest.raises(StoreError, match="out of order"):
            store.keep(run(some(epoch, 90, 95)), hear)
    with loop.open(tmp_path) as store:
        assert numbers(store, epoch) == list(range(1, 91))
        assert [one.identity.seq for one in store.query(odd, newest_first=True, limit=2)] == [89, 87]
        assert store.publishers()["p"][-1] == 90


def test_a_queue_takes_no_more_publications_than_it_may() -> None:
    queue = WriteQueue(100, 10_000)
    assert queue.has_room(100, 10_000)
    assert not queue.has_room(101, 0)
    assert not queue.has_room(1, 10_001)
    for first in (1, 51):
        queue.put(Operation(run(some(1, first, first + 49)), 500, None, count=50))
    assert queue.full
    with pytest.raises(StoreFull):
        queue.put(Operation(run(some(1, 101, 101)), 10, None))
    assert [operation.count for operation in queue.take() or ()] == [50, 50]
    queue.done()
    assert (queue.count, queue.bytes, queue.total) == (0, 0, 100)


def test_a_commit_takes_no_more_publications_than_it_may() -> None:
    queue = WriteQueue(10 * COMMIT_COUNT, 10**9)
    for first in range(1, 3 * COMMIT_COUNT, 400):
        queue.put(Operation(run(some(1, first, first + 399)), 500, None, count=400))
    sizes = []
    while queue.pending():
        sizes.append(sum(operation.count for operation in queue.take() or ()))
        queue.done()
    assert sizes == [COMMIT_COUNT] * 3
    assert queue.abandon() == 0


def test_a_commit_that_fails_is_heard_of_with_its_runs(tmp_path: Path) -> None:
    loop = Loop()
    heard: list[tuple[Sequence[Envelope | Run], Exception | None]] = []
    with loop.open(tmp_path) as store:
        broken = RuntimeError("broken")

        def fail(*_: object) -> None:
            raise broken

        store._writer._batch, kept = fail, store._writer._batch  # type: ignore[method-assign,assignment]
        one = run(some(store.epoch, 1, 7))
        store.keep(one, lambda kept, error: heard.append((kept, error)))
        loop.turn()
        ((what, error),) = heard
        assert list(what) == [one]
        assert isinstance(error, StoreError)
        assert store.statistics().failed == 7
        store._writer._batch = kept  # type: ignore[method-assign]
