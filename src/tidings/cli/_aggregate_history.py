"""`tidings aggregate history` and `backtest`: what an aggregate says about the past.

What was published is in the archive, and Spark reads it. Who subscribed and advertised is in the journals of brokers,
which are small: they are read here.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tidings import aggregation
from tidings.aggregation.definitions import SECRET_BYTES
from tidings.model import ROOT_SCOPE

from ._connection import AsJson
from ._errors import ExitCode, UsageError, complain
from ._option_values import whole
from ._past import Master, Since, Until, instant_of
from ._printable import printable, printable_json
from ._terminal import terminal

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHOWN = 1_000
"""The most windows that are shown unless more are asked for."""

Definition = Annotated[
    str,
    typer.Argument(
        metavar="FILE|QUESTION|NAME",
        help='A Python file, a question like "count() WINDOW 60s", or a count like subscriber_count.',
    ),
]
Newer = Annotated[str, typer.Argument(metavar="NEW", help="The definition that would replace it.")]
Directory = Annotated[Path, typer.Option("--archive", metavar="DIR", help="The directory of the archive.")]
Published = Annotated[
    Path | None, typer.Option("--archive", metavar="DIR", help="The directory of the archive, for what was published.")
]
Journals = Annotated[
    list[Path] | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="The data directory of a broker, once for each of them, for who subscribed and advertised.",
    ),
]
Counted = Annotated[str, typer.Option("--filter", metavar="FILTER", help="What a count is about.")]
InScope = Annotated[str, typer.Option("--scope", metavar="SCOPE", help="The scope whose members count.")]
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
    archive: Published = None,
    data: Journals = None,
    filter: Counted = "",
    scope: InScope = ROOT_SCOPE,
    since: Since = None,
    until: Until = None,
    limit: Most = SHOWN,
    pseudonyms: SecretFile = None,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Compute an aggregate over the past with the definition that brokers run: over an archive, window by window; or
    over the journals of brokers, for counts and for questions about subscriptions."""
    secret = secret_in(pseudonyms)
    if data:
        _from_journals(
            definition, data, filter=filter, scope=scope, times=times_of(since, until), limit=limit, as_json=as_json
        )
        return
    if archive is None:
        raise UsageError("what was published is in an archive, which --archive names; who subscribed, in --data")
    spark, job = session(master)
    found = job.historic(spark, definition_of(definition), archive, secret=secret, **times_of(since, until))
    rows = found.orderBy("ends_at", "key").select("key", "ends_at", "value", "error", "complete").limit(limit).collect()
    show_rows([row.asDict() for row in rows], ("ends_at", "key", "value", "error", "complete"), as_json=as_json)


def _from_journals(
    definition: str,
    data: list[Path],
    *,
    filter: str,
    scope: str,
    times: dict[str, datetime | None],
    limit: int,
    as_json: bool,
) -> None:
    job = load_spark()
    if aggregation.is_question(definition):
        if filter:
            raise UsageError("a question has its own filter; write it as WHERE at its end, without --filter")
        found = job.windows(data, definition, scope=scope, **times)
        rows = [{"ends_at": one.ends_at, "value": one.value, "complete": one.complete} for one in found]
        show_rows(rows[:limit], ("ends_at", "value", "complete"), as_json=as_json)
        return
    steps = job.series(data, definition, filter, scope=scope, **times)
    show_rows([step._asdict() for step in steps[:limit]], ("at", "value", "complete"), as_json=as_json)


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
    both = definition_of(old), definition_of(new)
    different, windows = compared(*both, archive, times_of(since, until), limit=limit, master=master, as_json=as_json)
    if different:
        complain(f"{different} of {windows} windows differ")
        raise typer.Exit(ExitCode.FAILED)


def compared(
    old: Any,
    new: Any,
    archive: Path,
    times: dict[str, datetime | None],
    *,
    limit: int = SHOWN,
    master: str | None = None,
    as_json: bool = False,
    differing: bool = False,
) -> tuple[int, int]:
    """Show windows of two definitions over an archive, all or the `differing` ones; return how many differ, and how
    many there are."""
    spark, job = session(master)
    found = job.backtest(spark, old, new, archive, **times).cache()
    try:
        shown = found.where("NOT same") if differing else found
        show_rows(
            [row.asDict() for row in shown.limit(limit).collect()], ("ends_at", "key", "old", "new"), as_json=as_json
        )
        (counts,) = found.selectExpr("count_if(NOT same) AS different", "count(*) AS windows").collect()
        return counts.different, counts.windows
    finally:
        found.unpersist()


def session(master: str | None) -> tuple[Any, Any]:
    spark = load_spark()
    return spark.session(master, name="tidings aggregate"), spark


def load_spark() -> Any:
    try:
        from tidings import spark  # noqa: PLC0415 - an extra, and slow to load
    except ModuleNotFoundError as error:
        raise UsageError(
            f"history requires {error.name}; in a clone of Tidings, run: pip install '.[archive]'"
        ) from None
    return spark


def definition_of(text: str) -> Any:
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


def secret_in(file: Path | None) -> bytes:
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


def times_of(since: str | None, until: str | None) -> dict[str, datetime | None]:
    now = datetime.now(UTC)
    found = {"since": instant_of("--since", since, now), "until": instant_of("--until", until, now)}
    return {name: None if at is None else _EPOCH + timedelta(microseconds=at) for name, at in found.items()}


def show_rows(rows: list[dict[str, Any]], columns: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        for row in rows:
            plain = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}
            print(printable_json(json.dumps(plain, ensure_ascii=False)))
        return
    table = Table(*columns, box=None)
    for row in rows:
        table.add_row(*(printable("-" if row[name] is None else str(row[name])) for name in columns))
    terminal().print(table)
