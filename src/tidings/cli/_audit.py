"""`tidings audit`: which notification should have reached which subscription, against what did."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from ._archive import progress_bar
from ._connection import AsJson
from ._errors import ExitCode, UsageError, complain
from ._option_values import whole
from ._past import Master, instant_of
from ._paths import default_data
from ._printable import printable
from ._terminal import terminal
from ._times import as_instant, as_iso, duration

SHOWN = 20
"""Findings that are shown unless more are asked for."""
_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


def audit(
    since: Annotated[
        str,
        typer.Option(
            "--from", metavar="WHEN", help="Published at this time or later: 2026-11-16T03:00Z, or 24h for a day ago."
        ),
    ],
    until: Annotated[
        str | None, typer.Option("--to", metavar="WHEN", help="Published before this time.", show_default="now")
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="The data directory of each broker.", show_default="that of tidings serve"),
    ] = None,
    archive: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The archive, for publications that the stores no longer hold.")
    ] = None,
    master: Master = None,
    work: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A directory for temporary files; on a cluster, one that every node can read."
        ),
    ] = None,
    clock_skew: Annotated[
        str, typer.Option(metavar="DURATION", help="How far the clocks of two brokers may differ.")
    ] = "1s",
    limit: Annotated[
        int, typer.Option(parser=whole("--limit", 0), metavar="N", help="Show at most this many findings.")
    ] = SHOWN,
    as_json: AsJson = False,
) -> None:
    """Find what was lost, doubled, out of order, or seen by a client that should not see it.

    The exit code is 1 if there is anything of the kind, or if nothing could be judged.
    """
    now = datetime.now(UTC)
    begin, end = instant_of("--from", since, now), instant_of("--to", until, now)
    assert begin is not None
    end = int(now.timestamp() * 1e6) if end is None else end
    if begin >= end:
        raise UsageError("--from is not before --to, so there is nothing to audit; swap them")
    try:
        skew = duration(clock_skew)
    except ValueError as error:
        raise UsageError(f"--clock-skew: {error}") from None
    job = _spark()
    with progress_bar("auditing", as_json or master is not None) as bar:
        report = job.audit(
            data or [default_data("broker")],
            since=begin,
            until=end,
            archive=archive,
            master=master,
            work=work,
            skew=skew,
            done=bar,
        )
    _show_json(report) if as_json else _show(report, limit)
    for broker in report.silent:
        complain(
            f"warning: broker '{broker}' did not record what it sent, so its clients are not judged; "
            "set deliveries = true in its [store]"
        )
    for broker, count in report.holes.items():
        complain(f"warning: the disk of broker '{broker}' refused {count:,} records; what they describe is not judged")
    for broker, count in report.damaged.items():
        complain(
            f"warning: {count:,} rows of the journal of broker '{broker}' are damaged; what they describe is not judged"
        )
    if report.why_nothing is not None and report.clean:
        complain(f"nothing was judged: {report.why_nothing}")
    if report.why_nothing is not None or not report.clean:
        raise typer.Exit(ExitCode.FAILED)


def _spark() -> Any:
    try:
        from tidings import spark  # noqa: PLC0415 - an extra, and slow to load
    except ModuleNotFoundError as error:
        raise UsageError(f"audits require {error.name}; in a clone of Tidings, run: pip install '.[archive]'") from None
    return spark


def _show_json(report: Any) -> None:
    verdict = report.verdict
    findings = [{**msgspec.to_builtins(one), "at": as_iso(one.at)} for one in report.findings]
    sums = {name: getattr(verdict, name) for name in ("publications", "owed", "sent", "told", "unjudged")}
    latency = {name: verdict.percentile(share) for name, share in _PERCENTILES.items()}
    told = {"subscriptions": report.subscriptions, **sums, "counts": report.counts, "latency": latency}
    unknown = {
        "why_nothing": report.why_nothing,
        "silent": report.silent,
        "holes": report.holes,
        "damaged": report.damaged,
    }
    print(json.dumps({**told, **unknown, "findings": findings}))


def _show(report: Any, limit: int) -> None:
    verdict, console = report.verdict, terminal()
    rows = Table(box=None, show_header=False)
    for name, count in (
        ("publications", verdict.publications),
        ("subscriptions", report.subscriptions),
        ("deliveries owed", verdict.owed),
        ("deliveries sent", verdict.sent),
        ("reported lost", verdict.told),
        *report.counts.items(),
    ):
        rows.add_row(name, f"{count:,}", style="bold red" if report.counts.get(name) else None)
    for name, share in _PERCENTILES.items():
        rows.add_row(f"latency {name}", _seconds(verdict.percentile(share)))
    console.print(rows)
    for finding in report.findings[:limit]:
        event = f"{finding.origin}/{finding.epoch}/{finding.seq}"
        whom = f"{finding.client}/{finding.subscription} at {finding.broker}"
        line = f"{as_instant(finding.at)}  {finding.kind.value}: {event} for {whom}: {finding.why}"
        console.print(printable(line))
    if (more := sum(report.counts.values()) - limit) > 0:
        console.print(f"... and {more:,} more")


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.3g} ms"
