"""`tidings scope show|tree|members|explain|log`: look at who sees what, and at how it came to be so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

import tidings
from tidings.model import ROOT_SCOPE, TidingsError
from tidings.scopes import (
    Attributes,
    AuditEntry,
    Component,
    Graph,
    Interface,
    Membership,
    Placement,
    RuleCount,
    is_client,
    resolve,
)
from tidings.wire import TableStatus

from ._connection import AsJson, entering
from ._option_values import whole
from ._picture import picture
from ._printable import printable, printable_json
from ._values import notification_of

SHOWN_CLIENTS = 20
"""Clients of one scope that a tree shows; more are counted."""

_T = TypeVar("_T")


@entering
def show(
    client: tidings.Client,
    name: Annotated[str, typer.Argument(metavar="SCOPE", help="The scope, or a client @name.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Show one scope: interfaces, members, superscopes, the brokers that carry it, and its traffic here.

    Traffic is shown to clients that may administer the broker.
    """
    graph, traffic, rules = asked(client, lambda: _graph_and_traffic(client))
    node = name if is_client(name) else ROOT_SCOPE if name == "root" else resolve(graph, name)
    words = scope_words(graph, node)
    if not is_client(node):
        words["rules"] = [_rule_words(one) for one in rules if one.scope == node]
    if node in traffic:
        counted = traffic[node]
        words["traffic here"] = {"looked up": counted.lookups, "copies": counted.copies, "filters": counted.evaluated}
    if as_json:
        print(json.dumps(words))
        return
    table = Table.grid(padding=(0, 2))
    for title, value in words.items():
        for line in _lines(value):
            table.add_row(Text(title, style="cyan"), Text(printable(line)))
            title = ""
    if words.get("brokers") == []:
        table.add_row(Text("brokers", style="cyan"), Text("none yet: no member is connected"))
    Console(highlight=False).print(table)


@entering
def tree(
    client: tidings.Client,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a picture to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Draw the scope graph, superscopes above their members. A member of several scopes appears in each."""
    graph = asked(client, client.admin.graph)
    if svg is not None:
        svg.write_text(picture(graph), encoding="utf-8")
    if as_json:
        nodes = sorted(graph.scopes)
        print(json.dumps({"version": graph.version, "scopes": [scope_words(graph, node) for node in nodes]}))
    elif svg is None:
        console = Console(highlight=False)
        for drawn in trees(graph):
            console.print(drawn)


@entering
def members(
    client: tidings.Client,
    name: Annotated[str, typer.Argument(metavar="[SCOPE]", help="The scope.", show_default="root")] = "root",
    partial: Annotated[
        bool, typer.Option("--partial", help="Show what is known even if not every broker answers.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the members of a scope, where they are connected, and what is said about them.

    Clients that no administrator has made a member of a scope are members of the root scope while they are connected.
    """

    async def work() -> list[Component]:
        graph = await client.admin.graph()
        scope = ROOT_SCOPE if name == "root" else resolve(graph, name)
        return await client.admin.members(scope, partial=partial)

    found = asked(client, work)
    if as_json:
        for one in found:
            words = {"name": one.node, "broker": one.broker, "attributes": _plain(one.attributes), "roles": one.roles}
            print(json.dumps(words))
        return
    table = Table(box=None, pad_edge=False)
    for title in ("member", "connected to", "roles", "attributes"):
        table.add_column(title, style="cyan" if title == "member" else None)
    for one in found:
        said = ", ".join(f"{key}={value!r}" for key, value in one.attributes.items())
        place = one.broker or ("not connected" if is_client(one.node) else "")
        table.add_row(*(Text(printable(text)) for text in (one.node, place, ", ".join(one.roles), said)))
    Console(highlight=False).print(table if found else Text("no members"))


@entering
def explain(
    client: tidings.Client,
    publisher: Annotated[
        str, typer.Argument(metavar="@PUBLISHER", help="The client that publishes.", show_default=False)
    ],
    reader: Annotated[
        str, typer.Argument(metavar="READER", help="The client or scope that would receive.", show_default=False)
    ],
    attributes: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE", help="What is published.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Explain why a client sees a notification of another one, or why not: every way, and what blocks it."""
    notification = notification_of(attributes)
    found = asked(client, lambda: client.admin.explain(publisher, notification, reader))
    if as_json:
        ways = [{"path": way.path, "steps": list(map(str, way.crossings))} for way in found.ways]
        print(json.dumps({"visible": found.visible, "ways": ways, "apart": found.apart, "partial": found.partial}))
    else:
        print("\n".join(map(printable, str(found).split("\n"))))


@entering
def log(
    client: tidings.Client,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", "-n", parser=whole("--limit", 1, 1_000), metavar="N", help="Show at most this many entries."
        ),
    ] = 20,
    as_json: AsJson = False,
) -> None:
    """Show who changed the scope graph, who was refused, and what became visible to whom; newest last."""
    entries = asked(client, lambda: client.admin.log(limit))
    console = Console(highlight=False, soft_wrap=True)
    for entry in entries:
        if as_json:
            print(printable_json(msgspec.json.encode(entry).decode()))
        else:
            console.print(_entry(entry))


def _rule_words(counted: RuleCount) -> dict[str, Any]:
    """A rule, in whose name it acts, and what it has done since the authority started."""
    rule = counted.rule
    words: dict[str, Any] = {"name": str(rule), "of": rule.who, "done": counted.done, "failed": counted.failed}
    return {**words, "because": counted.reason} if counted.reason else words


async def _graph_and_traffic(
    client: tidings.Client,
) -> tuple[Graph, dict[str, TableStatus], list[RuleCount]]:
    graph = await client.admin.graph()
    rules = await client.admin.rules() if graph.ruled else []
    try:
        status = (await client.status()).scopes
    except TidingsError:  # it may look at scopes, and not at the broker
        status = None
    return graph, {table.scope: table for table in (status.tables if status is not None else ())}, rules


def asked(client: tidings.Client, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """What a connected client finds out."""

    async def run() -> _T:
        async with client:
            return await work()

    return asyncio.run(run())


# --- one scope ------------------------------------------------------------------------------------------


def scope_words(graph: Graph, name: str) -> dict[str, Any]:
    """Everything that is known about a scope or a client, as plain words."""
    edges = graph.superscopes(name)
    if is_client(name):
        return {
            "client": name,
            "attributes": _plain(graph.attributes(name)),
            "roles": list(graph.roles(name)),
            "policies": {"publishing": str(use)} if (use := graph.publishing(name)) is not None else {},
            "member of": [_edge_words(edge, edge.scope) for edge in edges.values()] or _outside(graph, name),
        }
    known = graph.scope(name)
    return {
        "scope": known.id or "root",
        "interface": _interface_words(known.interface),
        "imposed": _interface_words(known.imposed),
        "abstract": known.abstract,
        "hidden": known.hidden,
        "trusted": list(known.trusted),
        "duplicates": known.duplicates.name.lower() if known.duplicates else "",
        "ordered": known.ordered,
        "policies": {kind: str(use) for kind, use in sorted(known.policies.items())},
        "attributes": _plain(known.attributes),
        "roles": list(known.roles),
        "administrators": list(known.administrators),
        "admission": f"one of {len(known.admission)} secrets" if known.admission else "",
        "member of": [_edge_words(edge, edge.scope) for edge in edges.values()],
        "members": [_edge_words(edge, edge.member) for _, edge in sorted(graph.members(known.id).items())],
        "brokers": sorted(graph.anchored(known.id)) if known.id else ["all"],
        "extended to": sorted(known.brokers),
    }


def _outside(graph: Graph, name: str) -> list[str]:
    """Where a client is that is a member of nothing: the root scope, unless it has left its last scope."""
    return ["root"] if graph.is_stranger(name) else []


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return Attributes(attributes).dump()


def _interface_words(interface: Interface) -> dict[str, str]:
    return {"input": str(interface.input), "output": str(interface.output)}


def _edge_words(edge: Membership, other: str) -> dict[str, Any]:
    words: dict[str, Any] = {"name": other or "root"}
    for title, interface in (("selective", edge.selective), ("imposed", edge.imposed)):
        if not interface.is_open:
            words[title] = _interface_words(interface)
    if edge.mapping is not None:
        words["mapping"] = {
            side: [repr(step) for step in getattr(edge.mapping, side).steps] for side in ("outward", "inward")
        }
    if edge.placement is not Placement.ONCE:
        words["crosses"] = f"at {edge.gateway}" if edge.gateway else edge.placement.value
    return words


def _lines(value: object) -> list[str]:
    """A value as lines for people; what says nothing is left out."""
    match value:
        case bool():
            return ["yes"] if value else []
        case dict():
            if "name" in value:
                more = [f"{key}: {', '.join(_lines(item))}" for key, item in value.items() if key != "name"]
                return [f"{value['name']}" + (f"  ({'; '.join(more)})" if more else "")]
            return [f"{key}: {', '.join(_lines(item))}" for key, item in value.items() if item != []]
        case list():
            return [line for item in value for line in _lines(item)]
    return [] if value in ("", None) else [str(value)]


# --- the graph ------------------------------------------------------------------------------------------


def trees(graph: Graph) -> list[Tree]:
    """The graph as trees, one for each scope without a superscope; the root scope first, if anything is in it."""
    drawn: set[str] = set()
    roots = [node for node in sorted(graph.roots()) if node or graph.members(node)]
    found = [_branch(graph, node, None, drawn) for node in roots]
    return found or [Tree(Text("no scopes yet: every client is in the root scope"))]


def _branch(graph: Graph, node: str, parent: str | None, drawn: set[str]) -> Tree:
    """A scope with everything below it; what was drawn elsewhere already is not unfolded again."""
    label = _label(graph, node)
    others = [other or "root" for other in sorted(graph.superscopes(node)) if other != parent]
    if others:
        label.append(f"  also in {', '.join(map(printable, others))}", style="yellow")
    label.append_text(_interface(graph, node))
    again = node in drawn and bool(graph.members(node))
    if again:
        label.append("  (members: see above)", style="dim")
    branch = Tree(label)
    if again:
        return branch
    drawn.add(node)
    members = sorted(graph.members(node))
    for member in [m for m in members if not is_client(m)]:
        branch.children.append(_branch(graph, member, node, drawn))
    clients = [m for m in members if is_client(m)]
    for client in clients[:SHOWN_CLIENTS]:
        branch.children.append(_branch(graph, client, node, drawn))
    if len(clients) > SHOWN_CLIENTS:
        branch.add(Text(f"and {len(clients) - SHOWN_CLIENTS:,} more clients", style="dim"))
    return branch


def _label(graph: Graph, node: str) -> Text:
    if is_client(node):
        return Text(printable(node), style="green")
    known = graph.scopes[node]
    label = Text(printable(node) or "root", style="bold cyan")
    marks = [word for word in ("abstract", "hidden", "confidential") if getattr(known, word)]
    if marks:
        label.append(f"  [{', '.join(marks)}]", style="magenta")
    return label


def _interface(graph: Graph, node: str) -> Text:
    """What a scope lets in and out, if anything."""
    shown = Text()
    if node and not is_client(node) and not graph.scopes[node].abstract:
        for side in ("input", "output"):
            text = printable(str(getattr(graph.scopes[node].interface, side)))
            if text != "FALSE":
                shown.append(f"  {side[:-3]} {text}", style="dim")
    return shown


# --- the log --------------------------------------------------------------------------------------------


def _entry(entry: AuditEntry) -> Text:
    at = datetime.fromtimestamp(entry.at / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    text = Text(at, style="dim")
    text.append(f"  {printable(entry.who) or 'a broker'}  ", style="not dim bold")
    if entry.error:
        text.append("refused", style="not dim red")
    else:
        text.append(f"version {entry.version}", style="not dim green")
    for change in entry.changes:
        text.append(f"\n    {printable(change)}", style="not dim")
    if entry.error:
        text.append(f"\n    {printable(entry.reason)}", style="not dim red")
    for sign, style, sights in (
        ("+", "not dim green", entry.gained),
        (">", "not dim green", entry.wider),
        ("<", "not dim yellow", entry.narrower),
        ("-", "not dim yellow", entry.lost),
        ("?", "not dim", entry.undecided),
    ):
        for sight in sights:
            text.append(f"\n      {sign} {printable(str(sight))}", style=style)
            if sight.before:
                text.append(f", for example {printable(sight.witness) or 'no attributes'}", style="dim")
    if entry.more:
        text.append("\n      and more", style="not dim")
    return text
