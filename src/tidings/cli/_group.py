"""`tidings group`: the groups that share work, who is in them, and what waits for them."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Annotated

import msgspec
import typer
from rich.table import Table

import tidings
from tidings.client import GroupList, GroupReset
from tidings.wire import GroupStatus

from ._connection import AsJson, entering
from ._errors import UsageError, complain
from ._help import Commands
from ._printable import printable, printable_json
from ._scope_plans import at_a_terminal
from ._terminal import terminal

group = Commands(help="Groups that share work: members, what waits, dead letters.")

Name = Annotated[str, typer.Argument(metavar="GROUP", help="A group of your identity, or SCOPE/GROUP of a scope.")]
Owner = Annotated[
    str | None,
    typer.Option("--owner", metavar="IDENTITY", help="Whose group it is. Requires the right to administer."),
]


@group.command("list")
@entering
def list_(client: tidings.Client, as_json: AsJson = False) -> None:
    """List the groups of your identity and of your scopes; an administrator sees all."""

    async def ask() -> GroupList:
        async with client:
            return await client.groups.list()

    found = asyncio.run(ask())
    if as_json:
        print(printable_json(json.dumps([_plain(one) for one in found.groups])))
    else:
        _show_all(found.groups)
    if found.left_out:
        complain(f"{found.left_out:,} more groups are not shown")


@group.command()
@entering
def show(client: tidings.Client, name: Name, owner: Owner = None, as_json: AsJson = False) -> None:
    """Show one group: how it works, what waits for it, and each member."""

    async def ask() -> GroupStatus:
        async with client:
            return await client.groups.show(name, owner=owner)

    found = asyncio.run(ask())
    if as_json:
        print(printable_json(json.dumps(_plain(found, listed=True))))
    else:
        _show(found)


@group.command()
@entering
def reset(
    client: tidings.Client,
    name: Name,
    owner: Owner = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Drop what waits for an acknowledged group: it goes on with what is published from now on."""
    if not yes and not at_a_terminal():
        raise UsageError("standard input is no terminal; give --yes to drop what waits without a question")

    async def ask() -> GroupReset:
        async with client:
            if not yes:
                before = await client.groups.show(name, owner=owner)
                what = f"{before.waiting:,} jobs{' and more' if before.behind else ''} that wait for {printable(name)}"
                await asyncio.to_thread(typer.confirm, f"Drop {what}?", abort=True, err=True)
            return await client.groups.reset(name, owner=owner)

    done = asyncio.run(ask())
    if as_json:
        print(printable_json(json.dumps({"dropped": done.dropped, "group": _plain(done.group)})))
    else:
        held = f"; members may finish the {done.group.held:,} that they hold" if done.group.held else ""
        print(f"dropped {done.dropped:,} jobs of {printable(name)}{held}")


def _plain(one: GroupStatus, *, listed: bool = False) -> dict[str, object]:
    """As JSON has it; the key `listed` is there where members were asked for."""
    plain: dict[str, object] = msgspec.to_builtins(one)
    if not listed:
        del plain["listed"]
    return plain


def _show_all(groups: tuple[GroupStatus, ...]) -> None:
    console = terminal()
    if not groups:
        console.print("no groups that you may see")
        return
    table = Table("group", "owner", "", "members", "waiting", "held", "again", "dead letters", box=None)
    for one in groups:
        kind = "acknowledged" if one.acknowledged else "plain"
        again, dead = (f"{one.redelivered:,}", f"{one.dead_letters:,}") if one.acknowledged else ("-", "-")
        numbers = (f"{one.members:,}", _waiting(one), f"{one.held:,}", again, dead)
        table.add_row(printable(one.name), printable(one.owner) or "-", kind, *numbers)
    console.print(table)


def _waiting(one: GroupStatus) -> str:
    return f"{one.waiting:,}{'+' if one.behind else ''}"


def _show(one: GroupStatus) -> None:
    console = terminal()
    rows = Table(box=None, show_header=False)
    owner = f" of {printable(one.owner)}" if one.owner else ""
    rows.add_row("group", f"{printable(one.name)}{owner}, decided by {printable(one.decided_by)}")
    rows.add_row("filter", printable(one.filter))
    oldest = f", the oldest for {time.time() - one.oldest / 1e6:,.1f} s" if one.oldest else ""
    rows.add_row("waiting", f"{_waiting(one)}{oldest}")
    if one.acknowledged:
        order = f", in order by {printable(one.by)}" if one.by else ""
        most = f"{one.max_deliveries:,} times" if one.max_deliveries else "for ever"
        rows.add_row("jobs", f"acknowledged within {one.ack_within / 1e6:g} s, given {most}{order}")
        rows.add_row("handled", f"{one.handled:,} of {one.taken:,}")
        rows.add_row("given again", f"{one.redelivered:,}, {one.dead_letters:,} dead letters")
    else:
        rows.add_row("given", f"{one.handled:,}, {one.held:,} under way")
    if one.losses:
        rows.add_row("losses", f"{one.losses:,}")
    console.print(rows)
    members = Table("member", "at", "holds", "", box=None)
    for member in one.listed:
        holds = f"{member.holds:,} of {member.max_in_flight:,}" if one.acknowledged else "-"
        state = "connected" if member.connected else "away"
        members.add_row(printable(member.client), printable(member.broker), holds, state)
    if one.listed:
        console.print(members)
    else:
        console.print("no members")
    if one.members > len(one.listed):
        complain(f"{one.members - len(one.listed):,} more members are not shown")
