"""`tidings scope plan|apply|undo`: see what a change would do, and make it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import tidings
from tidings.client import ADMIN_TIMEOUT, Changed, work_out
from tidings.model import ScopeError, StaleGraph, TidingsError
from tidings.scopes import (
    THOROUGH_EFFORT,
    Graph,
    Mode,
    Outlook,
    decode_outlook,
    digest,
    encode_outlook,
    inverse,
    plan_change,
)
from tidings.scopes import apply as applied
from tidings.scopes.language import Source

from ._connection import AsJson, entering
from ._errors import UsageError, complain
from ._option_values import whole
from ._picture import picture
from ._plan_looks import Planned, plan_text, plan_words
from ._printable import printable_json, printable_lines
from ._scope_changes import Credentials, How, Seconds, secrets
from ._scope_scripts import DIFFERENT, Partial, Prune
from ._script_files import MAX_PLAN, Files, check_outputs, read_bytes, read_sources, write_text

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Make the change without asking.")]
ByClient = Annotated[bool, typer.Option("--by-client", help="Also show what each client gains and loses.")]
Thorough = Annotated[
    bool,
    typer.Option("--thorough", help="Follow everything everywhere, however large the change is. May take minutes."),
]
MAX_ATTEMPTS = 5
"""How often a change is planned anew because the graph has changed meanwhile."""
_Make = Callable[[], Coroutine[Any, Any, Planned]]


@entering
def plan(
    client: tidings.Client,
    files: Files,
    prune: Prune = False,
    partial: Partial = False,
    by_client: ByClient = False,
    thorough: Thorough = False,
    out: Annotated[
        Path | None, typer.Option(metavar="PLAN", help="Write the plan to this file, for `tidings scope apply`.")
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a picture of what would change in the graph to this file."),
    ] = None,
    timeout: Seconds = ADMIN_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show what files would change: the transaction, and who would see what. Nothing is changed.

    Exit with 0 if nothing would change, with 2 if something would, and with 1 after an error.
    """
    check_outputs(files, out=out, svg=svg)
    sources = read_sources(files)
    graphs: list[tuple[Graph, Graph]] = []

    async def run() -> Planned:
        async with client:
            how = _Depth(by_client, THOROUGH_EFFORT if thorough else None)
            planned, before, after = await _planned(client, sources, prune, partial, timeout, how)
            graphs.append((before, after))
            return planned

    planned = asyncio.run(run())
    if out is not None:
        write_text(out, encode_outlook(planned.outlook).decode() + "\n")
    if svg is not None:
        before, after = graphs[0]
        write_text(svg, picture(after, before))
    _show(planned, as_json)
    if not planned.is_empty:
        raise typer.Exit(DIFFERENT)


@entering
def apply(
    client: tidings.Client,
    files: Files,
    yes: Yes = False,
    prune: Prune = False,
    partial: Partial = False,
    credentials: Credentials = None,
    mode: How = Mode.RELAXED,
    timeout: Seconds = ADMIN_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Make the graph what files say, or carry out a plan that `tidings scope plan --out` has written.

    Everything happens as one change, or nothing does. A plan is refused if the graph is not the one it was made for.
    """
    outlook = _plan_in(files)
    presented = secrets(credentials)
    sources = [] if outlook is not None else read_sources(files)

    async def make() -> Planned:
        if outlook is not None:
            graph = await client.admin.graph(timeout=timeout)
            _check_plan(outlook, graph, str(files[0]))
            # What follows is worked out anew: a file can say anything. An equal graph of a later version will do, and
            # that is the one which must not have changed meanwhile.
            return Planned(await _outlook(client, graph, outlook.changes))
        return (await _planned(client, sources, prune, partial, timeout))[0]

    async def run() -> Changed | None:
        async with client:
            return await _carry_out(client, make, yes, as_json, mode=mode, credentials=presented, timeout=timeout)

    _tell(asyncio.run(run()), as_json)


@entering
def undo(
    client: tidings.Client,
    version: Annotated[
        int,
        typer.Argument(
            metavar="VERSION", parser=whole("VERSION", 1), help="The version to take back.", show_default=False
        ),
    ],
    yes: Yes = False,
    credentials: Credentials = None,
    mode: How = Mode.RELAXED,
    timeout: Seconds = ADMIN_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Take back what one version of the graph changed, on the graph as it is now. Later changes stay."""
    presented = secrets(credentials)

    async def make() -> Planned:
        before, transaction = await client.admin.revision(version, timeout=timeout)
        graph = await client.admin.graph(timeout=timeout)
        return Planned(await _outlook(client, graph, inverse(before, transaction, graph)))

    async def run() -> Changed | None:
        async with client:
            return await _carry_out(client, make, yes, as_json, mode=mode, credentials=presented, timeout=timeout)

    _tell(asyncio.run(run()), as_json)


# --- planning -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Depth:
    """How much a plan is to say."""

    by_client: bool = False
    effort: int | None = None


_PLAIN = _Depth()


async def _planned(
    client: tidings.Client, sources: list[Source], prune: bool, partial: bool, timeout: float, how: _Depth = _PLAIN
) -> tuple[Planned, Graph, Graph]:
    found = await work_out(client.admin, sources, prune=prune, partial=partial, timeout=timeout)
    outlook = await _outlook(client, found.before, found.changes, how)
    compiled = found.compiled
    planned = Planned(outlook, compiled.open, compiled.warnings)
    return planned, found.before, applied(found.before, found.changes)


async def _outlook(client: tidings.Client, graph: Graph, changes: tuple[Any, ...], how: _Depth = _PLAIN) -> Outlook:
    parents = await _parents(client)
    places = await _places(client) if parents else {}
    # It may take long, and the connection is to be kept alive meanwhile.
    return await asyncio.to_thread(
        plan_change, graph, changes, by_client=how.by_client, parents=parents, places=places, effort=how.effort
    )


async def _parents(client: tidings.Client) -> Mapping[str, str | None]:
    """The tree of brokers, each with the next one towards this one; {} for those who may not know it."""
    try:
        status = await client.status()
    except TidingsError:
        return {}
    found: dict[str, str | None] = {status.name: None}
    queue = [status.name]
    for broker in queue:
        for edge in status.tree.edges:
            if broker in edge:
                other = edge[1] if edge[0] == broker else edge[0]
                if other not in found:
                    found[other] = broker
                    queue.append(other)
    return found


async def _places(client: tidings.Client) -> Mapping[str, str]:
    """Where clients are connected, as far as this one may know."""
    try:
        return {one.node: one.broker for one in await client.admin.components(attributes=(), partial=True)}
    except ScopeError:
        return {}


def _plan_in(files: list[Path]) -> Outlook | None:
    """The plan in a file, if it is one; files of the language never begin with a brace."""
    start = read_bytes(files[0], most=100) if len(files) == 1 and str(files[0]) != "-" else b""
    if not start.lstrip().startswith(b"{"):
        return None
    data = read_bytes(files[0], MAX_PLAN)
    if len(data) > MAX_PLAN:
        raise ScopeError(
            f"'{files[0]}' is larger than {MAX_PLAN:,} bytes, the most of a plan; apply its files in parts"
        )
    try:
        return decode_outlook(data)
    except ScopeError as error:
        raise ScopeError(f"'{files[0]}': {error}") from None


def _check_plan(outlook: Outlook, graph: Graph, name: str) -> None:
    """Raise `StaleGraph` unless the graph is the one that a plan was made for."""
    if digest(graph) == outlook.digest:
        return
    if graph.version <= outlook.version:
        raise StaleGraph(
            f"'{name}' was made for another network: its graph of version {outlook.version} is not the one here, "
            f"which is at version {graph.version}; plan anew"
        )
    raise StaleGraph(
        f"'{name}' was made for version {outlook.version} of the scope graph, which is at version {graph.version} "
        "and says something else now; plan anew"
    )


# --- carrying out ---------------------------------------------------------------------------------------


async def _carry_out(
    client: tidings.Client, make: _Make, yes: bool, as_json: bool, *, mode: Mode, credentials: Any, timeout: float
) -> Changed | None:
    """Show what would happen, ask, and make the change; None if there is nothing to change."""
    shown: Planned | None = None
    for _ in range(MAX_ATTEMPTS):
        planned = await make()
        if planned.is_empty:
            if not as_json:
                _show(planned, as_json)
            return None
        if shown is None or shown.outlook.changes != planned.outlook.changes:
            if shown is not None:
                complain("the graph, or what is connected, has changed meanwhile, and with it the plan:")
            if not as_json:
                _show(planned, as_json)
            elif not yes:
                complain(plan_text(planned))
            if not yes:
                await asyncio.to_thread(_ask)  # whoever is asked takes time, and the connection is to be kept alive
                shown = planned
                continue
        try:
            return await client.admin.change(
                *planned.outlook.changes,
                mode=mode,
                credentials=credentials,
                expected=planned.outlook.version,
                timeout=timeout,
            )
        except StaleGraph:
            shown = planned
    raise StaleGraph(f"the scope graph changes all the time: {MAX_ATTEMPTS} plans were out of date; try again later")


def at_a_terminal() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty()


def _ask() -> None:
    if not at_a_terminal():
        raise UsageError("nobody is there to ask; give --yes to make the change without a question")
    if not typer.confirm("Make this change?", err=True):
        raise ScopeError("nothing was changed")


def _show(planned: Planned, as_json: bool) -> None:
    if as_json:
        print(printable_json(json.dumps(plan_words(planned))))
    else:
        print(printable_lines(plan_text(planned)))


def _tell(changed: Changed | None, as_json: bool) -> None:
    if changed is None:
        if as_json:
            print(json.dumps({"version": None, "warnings": []}))
        return
    if as_json:
        print(json.dumps({"version": changed.version, "warnings": changed.warnings}))
        return
    print(f"done, version {changed.version} of the scope graph")
    if changed.granted:
        complain("warning: less was granted than requested; `tidings scope show` shows what")
    for warning in changed.warnings:
        complain(f"warning: {warning}")
