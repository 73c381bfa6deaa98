"""The file in which a broker leaves the secret of pseudonyms, for whoever computes over its archive."""

from __future__ import annotations

import logging
import os
import secrets
from pathlib import Path

from tidings.aggregation.definitions import SECRET_BYTES

log = logging.getLogger("tidings.net")

PSEUDONYM_KEY = "pseudonyms.key"
"""The name of the file in the data directory."""


def drawn_secret() -> bytes:
    """A secret that nobody can guess."""
    return secrets.token_bytes(SECRET_BYTES)


class PseudonymFile:
    """Writes the secret, so that only the owner of the data directory reads it."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / PSEUDONYM_KEY

    def __call__(self, secret: bytes) -> None:
        """Write it, in the place of what was there."""
        aside = self._file.with_suffix(".new")
        try:
            aside.unlink(missing_ok=True)  # what is left of an earlier one may be readable by others
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(secret.hex() + "\n")
            aside.replace(self._file)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._file, error)
