"""`tidings neighbours`: the graph of where clients move, to be seen, carried elsewhere and mended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

import tidings
from tidings.mobility import Edge, GraphFile, as_dot, as_json, graph_file
from tidings.model import TidingsError
from tidings.wire import EdgeStatus, MobilityStatus

from ._connection import AsJson, entering
from ._counted import counted
from ._errors import UsageError, complain
from ._help import Commands
from ._mine import mine
from ._printable import printable
from ._script_files import read_bytes, write_text
from ._terminal import terminal

neighbours = Commands(help="The graph of where clients move: between which brokers, and how often.")
neighbours.command("mine")(mine)

AsDot = Annotated[bool, typer.Option("--dot", help="Print a graph for Graphviz.")]
MAX_FILE = 1_000_000
"""The most bytes of a file that is imported."""


@neighbours.command()
@entering
def show(client: tidings.Client, dot: AsDot = False, as_json_too: AsJson = False) -> None:
    """Show the neighbour graph of the network, as its brokers have learned it. Requires the right to administer."""
    found = _asked(client, lambda connected: connected.mobility())
    if dot or as_json_too:
        print(as_dot(file_of(found)) if dot else as_json(file_of(found)), end="")
        return
    console = terminal()
    if not found.edges:
        console.print("no client has moved yet, as far as brokers know")
        return
    console.print(_table(found))


def _table(found: MobilityStatus) -> Table:
    table = Table("from", "to", "weight", "last used", "", box=None)
    arrow = "" if found.directed else "and back"
    now = datetime.now(UTC)
    for edge in sorted(found.edges, key=lambda edge: (-edge.weight, edge.old, edge.new)):
        ago = "-" if edge.pinned else f"{_ago(edge, now)} ago"
        notes = ", ".join(note for note in (arrow, "pinned" if edge.pinned else "") if note)
        table.add_row(printable(edge.old), printable(edge.new), f"{edge.weight:.3g}", ago, notes)
    return table


def _ago(edge: EdgeStatus, now: datetime) -> str:
    passed = now - datetime.fromtimestamp(edge.last_used / 1_000_000, UTC)
    return str(timedelta(seconds=max(int(passed.total_seconds()), 0)))


@neighbours.command()
@entering
def export(
    client: tidings.Client,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write to this file.", show_default="standard output")
    ] = None,
    dot: AsDot = False,
    as_json_too: Annotated[bool, typer.Option("--json", help="Write JSON, as without --dot.")] = False,
) -> None:
    """Write the neighbour graph as JSON, which `import`, `graph_file` and `tidings mobility plan` read."""
    if dot and as_json_too:
        raise UsageError("--dot and --json exclude each other; give one of them")
    found = file_of(_asked(client, lambda connected: connected.mobility()))
    text = as_dot(found) if dot else as_json(found)
    if out is None:
        print(text, end="")
    else:
        write_text(out, text)


@neighbours.command("import")
@entering
def import_graph(
    client: tidings.Client,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A neighbour graph as JSON; - reads standard input.")],
    as_json_too: AsJson = False,
) -> None:
    """Let all brokers have this graph in the place of what they have learned. They go on learning."""
    text = read_bytes(file, MAX_FILE)
    if len(text) > MAX_FILE:
        raise TidingsError(f"'{file}' is larger than {MAX_FILE:,} bytes; remove the edges of least weight")
    found = _asked(client, lambda connected: connected.import_neighbours(text, str(file)))
    print(as_json(file_of(found)) if as_json_too else counted(len(found.edges), "edge"))


@neighbours.command()
@entering
def forget(
    client: tidings.Client,
    name: Annotated[str, typer.Argument(metavar="BROKER", help="All edges of this broker,")],
    other: Annotated[str, typer.Argument(metavar="OTHER", help="or only the one between the two.")] = "",
    as_json_too: AsJson = False,
) -> None:
    """Let all brokers forget edges. They are learned again if they are used; pinned ones stay."""

    async def ask(connected: tidings.Client) -> MobilityStatus:
        before = await connected.mobility()
        if not any(name in (edge.old, edge.new) and other in (edge.old, edge.new, "") for edge in before.edges):
            what = f"between '{name}' and '{other}'" if other else f"of broker '{name}'"
            raise TidingsError(f"there is no edge {what}; `tidings neighbours show` lists those there are")
        after = await connected.forget_neighbours(name, other)
        forgotten = len(before.edges) - len(after.edges)
        print(as_json(file_of(after)) if as_json_too else f"{counted(forgotten, 'edge')} forgotten")
        return after

    _asked(client, ask)


def _asked(client: tidings.Client, ask: Callable[[Any], Coroutine[Any, Any, MobilityStatus]]) -> MobilityStatus:
    async def run() -> MobilityStatus:
        async with client:
            return await ask(client)

    found = asyncio.run(run())
    if found.missing:
        complain(f"warning: {', '.join(map(printable, found.missing))} did not answer, and may know more edges")
    return found


def file_of(found: MobilityStatus) -> GraphFile:
    """The graph that a broker tells of, as a file."""
    edges = (
        Edge(edge.old, edge.new, edge.weight, edge.created_at, edge.last_used, edge.pinned, edge.dwell)
        for edge in found.edges
    )
    return graph_file(edges, directed=found.directed)
