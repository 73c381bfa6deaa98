"""`tidings aggregate history` and `backtest`: what an aggregate says about the past, from an archive, by Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tidings import aggregation
from tidings.aggregation.definitions import SECRET_BYTES

from ._connection import AsJson
from ._errors import ExitCode, UsageError, complain
from ._option_values import whole
from ._past import Master, Since, Until, instant_of
from ._printable import printable, printable_json

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHOWN = 1_000
"""The most windows that are shown unless more are asked for."""

Definition = Annotated[
    str, typer.Argument(metavar="FILE|QUESTION", help='A Python file, or a question like "count() WINDOW 60s".')
]
Newer = Annotated[str, typer.Argument(metavar="NEW", help="The definition that would replace it.")]
Directory = Annotated[Path, typer.Option("--archive", metavar="DIR", help="The directory of the archive.")]
SecretFile = Annotated[
    Path | None,
    typer.Option(
        "--pseudonyms",
        metavar="FILE",
        help="The file pseudonyms.key of a broker, for questions that tell clients apart: with it, they are the same "
        "as live.",
    ),
]
Most = Annotated[
    int, typer.Option("--limit", parser=whole("--limit", 1), metavar="N", help="Show at most this many windows.")
]


def history(
    definition: Definition,
    archive: Directory,
    since: Since = None,
    until: Until = None,
    limit: Most = SHOWN,
    pseudonyms: SecretFile = None,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Compute an aggregate over an archive, window by window, with the definition that brokers run."""
    secret = _secret(pseudonyms)
    spark, job = _session(master)
    found = job.historic(spark, _definition(definition), archive, secret=secret, **_times(since, until))
    rows = found.orderBy("ends_at", "key").select("key", "ends_at", "value", "error", "complete").limit(limit).collect()
    _show([row.asDict() for row in rows], ("ends_at", "key", "value", "error", "complete"), as_json=as_json)


def backtest(
    old: Definition,
    new: Newer,
    archive: Directory,
    since: Since = None,
    until: Until = None,
    limit: Most = SHOWN,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Compare two definitions over an archive. Code 1 says that they differ somewhere."""
    spark, job = _session(master)
    found = job.backtest(spark, _definition(old), _definition(new), archive, **_times(since, until)).limit(limit)
    rows = [row.asDict() for row in found.collect()]
    _show(rows, ("ends_at", "key", "old", "new"), as_json=as_json)
    different = sum(not row["same"] for row in rows)
    if different:
        complain(f"{different} of {len(rows)} windows differ")
        raise typer.Exit(ExitCode.FAILED)


def _session(master: str | None) -> tuple[Any, Any]:
    try:
        from tidings import spark  # noqa: PLC0415 - an extra, and slow to load
    except ModuleNotFoundError as error:
        raise UsageError(
            f"history requires {error.name}; in a clone of Tidings, run: pip install '.[archive]'"
        ) from None
    return spark.session(master, name="tidings aggregate"), spark


def _definition(text: str) -> Any:
    """A question, or the source of a file with its class."""
    if aggregation.is_question(text):
        return text
    from tidings.aggregation.workers import Code, entry_of  # noqa: PLC0415

    try:
        source = Path(text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"{text} is neither a question nor a file that can be read: {reason}") from None
    return Code(source, entry_of(source, text))


def _secret(file: Path | None) -> bytes:
    if file is None:
        return b""
    try:
        secret = bytes.fromhex(file.read_text(encoding="ascii").strip())
        if len(secret) != SECRET_BYTES:
            raise ValueError(f"it has {len(secret)} bytes, and a key has {SECRET_BYTES}")
        return secret
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            f"--pseudonyms {file} cannot be read: {reason}; give pseudonyms.key of the data directory of a broker"
        ) from None


def _times(since: str | None, until: str | None) -> dict[str, datetime | None]:
    now = datetime.now(UTC)
    found = {"since": instant_of("--since", since, now), "until": instant_of("--until", until, now)}
    return {name: None if at is None else _EPOCH + timedelta(microseconds=at) for name, at in found.items()}


def _show(rows: list[dict[str, Any]], columns: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        for row in rows:
            plain = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}
            print(printable_json(json.dumps(plain, ensure_ascii=False)))
        return
    table = Table(*columns, box=None)
    for row in rows:
        table.add_row(*(printable("-" if row[name] is None else str(row[name])) for name in columns))
    Console(highlight=False, soft_wrap=True).print(table)
