"""Nobody but the user whom a broker runs as can read its store and its archive, unless somebody lets them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from archive_world import START, fill, quotes
from store_world import Loop

from tidings.store._promoted import Promoted
from tidings.store.archive import _file_writer as file_writer
from tidings.store.archive import compact, retain, roll, sort

pytestmark = pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")


@pytest.fixture(autouse=True)
def _generous() -> Iterator[None]:
    """A umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(root: Path) -> dict[str, set[int]]:
    """The rights of directories and files."""
    found: dict[str, set[int]] = {"directories": {stat.S_IMODE(root.stat().st_mode)}, "files": set()}
    for path in root.rglob("*"):
        found["directories" if path.is_dir() else "files"].add(stat.S_IMODE(path.stat().st_mode))
    return found


def test_a_store_and_what_sqlite_makes_beside_it_are_its_owners(tmp_path: Path) -> None:
    home = tmp_path / "data" / "berlin"
    loop = Loop()
    with loop.open(home) as store:
        loop.append_all(store, 1, 2, 3)
        assert {path.name for path in home.iterdir()} >= {"store.sqlite", "store.sqlite-wal", "store.sqlite-shm"}
        assert modes(home) == {"directories": {0o700}, "files": {0o600}}
        assert store.warnings == ()


def test_an_archive_is_its_owners_at_every_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, root = tmp_path / "data", tmp_path / "archive"
    seen: list[dict[str, set[int]]] = []
    written = file_writer.FileWriter._write_group

    def look(self: file_writer.FileWriter, gathered: object) -> None:
        written(self, gathered)  # type: ignore[arg-type]
        assert self._temporary.exists()
        seen.append(modes(root))

    monkeypatch.setattr(file_writer.FileWriter, "_write_group", look)
    monkeypatch.setattr("tidings.store.archive._roller.FILE_ROWS", 400)
    fill(data, quotes(1_000))
    roll(data, root)
    private = {"directories": {0o700}, "files": {0o600}}
    assert seen == [private] * len(seen)
    assert len(seen) > 1
    assert compact(root).after == 1
    assert modes(root) == private
    sort(root, [Promoted.parse("symbol")])
    assert modes(root) == private
    retain(root, START)
    assert modes(root) == private


def test_what_is_made_in_an_archive_for_a_group_is_for_the_group(tmp_path: Path) -> None:
    data, root = tmp_path / "data", tmp_path / "archive"
    fill(data, quotes(50))
    roll(data, root)
    for path in (root, *root.rglob("*")):
        path.chmod(0o750 if path.is_dir() else 0o640)
    fill(data, quotes(50, start=START + 600_000_000))
    roll(data, root)
    compact(root)
    assert modes(root) == {"directories": {0o750}, "files": {0o640}}


def test_what_everybody_may_read_is_told_and_left(tmp_path: Path) -> None:
    loop = Loop()
    loop.open(tmp_path / "data").close()
    (tmp_path / "data").chmod(0o755)
    with loop.open(tmp_path / "data") as store:
        assert store.warnings == (), "its files are still its owner's"
    (tmp_path / "data" / "store.sqlite").chmod(0o644)
    with loop.open(tmp_path / "data") as store:
        (warning,) = store.warnings
    assert "every user of this machine can look into" in warning
    assert "chmod -R o=" in warning
    assert stat.S_IMODE((tmp_path / "data" / "store.sqlite").stat().st_mode) == 0o644
