"""The manifest of an archive: which files it should have, so that one that was deleted is missed.

    ARCHIVE/.manifest      + date=2026-11-16/hour=03/berlin-1763263000000000-000000000001-000000250000.parquet
                           - date=2026-11-16/hour=03/berlin-1763263000000000-000000000001-000000000700.parquet

Theory of operation
-------------------
Nobody needs it to read or to write: the names of the files say what there is and how far a log has been archived. It
is a list to compare with, and it must never cry wolf. So a file is added when it is there, and struck out before it
goes; both are synced, under the lock of commits. Whoever is killed in between leaves a file that is not listed, which
the next roll adds, as it adds the files of an archive from before there was a manifest. A line that was torn is no
path, and is passed over.

Lines are appended. When most of them are about files that have gone, the list is written anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from tidings.store._layout import ArchiveFile, file_at, files_in
from tidings.store._rights import private_file

from ._directories import NAME_OF_MANIFEST, committing, struck, sync

SPARE_LINES = 1_000
"""Lines about files that have gone, beyond as many as there are files, after which the list is written anew."""


def listed(root: Path) -> dict[Path, ArchiveFile] | None:
    """The files that should be there; None if there is no manifest."""
    found = _read(root)
    return None if found is None else found[0]


def complete(root: Path) -> None:
    """List every file that is there and is not listed, and write the list anew if it has become long."""
    with committing(root):
        found = _read(root)
        known, lines = found if found is not None else ({}, 0)
        missing = [file.path for file in files_in(root) if file.path not in known]
        if missing or found is None:
            struck(root, [], missing)
        if lines > 2 * len(known) + SPARE_LINES:
            _write_anew(root, [*known, *missing])


def forget(root: Path, gone: Callable[[ArchiveFile], bool]) -> None:
    """Strike out files that are not there any more, and that nobody should miss."""
    with committing(root):
        known = listed(root) or {}
        struck(root, [path for path, file in known.items() if gone(file) and not path.exists()], [])


def _read(root: Path) -> tuple[dict[Path, ArchiveFile], int] | None:
    """What is listed, and how many lines that takes."""
    try:
        lines = (root / NAME_OF_MANIFEST).read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return None
    known: dict[Path, ArchiveFile] = {}
    for line in lines:
        path = root / line[2:]
        if line.startswith("+ ") and (file := file_at(root, path)) is not None:
            known[path] = file
        elif line.startswith("- "):
            known.pop(path, None)
    return known, len(lines)


def _write_anew(root: Path, paths: Iterable[Path]) -> None:
    manifest = root / NAME_OF_MANIFEST
    fresh = manifest.with_name(f"{NAME_OF_MANIFEST}.new")
    fresh.unlink(missing_ok=True)
    private_file(fresh, like=root)
    fresh.write_text("".join(f"+ {path.relative_to(root).as_posix()}\n" for path in sorted(paths)), encoding="utf-8")
    sync(fresh)
    os.replace(fresh, manifest)
    sync(root)
