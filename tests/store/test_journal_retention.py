"""The journal forgets what is old, in short slices, and carries on what still stands; whatever happens meanwhile."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from soaking import SOAK_SECONDS, soak_seeds
from store_world import Loop

from tidings.store import Carried, JournalKind, JournalRecord, Plain, Store, StoreError, StoreReader, _journal_retention

HERE = Path(__file__).parent
KILLS = 6


def wait(loop: Loop, store: Store) -> None:
    answered: list[bool] = []
    store.put("barrier", "", b"", lambda: answered.append(True))
    while not answered:
        loop.turn()


def write(loop: Loop, store: Store, *records: JournalRecord) -> None:
    """One row, if it is one record: the writer may take the first of several before the others have come."""
    for record in records:
        store.record(record)
    wait(loop, store)


def forget(loop: Loop, store: Store, before: int) -> list[str]:
    """What was told of it: `done`, or what went wrong."""
    told: list[str] = []
    store.retain(
        journal_before=before, synced=lambda: told.append("done"), failed=lambda error: told.append(str(error))
    )
    wait(loop, store)
    return told


def came(at: int, client: str = "c") -> tuple[JournalRecord, JournalRecord]:
    what: dict[str, Plain] = {"id": "s1", "number": at, "filter": "TRUE", "scope": "/", "after": "{}"}
    return JournalRecord(JournalKind.ATTACH, at, client), JournalRecord(JournalKind.SUBSCRIBE, at, client, what)


def went(at: int, client: str = "c") -> JournalRecord:
    return JournalRecord(JournalKind.DETACH, at, client)


def state(home: Path) -> tuple[Carried, list[JournalRecord]]:
    with StoreReader(home) as reader, reader.moment():
        return reader.carried(), list(reader.journal())


def test_rows_go_when_all_of_them_is_old_and_those_who_are_there_stay(tmp_path: Path) -> None:
    loop = Loop()
    with loop.open(tmp_path) as store:
        write(loop, store, *came(10, "a"), *came(11, "b"))
        write(loop, store, went(20, "a"), went(40, "x"))
        write(loop, store, went(30, "y"))
        assert state(tmp_path)[0] == Carried(0, False, False, {})
        forget(loop, store, 40)
        carried, left = state(tmp_path)
        assert carried.horizon == 12
        assert list(carried.clients) == ["a", "b"]
        assert [record.at for record in left] == [20, 40, 30], "in their order, not by their times"
        forget(loop, store, 41)
        carried, left = state(tmp_path)
        assert (carried.horizon, left) == (41, [])
        assert list(carried.clients) == ["b"]
        assert carried.clients["b"][0].life.filters == ["TRUE"]
        write(loop, store, JournalRecord(JournalKind.START, 50, ""), *came(51, "d"))
        write(loop, store, JournalRecord(JournalKind.DELIVER, 60, ""))
        forget(loop, store, 55)
        assert not state(tmp_path)[0].notes
        for before in (100, 200):
            forget(loop, store, before)
            assert list(state(tmp_path)[0].clients) == ["d"], "a broker that starts has nobody"
            assert state(tmp_path)[0].notes, "it notes what it sends, though nothing of it is left"
            write(loop, store, went(150, "x"))


def test_a_hole_is_about_everybody_who_is_carried(tmp_path: Path) -> None:
    def noted(kind: JournalKind, at: int, **what: Plain) -> JournalRecord:
        return JournalRecord(kind, at, "c", what)

    loop = Loop()
    with loop.open(tmp_path) as store:
        settled = noted(JournalKind.SETTLED, 2, id="s1", number=1, marks='{"o": [1, 3]}')
        write(loop, store, *came(1), settled, noted(JournalKind.ACKNOWLEDGE, 3, origin="o", epoch=1, seq=7))
        forget(loop, store, 10)
        assert state(tmp_path)[0].clients["c"][0].upto == {"o": (1, 7)}
        write(loop, store, JournalRecord(JournalKind.HOLE, 20, "", {"missed": 1}))
        forget(loop, store, 30)
        assert state(tmp_path)[0].clients["c"][0].upto == {}, "nobody knows what was missed"


def test_a_slice_is_bounded_and_the_next_ones_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    real = _journal_retention.next_slice

    def watched(connection: sqlite3.Connection, before: int) -> _journal_retention.Slice | None:
        (rows,) = connection.execute("SELECT count(*) FROM journal").fetchone()
        taken.append(rows)
        return real(connection, before)

    monkeypatch.setattr("tidings.store._writer.next_slice", watched)
    monkeypatch.setattr(_journal_retention, "SLICE_ROWS", 4)
    loop = Loop()
    with loop.open(tmp_path) as store:
        for at in range(10):
            write(loop, store, went(at))
        store.retain(journal_before=100)
        while not taken or taken[-1]:
            wait(loop, store)
            if taken[-1] <= 2:
                break
        wait(loop, store)
    assert taken == [10, 6, 2]
    assert state(tmp_path)[1] == []


@pytest.mark.parametrize("limit", ["SLICE_RECORDS", "SLICE_BYTES"])
def test_a_slice_ends_behind_the_row_that_fills_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    loop = Loop()
    with loop.open(tmp_path) as store:
        for at in range(6):
            write(loop, store, went(at))
        with closing(sqlite3.connect(store.path)) as connection:
            _, _, length = connection.execute(_journal_retention._OLDEST, (1,)).fetchone()
            monkeypatch.setattr(_journal_retention, limit, {"SLICE_RECORDS": 2, "SLICE_BYTES": length + 1}[limit])
            slice = _journal_retention.next_slice(connection, 100)
    assert slice is not None
    assert slice.more
    assert slice.last == 2


def test_what_is_carried_does_not_grow_with_what_happened(tmp_path: Path) -> None:
    def size() -> int:
        with StoreReader(tmp_path) as reader:
            return sum(map(len, reader.items("lives").values()))

    def change(at: int, kind: JournalKind, **more: Plain) -> JournalRecord:
        what: dict[str, Plain] = {"id": "s1", "number": at, "filter": "n > 1000", "scope": "/", "after": None, **more}
        return JournalRecord(kind, at * 10**9, "c", what)

    loop = Loop()
    with loop.open(tmp_path) as store:
        write(loop, store, *came(1))
        sizes = []
        for at in range(1_000, 6_000):
            gap: dict[str, Plain] = {"origin": "o", "epoch": 1, "first": at, "last": None, "ids": '["s1"]'}
            store.record(change(at, JournalKind.SUBSCRIBE))
            store.record(change(at, JournalKind.SETTLED, marks='{"o": [1, 1000]}'))
            store.record(JournalRecord(JournalKind.GAP, at * 10**9, "c", gap))
            store.record(change(at, JournalKind.SUBSCRIBE, id=f"t{at}", after="{}"))
            store.record(change(at, JournalKind.UNSUBSCRIBE, id=f"t{at}", ended=True))
            if at % 1_000 == 999:
                wait(loop, store)
                forget(loop, store, 2**62)
                while state(tmp_path)[1]:
                    wait(loop, store)
                sizes.append(size())
    assert 0 < max(sizes) < 1_000
    assert sizes[-1] <= sizes[0] + 10, "but for digits"


def test_a_journal_that_cannot_be_read_is_kept_and_told_and_nobody_else_suffers(tmp_path: Path) -> None:
    loop = Loop()
    with loop.open(tmp_path) as store:
        write(loop, store, *came(1))
        store.put("lives", "c", b"nonsense")
        wait(loop, store)
        (told,) = forget(loop, store, 100)
        assert "because its journal cannot be read" in told
        assert "restore the store from a backup" in told
        assert store.statistics().forget_failures == 1
        loop.append_all(store, 1)
        assert (loop.synced, loop.failed) == ([1], [])
        assert len(list(store.journal())) == 2
        store.delete("lives", "c")
        wait(loop, store)
        assert forget(loop, store, 100) == ["done"], "once it can be read it goes on"
        assert list(store.journal()) == []
    with StoreReader(tmp_path) as reader:
        assert list(reader.carried().clients) == ["c"]


def test_an_audit_says_that_what_is_carried_cannot_be_read(tmp_path: Path) -> None:
    loop = Loop()
    with loop.open(tmp_path) as store:
        store.put("lives", "c", b"nonsense")
        wait(loop, store)
    with StoreReader(tmp_path) as reader, pytest.raises(StoreError, match=r"cannot be read: .*; restore"):
        reader.carried()


def test_what_comes_before_a_row_that_cannot_be_followed_goes(tmp_path: Path) -> None:
    loop = Loop()
    with loop.open(tmp_path) as store:
        for at in range(10):
            write(loop, store, *came(at, f"c{at}"))
        write(loop, store, JournalRecord(JournalKind.SETTLED, 10, "c3", {"id": "s1"}))
        write(loop, store, *came(11, "late"))
        told = forget(loop, store, 100)
        while not store.statistics().forget_failures:
            wait(loop, store)
        wait(loop, store)
        assert told[0] == "done"
        assert "KeyError" in told[-1], "the slice that begins there was tried, too"
        assert [record.at for record in store.journal()] == [10, 11, 11]
    carried, _ = state(tmp_path)
    assert carried.horizon == 10
    assert sorted(carried.clients) == sorted(f"c{at}" for at in range(10))


def test_a_damaged_row_goes_and_is_counted_and_told(tmp_path: Path) -> None:
    loop = Loop()
    with loop.open(tmp_path) as store:
        write(loop, store, *came(1, "a"))
        write(loop, store, *came(2, "b"))
        with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
            connection.execute("UPDATE journal SET checksum = checksum + 1 WHERE id = 1")
        (told,) = forget(loop, store, 100)
        assert "1 damaged rows of the journal were deleted unread" in told
        assert (store.statistics().damaged, store.statistics().forget_failures) == (1, 0)
        assert forget(loop, store, 100) == ["done"]
    assert state(tmp_path)[0].horizon == 3
    assert list(state(tmp_path)[0].clients) == ["b"]


@pytest.mark.parametrize("table", ["journal", "publications"])
def test_what_cannot_be_deleted_undoes_nothing_of_what_others_write(tmp_path: Path, table: str) -> None:
    loop = Loop()
    with loop.open(tmp_path) as store:
        write(loop, store, *came(1))
        loop.append_all(store, 1)
        with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
            connection.execute(f"CREATE TRIGGER no BEFORE DELETE ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END")
        told: list[StoreError] = []
        store.retain(older_than=1_500, journal_before=100, failed=told.append)
        loop.append_all(store, 2)
        assert (loop.synced, loop.failed) == ([1, 2], [])
        assert [str(error).partition(";")[0] for error in told] == [
            f"old data stays in '{store.path}', because it cannot be deleted: no"
        ]
        assert store.statistics().forget_failures == 1
        assert bool(list(store.journal())) == (table == "journal"), "the other one is not to blame"
        assert [found.identity.seq for found in store.query()] == ([2] if table == "journal" else [1, 2])


def test_one_moment_stays_while_the_journal_forgets(tmp_path: Path) -> None:
    loop = Loop()
    with loop.open(tmp_path) as store, StoreReader(tmp_path) as reader:
        write(loop, store, *came(1))
        with reader.moment():
            assert reader.carried().clients == {}
            forget(loop, store, 100)
            assert [record.kind for record in reader.journal()] == [JournalKind.ATTACH, JournalKind.SUBSCRIBE]
        assert list(reader.journal()) == []
        assert list(reader.carried().clients) == ["c"]


def kill_while_it_forgets(home: Path, kills: int, rng: random.Random, check: Callable[[Path], int]) -> int:
    forgotten = 0
    for _ in range(kills):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])}
        command = [sys.executable, str(HERE / "prune_child.py"), str(home)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, bufsize=0) as child:
            assert child.stdout is not None
            for _ in range(rng.randrange(2, 60)):
                os.read(child.stdout.fileno(), 65_536)
            time.sleep(rng.uniform(0, 0.003))
            child.kill()
        forgotten = check(home)
    return forgotten


def nothing_is_missing_between_what_is_carried_and_what_is_left(home: Path) -> int:
    carried, left = state(home)
    told = [int(str(record.what["seq"])) for record in left if record.kind is JournalKind.ACKNOWLEDGE]
    if not carried.horizon:
        assert told == list(range(1, len(told) + 1))
        return 0
    (one,) = carried.clients["c"]
    _, reached = one.upto.get("o", (1, 0))
    assert told == list(range(reached + 1, reached + 1 + len(told)))
    assert carried.horizon == reached + 1
    return reached


def test_a_kill_leaves_the_journal_before_a_slice_or_behind_it(tmp_path: Path) -> None:
    check = nothing_is_missing_between_what_is_carried_and_what_is_left
    assert kill_while_it_forgets(tmp_path, KILLS, random.Random(5), check) > 100


@pytest.mark.soak
def test_hundreds_of_kills_leave_the_journal_before_a_slice_or_behind_it(tmp_path: Path) -> None:
    check = nothing_is_missing_between_what_is_carried_and_what_is_left
    for seed in soak_seeds(min(120.0, SOAK_SECONDS / 6)):
        kill_while_it_forgets(tmp_path, 20, random.Random(seed), check)
