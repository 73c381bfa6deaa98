"""Who may read what is on disk: the user whom a broker runs as, and nobody else, unless its operator decides otherwise.

Directories are made with 0700, files with 0600. SQLite gives its write-ahead log and its index the rights of the file.
An archive may be for others: what is made in it gets the rights of its directory, so `chmod 750` on that is enough.
What is there already keeps its rights, which its operator may have chosen; if everybody may read it, the broker says so
when it starts.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

DIRECTORY, FILE = 0o700, 0o600
_OTHERS = stat.S_IROTH | stat.S_IWOTH | stat.S_IXOTH


def private_directory(path: Path, like: Path | None = None) -> None:
    """Make a directory, if it is not there, for its owner only, or for those who may use another one."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
        if like is None:
            break
    for one in reversed(missing):
        one.mkdir(DIRECTORY, parents=True, exist_ok=True)
        if like is not None:
            _give(one, _mode(like))


def private_file(path: Path, like: Path | None = None) -> None:
    """Make an empty file, if it is not there, for its owner only, or for those who may use a directory."""
    mode = FILE if like is None else FILE | (_mode(like) & 0o066)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, FILE))
        if mode != FILE:
            _give(path, mode)


def open_to_others(directory: Path, file: Path | None = None) -> str:
    """What to say of a directory that everybody may enter, to read this file in it; empty if nobody else may."""
    paths = [directory] if file is None else [directory, file]
    if os.name != "posix" or not all(path.exists() and _mode(path) & _OTHERS for path in paths):
        return ""
    return f"every user of this machine can look into '{directory}'; run chmod -R o= '{directory}'"


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _give(path: Path, mode: int) -> None:
    if os.name == "posix":
        path.chmod(mode)
