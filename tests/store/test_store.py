"""A store keeps what it is given, in order, and says when it is safe."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest
from store_world import Loop, envelope, numbers

from tidings.store import Bounds, JournalKind, JournalRecord, Store, StoreClosed, StoreError, StoreFull


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_what_was_stored_is_read_again_after_a_restart(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path) as store:
        loop.append_all(store, *range(1, 2_001), symbol="SAP")
        first = store.epoch
    with loop.open(tmp_path) as store:
        found = list(store.read(first, 0))
        assert found == [envelope(first, seq, symbol="SAP") for seq in range(1, 2_001)]
        assert found[7].notification["symbol"] == "SAP"
        assert numbers(store, first, after=1_995) == [1_996, 1_997, 1_998, 1_999, 2_000]
        assert numbers(store, first, after=2_000) == []


def test_synced_is_called_in_order_and_only_in_the_turn_of_the_loop(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path) as store:
        for seq in range(1, 101):
            loop.append(store, seq)
    assert loop.synced == []
    while not loop.posted.empty():
        loop.turn()
    assert loop.synced == list(range(1, 101))


def test_many_appends_share_few_syncs_and_each_commit_posts_once(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path) as store:
        for seq in range(1, 20_001):
            loop.append(store, seq)
    statistics = store.statistics()
    assert statistics.appended == statistics.synced == 20_000
    assert statistics.batches == loop.posted.qsize() <= 2_000
    assert statistics.queued == statistics.queued_bytes == statistics.failed == statistics.unheard == 0
    assert 0 < statistics.last_sync <= statistics.slowest_sync


def test_numbers_may_have_holes_but_never_go_back(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path) as store:
        loop.append_all(store, 3, 7, 50)
        assert numbers(store) == [3, 7, 50]
        assert numbers(store, after=3) == [7, 50]
        with pytest.raises(StoreError, match=r"must belong to epoch .* and be above 50"):
            loop.append(store, 50)
        with pytest.raises(StoreError, match="out of order"):
            store.append(envelope(store.epoch + 1, 51), lambda: None)


def test_reading_sees_what_still_waits_for_the_disk(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path) as store:
        for seq in range(1, 5_001):
            loop.append(store, seq)
            if seq % 500 == 0:
                assert numbers(store) == list(range(1, seq + 1))


def test_reading_while_writing_sees_an_unbroken_prefix(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path) as store:
        reader = None
        for seq in range(1, 3_001):
            loop.append(store, seq)
            if seq == 1_000:
                reader = store.read(store.epoch, 0)
                assert next(reader).identity.seq == 1
        assert reader is not None
        rest = [found.identity.seq for found in reader]
        assert rest == list(range(2, 2 + len(rest)))
        assert len(rest) >= 999


def test_every_opening_is_a_later_epoch_even_if_the_clock_goes_back(tmp_path: Path, loop: Loop) -> None:
    clocks = iter([5, 5, 900, 1])
    epochs = []
    for clock in clocks:
        with loop.open(tmp_path, clock=lambda now=clock: now) as store:
            epochs.append(store.epoch)
            assert store.epochs() == tuple(epochs)
    assert epochs == [5, 6, 900, 901]


def test_a_broker_that_lost_its_disk_comes_back_as_a_later_epoch(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path / "one", clock=lambda: 100) as store:
        before = store.epoch
    with loop.open(tmp_path / "two", clock=lambda: 101) as store:
        assert store.epoch > before


def test_a_clean_end_is_remembered_and_a_crash_ended_with_what_was_stored(tmp_path: Path, loop: Loop) -> None:
    store = loop.open(tmp_path)
    loop.append_all(store, 1, 2)
    with pytest.raises(StoreError, match="cannot end with 1"):
        store.close(last_seq=1)
    assert store.ended(store.epoch) is None
    store.close(last_seq=17)
    unclean = loop.open(tmp_path)
    unclean.close()
    with loop.open(tmp_path) as later:
        assert later.ended(store.epoch) == 17
        assert later.ended(unclean.epoch) == 0
        assert later.ended(4711) is None


def test_bounds_tell_which_numbers_of_an_epoch_are_held(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path) as store:
        one = store.epoch
        assert store.bounds(one) is None
        loop.append_all(store, 5, 6, 9)
        loop.append_all(store, 20)
        assert store.bounds(one) == Bounds(5, 20)
    with loop.open(tmp_path) as store:
        loop.append_all(store, 1)
        assert store.bounds(one) == Bounds(5, 20)
        assert store.bounds(store.epoch) == Bounds(1, 1)


def test_a_full_queue_refuses_and_recovers(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path, queue_count=50) as store:
        refused = None
        seq = 0
        while refused is None:
            seq += 1
            full = store.full
            try:
                loop.append(store, seq)
            except StoreFull as error:
                refused = error
            else:
                assert not full
            assert seq < 1_000_000
        assert "at most 50" in str(refused)
        while store.full:
            time.sleep(0.001)
        loop.append(store, seq)
    with loop.open(tmp_path) as later:
        assert numbers(later, store.epoch) == list(range(1, seq + 1))


def test_a_queue_is_bounded_in_bytes_too(tmp_path: Path, loop: Loop) -> None:
    def flood(store: Store) -> None:
        for seq in range(1, 10_000):
            loop.append(store, seq, blob=b"x" * 60_000)

    with loop.open(tmp_path, queue_bytes=100_000) as store:
        with pytest.raises(StoreFull, match="100,000 may"):
            flood(store)
        assert store.statistics().queued_bytes < 200_000


def test_large_bodies_are_cut_into_batches_and_come_back(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path) as store:
        parts = {f"part{n}": bytes(range(256)) * 250 for n in range(10)}
        loop.append_all(store, *range(1, 9), **parts)
        assert [len(found.body) > 640_000 for found in store.read(store.epoch, 0)] == [True] * 8


def test_the_resend_window_knows_the_numbers_of_each_publisher(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path) as store:
        for seq in range(1, 2_001):
            publisher = "early" if seq <= 100 else f"p{seq % 3}"
            store.append(envelope(store.epoch, seq, publisher, seq * 10), lambda: None)
    with loop.open(tmp_path) as store:
        everything = store.publishers()
        assert {name: numbers[-1] for name, numbers in everything.items()} == {
            "early": 1_000,
            "p0": 19_980,
            "p1": 19_990,
            "p2": 20_000,
        }
        assert everything["early"] == list(range(0, 1_001, 10)), "from 0: nothing came before"
        assert everything["p0"] == [0, *range(1_020, 19_981, 30)]
        newest = store.publishers(newest=1_000)
        assert {name: numbers[-1] for name, numbers in newest.items()} == {"p0": 19_980, "p1": 19_990, "p2": 20_000}
        assert all(numbers[0] > 10_000 for numbers in newest.values()), "something may have come before"
        assert store.publishers(newest=1) == {"p2": [20_000]}
        assert store.publishers(newest=0) == {}


def test_small_state_is_put_replaced_and_deleted_in_order(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path) as store:
        store.put("subscriptions", "a", b"1")
        store.put("subscriptions", "b", b"1")
        store.put("subscriptions", "b", b"2")
        store.put("links", "a", b"other table")
        store.delete("subscriptions", "a")
        store.put("subscriptions", "c", b"", lambda: loop.synced.append(3))
        store.delete("subscriptions", "never was")
        assert store.items("subscriptions") == {"b": b"2", "c": b""}
    loop.turn()
    assert loop.synced == [3]
    with loop.open(tmp_path) as store:
        assert store.items("subscriptions") == {"b": b"2", "c": b""}
        assert store.items("links") == {"a": b"other table"}
        assert store.items("nothing") == {}


def test_a_key_that_cannot_be_written_is_refused_at_once(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path) as store:
        with pytest.raises(StoreError, match="not valid text"):
            store.put("t", "\ud800", b"")
        with pytest.raises(StoreError, match="not valid text"):
            store.delete("t", "\ud800")


def test_the_journal_is_read_by_time_in_the_order_of_writing(tmp_path: Path, loop: Loop) -> None:
    def subscribed(at: int) -> JournalRecord:
        return JournalRecord(JournalKind.SUBSCRIBE, at, "alice", {"id": str(at), "filter": "price > 100", "own": True})

    with loop.open(tmp_path) as store:
        for at in range(1_000, 3_000):
            store.record(subscribed(at))
    with loop.open(tmp_path) as store:
        store.record(subscribed(2_500))  # the clock went back
    with loop.open(tmp_path) as store:
        assert list(store.journal()) == [subscribed(at) for at in [*range(1_000, 3_000), 2_500]]
        assert [record.at for record in store.journal(2_499, 2_502)] == [2_499, 2_500, 2_501, 2_500]
        assert list(store.journal(3_000)) == []
        assert list(store.journal(until=1_000)) == []


def test_retention_forgets_the_oldest_by_age(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path) as store:
        for start in range(1, 1_000, 100):
            loop.append_all(store, *range(start, start + 100))
        store.retain(older_than=1_000 * 501)  # publication n was published at n milliseconds
        loop.append_all(store, 1_001)
        found = numbers(store)
        assert found == list(range(found[0], 1_002))
        assert 1 < found[0] <= 501


def test_retention_forgets_the_oldest_by_size(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path) as store:
        for seq in range(1, 41):
            loop.append_all(store, seq, blob=bytes(range(256)) * 200)
        store.retain(max_bytes=0)
        store.put("t", "k", b"stays")
        loop.append_all(store, 41)
        assert set(numbers(store)) <= {41}
        assert store.items("t") == {"k": b"stays"}


def test_after_closing_nothing_is_taken_and_no_thread_is_left(tmp_path: Path, loop: Loop) -> None:
    before = set(threading.enumerate())
    store = loop.open(tmp_path)
    assert set(threading.enumerate()) > before
    store.close()
    store.close()
    assert set(threading.enumerate()) == before
    with pytest.raises(StoreClosed, match="open it again"):
        loop.append(store, 1)


def test_a_loop_that_has_ended_loses_the_answers_but_not_the_data(tmp_path: Path, loop: Loop) -> None:
    def ended(call: object) -> None:
        raise RuntimeError("Event loop is closed")

    with Store.open(tmp_path, post=ended) as store:
        loop.append(store, 1)
    assert store.statistics().unheard == 1
    with loop.open(tmp_path) as later:
        assert numbers(later, store.epoch) == [1]


def test_an_answer_that_raises_does_not_silence_the_others(tmp_path: Path, loop: Loop) -> None:
    def broken() -> None:
        raise ValueError("broken answer")

    with loop.open(tmp_path) as store:
        store.append(envelope(store.epoch, 1), broken)
        loop.append(store, 2)
    with pytest.raises(ExceptionGroup, match="answers of the store"):
        loop.turn()
    while not loop.posted.empty():
        loop.turn()
    assert loop.synced == [2]


def test_it_works_with_an_asyncio_loop(tmp_path: Path) -> None:
    async def publish() -> int:
        running = asyncio.get_running_loop()
        done: asyncio.Future[int] = running.create_future()
        with Store.open(tmp_path, post=running.call_soon_threadsafe) as store:
            store.append(envelope(store.epoch, 1), lambda: done.set_result(threading.get_ident()))
            return await done

    assert asyncio.run(publish()) == threading.get_ident()


def test_the_log_stays_short_while_writing_goes_on(tmp_path: Path, loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.store._retention.CHECKPOINT_BYTES", 100_000)
    with loop.open(tmp_path) as store:
        for start in range(1, 10_000, 100):
            loop.append_all(store, *range(start, start + 100))
        assert store.statistics().slowest_checkpoint > 0
        log = store.path.with_name("store.sqlite-wal")
        assert log.stat().st_size < 2_000_000
        assert numbers(store) == list(range(1, 10_001))
