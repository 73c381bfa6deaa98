"""Queries by content, time and count find exactly what a look at everything would find, in order."""

from __future__ import annotations

import random
import sqlite3
import tempfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_world import Loop
from strategies import filters, notifications

from tidings.model import EVERYTHING, ROOT_ROUTE, Filter, Identity, Notification
from tidings.store import StoreCorrupt, StoreError, StoreFailed, StoreForeign, StoreReader
from tidings.store._summary import Screen, Summariser, decoded, encoded
from tidings.wire import Envelope, Quality, encode_body


def publication(epoch: int, seq: int, at: int, notification: Notification) -> Envelope:
    identity = Identity("b", epoch, seq, "p", seq, at)
    return Envelope(identity, (ROOT_ROUTE,), encode_body(notification), Quality.STORED)


def filled(directory: Path, groups: Sequence[Sequence[tuple[int, Notification]]], **options: object) -> list[Envelope]:
    """A store in which each group was one commit; every third group begins with a restart of the broker."""
    loop, everything = Loop(), list[Envelope]()
    for number in range(0, len(groups), 3):
        with loop.open(directory, **options) as store:
            seq = 0
            for group in groups[number : number + 3]:
                appended = []
                for at, notification in group:
                    seq += 2
                    appended.append(publication(store.epoch, seq, at, notification))
                    store.append(appended[-1], lambda: None)
                everything += appended
                synced: list[bool] = []
                store.put("barrier", "", b"", lambda synced=synced: synced.append(True))
                while not synced:
                    loop.turn()
    return everything


def naive(
    everything: Sequence[Envelope], filter: Filter, since: int | None, until: int | None, limit: int | None, back: bool
) -> list[Envelope]:
    found = [
        one
        for one in everything
        if filter.matches(one.notification)
        and (since is None or since <= one.identity.published_at)
        and (until is None or one.identity.published_at < until)
    ]
    return (found[::-1] if back else found)[:limit]


TIMES = st.integers(0, 12)
GROUPS = st.lists(st.lists(st.tuples(TIMES, notifications(("a", "b"))), max_size=5), max_size=9)
QUERIES = st.tuples(
    filters(("a", "b")), st.none() | TIMES, st.none() | TIMES, st.none() | st.integers(0, 6), st.booleans()
)


@settings(max_examples=60, deadline=None)
@given(GROUPS, st.lists(QUERIES, min_size=1, max_size=12), st.sampled_from([(), ("a",), ("a", "b")]))
def test_a_query_equals_a_look_at_everything(groups, queries, promoted) -> None:  # type: ignore[no-untyped-def]
    with (
        tempfile.TemporaryDirectory() as home,
        patch("tidings.store._segments.SEGMENT_COUNT", 4),
        patch("tidings.store._segments.SEGMENT_BATCHES", 2),
        patch("tidings.store._reader.PAGE", 2),
    ):
        everything = filled(Path(home), groups, promoted=promoted)
        with Loop().open(Path(home), promoted=promoted) as store, StoreReader(home) as reader:
            for filter, since, until, limit, back in queries:
                expected = naive(everything, filter, since, until, limit, back)
                asked = {"since": since, "until": until, "limit": limit, "newest_first": back}
                assert list(store.query(filter, **asked)) == expected
                assert list(reader.query(filter, **asked)) == expected
            assert reader.extent().count == len(everything)


@settings(max_examples=200)
@given(st.lists(notifications(("a", "b"), wild=True), min_size=1, max_size=6), filters(("a", "b"), wild=True))
def test_a_summary_never_hides_a_match(some: list[Notification], filter: Filter) -> None:
    envelopes = [publication(1, seq, 5, one) for seq, one in enumerate(some, 1)]
    summary = decoded(encoded(5, 5, Summariser(("a", "b")).sets(envelopes)))
    if any(filter.matches(one) for one in some):
        assert Screen(filter, 5, 6).may_pass(summary)


def test_a_summary_tells_what_is_not_there() -> None:
    some = [
        publication(1, 1, 10, Notification(type="quote", n=1)),
        publication(1, 2, 20, Notification(type=["a", True])),
    ]
    summary = decoded(encoded(10, 20, Summariser(("type", "missing")).sets(some)))

    def passes(text: str, since: int = 0, until: int = 100) -> bool:
        return Screen(Filter.parse(text), since, until).may_pass(summary)

    assert passes("type = 'quote'")
    assert passes("type IN ('a', 'x')")
    assert passes("type = TRUE")
    assert passes("type LIKE 'x%'")
    assert passes("n = 7")  # not promoted: nobody knows
    assert passes("missing IS NULL")
    assert not passes("type = 'trade'")
    assert not passes("type = 2")
    assert not passes("missing > 5")
    assert not passes("type = 'trade' AND n = 1 OR missing EXISTS")
    assert not passes("type = 'quote'", since=21)
    assert not passes("type = 'quote'", until=10)
    assert passes("type = 'quote'", since=20, until=21)


def opened(reader: StoreReader, **asked: object) -> int:
    """How many batches a query opens."""
    with patch.object(reader._reader, "envelopes", wraps=reader._reader.envelopes) as envelopes:
        list(reader.query(**asked))  # type: ignore[arg-type]
    return envelopes.call_count


@pytest.fixture
def long_log(tmp_path: Path) -> Iterator[StoreReader]:
    """A hundred batches of ten, one of them with something rare."""
    with patch("tidings.store._segments.SEGMENT_COUNT", 100):
        groups = [
            [(100 * group + n, Notification(type="rare" if group == 42 else "quote", n=n)) for n in range(10)]
            for group in range(100)
        ]
        loop = Loop()
        with loop.open(tmp_path) as store:
            for number, group in enumerate(groups):
                for at, (time, notification) in enumerate(group):
                    store.append(publication(store.epoch, 10 * number + at + 1, time, notification), lambda: None)
                store.put("barrier", "", b"", lambda: None)
                while store.statistics().queued:
                    pass
    with StoreReader(tmp_path) as reader:
        yield reader


def test_a_query_opens_only_batches_that_may_hold_something(long_log: StoreReader) -> None:
    batches = long_log.extent().batches
    assert batches >= 50
    assert opened(long_log, filter=EVERYTHING) == batches
    assert opened(long_log, filter=Filter.parse("type = 'rare'")) <= 3
    assert opened(long_log, filter=Filter.parse("type = 'nowhere'")) == 0
    assert opened(long_log, filter=Filter.parse("type = 'quote' AND n = 5"), since=4_000, until=4_100) <= 3
    assert opened(long_log, filter=Filter.parse("type = 'quote'"), limit=3, newest_first=True) <= 1


def test_no_step_is_longer_than_a_batch_or_a_page(long_log: StoreReader) -> None:
    steps = list(long_log.query_in_steps(Filter.parse("n = 3")))
    assert max(map(len, steps)) <= 500
    assert sum(map(len, steps)) == 100


def _after(held: threading.Event, write: Callable[[list[Any]], None]) -> Callable[[list[Any]], None]:
    def late(operations: list[Any]) -> None:
        assert held.wait(10)
        write(operations)

    return late


def test_a_query_sees_what_still_waits_for_the_disk(tmp_path: Path) -> None:
    loop = Loop()
    with loop.open(tmp_path) as store:
        loop.append_all(store, 1, 2)
        held = threading.Event()
        with patch.object(store._writer, "_write", side_effect=_after(held, store._writer._write)):
            loop.append(store, 3)
            assert [one.identity.seq for one in store.query()] == [1, 2, 3]
            assert [one.identity.seq for one in store.query(newest_first=True, limit=2)] == [3, 2]
            held.set()
            loop.turn()
        assert [one.identity.seq for one in store.query()] == [1, 2, 3]


def test_a_query_does_not_see_what_is_appended_after_its_first_step(tmp_path: Path) -> None:
    loop = Loop()
    with loop.open(tmp_path) as store:
        loop.append_all(store, 1, 2)
        found = store.query()
        assert next(found).identity.seq == 1
        loop.append_all(store, 3)
        assert [one.identity.seq for one in found] == [2]


def test_a_reader_works_beside_a_running_broker_and_takes_no_lock(tmp_path: Path) -> None:
    loop = Loop()
    with loop.open(tmp_path, owner="berlin") as store, StoreReader(tmp_path) as reader:
        assert reader.owner == "berlin"
        for seq in range(1, 4):
            loop.append_all(store, seq)
            assert len(list(reader.query())) == seq
        assert reader.epochs() == (store.epoch,)
        assert [[one.identity.seq for one in batch] for batch in reader.beyond(store.epoch, 1)] == [[2], [3]]


def test_damage_is_reported_and_the_rest_is_found(tmp_path: Path) -> None:
    groups = [[(n, Notification(type="quote", n=n))] for n in range(10)]
    everything = filled(tmp_path, groups)
    connection = sqlite3.connect(tmp_path / "store.sqlite")
    with connection:
        connection.execute("UPDATE publications SET batch = x'0011' WHERE id = 4")
        connection.execute("UPDATE publications SET summary = x'0102030405' WHERE id = 7")
    connection.close()
    with StoreReader(tmp_path) as reader:
        found = list(reader.query(Filter.parse("type = 'quote'")))
        assert [one.notification["n"] for one in found] == [0, 1, 2, 4, 5, 6, 7, 8, 9], "a bad summary hides nothing"
        (damage,) = reader.damage
        missing = everything[3].identity
        assert (damage.epoch, damage.first, damage.last) == (missing.epoch, missing.seq, missing.seq)


@pytest.mark.parametrize("seed", range(12))
def test_bytes_that_rot_on_disk_are_noticed_and_the_rest_is_found(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    some = [(n, Notification(type="quote", n=n, noise=rng.randbytes(40))) for n in range(600)]
    everything = filled(tmp_path, [some[at : at + 60] for at in range(0, 600, 60)])
    path = tmp_path / "store.sqlite"
    content = bytearray(path.read_bytes())
    noise = [one.notification["noise"] for one in rng.sample(everything, 3)]
    for value in noise:
        assert isinstance(value, bytes)
        if (at := content.find(value)) >= 0:  # compressed batches keep what does not compress as it is
            content[at + rng.randrange(40)] ^= 1 << rng.randrange(8)
    for _ in range(5):  # and anywhere among the batches
        content[rng.randrange(20_000, len(content) - 4_096)] ^= 0xFF
    path.write_bytes(content)
    try:
        with StoreReader(tmp_path) as reader:
            found = list(reader.query(Filter.parse("type = 'quote'")))
            damage = reader.damage
    except (StoreCorrupt, StoreFailed):
        return  # the structure itself is hit, and that is told
    kept = {one.identity.key: one for one in everything}
    assert all(kept[one.identity.key] == one for one in found), "nothing wrong is ever shown"
    missing = kept.keys() - {one.identity.key for one in found}
    for _, epoch, seq in missing:
        assert any(one.epoch == epoch and one.first <= seq <= one.last for one in damage), "what is missing is reported"


def test_a_store_of_format_1_is_taken_over(tmp_path: Path) -> None:
    groups = [[(n, Notification(type="quote", n=n))] for n in range(4)]
    everything = filled(tmp_path, groups)
    connection = sqlite3.connect(tmp_path / "store.sqlite")
    with connection:
        connection.execute("DROP TABLE segments")
        connection.execute("ALTER TABLE publications DROP COLUMN summary")
        connection.execute("PRAGMA user_version=1")
    connection.close()
    with pytest.raises(StoreForeign, match="not of format 2"):
        StoreReader(tmp_path)
    with Loop().open(tmp_path) as store:
        assert list(store.query(Filter.parse("type = 'quote'"))) == everything
        assert list(store.query(Filter.parse("type = 'trade'"))) == []


def test_bad_questions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreForeign, match="there is no store in"):
        StoreReader(tmp_path)
    with Loop().open(tmp_path) as store:
        with pytest.raises(StoreError, match="limit must be 0 or more"):
            store.query(limit=-1)
        with pytest.raises(StoreError, match="name the place"):
            store.query(Filter.parse("at WITHIN myloc"))


def test_a_long_answer_needs_little_memory(tmp_path: Path) -> None:
    loop = Loop()
    with loop.open(tmp_path) as store:
        loop.append_all(store, *range(1, 20_001), text="x" * 50)
        tracemalloc.start()
        count = sum(1 for _ in store.query(Filter.parse("n > 0")))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert count == 20_000
    assert peak < 4_000_000


def test_what_retention_forgets_is_gone_from_queries_and_what_is_not_archived_stays(tmp_path: Path) -> None:
    loop = Loop()
    with loop.open(tmp_path) as store:
        for seq in range(1, 11):
            loop.append_all(store, seq)  # published at 1000 * seq
        store.retain(older_than=8_000, archived=(store.epoch, 5))
        loop.append_all(store, 11)
        assert [one.identity.seq for one in store.query()] == list(range(6, 12))
        store.retain(older_than=8_000)
        loop.append_all(store, 12)
        assert [one.identity.seq for one in store.query()] == list(range(8, 13))
