"""A file that was deleted from an archive is missed, and none is missed that was merged, sorted or removed in order."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from archive_world import HOUR, START, fill, quotes

from tidings.store._layout import files_in
from tidings.store._promoted import Promoted
from tidings.store.archive import ArchiveReader, _directories, compact, retain, roll, sort, trim, verify
from tidings.store.archive import _manifest as manifest
from tidings.store.archive._directories import NAME_OF_MANIFEST


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.store.archive._roller.FILE_ROWS", 400)
    monkeypatch.setattr(_directories, "LISTING_SECONDS", 0.0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Several files in each of two hours."""
    fill(tmp_path / "data", quotes(5_000))
    roll(tmp_path / "data", tmp_path / "archive")
    return tmp_path / "archive"


def paths(root: Path) -> list[Path]:
    return sorted(file.path for file in files_in(root))


def missed(root: Path) -> list[Path]:
    """The files that verification says have gone."""
    return [one.path for one in verify(root).problems if "is missing" in one.problem]


def test_a_deleted_file_is_missed_wherever_it_was(root: Path) -> None:
    whole = paths(root)
    assert len(whole) > 4
    assert verify(root).problems == verify(root).remarks == ()
    for path in (whole[0], whole[len(whole) // 2], whole[-1]):
        data = path.read_bytes()
        path.unlink()
        assert missed(root) == [path]
        (problem,) = [one.problem for one in verify(root).problems if one.path == path]
        assert "what berlin had published from number" in problem
        assert "restore it from a backup" in problem
        path.write_bytes(data)
        assert not verify(root).problems


def test_a_deleted_hour_and_a_deleted_day_are_missed(root: Path) -> None:
    whole = paths(root)
    shutil.rmtree(whole[0].parent)
    assert missed(root) == [path for path in whole if path.parent == whole[0].parent]
    shutil.rmtree(whole[0].parent.parent)
    assert missed(root) == [path for path in whole if path.parent.parent == whole[0].parent.parent]


@pytest.mark.parametrize("maintain", [compact, lambda root: sort(root, [Promoted.parse("symbol")])])
def test_maintenance_leaves_nothing_to_miss_and_makes_up_for_nothing(
    root: Path, maintain: Callable[[Path], object]
) -> None:
    maintain(root)
    assert not missed(root)
    assert set(manifest.listed(root) or {}) == set(paths(root))
    gone = paths(root)[0]
    gone.unlink()
    assert missed(root) == [gone]
    maintain(root)
    assert missed(root) == [gone], "maintenance does not make up for it"


def test_what_is_removed_for_its_age_or_size_is_not_missed(root: Path) -> None:
    retain(root, START + HOUR)
    assert not missed(root)
    assert paths(root)
    size = sum(path.stat().st_size for path in paths(root))
    before = paths(root)
    trim(root, "berlin", size // 2)
    assert not missed(root)
    assert 1 <= len(paths(root)) < len(before)
    trim(root, "berlin", 0)
    assert paths(root) == before[-1:], "the newest stays"
    trim(root, "paris", 0)
    assert paths(root) == before[-1:]


def test_a_loss_that_is_known_is_forgotten_with_its_time(root: Path) -> None:
    gone = paths(root)[0]
    gone.unlink()
    retain(root, START + HOUR)
    assert not missed(root)
    one, two, *_ = paths(root)
    one.unlink()
    trim(root, "berlin", 0)
    assert not missed(root)
    assert not two.exists()


def test_an_archive_from_before_gets_its_manifest_with_the_next_roll(root: Path, tmp_path: Path) -> None:
    (root / NAME_OF_MANIFEST).unlink()
    paths(root)[0].unlink()
    assert not missed(root), "nobody can know"
    assert [remark for remark in verify(root).remarks if "has no manifest" in remark]
    roll(tmp_path / "data", root)
    assert not verify(root).remarks
    gone = paths(root)[1]
    gone.unlink()
    assert missed(root) == [gone]


def test_torn_and_foolish_lines_are_passed_over(root: Path, tmp_path: Path) -> None:
    before = manifest.listed(root)
    with (root / NAME_OF_MANIFEST).open("ab") as file:
        file.write(b"+ date=2025-11-25/hour=16/berlin-17\n+ ../../etc/passwd\n\xff\xfe\n*\n\n- date=2025-11-25/ho")
    assert manifest.listed(root) == before
    fill(tmp_path / "data", quotes(10, start=START + 3 * HOUR))
    roll(tmp_path / "data", root)
    assert set(manifest.listed(root) or {}) == set(paths(root)) > set(before or {})
    assert not verify(root).problems


def test_a_long_manifest_is_written_anew(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "SPARE_LINES", 1)
    retain(root, START + HOUR)
    compact(root)
    lines = len((root / NAME_OF_MANIFEST).read_text().splitlines())
    (gone, *_) = paths(root)
    roll(tmp_path / "data", root)
    assert len((root / NAME_OF_MANIFEST).read_text().splitlines()) == len(paths(root)) < lines
    gone.unlink()
    assert missed(root) == [gone]


def test_brokers_that_share_a_directory_share_its_manifest(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    origins = ("berlin", "paris", "rome")
    for origin in origins:
        fill(tmp_path / origin, quotes(2_500), origin)
    rolls = [threading.Thread(target=roll, args=(tmp_path / origin, root)) for origin in origins]
    for one in rolls:
        one.start()
    for one in rolls:
        one.join()
    assert set(manifest.listed(root) or {}) == set(paths(root))
    assert {file.origin for file in files_in(root)} == set(origins)
    trim(root, "paris", 0)
    assert not missed(root)


class Killed(BaseException):
    """Not to be caught."""


def test_whoever_is_stopped_at_whatever_sync_leaves_nothing_to_miss(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step ends with a sync; stop at the first, the second, ... until the work is done."""
    rows = len(list(ArchiveReader(root).query()))
    real = _directories.os.fsync
    left = 0

    def stop(handle: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        real(handle)

    def work(home: Path) -> None:
        fill_and_roll(home)
        compact(home / "archive")
        sort(home / "archive", [Promoted.parse("symbol")])
        trim(home / "archive", "berlin", 1)

    def fill_and_roll(home: Path) -> None:
        roll(home / "data", home / "archive")

    fill(tmp_path / "data", quotes(900, start=START + 3 * HOUR))
    for steps in range(0, 200, 3):
        home = tmp_path / f"stopped-{steps}"
        shutil.copytree(tmp_path / "data", home / "data")
        shutil.copytree(root, home / "archive")
        left = steps
        monkeypatch.setattr(_directories.os, "fsync", stop)
        try:
            work(home)
            done = True
        except Killed:
            done = False
        monkeypatch.setattr(_directories.os, "fsync", real)
        assert not missed(home / "archive"), steps
        roll(home / "data", home / "archive")
        assert set(manifest.listed(home / "archive") or {}) == set(paths(home / "archive"))
        if done:
            break
        assert len(list(ArchiveReader(home / "archive").query())) <= rows + 900
    assert done
    assert steps > 20
