"""`tidings scope who-sees|what-sees`: complete lists of who sees what, each entry with an example."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text

import tidings
from tidings.client import Readings
from tidings.model import ROOT_SCOPE, Filter
from tidings.scopes import Reading, enc_hook, is_client, resolve

from ._connection import AsJson, entering
from ._errors import complain
from ._printable import printable, printable_json
from ._scope_looks import asked

SHOWN_NAMES = 10
"""Clients of one entry that are named; more are counted."""


@entering
def who_sees(
    client: tidings.Client,
    filter: Annotated[str, typer.Argument(metavar="FILTER", help="What is published.", show_default=False)],
    source: Annotated[
        str | None, typer.Option("--from", metavar="@CLIENT", help="Who publishes it; without, anybody.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List all clients that see publications which pass a filter, whether they subscribe to them or not.

    Clients with the same memberships are listed together, with the filter of what they see and one example.
    """
    wanted = Filter.parse(filter)
    _print(asked(client, lambda: client.admin.who_sees(wanted, source)), as_json, readers=True)


@entering
def what_sees(
    client: tidings.Client,
    reader: Annotated[str, typer.Argument(metavar="READER", help="A client, @name, or a scope.", show_default=False)],
    filter: Annotated[str, typer.Option("--filter", metavar="FILTER", help="Only of what passes this.")] = "TRUE",
    as_json: AsJson = False,
) -> None:
    """List whose publications a client or a scope sees, and which of them."""
    wanted = Filter.parse(filter)

    async def work() -> Readings:
        node = reader
        if not is_client(reader):
            node = ROOT_SCOPE if reader == "root" else resolve(await client.admin.graph(), reader)
        return await client.admin.what_sees(node, wanted)

    _print(asked(client, work), as_json, readers=False)


def _print(found: Readings, as_json: bool, *, readers: bool) -> None:
    if found.partial:
        complain("this is the part of the graph that you may see: there may be more in hidden scopes")
    if as_json:
        for one in found:
            print(printable_json(msgspec.json.encode(one, enc_hook=enc_hook).decode()))
        return
    console = Console(highlight=False, soft_wrap=True)
    for one in found:
        console.print(_entry(one, readers))
    if not found:
        console.print(Text("nobody" if readers else "nothing"))


def _entry(one: Reading, readers: bool) -> Text:
    nodes = (one.readers or (one.reader,)) if readers else (one.sources or (one.source,))
    more = f" and {len(nodes) - SHOWN_NAMES:,} more" if len(nodes) > SHOWN_NAMES else ""
    text = Text(printable(", ".join(map(_name, nodes[:SHOWN_NAMES])) + more), style="cyan")
    text.append(f"  {printable(one.filter)}", style="not cyan")
    if not one.certain:
        text.append("\n    perhaps: no example was found, and no proof that there is none", style="not cyan yellow")
        return text
    text.append(f"\n    for example {printable(_words(one.witness))}", style="not cyan dim")
    forms = [form for form in one.seen if form != one.witness]
    if forms:
        text.append(f", seen as {printable(' and as '.join(map(_words, forms)))}", style="not cyan dim")
    return text


def _name(node: str) -> str:
    return "all clients that are in no scope" if node == "@" else node


def _words(attributes: object) -> str:
    assert hasattr(attributes, "items")
    return ", ".join(f"{name}={value!r}" for name, value in attributes.items()) or "no attributes"
