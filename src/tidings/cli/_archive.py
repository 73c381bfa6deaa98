"""`tidings archive`: look after an archive on this machine, and ask it."""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from ._connection import AsJson
from ._errors import ExitCode, UsageError, complain
from ._help import Commands
from ._history import query_archive, size_of
from ._past import Limit, Master, NewestFirst, Since, Until, Wanted, archives, instant_of
from ._terminal import terminal
from ._times import as_iso, duration

archive = Commands(help="Maintain and query an archive on this machine.")

Directory = Annotated[Path, typer.Argument(metavar="ARCHIVE", help="The directory of the archive.")]
HoursSince = Annotated[str | None, typer.Option(metavar="WHEN", help="Only hours that began at this time or later.")]
HoursUntil = Annotated[
    str | None,
    typer.Option(metavar="WHEN", help="Only hours that ended by this time.", show_default="before the current hour"),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, without doing it.")]


@archive.command()
def compact(
    directory: Directory,
    since: HoursSince = None,
    until: HoursUntil = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Merge small files. Brokers and readers may keep running; an interrupted run continues the next time."""
    job = archives().compact
    with progress_bar("merging", as_json) as progress:
        done = job(directory, **_range(since, until), dry_run=dry_run, progress=progress)
    later = 0 if done.before or until is not None or as_json else job(directory, dry_run=True).before
    _tell("merged", done, dry_run, as_json, nothing=f": {_later(later)}." if later else ".")


@archive.command()
def sort(
    directory: Directory,
    by: Annotated[
        list[str],
        typer.Option(metavar="NAME", help="An attribute, as name or name:kind; several in the order of sorting."),
    ],
    since: HoursSince = None,
    until: HoursUntil = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Promote other attributes to columns and sort by them, so that queries for them read less."""
    module = archives()
    promoted = [module.Promoted.parse(text) for name in by for text in name.split(",")]
    with progress_bar("sorting", as_json) as progress:
        done = module.sort(directory, promoted, **_range(since, until), dry_run=dry_run, progress=progress)
    _tell("sorted", done, dry_run, as_json)


@archive.command()
def retain(
    directory: Directory,
    keep: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long to keep publications, like 30d or 52w.")
    ],
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove older publications, hour by hour. This cannot be undone."""
    job = archives().retain
    try:
        before = time.time_ns() // 1_000 - int(duration(keep) * 1e6)
    except ValueError as error:
        raise UsageError(f"--for: {error}") from None
    plan = job(directory, before, dry_run=True)
    if dry_run or not plan.before:
        _tell("removed", plan, dry_run, as_json)
        return
    if not yes:
        what = f"{plan.before:,} files with {plan.rows:,} publications from before {as_iso(before)}"
        typer.confirm(f"Remove {what} for good?", abort=True, err=True)
    with progress_bar("removing", as_json) as progress:
        done = job(directory, before, progress=progress)
    _tell("removed", done, dry_run, as_json)


@archive.command()
def verify(directory: Directory, as_json: AsJson = False) -> None:
    """Check every file completely: checksums, order, names, statistics. The exit code is 1 if anything is wrong."""
    with progress_bar("reading", as_json) as progress:
        found = archives().verify(directory, progress=progress)
    for problem in found.problems:
        complain(f"{problem.path}: {problem.problem}")
    for remark in found.remarks:
        complain(f"note: {remark}")
    if as_json:
        problems = [{"path": str(one.path), "problem": one.problem} for one in found.problems]
        print(json.dumps({**asdict(found), "problems": problems}))
    else:
        verdict = f"{len(found.problems):,} problems" if found.problems else "everything is in order"
        print(f"{found.files:,} files, {found.rows:,} publications, {size_of(found.bytes)}: {verdict}")
    if found.problems:
        raise typer.Exit(ExitCode.FAILED)


@archive.command()
def stats(directory: Directory, as_json: AsJson = False) -> None:
    """Show the size of the archive by day and origin, and what `compact` would merge."""
    module = archives()
    days: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    reader = module.ArchiveReader(directory)
    for file, header in module.headers(reader):
        day = days[file.path.parent.parent.name.removeprefix("date="), file.origin]
        for at, value in enumerate((1, header.rows, file.path.stat().st_size)):
            day[at] += value
    merging = module.compact(directory, **_range(None, None), dry_run=True)
    later = module.compact(directory, dry_run=True).before - merging.before
    for damage in reader.damage:
        complain(f"warning: {damage.path} cannot be read and was skipped: {damage.problem}")
    names = ("date", "origin", "files", "publications", "bytes")
    if as_json:
        rows = [dict(zip(names, (*key, *values), strict=True)) for key, values in sorted(days.items())]
        print(json.dumps({"days": rows, "mergeable": merging.before, "merged": merging.after}))
        return
    table = Table(box=None)
    for name in names:
        table.add_column(name, justify="left" if name in names[:2] else "right")
    for (date, origin), (files, count, size) in sorted(days.items()):
        table.add_row(date, origin, f"{files:,}", f"{count:,}", size_of(size))
    terminal().print(table)
    if merging.before:
        print(f"`tidings archive compact {directory}` would make {merging.after:,} files of {merging.before:,}.")
    if later > 0:
        print(f"{_later(later)}.")


@archive.command()
def query(
    directory: Directory,
    filter: Wanted = "",
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    newest_first: NewestFirst = False,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Find publications by content and time without a broker, oldest first."""
    query_archive(directory, filter, since, until, limit, newest_first, as_json, master)


# --- what the commands share --------------------------------------------------------------------------


def _range(since: str | None, until: str | None) -> dict[str, int | None]:
    now = datetime.now(UTC)
    this_hour = int(now.replace(minute=0, second=0, microsecond=0).timestamp()) * 1_000_000
    ends = instant_of("--until", until, now)
    return {"since": instant_of("--since", since, now), "until": this_hour if ends is None else ends}


@contextlib.contextmanager
def progress_bar(what: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, gone when the work is done."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _later(files: int) -> str:
    return f"{files:,} files of the current hour can be merged once it is over"


def _tell(verb: str, done: Any, dry_run: bool, as_json: bool, *, nothing: str = ".") -> None:
    for damage in done.damage:
        complain(f"{damage.path} was skipped: {damage.problem}; `tidings archive verify` says more")
    if as_json:
        told = {**asdict(done), "damage": [{"path": str(one.path), "problem": one.problem} for one in done.damage]}
        print(json.dumps({**told, "dry_run": dry_run}))
    elif not done.before:
        print(f"Nothing to do{nothing}")
    else:
        into = f" into {done.after:,}" if done.after else ""
        saved = f"; {size_of(done.bytes_before)} became {size_of(done.bytes_after)}" if done.bytes_after else ""
        verb = f"would be {verb}" if dry_run else verb
        print(f"{done.before:,} files with {done.rows:,} publications {verb}{into}{saved}.")
    if done.damage:
        raise typer.Exit(ExitCode.FAILED)
