"""`tidings scope keygen`: a secret by which gateways sign and check. And writing keys, which are never overwritten."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from tidings.scopes import secret_key

from ._errors import UsageError


def keygen(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the secret goes: a new file.")],
) -> None:
    """Make a secret for a `border_key` in FILE, readable by you alone. `tidings aggregate keygen` makes a pair."""
    write_key(file, secret_key(secrets.token_bytes(32)))


def write_key(path: Path, key: str) -> None:
    """Write a key to a new file that only its owner reads; `UsageError` if the file exists or cannot be written."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"{path} exists, and a key is never overwritten; name another file") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; name another file") from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{key}\n")
