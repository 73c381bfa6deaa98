"""`tidings neighbours mine`: the neighbour graph from the hand-offs of days and weeks, by Spark."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tidings.mobility import as_json as graph_as_json

from ._connection import AsJson
from ._errors import UsageError
from ._option_values import whole
from ._past import Master
from ._script_files import write_text
from ._terminal import terminal
from ._times import duration


def mine(
    archive: Annotated[
        Path, typer.Option(metavar="DIR", help="The archive that hand-offs are kept in, with those of earlier runs.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Write the graph to this file, as JSON.")],
    data: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="The data directory of a broker, whose hand-offs are added. Repeat it."),
    ] = None,
    master: Master = None,
    undirected: Annotated[
        bool, typer.Option("--undirected", help="Add both directions up, as brokers do unless `directed` is set.")
    ] = False,
    half_life: Annotated[str, typer.Option(metavar="DURATION", help="After this time, a move counts half.")] = "14d",
    held_out: Annotated[
        str, typer.Option(metavar="DURATION", help="Judge by the moves of this last part of the time.")
    ] = "1d",
    max_degree: Annotated[
        int, typer.Option(metavar="N", parser=whole("--max-degree", 1), help="The most neighbours of a broker.")
    ] = 8,
    as_json: AsJson = False,
) -> None:
    """Mine the neighbour graph, and print how often copies at the best neighbours would have been hits.

    Brokers load the graph with `tidings neighbours import`, or as `graph_file` in their configuration.
    """
    found = _spark().mine(
        archive,
        data=data or (),
        master=master,
        directed=not undirected,
        half_life=_time("--half-life", half_life),
        held_out=_time("--held-out", held_out),
        max_degree=max_degree,
    )
    write_text(out, graph_as_json(found.graph))
    if as_json:
        judged = [one._asdict() for one in found.judged]
        counted = {"moves": found.moves, "clients": found.clients, "held_out": found.held_out}
        times = {"since": found.since.isoformat(), "until": found.until.isoformat()}
        print(json.dumps({**counted, **times, "edges": len(found.graph.edges), "judged": judged}))
    else:
        _show(found, out)


def _spark() -> Any:
    try:
        from tidings import spark  # noqa: PLC0415 - an extra, and slow to load
    except ModuleNotFoundError as error:
        raise UsageError(f"mining requires {error.name}; in a clone of Tidings, run: pip install '.[spark]'") from None
    return spark


def _time(option: str, text: str) -> timedelta:
    try:
        return timedelta(seconds=duration(text))
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def _show(found: Any, out: Path) -> None:
    print(
        f"{out}: {len(found.graph.edges):,} edges from {found.moves:,} hand-offs of {found.clients:,} clients, "
        f"{found.since:%Y-%m-%d %H:%M} to {found.until:%Y-%m-%d %H:%M} UTC"
    )
    if not found.judged:
        print("too little to judge it by; hold out less with --held-out")
        return
    table = Table("neighbours", "copies per client", "hits", box=None)
    for one in found.judged:
        table.add_row(f"{one.neighbours}", f"{one.copies:.2f}", f"{one.hit_rate:.1%}")
    print(f"on the {found.held_out:,} hand-offs that were held out:")
    terminal().print(table)
