"""`tidings status` and `tidings topology`: one look at a running broker and its network."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

import tidings
from tidings.wire import PeerStatus, Status, TreeStatus, encode_status

from ._connection import AsJson, entering
from ._counted import counted
from ._printable import printable, printable_json


@entering
def status(
    client: tidings.Client,
    filters: Annotated[
        bool, typer.Option("--filters", help="Also show the filters that each neighbour was sent.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the state of one broker: links, tables, queues, store. Requires the right to administer."""
    found = asyncio.run(ask(client))
    if as_json:
        print(printable_json(encode_status(found).decode()))
        return
    console = Console(highlight=False)
    console.print(summary(found))
    console.print(peers_table(found))
    if filters:
        for peer in found.peers:
            if peer.kind == "broker":
                console.print(Text(f"{printable(peer.name)} was sent", style="bold"))
                console.print("\n".join(map(printable, peer.told)) or "nothing", markup=False)


@entering
def topology(client: tidings.Client, as_json: AsJson = False) -> None:
    """Show the tree of brokers as one of them sees it, and the links held in reserve."""
    found = asyncio.run(ask(client))
    if as_json:
        tree = found.tree
        words = {"broker": found.name, "brokers": sorted({found.name, *tree.hops}), "tree": tree.edges}
        print(json.dumps({**words, "spare": tree.spare, "tree_epoch": tree.epoch}))
        return
    console = Console(highlight=False)
    console.print(tree_of(found.name, found.tree))
    for one, two in found.tree.spare:
        console.print(f"in reserve: {printable(one)} - {printable(two)}", markup=False)
    for neighbour in found.dialled:
        if not neighbour.connected:
            console.print(
                f"not connected: {neighbour.url}: {neighbour.problem or 'not yet'}", style="red", markup=False
            )


async def ask(client: tidings.Client) -> Status:
    """Ask a broker once."""
    async with client:
        return await client.status()


def summary(status: Status) -> Group:
    """A few lines about the broker itself."""
    table = Table.grid(padding=(0, 2))
    rows: dict[str, str] = {
        "broker": f"{printable(status.name)} ({status.role}), version {status.version}, epoch {status.epoch}",
        "engine": printable(status.engine),
        "up for": str(timedelta(seconds=int(status.uptime))) + (", stopping" if status.draining else ""),
        "listens on": f"{status.host}:{status.port}",
        "links": f"{counted(status.clients, 'client')}, {counted(status.brokers, 'neighbour')}, "
        f"{counted(len(status.tree.hops) + 1, 'broker')} in all",
        "tables": f"{counted(status.subscriptions, 'subscription')}, {counted(status.advertisements, 'advertisement')}",
        "routing": f"{status.routing['algorithm']}, {_advertisements(status)}",
        "counted": f"{_published(status):,} published, {_delivered(status):,} delivered, "
        f"{status.counters.refused:,} refused, {counted(status.counters.gaps, 'gap')}",
        "plain path": _plain_path(status),
        "store": _store(status),
        "scopes": _scopes(status),
    }
    if not rows["plain path"]:
        del rows["plain path"]
    if not status.engine:
        del rows["engine"]  # of an older broker
    if status.suspended:
        rows["catching up"] = f"with {', '.join(map(printable, status.suspended))}"
    for dialled in status.dialled:
        if not dialled.connected:
            rows["cannot reach"] = f"{dialled.url}: {dialled.problem or 'not yet'}"
    for name, value in rows.items():
        table.add_row(Text(name, style="cyan"), Text(value))
    return Group(table)


def _plain_path(status: Status) -> str:
    """The share of notifications that took the plain path, and of those that the compiled engine took as bytes."""
    tables = status.scopes.tables if status.scopes is not None else ()
    lookups, taken, fed = (sum(getattr(one, name) for one in tables) for name in ("lookups", "taken", "fed"))
    if not lookups:
        return ""
    reasons = ", ".join(dict.fromkeys(one.unfed for one in tables if one.unfed))
    return f"{taken / lookups:.0%} of {counted(lookups, 'lookup')}, {fed / lookups:.0%} as bytes" + (
        f" (none now: {reasons})" if reasons else ""
    )


def _advertisements(status: Status) -> str:
    return "with advertisements" if status.routing["advertisements"] else "without advertisements"


def _published(status: Status) -> int:
    return status.counters.messages_in.get("Publish", 0)


def _delivered(status: Status) -> int:
    return status.counters.messages_out.get("Deliver", 0)


def _store(status: Status) -> str:
    if status.store is None:
        return "none"
    store = status.store
    failed = f", {store['failed']:,} FAILED" if store["failed"] else ""
    return f"{store['synced']:,} synced in {store['batches']:,} batches, {store['queued']:,} waiting{failed}"


def _scopes(status: Status) -> str:
    scopes = status.scopes
    if scopes is None:
        return "unknown: the broker is older than scopes"
    who = f"ordered by {printable(scopes.authority)}" if scopes.authority else "no authority is named"
    waiting = "" if scopes.ready else ", WAITING to hear of the graph"
    return f"{scopes.count:,}, of which {scopes.carried:,} here, version {scopes.version}, {who}{waiting}"


def peers_table(status: Status, limit: int | None = None) -> Table:
    """The links, neighbours first, then the busiest clients."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("link", "kind", "state"):
        table.add_column(title)
    for title in ("queued", "unacked", "dropped", "subs", "ads", "told", "clock"):
        table.add_column(title, justify="right")
    peers = sorted(status.peers, key=lambda peer: (peer.kind, -peer.queued, -peer.unacknowledged, peer.name))
    for peer in peers[:limit]:
        state, style = _state(peer)
        numbers = (peer.queued, peer.unacknowledged, peer.dropped, peer.subscriptions, peer.advertisements)
        told = f"{peer.told_subscriptions:,}" if peer.kind == "broker" else ""
        table.add_row(
            Text(printable(peer.name)),
            peer.kind,
            Text(state, style=style),
            *(f"{n:,}" for n in numbers),
            told,
            _clock(peer, status.limits),
        )
    left_out = len(peers) - len(peers[:limit]) + status.peers_left_out
    if left_out:
        table.add_row(Text(f"and {left_out:,} more", style="dim"))
    return table


def _state(peer: PeerStatus) -> tuple[str, str]:
    if not peer.connected:
        return "cut", "yellow"
    return ("congested", "bold red") if peer.congested else ("ok", "green")


def _clock(peer: PeerStatus, limits: Mapping[str, bool | int | float | str]) -> Text:
    """How far it is ahead, with as many digits as are certain."""
    if peer.clock_offset is None or peer.clock_error is None:
        return Text("")
    is_off = abs(peer.clock_offset) - peer.clock_error > float(limits.get("clock_offset", math.inf))
    digits = 3 if peer.clock_error < 0.1 else 1
    return Text(f"{peer.clock_offset:+.{digits}f} s", style="bold red" if is_off else "")


def tree_of(root: str, tree: TreeStatus) -> Tree:
    """The tree of brokers, drawn from one of them."""
    adjacent: dict[str, list[str]] = {}
    for one, two in tree.edges:
        adjacent.setdefault(one, []).append(two)
        adjacent.setdefault(two, []).append(one)
    drawn = Tree(Text(printable(root), style="bold cyan"))
    stack = [(root, "", drawn)]
    while stack:
        broker, parent, branch = stack.pop()
        further = [neighbour for neighbour in sorted(adjacent.get(broker, ())) if neighbour != parent]
        stack.extend((neighbour, broker, branch.add(Text(printable(neighbour)))) for neighbour in further)
    return drawn
