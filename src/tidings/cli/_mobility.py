"""`tidings mobility`: clients that roam, seen at a broker and planned beforehand."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import tidings
from tidings.mobility import GraphFile, read_graph
from tidings.mobility.models.ctmc import Times, Weights
from tidings.mobility.models.forecasting import MATCHING_RATE, MESSAGE_BYTES, Forecast, forecast
from tidings.model import TidingsError
from tidings.wire import (
    MAX_STAYING,
    EvacuationStatus,
    MobilityStatus,
    PresenceStatus,
    encode_evacuation,
    encode_mobility,
)

from ._connection import AsJson, entering
from ._counted import counted
from ._errors import ExitCode, complain
from ._help import Commands
from ._history import size_of
from ._option_values import seconds, whole
from ._printable import printable, printable_json
from ._progress import Progress
from ._script_files import read_bytes
from ._terminal import terminal
from ._times import as_iso

mobility = Commands(help="Clients that roam: where they are, and what to expect of brokers.")

SHOWN = 20
"""Clients and moves that are shown."""
EVACUATION_LOOK = 0.25
"""Seconds between two looks at how far an evacuation is."""
MAX_FILE = 16_000_000
"""The most bytes of a graph that is planned with."""


@mobility.command()
@entering
def status(
    client: tidings.Client,
    name: Annotated[str, typer.Argument(metavar="CLIENT", help="Only this client.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show who is attached to a broker, its copies, and who came from where. Requires the right to administer.

    With a client, it also says to which other broker this one is attached, and which have copies of it.
    """

    async def ask() -> MobilityStatus:
        async with client:
            return await client.mobility(name)

    found = asyncio.run(ask())
    if as_json:
        print(printable_json(encode_mobility(found).decode()))
        return
    _show(found, name)


def _show(found: MobilityStatus, name: str) -> None:
    console = terminal()
    counters = found.counters
    outcomes = [counters.get(one, 0) for one in ("hits", "early", "misses")]
    rows = Table(box=None, show_header=False)
    rows.add_row("broker", f"{printable(found.broker)}, scheme {printable(found.scheme)}")
    rows.add_row("hand-offs", f"{counters.get('hand_offs', 0):,} to this broker")
    if any(outcomes):
        found_ready = f"{outcomes[0]:,} copies ready, {outcomes[1]:,} too early, {outcomes[2]:,} none"
        rows.add_row("found", f"{found_ready}; {outcomes[0] / sum(outcomes):.0%} hits")
    copies, listening, held = (counters.get(one, 0) for one in ("copies", "copies_listening", "buffered_bytes"))
    if copies or listening:
        rows.add_row("copies", f"{copies:,} of clients of other brokers; {listening:,} listen and hold {size_of(held)}")
    if warm := counters.get("copies_warm", 0):
        kept = size_of(counters.get("warm_bytes", 0))
        rows.add_row("warm copies", f"{warm:,} listen before their clients go, and hold {kept}")
    rows.add_row("graph", f"{len(found.edges):,} edges, F_neg {found.f_neg:.2f}, F_pos {found.f_pos:.2f}")
    console.print(rows)
    hosted = Table("client", "attached since", "came from", "", box=None)
    for one in found.hosted[:SHOWN]:
        state = "away" if one.away else "connected"
        hosted.add_row(printable(one.client), as_iso(one.since), printable(one.last) or "-", state)
    if found.hosted:
        console.print(hosted)
    elif name:
        console.print(f"{printable(name)} is not attached to {printable(found.broker)}")
    for presence in found.presences if name else ():
        if presence.broker != found.broker:
            console.print(_where(name, presence))
    table = Table("copy of", "state", "controlled by", "subscriptions", "buffered", box=None)
    for copy in found.copies[:SHOWN]:
        numbers = (f"{copy.subscriptions:,}", f"{copy.buffered:,}")
        table.add_row(printable(copy.client), printable(copy.state), printable(copy.controller) or "-", *numbers)
    if found.copies:
        console.print(table)
    moves = Table("moved", "from", "to", "at", "away", "found", "missed", "pause", box=None)
    for move in found.moves[-SHOWN:]:
        times = (f"{move.away / 1e6:.1f} s", move.outcome or "-", f"{move.missed:,}", f"{move.pause / 1e3:.1f} ms")
        moves.add_row(printable(move.client), printable(move.old), printable(move.new), as_iso(move.at), *times)
    if found.moves:
        console.print(moves)
    if name and found.missing:
        complain(f"warning: {', '.join(map(printable, found.missing))} did not answer, and may have {printable(name)}")
    more = max(0, len(found.hosted) - SHOWN) + found.left_out
    if more:
        complain(f"{more:,} more clients are not shown")


def _where(name: str, one: PresenceStatus) -> str:
    """What another broker is to a client."""
    broker, state = printable(one.broker), printable(one.state)
    if one.since:
        return f"{printable(name)} is attached to {broker} since {as_iso(one.since)}, {state}"
    return f"{broker} has a copy of {printable(name)}, {state}"


@mobility.command()
@entering
def evacuate(
    client: tidings.Client,
    name: Annotated[str, typer.Argument(metavar="BROKER", help="The name of the broker whose clients are to go.")],
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", parser=seconds("--wait"), help="How long to wait for them.")
    ] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Send the clients of a broker elsewhere before it stops. Requires the right to administer.

    Each client goes to another of the addresses that it was given itself. One that has no other, or is let in nowhere
    else, stays and is listed; then the exit code is 1.
    """
    found = asyncio.run(_evacuated(client, name, wait))
    if as_json:
        print(printable_json(encode_evacuation(found).decode()))
    else:
        _show_evacuation(found)
    if found.waiting:
        complain(f"{counted(found.waiting, 'client')} still on the way after {wait:g} seconds")
    if found.waiting or found.staying:
        raise typer.Exit(ExitCode.FAILED)


async def _evacuated(client: tidings.Client, broker: str, wait: float) -> EvacuationStatus:
    """Begin, and look until nobody is on the way any more, or for so long."""
    until = asyncio.get_running_loop().time() + wait
    async with client, Progress() as progress:
        found = await client.evacuate(broker)
        doing = ""
        while not found.done and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(EVACUATION_LOOK)
            found = await client.evacuate(broker, begin=False)
            if not found.began:
                raise TidingsError(f"broker '{broker}' has started anew, or forgotten its evacuation; ask again")
            now = f"{counted(found.waiting, 'client')} still to leave '{broker}', {_gone(found):,} have left"
            if now != doing:
                progress.now(doing := now)
    return found


def _gone(found: EvacuationStatus) -> int:
    return sum(found.gone.values()) + found.ended


def _show_evacuation(found: EvacuationStatus) -> None:
    where = [f"{count:,} to {printable(broker)}" for broker, count in sorted(found.gone.items())]
    where += [f"{found.ended:,} ended"] * bool(found.ended)
    have = "has" if _gone(found) == 1 else "have"
    print(
        f"{counted(_gone(found), 'client')} {have} left {printable(found.broker)}{': ' * bool(where)}{', '.join(where)}"
    )
    stay = len(found.staying) + found.left_out
    print(f"{stay:,} {'stays' if stay == 1 else 'stay'}{':' * bool(stay)}")
    table = Table(box=None, show_header=False, pad_edge=False)
    for one in found.staying[:SHOWN]:
        table.add_row(f"  {printable(one.client)}", printable(one.reason))
    if found.staying:
        terminal().print(table)
    if stay > SHOWN:
        complain(f"{stay - SHOWN:,} more clients are not shown; --json lists up to {MAX_STAYING:,}")


@mobility.command()
def plan(
    graph: Annotated[Path, typer.Argument(metavar="GRAPH", help="A neighbour graph as JSON; - reads standard input.")],
    clients: Annotated[int, typer.Option(metavar="K", parser=whole("--clients", 1), help="How many clients roam.")],
    connected: Annotated[
        float, typer.Option(metavar="SECONDS", parser=seconds("--connected"), help="How long a client stays.")
    ] = 60.0,
    disconnected: Annotated[
        float, typer.Option(metavar="SECONDS", parser=seconds("--disconnected"), help="How long one is disconnected.")
    ] = 12.0,
    handoff: Annotated[
        float, typer.Option(metavar="SECONDS", parser=seconds("--handoff"), help="How long one is under way.")
    ] = 3.0,
    rate: Annotated[
        float, typer.Option(metavar="N", parser=seconds("--rate"), help="Notifications a second that a client wants.")
    ] = MATCHING_RATE,
    size: Annotated[
        int, typer.Option(metavar="BYTES", parser=whole("--size", 1), help="The bytes of a notification.")
    ] = MESSAGE_BYTES,
    evenly: Annotated[bool, typer.Option("--evenly", help="Ignore the weights: clients choose evenly.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print what to expect of each broker: clients, copies, buffer and throughput. Asks no broker."""
    file = read_graph(read_bytes(graph, MAX_FILE), str(graph))
    times = Times(connected, disconnected, handoff)
    found = forecast(_weights(file, evenly), clients, times, rate=rate, message_bytes=size)
    if as_json:
        print(printable_json(json.dumps(dataclasses.asdict(found))))
    else:
        _show_plan(found)
    if found.warning:
        complain(f"warning: {found.warning}")


def _weights(file: GraphFile, evenly: bool) -> Weights:
    weights: dict[str, dict[str, float]] = {}
    for edge in file.edges:
        weight = 1.0 if evenly else edge.weight
        weights.setdefault(edge.old, {})[edge.new] = weight
        if file.directed:
            weights.setdefault(edge.new, {})
        else:
            weights.setdefault(edge.new, {})[edge.old] = weight
    return weights


def _show_plan(found: Forecast) -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("broker", "clients", "copies", "active", "buffer", "messages/s"):
        table.add_column(title, justify="left" if title == "broker" else "right")
    for one in sorted(found.brokers, key=lambda one: one.broker):
        numbers = (f"{number:.1f}" for number in (one.clients, one.copies, one.active_copies))
        buffer = size_of(int(one.buffer_bytes))
        table.add_row(printable(one.broker), *numbers, buffer, f"{one.throughput:.1f}{'' if one.fitted else '?'}")
    total = (sum(one.clients for one in found.brokers), sum(one.copies for one in found.brokers))
    active = sum(one.active_copies for one in found.brokers)
    buffer = size_of(int(sum(one.buffer_bytes for one in found.brokers)))
    table.add_row("all", f"{total[0]:.1f}", f"{total[1]:.1f}", f"{active:.1f}", buffer, f"{found.throughput:.1f}")
    terminal().print(table)
    print(f"{found.handoffs:.2f} hand-offs a second")
