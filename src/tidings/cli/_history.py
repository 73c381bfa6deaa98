"""`tidings history`: what a store or an archive on this machine holds."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from tidings.store import Extent
from tidings.wire import Envelope

from ._connection import AsJson
from ._errors import complain
from ._help import Commands
from ._json_lines import as_line
from ._nothing import nothing_held
from ._past import Archive, Data, Limit, NewestFirst, Since, Until, Wanted, archives, asked, opened, place
from ._readable_lines import Lines
from ._terminal import terminal
from ._times import as_instant, as_iso

history = Commands(help="Query a store or an archive on this machine.")


@history.command()
def query(
    filter: Wanted = "",
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    newest_first: NewestFirst = False,
    data: Data = None,
    archive: Archive = None,
    as_json: AsJson = False,
) -> None:
    """Find publications by content and time, oldest first. The broker may be running."""
    wanted, times = asked(filter, since, until)
    with opened(data, archive) as (_, reader):
        steps = reader.query_in_steps(wanted, **times, limit=limit, newest_first=newest_first)
        if not _show(steps, as_json):
            complain(nothing_held(reader, filter, **times))
        _complain_of_damage(reader)


def query_archive(
    directory: Path,
    filter: str,
    since: str | None,
    until: str | None,
    limit: int | None,
    newest_first: bool,
    as_json: bool,
    master: str | None,
) -> None:
    """Show what an archive holds of what is asked for; with a master, Spark looks for it."""
    wanted, times = asked(filter, since, until)
    reader = archives().ArchiveReader(directory)
    if master is not None:
        from tidings import spark  # noqa: PLC0415 - an extra, and slow to load

        answer = spark.query_archive(directory, wanted, **times, limit=limit, newest_first=newest_first, master=master)
        found = _show(([envelope] for envelope in answer), as_json)
    else:
        found = _show(reader.query_in_steps(wanted, **times, limit=limit, newest_first=newest_first), as_json)
    if not found:
        complain(nothing_held(reader, filter, **times))
    _complain_of_damage(reader)


@history.command()
def stats(data: Data = None, archive: Archive = None, as_json: AsJson = False) -> None:
    """Show how much is stored, from which time, in which files."""
    places = [(data, None), (None, archive)] if data is not None and archive is not None else [(data, archive)]
    found: list[tuple[str, str, Extent]] = []
    for one, other in places:
        with opened(one, other) as (tier, reader), _working("looking"):
            found.append((tier, str(place(one, other)), reader.extent()))
            _complain_of_damage(reader)
    if as_json:
        print(json.dumps([{"tier": tier, "place": place, **_told(extent)} for tier, place, extent in found]))
        return
    table = Table("", *(tier for tier, _, _ in found), box=None)
    rows = [
        ("place", [place for _, place, _ in found]),
        ("publications", [f"{extent.count:,}" for _, _, extent in found]),
        ("from (UTC)", [as_instant(extent.earliest) for _, _, extent in found]),
        ("to (UTC)", [as_instant(extent.latest) for _, _, extent in found]),
        ("size", [size_of(extent.bytes) for _, _, extent in found]),
        ("each", [f"{extent.bytes / extent.count:.0f} B" if extent.count else "-" for _, _, extent in found]),
        ("pieces", [f"{extent.batches:,}" for _, _, extent in found]),
    ]
    for name, values in rows:
        table.add_row(name, *values)
    terminal().print(table)


# --- what is shown ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _working(what: str) -> Iterator[Any]:
    """A sign of life on a terminal, gone when the work is done."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)
        yield lambda text: progress.update(task, description=text)


def _show(steps: Iterator[list[Envelope]], in_json: bool) -> int:
    """Show what is found; how many there were."""
    lines, console = Lines(), terminal()
    count = looked = 0
    with _working("looking") as say:
        for step in steps:
            looked += 1
            for envelope in step:
                if in_json:
                    scope = envelope.routes[0].scope if envelope.routes else ""
                    print(as_line(envelope.notification, envelope.identity, scope=scope))
                else:
                    at = datetime.fromtimestamp(envelope.identity.published_at / 1e6, UTC)
                    console.print(lines.line(envelope.notification, at, dated=True))
            count += len(step)
            say(f"{count:,} found, {looked:,} pieces looked at")
    return count


def _told(extent: Extent) -> dict[str, Any]:
    told = msgspec.to_builtins(extent)
    return {**told, "earliest": as_iso(extent.earliest), "latest": as_iso(extent.latest)}


def size_of(count: int) -> str:
    """Bytes as people read them."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1_000:
            return f"{size:.3g} {unit}"
        size /= 1_000
    return f"{size:.3g} TB"


def _complain_of_damage(reader: Any) -> None:
    for damage in reader.damage:
        where = getattr(damage, "path", None) or f"numbers {damage.first} to {damage.last} of epoch {damage.epoch}"
        complain(f"warning: {where} cannot be read and was skipped: {damage.problem}")
