"""How the commands ask what was published: the options they share, what they mean, and where to look."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from tidings.model import EVERYTHING, Filter
from tidings.store import StoreReader

from ._errors import UsageError
from ._option_values import whole
from ._paths import default_data
from ._times import instant

Wanted = Annotated[str, typer.Argument(metavar="FILTER", help="What to find, like \"type = 'quote' AND price > 100\".")]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="WHEN", help="Published at this time or later: 2026-11-16T03:00Z, or 5m for five minutes ago."
    ),
]
Until = Annotated[str | None, typer.Option(metavar="WHEN", help="Published before this time.")]
Limit = Annotated[int | None, typer.Option(parser=whole("--limit", 0), metavar="N", help="At most this many.")]
NewestFirst = Annotated[bool, typer.Option("--newest-first", help="Newest first; with --limit, only the newest.")]
Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="The data directory of a broker.", show_default="that of tidings serve"),
]
Archive = Annotated[Path | None, typer.Option("--archive", metavar="DIR", help="The directory of an archive.")]
Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Run on Spark: local[*], spark://host:7077, yarn, k8s://..., sc://host."),
]


def asked(filter: str, since: str | None, until: str | None) -> tuple[Filter, dict[str, int | None]]:
    """The filter and the range of time that a command names."""
    wanted = Filter.parse(filter) if filter else EVERYTHING
    now = datetime.now(UTC)
    times = {"since": instant_of("--since", since, now), "until": instant_of("--until", until, now)}
    if times["since"] is not None and times["until"] is not None and times["since"] >= times["until"]:
        raise UsageError("--since is not before --until, so nothing can be found; swap them")
    return wanted, times


def instant_of(option: str, text: str | None, now: datetime) -> int | None:
    """What an option says, in microseconds."""
    try:
        return None if text is None else instant(text, now)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


@contextlib.contextmanager
def opened(data: Path | None, archive: Path | None) -> Iterator[tuple[str, Any]]:
    """The tier and its reader."""
    if data is not None and archive is not None:
        raise UsageError("--data and --archive exclude each other; choose one")
    if archive is not None:
        yield "archive", archives().ArchiveReader(archive)
        return
    with StoreReader(place(data, None)) as reader:
        yield "store", reader


def place(data: Path | None, archive: Path | None) -> Path:
    """Where that is."""
    return archive or data or default_data("broker")


def archives() -> Any:
    """The package `tidings.store.archive`, if what it needs is there."""
    try:
        from tidings.store import archive  # noqa: PLC0415 - an extra, and slow to load
    except ModuleNotFoundError as error:
        raise UsageError(f"archives require {error.name}; install it with: pip install 'tidings[archive]'") from None
    return archive
