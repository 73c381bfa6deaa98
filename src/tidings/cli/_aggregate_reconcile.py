"""`tidings aggregate reconcile`: were the values that brokers told right?"""

from __future__ import annotations

import json
import sys
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from tidings import aggregation
from tidings.model import ROOT_SCOPE, BoundError, duration

from ._aggregate_history import (
    Counted,
    Definition,
    InScope,
    Journals,
    Published,
    SecretFile,
    definition_of,
    load_spark,
    secret_in,
    session,
    show_rows,
)
from ._connection import AsJson
from ._errors import ExitCode, UsageError, complain
from ._past import Master

ValuesFile = Annotated[
    str,
    typer.Argument(
        metavar="VALUES",
        help="What `tidings aggregate watch --json` has printed: a file, or - for standard input.",
    ),
]
Within = Annotated[
    str, typer.Option(metavar="DURATION", help="Of counts: how long before it was told a value may have been right.")
]


def reconcile(
    definition: Definition,
    values: ValuesFile,
    archive: Published = None,
    data: Journals = None,
    filter: Counted = "",
    scope: InScope = ROOT_SCOPE,
    within: Within = "5s",
    pseudonyms: SecretFile = None,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Compare values that brokers have told with what is on disk. Code 1 says that one differs, or that none could be
    compared."""
    job = load_spark()
    told = _read(values, job)
    if data:
        if aggregation.is_question(definition):
            raise UsageError("what a question measured is in an archive, which --archive names; --data is for counts")
        found = job.reconcile_counts(data, definition, told, filter, scope=scope, within=_within(within))
    else:
        if archive is None:
            raise UsageError("what was published is in an archive, which --archive names; who subscribed, in --data")
        secret = secret_in(pseudonyms)
        chosen = definition_of(definition)
        found = job.reconcile(session(master)[0], chosen, archive, told, secret=secret) if told else []
    _report(found, as_json=as_json)


def _read(values: str, job: Any) -> list[Any]:
    try:
        lines = sys.stdin.readlines() if values == "-" else Path(values).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(
            f"{values} cannot be read: {reason}; name a file with what `tidings aggregate watch --json` has printed"
        ) from None
    return list(job.told_in(lines))


def _within(text: str) -> timedelta:
    try:
        return timedelta(microseconds=duration(text))
    except BoundError as error:
        raise UsageError(f"--within {error}") from None


def _report(found: list[Any], *, as_json: bool) -> None:
    counts = Counter(str(one.agreement) for one in found)
    if as_json:
        rows = [{**one._asdict(), "told": _plain(one.told), "found": _plain(one.found)} for one in found]
        show_rows(rows, (), as_json=True)
    else:
        rows = [
            {
                "at": one.at,
                "told": _text(one.told),
                "found": _text(one.found),
                "reason": one.reason or str(one.agreement),
            }
            for one in found
            if one.agreement not in ("same", "skipped")
        ]
        if rows:
            show_rows(rows, ("at", "told", "found", "reason"), as_json=False)
        print(f"{counts['same']} of {len(found)} values are what is on disk", end="")
        others = [f"{counts[kind]} {kind}" for kind in ("differs", "missing", "skipped") if counts[kind]]
        print("".join(f", {one}" for one in others))
    if counts["differs"]:
        complain(f"{counts['differs']} values differ")
        raise typer.Exit(ExitCode.FAILED)
    if not counts["same"]:
        complain("no value could be compared")
        raise typer.Exit(ExitCode.FAILED)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return [{"group": list(group), "value": one} for group, one in value.items()]
    return value.isoformat() if isinstance(value, datetime) else value


def _text(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)
