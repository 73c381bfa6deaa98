"""Foreign, damaged, locked and full: each has a clear error with a remedy, and the rest goes on."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from store_world import Loop, numbers

from tidings.store import (
    JournalKind,
    JournalRecord,
    StoreCorrupt,
    StoreFailed,
    StoreForeign,
    StoreLocked,
)

HERE = Path(__file__).parent


@pytest.fixture
def loop() -> Loop:
    return Loop()


# --- locked -------------------------------------------------------------------------------------------


def test_a_second_opener_is_refused_until_the_first_has_closed(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path) as store:
        with pytest.raises(StoreLocked, match=r"another broker uses the store in .*; stop it, or give"):
            loop.open(tmp_path)
        loop.append_all(store, 1)  # the first one does not mind
    loop.open(tmp_path).close()


def test_a_second_process_is_refused(tmp_path: Path, loop: Loop) -> None:
    program = f"""
from tidings.store import Store, StoreLocked
try:
    Store.open({str(tmp_path)!r}, post=lambda call: None)
except StoreLocked as error:
    print(error)
"""
    with loop.open(tmp_path):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert str(tmp_path) in done.stdout
    assert "stop it" in done.stdout


# --- foreign ------------------------------------------------------------------------------------------


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, loop: Loop) -> None:
    path = tmp_path / "store.sqlite"
    path.write_bytes(b"Dear diary, today I learned about databases. " * 100)
    before = path.read_bytes()
    with pytest.raises(StoreForeign, match=r"store\.sqlite' is not a store of Tidings; choose another directory"):
        loop.open(tmp_path)
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_refused(tmp_path: Path, loop: Loop) -> None:
    other = sqlite3.connect(tmp_path / "store.sqlite")
    other.execute("CREATE TABLE bookmarks (url TEXT)")
    other.close()
    with pytest.raises(StoreForeign, match="belongs to another program"):
        loop.open(tmp_path)


def test_another_format_is_refused(tmp_path: Path, loop: Loop) -> None:
    loop.open(tmp_path).close()
    _execute(tmp_path, "PRAGMA user_version=99")
    with pytest.raises(StoreForeign, match="has format 99, this Tidings reads format 2"):
        loop.open(tmp_path)


def test_the_store_of_another_broker_is_refused(tmp_path: Path, loop: Loop) -> None:
    loop.open(tmp_path, owner="berlin").close()
    with pytest.raises(StoreForeign, match="of broker 'berlin', not of 'paris'"):
        loop.open(tmp_path, owner="paris")
    loop.open(tmp_path, owner="berlin").close()


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path, loop: Loop) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreFailed, match="cannot be used"):
        loop.open(tmp_path / "file" / "data")


# --- damaged ------------------------------------------------------------------------------------------


def _execute(directory: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(directory / "store.sqlite")
    with connection:
        connection.execute(statement, values)
    connection.close()


def _fill(directory: Path, loop: Loop) -> int:
    """Ten batches of a hundred, with content that does not compress away."""
    with loop.open(directory) as store:
        for start in range(1, 1_000, 100):
            loop.append_all(
                store, *range(start, start + 100), text="".join(chr(33 + start * n % 90) for n in range(50))
            )
        return store.epoch


def test_a_batch_with_a_wrong_checksum_is_left_out_and_reported(tmp_path: Path, loop: Loop) -> None:
    epoch = _fill(tmp_path, loop)
    _execute(tmp_path, "UPDATE publications SET batch = substr(batch, 1, 40) WHERE first = 301 OR last = 400")
    with loop.open(tmp_path) as store:
        found = numbers(store, epoch)
        assert len(found) < 1_000
        assert set(range(1, 301)) <= set(found)
        assert set(range(401, 1_001)) <= set(found)
        (damage, *_) = store.damage
        assert 301 <= damage.first <= damage.last <= 400
        assert "checksum" in damage.problem
        assert store.statistics().damaged == len(store.damage)
        assert {name: numbers[-1] for name, numbers in store.publishers().items()} == {"p": 1_000}


def test_a_damaged_line_of_the_journal_is_left_out_and_reported(tmp_path: Path, loop: Loop) -> None:
    for at in (1, 2, 3):
        with loop.open(tmp_path) as store:
            store.record(JournalRecord(JournalKind.SCOPE, at, "admin"))
    _execute(tmp_path, "UPDATE journal SET batch = x'00' WHERE earliest = 2")
    with loop.open(tmp_path) as store:
        assert [record.at for record in store.journal()] == [1, 3]
        assert "journal" in store.damage[0].problem


@pytest.mark.parametrize("keep", [0.0, 0.01, 0.3, 0.6, 0.9])
def test_a_truncated_file_is_refused_with_a_remedy(tmp_path: Path, loop: Loop, keep: float) -> None:
    epoch = _fill(tmp_path, loop)
    path = tmp_path / "store.sqlite"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(int(size * keep))
    if keep == 0:
        with loop.open(tmp_path) as store:  # an empty file is a new store
            assert numbers(store, epoch) == []
        return
    with pytest.raises((StoreCorrupt, StoreForeign), match="move the file away") as caught:
        loop.open(tmp_path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("looked_at", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_a_file_with_a_damaged_page_never_gives_wrong_publications(
    tmp_path: Path, loop: Loop, seed: int, looked_at: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not looked_at:  # as in a file too large for the check at opening
        monkeypatch.setattr("tidings.store._file._look_for_damage", lambda *_: None)
    epoch = _fill(tmp_path, loop)
    path = tmp_path / "store.sqlite"
    rng = random.Random(seed)
    at = rng.randrange(0, path.stat().st_size - 200)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(rng.randbytes(200))
    with contextlib.suppress(StoreCorrupt, StoreForeign), loop.open(tmp_path) as store:
        for found in store.read(epoch, 0):
            assert found.notification["n"] == found.identity.seq
        store.publishers()


def test_a_torn_end_of_the_write_ahead_log_loses_only_what_was_not_synced(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path / "live") as store:
        loop.append_all(store, *range(1, 101))
        loop.append_all(store, *range(101, 201))
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in ("store.sqlite", "store.sqlite-wal"):
            (copy / name).write_bytes((tmp_path / "live" / name).read_bytes())
    log = copy / "store.sqlite-wal"
    log.write_bytes(log.read_bytes()[:-3_000] + bytes(1_500))
    with loop.open(copy) as torn:
        found = numbers(torn, store.epoch)
        assert found == list(range(1, len(found) + 1))
        assert len(found) >= 100


# --- full ---------------------------------------------------------------------------------------------


def test_a_full_disk_fails_clearly_and_recovers_when_there_is_space_again(tmp_path: Path, loop: Loop) -> None:
    with loop.open(tmp_path) as store:
        loop.append_all(store, 1)
        (pages,) = store._writing.execute("PRAGMA page_count").fetchone()
        store._writing.execute(f"PRAGMA max_page_count={pages + 2}")
        loop.append_all(store, *range(2, 12), noise=random.Random(1).randbytes(60_000))
        assert loop.synced == [1]
        assert [seq for seq, _ in loop.failed] == list(range(2, 12))
        error = loop.failed[0][1]
        assert isinstance(error, StoreFailed)
        assert "is full; free some space" in str(error)
        assert str(store.path) in str(error)
        assert numbers(store) == [1]
        store._writing.execute("PRAGMA max_page_count=1000000")
        loop.append_all(store, 12)
        assert numbers(store) == [1, 12]
        assert store.statistics().failed == 10
    with loop.open(tmp_path) as later:
        assert numbers(later, store.epoch) == [1, 12]


FULL = """
import random, resource, signal, sys
from pathlib import Path
from store_world import Loop, numbers
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
loop = Loop()
with loop.open(Path(sys.argv[1])) as store:
    loop.append_all(store, 1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, resource.RLIM_INFINITY))
    seq = 1
    while not loop.failed:
        seq += 1
        loop.append_all(store, seq, noise=random.Random(seq).randbytes(5_000))
    assert "cannot be written" in str(loop.failed[0][1]) or "full" in str(loop.failed[0][1]), loop.failed
    assert numbers(store) == loop.synced
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    loop.append_all(store, seq + 1)
    assert numbers(store) == loop.synced
    print(store.epoch, *loop.synced)
"""


def test_a_disk_that_takes_no_more_bytes_loses_nothing_acknowledged(tmp_path: Path, loop: Loop) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])},
    )
    assert done.returncode == 0, done.stderr
    epoch, *acknowledged = map(int, done.stdout.split())
    assert len(acknowledged) > 2
    with loop.open(tmp_path) as store:
        assert numbers(store, epoch) == acknowledged
