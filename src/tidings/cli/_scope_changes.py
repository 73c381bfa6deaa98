"""The options that all commands share which change the scope graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidings.scopes import Mode

from ._errors import UsageError
from ._option_values import one_of, seconds, words_of

Credentials = Annotated[Path | None, typer.Option(metavar="FILE", help="Secrets to present, one per line.")]
How = Annotated[
    Mode,
    typer.Option(
        "--mode",
        parser=one_of("--mode", Mode),
        metavar=words_of(Mode),
        help="When the change applies to notifications that are on their way.",
    ),
]
Seconds = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", parser=seconds("--timeout", 0.1), help="How long to wait.")
]


def secrets(file: Path | None) -> tuple[str, ...]:
    """Secrets come from files: arguments can be seen by other users of the machine."""
    if file is None:
        return ()
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"'{file}' cannot be read: {error}; name a text file with one secret per line") from None
    return tuple(line.strip() for line in lines if line.strip())
