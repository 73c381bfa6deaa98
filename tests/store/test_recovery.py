"""A log that is damaged, or alone, or gone: a store never begins as if nothing had been lost."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest
from store_world import Loop, numbers

from tidings.store import StoreCorrupt, StoreReader
from tidings.store._recovery import FRAME_BYTES, HEADER_BYTES

PAGE = 4_096
STEP = FRAME_BYTES + PAGE


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def crashed(tmp_path: Path, loop: Loop) -> Path:
    """What a broker leaves that is killed after forty commits of one publication each."""
    home, left = tmp_path / "running", tmp_path / "left"
    with loop.open(home) as store:
        for seq in range(1, 41):
            loop.append_all(store, seq)
        left.mkdir()
        for name in ("store.sqlite", "store.sqlite-wal"):
            shutil.copy(home / name, left / name)
    return left


def log(home: Path) -> Path:
    return home / "store.sqlite-wal"


def ends(home: Path) -> list[int]:
    """The frames with which a transaction ends."""
    data = log(home).read_bytes()
    count = (len(data) - HEADER_BYTES) // STEP
    return [at for at in range(count) if struct.unpack_from(">I", data, HEADER_BYTES + at * STEP + 4)[0]]


def spoil(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x5A
    path.write_bytes(data)


def kept(loop: Loop, home: Path) -> tuple[list[int], tuple[str, ...]]:
    """What a store still has of its epoch before, and what it says."""
    with loop.open(home) as store:
        return numbers(store, store.epochs()[-2]), store.warnings


def test_a_crash_is_nothing_to_speak_of(crashed: Path, loop: Loop) -> None:
    assert kept(loop, crashed) == (list(range(1, 41)), ())


@pytest.mark.parametrize("cut", [1, 100, PAGE, STEP, STEP + 5])
def test_a_torn_end_is_nothing_to_speak_of(crashed: Path, loop: Loop, cut: int) -> None:
    data = log(crashed).read_bytes()
    log(crashed).write_bytes(data[:-cut])
    found, warnings = kept(loop, crashed)
    assert found == list(range(1, len(found) + 1))
    assert 38 <= len(found) < 40
    assert warnings == ()


@pytest.mark.parametrize("part", [0, 4, 8, 16, FRAME_BYTES, FRAME_BYTES + 2_000])
@pytest.mark.parametrize("where", [0.0, 0.3, 0.7])
def test_damage_in_the_middle_is_told_with_what_is_lost(crashed: Path, loop: Loop, where: float, part: int) -> None:
    commits = ends(crashed)
    frame = commits[int(len(commits) * where)]
    spoil(log(crashed), HEADER_BYTES + frame * STEP + part)
    before = log(crashed).read_bytes()
    found, (warning,) = kept(loop, crashed)
    assert found == list(range(1, len(found) + 1))
    lost = 40 - len(found)
    assert lost >= 5
    at_least, _, at_most = warning.partition(" commits")[0].rpartition(" or ")
    assert int(at_least.rpartition(" ")[2]) <= lost <= int(at_most) + 1
    where_to = f"publication {found[-1]} of epoch" if found else "the beginning"
    assert f"everything after {where_to}" in warning
    assert "check the disk" in warning
    saved = crashed / "store.sqlite-wal.damaged"
    assert saved.read_bytes() == before
    assert saved.stat().st_mode & 0o777 == 0o600
    assert kept(loop, crashed)[1] == (), "once"


@pytest.mark.parametrize("at", [0, 8, 16, 24, 31])
def test_a_damaged_beginning_of_the_log_is_told(crashed: Path, loop: Loop, at: int) -> None:
    spoil(log(crashed), at)
    with loop.open(crashed) as store:
        assert all(not numbers(store, epoch) for epoch in store.epochs())
        (warning,) = store.warnings
    assert "everything after the beginning" in warning
    assert "commits that were stored are lost" in warning


def test_a_log_that_began_anew_has_old_frames_behind_its_end(tmp_path: Path, loop: Loop) -> None:
    """They are of transactions that are in the file, and are not taken for lost ones."""
    home, left = tmp_path / "running", tmp_path / "left"
    with loop.open(home) as store:
        loop.append_all(store, *range(1, 501), blob=bytes(range(256)) * 8)
        store._writing.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        size = log(home).stat().st_size
        loop.append_all(store, 501)
        assert log(home).stat().st_size == size, "the log is used from its start again"
        left.mkdir()
        for name in ("store.sqlite", "store.sqlite-wal"):
            shutil.copy(home / name, left / name)
    assert kept(loop, left) == (list(range(1, 502)), ())


def test_a_log_without_its_store_is_refused_and_left(crashed: Path, loop: Loop, tmp_path: Path) -> None:
    away = tmp_path / "away.sqlite"
    (crashed / "store.sqlite").rename(away)
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match=r"missing or empty.*the last 4\d commits.*put the file back"):
            loop.open(crashed)
    (crashed / "store.sqlite").write_bytes(b"")
    with pytest.raises(StoreCorrupt, match="missing or empty"):
        loop.open(crashed)
    away.rename(crashed / "store.sqlite")
    assert kept(loop, crashed) == (list(range(1, 41)), ())


def test_a_store_whose_log_has_gone_says_so(crashed: Path, loop: Loop) -> None:
    log(crashed).unlink()
    with loop.open(crashed) as store:
        (warning,) = store.warnings
    assert "was not closed cleanly, and its write-ahead log 'store.sqlite-wal' is missing" in warning
    assert "after the beginning is lost" in warning
    with loop.open(crashed) as again:
        assert again.warnings == (), "once"


def test_a_store_that_ended_in_order_has_no_log_and_misses_none(tmp_path: Path, loop: Loop) -> None:
    for last in (1, None):
        with loop.open(tmp_path) as store:
            loop.append_all(store, 1)
            assert store.warnings == ()
            store.close(last)
        assert not log(tmp_path).exists()


def test_reading_what_a_crash_left_takes_nothing_away(crashed: Path, loop: Loop) -> None:
    with StoreReader(crashed) as reader:
        assert len(list(reader.query())) == 40
    assert kept(loop, crashed) == (list(range(1, 41)), ())


@pytest.mark.parametrize("spoiled", ["damaged", "gone"])
def test_nobody_knows_where_an_epoch_ended_that_may_have_lost_something(
    crashed: Path, loop: Loop, spoiled: str
) -> None:
    if spoiled == "damaged":
        spoil(log(crashed), log(crashed).stat().st_size // 2)
    else:
        log(crashed).unlink()
    with loop.open(crashed) as store:
        assert store.warnings
        assert store.ended(store.epochs()[-2] if len(store.epochs()) > 1 else 1) is None
