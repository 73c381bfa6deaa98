"""What a client carries from one process to the next: its epoch, its last broker, how far it has come.

It is a file that only its owner may read, or a mapping that the application keeps by itself. It holds no secret: no
token, and nothing that would let anybody in. A file is written beside the old one and takes its place, so it is either
the old one or the new one; while a client uses it, it is locked.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from tidings.model import NOWHERE, ArgumentRefused, Position

from ._arguments import shown

WRITE_SECONDS = 1.0
"""The file is written at most this often, and at the end."""
MAX_BYTES = 16_777_216
"""The largest state that is read."""
VERSION = 1
GIVEN = "the mapping given as `state`"

Positions: TypeAlias = dict[str, Position]
AnyState: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any]"
"""Where the state is kept: in a file, or by the application, which gives back what `Client.snapshot` returned."""


class Carried(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The state of one client."""

    name: str
    attached: int
    """The epoch under which it was attached last."""
    broker: str
    """Where that was."""
    durable: dict[str, Positions] = {}
    """For each durable subscription, how far the application has handled each origin."""
    version: int = VERSION

    def plain(self) -> dict[str, Any]:
        """The same as JSON has it."""
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return plain


def further(one: Positions, other: Positions) -> Positions:
    """For each origin the further of two positions."""
    return {origin: max(one.get(origin, NOWHERE), other.get(origin, NOWHERE)) for origin in {**one, **other}}


def check_state(state: object) -> None:
    """Raise `ArgumentRefused` if this is no place for a state, and no state."""
    if isinstance(state, Mapping):
        _carried(lambda: msgspec.convert(dict(state), Carried), GIVEN)
    elif not isinstance(state, str | os.PathLike) or not os.fspath(state):
        raise ArgumentRefused(f"state={shown(state)}; give the path of a file, or what `client.snapshot()` returned")


class Keeping:
    """Where the state of a client comes from, and where it goes."""

    def __init__(self, state: AnyState) -> None:
        self._given = dict(state) if isinstance(state, Mapping) else None
        self._path = None if isinstance(state, Mapping) else Path(os.fspath(state)).expanduser()
        self._lock: sqlite3.Connection | None = None
        self._written: Carried | None = None

    @property
    def is_file(self) -> bool:
        """Whether it is written to a file."""
        return self._path is not None

    def open(self, name: str) -> Carried | None:
        """Lock the file, and read what the last process left behind; None: there is nothing yet."""
        if self._path is None:
            given = _carried(lambda: msgspec.convert(self._given, Carried), GIVEN)
            _check_name(given, name, GIVEN)
            return given
        self._lock = _locked(self._path)
        try:
            carried = _read(self._path)
            if carried is not None:
                _check_name(carried, name, f"the state file {self._path}")
        except BaseException:
            self.close()
            raise
        self._written = carried
        return carried

    def write(self, carried: Carried) -> None:
        """Replace the file, if there is anything new; `OSError` if that cannot be done."""
        if self._path is None or self._lock is None or carried == self._written:
            return
        beside = self._path.with_name(f".{self._path.name}.new")
        beside.unlink(missing_ok=True)  # of a process that died, or a link that somebody has put there
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(carried), indent=1))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
        self._written = carried

    def close(self) -> None:
        """Let others have the file."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _check_name(carried: Carried, name: str, where: str) -> None:
    if name and carried.name != name:
        raise ArgumentRefused(
            f"{where} is the state of client '{carried.name}', not of '{name}'; each client has a state of its own"
        )


def _read(path: Path) -> Carried | None:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ArgumentRefused(f"the state file {path} has more than {MAX_BYTES:,} bytes; it is none of a client")
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ArgumentRefused(f"cannot read the state file {path}: {error.strerror}; name another one") from None
    return _carried(lambda: msgspec.json.decode(data, type=Carried), f"the state file {path}")


def _carried(read: Any, where: str) -> Carried:
    try:
        carried = read()
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ArgumentRefused(
            f"{where} is damaged, or no state of a client: {error}; without it the client continues from what its "
            "broker keeps"
        ) from None
    assert isinstance(carried, Carried)
    if carried.version != VERSION:
        raise ArgumentRefused(f"{where} has version {carried.version}, not {VERSION}; use the Tidings that wrote it")
    if not carried.name or carried.attached < 0:
        raise ArgumentRefused(f"{where} names no client, or an epoch below 0; it was changed by hand")
    return carried


def _locked(path: Path) -> sqlite3.Connection:
    """Take the file for this process alone. The lock is SQLite's: it works everywhere, and ends with the process."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        os.close(os.open(lock, os.O_WRONLY | os.O_CREAT, 0o600))
        connection = sqlite3.connect(lock, isolation_level=None, timeout=0)
    except (OSError, sqlite3.Error) as error:
        raise ArgumentRefused(
            f"cannot use the state file {path}: {error}; choose a directory that can be written"
        ) from None
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error:
        with contextlib.suppress(sqlite3.Error):
            connection.close()
        raise ArgumentRefused(
            f"the state file {path} is in use by another client; end that one, or give this one a file of its own"
        ) from None
    return connection
