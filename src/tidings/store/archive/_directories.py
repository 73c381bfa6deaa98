"""How the directories of an archive change: at once, for whoever looks.

Theory of operation
-------------------
A single file appears by renaming. Where files take the place of others, renaming one after the other would show a
reader some rows twice, or not at all. So the whole directory of the hour is exchanged: a new one is made under
`.maintenance`, of links to the files that stay and of the new one; then the two exchange their names, in one step of
the file system. The old one is removed a while later: somebody may still be listing it. Whoever is killed in between
leaves a directory under `.maintenance`, which holds nothing that is not elsewhere, and which the next one removes.

A file system without that step (`renameat2` with RENAME_EXCHANGE; Linux has it since 2014) or without links gets the
new file first and loses the old ones then. In between, files contain one another; readers that know the format take
the larger one, and whoever maintains the archive next removes the others.

All this happens under the lock `.commit.lock`, which is held for the time of a few renames: a roll that commits a file
meanwhile would put it into a directory that is about to be removed. The manifest (`_manifest`) changes under it, too:
files are struck out before they go, and added when they are there.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tidings.store._errors import StoreLocked
from tidings.store._file import lock
from tidings.store._rights import private_directory, private_file

COMMIT_LOCK = ".commit.lock"
COMMIT_WAIT = 60.0
"""Seconds for which a commit waits for another one, which takes a few renames."""
NAME_OF_MANIFEST = ".manifest"
STAGE = ".maintenance"
"""Where new directories are made, and old ones go."""
LISTING_SECONDS = 1.0
"""How long a directory that is no longer part of the archive is kept for those who are listing it."""
_AT_FDCWD, _EXCHANGE = -100, 2
_CANNOT = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM}


def put(root: Path, temporary: Path, path: Path) -> None:
    """Make a whole file part of the archive; if there is one of that name, it takes its place."""
    sync(temporary)
    with committing(root):
        private_directory(path.parent, like=root)
        temporary.replace(path)
        for directory in (path.parent, path.parent.parent, root):
            sync(directory)
        struck(root, [], [path])


def struck(root: Path, gone: Iterable[Path], added: Iterable[Path]) -> None:
    """Strike files out of the manifest, and add others to it, synced; under the lock."""
    changes = [*(("-", path) for path in gone), *(("+", path) for path in added)]
    manifest = root / NAME_OF_MANIFEST
    if not changes and manifest.exists():
        return
    private_file(manifest, like=root)
    with manifest.open("r+b") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")  # of one that was killed while it wrote a line
        for sign, path in changes:
            file.write(f"{sign} {path.relative_to(root).as_posix()}\n".encode())
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def committing(root: Path) -> Iterator[None]:
    """Nobody else changes the directories of this archive meanwhile."""
    try:
        held = lock(root, COMMIT_LOCK, wait=COMMIT_WAIT, shared=True)
    except StoreLocked:
        raise StoreLocked(
            f"another process has been changing the archive in '{root}' for more than {COMMIT_WAIT:.0f} seconds; "
            "try again"
        ) from None
    with contextlib.closing(held):
        yield


class Stage:
    """Where one who maintains an archive makes its new directories and puts the old ones."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._directory = root / STAGE
        self._old: list[tuple[float, Path]] = []

    def __enter__(self) -> Stage:
        shutil.rmtree(self._directory, ignore_errors=True)  # of one that was killed: nothing in it is needed
        private_directory(self._directory, like=self.root)
        return self

    def __exit__(self, *_: object) -> None:
        if self._old:
            time.sleep(max(0.0, self._old[-1][0] + LISTING_SECONDS - time.monotonic()))
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def temporary(self) -> Path:
        """A name for a file that is being written."""
        return self._directory / "file.writing"

    def exchange(self, hour: Path, without: Iterable[Path], new: tuple[Path, Path] | None = None) -> None:
        """Let files of an hour disappear and another one appear, at once; `new` is where it is, and its path."""
        without = list(without)
        gone = {path.name for path in without}
        if new is not None:
            sync(new[0])
        with committing(self.root):
            self._clear()
            struck(self.root, [path for path in without if new is None or path != new[1]], [])
            self._replace(hour, gone, new)
            if new is not None:
                struck(self.root, [], [new[1]])

    def _replace(self, hour: Path, gone: set[str], new: tuple[Path, Path] | None) -> None:
        stay = [path for path in hour.iterdir() if path.name not in gone]
        if not stay and new is None:
            self._remove(hour)
            return
        made = self._made_of(stay, new)
        if made is not None and _exchanged(made, hour):
            sync(hour.parent)
            self._old.append((time.monotonic(), made))
            return
        if new is not None:
            (new[0] if made is None else made / new[1].name).replace(new[1])
            sync(hour)
        for name in gone:
            (hour / name).unlink(missing_ok=True)
        sync(hour)

    def _made_of(self, stay: list[Path], new: tuple[Path, Path] | None) -> Path | None:
        """A new directory with these files and the new one; None if this file system has no second names for files."""
        made = self._name()
        private_directory(made, like=self.root)
        try:
            for path in stay:
                os.link(path, made / path.name)
        except OSError as error:
            if error.errno in _CANNOT:
                return None
            raise
        if new is not None:
            new[0].replace(made / new[1].name)
        sync(made)
        return made

    def _remove(self, hour: Path) -> None:
        old = self._name()
        hour.rename(old)
        with contextlib.suppress(OSError):
            hour.parent.rmdir()  # if that was its last hour
        sync(self.root)
        self._old.append((time.monotonic(), old))

    def _name(self) -> Path:
        return self._directory / secrets.token_hex(8)

    def _clear(self) -> None:
        """Remove what nobody can be listing any more."""
        while self._old and self._old[0][0] + LISTING_SECONDS < time.monotonic():
            shutil.rmtree(self._old.pop(0)[1], ignore_errors=True)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange the names of two directories; False if this system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE) == 0:
        return True
    problem = ctypes.get_errno()
    if problem in _CANNOT:
        return False
    raise OSError(problem, os.strerror(problem), str(other))


def sync(path: Path) -> None:
    """Have a file, or the names in a directory, on disk."""
    if path.is_dir() and not hasattr(os, "O_DIRECTORY"):
        return  # this system makes names durable by itself
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
