"""Files of the scope language: how they are read, and what is said of one that cannot be."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Annotated

import typer

from tidings.model import ScopeError
from tidings.scopes.language import MAX_TEXT, Source

STDIN = "-"
MAX_BYTES = 4 * MAX_TEXT
"""The most bytes of a file: no character takes more than four."""
MAX_PLAN = 256 * 1024 * 1024
"""The most bytes of a plan, which says what follows from the files, and is longer."""

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="Files of the scope language; - reads standard input.", show_default=False),
]


def read_sources(files: list[Path]) -> list[Source]:
    """The texts in files, or `ScopeError`."""
    return [source_in(file, read_bytes(file)) for file in files]


def named(file: Path) -> str:
    """A file, as errors name it."""
    return "standard input" if str(file) == STDIN else f"'{file}'"


def read_bytes(file: Path, most: int = MAX_BYTES) -> bytes:
    """What is in a file, or `ScopeError`; no more than one byte more is read than it may have."""
    try:
        if str(file) == STDIN:
            return sys.stdin.buffer.read(most + 1)
        with file.open("rb") as stream:
            return stream.read(most + 1)
    except OSError as error:
        raise ScopeError(
            f"{named(file)} cannot be read: {error.strerror or error}; name a file that can be read"
        ) from None


def source_in(file: Path, data: bytes) -> Source:
    """The text in these bytes of a file, or `ScopeError`."""
    if len(data) > MAX_BYTES:
        raise ScopeError(
            f"{named(file)} is larger than {MAX_BYTES:,} bytes, the most that is read; divide it into several files"
        )
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ScopeError(
            f"{named(file)} is no UTF-8 text: line {line} has the byte {data[error.start]:#04x}; save it as UTF-8"
        ) from None
    return Source(text, "standard input" if str(file) == STDIN else str(file))


def check_outputs(files: list[Path], **outputs: Path | None) -> None:
    """Refuse to write where something is read from, or twice to one place: `ScopeError` names the option."""
    taken = {os.path.realpath(file): f"'{file}' is read" for file in files if str(file) != STDIN}
    for option, path in outputs.items():
        if path is None:
            continue
        if (why := taken.get(os.path.realpath(path))) is not None:
            raise ScopeError(f"--{option} would overwrite it: {why}; name another file")
        taken[os.path.realpath(path)] = f"'{path}' is written by --{option}"


def write_text(file: Path, text: str) -> None:
    """Write a file so that whoever reads it meanwhile gets the old text or the new one, or `ScopeError`.

    A link stays one, and a file keeps its mode.
    """
    target = Path(os.path.realpath(file))
    beside = target.with_name(f".{target.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        if target.exists():
            beside.chmod(stat.S_IMODE(target.stat().st_mode))
        beside.replace(target)
    except OSError as error:
        raise ScopeError(
            f"'{file}' cannot be written: {error.strerror or error}; name a file in a directory that is there and that "
            "you may write to"
        ) from None
