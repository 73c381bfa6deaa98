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
from tidings.client import ADMIN_TIMEOUT, Changed, Components, work_out
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
from ._progress import Progress
from ._scope_changes import Credentials, How, Seconds, secrets
from ._scope_scripts import DIFFERENT, Partial, Prune, mistakes_told
from ._script_files import MAX_PLAN, Files, check_outputs, named, read_bytes, read_sources, source_in, write_text

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Make the change without asking.")]
ByClient = Annotated[bool, typer.Option("--by-client", help="Also show what each client gains and loses.")]
Thorough = Annotated[
    bool,
    typer.Option("--thorough", help="Follow everything everywhere, however large the change is. May take minutes."),
]
All = Annotated[bool, typer.Option("--all", help="Show the whole plan, however long it is.")]
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
    all: All = False,
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
        async with client, Progress() as progress:
            how = _Depth(by_client, THOROUGH_EFFORT if thorough else None)
            planning = _Planning(client, progress, timeout)
            planned, before, after = await planning.of_scripts(sources, prune, partial, how)
            graphs.append((before, after))
            return planned

    with mistakes_told(as_json):
        planned = asyncio.run(run())
    if out is not None:
        write_text(out, encode_outlook(planned.outlook).decode() + "\n")
    if svg is not None:
        before, after = graphs[0]
        write_text(svg, picture(after, before))
    _show(planned, as_json, all)
    if not planned.is_empty:
        raise typer.Exit(DIFFERENT)


@entering
def apply(
    client: tidings.Client,
    files: Files,
    yes: Yes = False,
    prune: Prune = False,
    partial: Partial = False,
    all: All = False,
    credentials: Credentials = None,
    mode: How = Mode.RELAXED,
    timeout: Seconds = ADMIN_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Make the graph what files say, or carry out a plan that `tidings scope plan --out` has written.

    Everything happens as one change, or nothing does. A plan is refused if the graph is not the one it was made for.
    """
    outlook, sources, name = None, [], named(files[0])
    if len(files) == 1:
        data = read_bytes(files[0], MAX_PLAN)
        outlook = _plan_in(data, name)
        sources = [] if outlook is not None else [source_in(files[0], data)]
    else:
        sources = read_sources(files)
    presented = secrets(credentials)

    async def run() -> Changed | None:
        async with client, Progress() as progress:
            planning = _Planning(client, progress, timeout)

            async def make() -> Planned:
                if outlook is None:
                    return (await planning.of_scripts(sources, prune, partial))[0]
                graph = await planning.graph()
                _check_plan(outlook, graph, name)
                # What follows is worked out anew: a file can say anything. An equal graph of a later version will do,
                # and that is the one which must not have changed meanwhile.
                return Planned(await planning.outlook(graph, outlook.changes))

            return await _carry_out(planning, make, yes, as_json, all, mode=mode, credentials=presented)

    with mistakes_told(as_json):
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
    all: All = False,
    credentials: Credentials = None,
    mode: How = Mode.RELAXED,
    timeout: Seconds = ADMIN_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Take back what one version of the graph changed, on the graph as it is now. Later changes stay."""
    presented = secrets(credentials)

    async def run() -> Changed | None:
        async with client, Progress() as progress:
            planning = _Planning(client, progress, timeout)

            async def make() -> Planned:
                progress.now(f"asking for version {version} of the scope graph")
                before, transaction = await client.admin.revision(version, timeout=timeout)
                graph = await planning.graph()
                changes = await asyncio.to_thread(inverse, before, transaction, graph)
                return Planned(await planning.outlook(graph, changes))

            return await _carry_out(planning, make, yes, as_json, all, mode=mode, credentials=presented)

    _tell(asyncio.run(run()), as_json)


# --- planning -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Depth:
    """How much a plan is to say."""

    by_client: bool = False
    effort: int | None = None


_PLAIN = _Depth()


class _Planning:
    """How plans are made: what is asked of the network for them, and what is said meanwhile."""

    def __init__(self, client: tidings.Client, progress: Progress, timeout: float) -> None:
        self.client = client
        self.progress = progress
        self.timeout = timeout

    async def graph(self) -> Graph:
        self.progress.now("asking for the scope graph")
        return await self.client.admin.graph(timeout=self.timeout)

    async def of_scripts(
        self, sources: list[Source], prune: bool, partial: bool, how: _Depth = _PLAIN
    ) -> tuple[Planned, Graph, Graph]:
        """What files would do, and the graphs before and after it."""
        found = await work_out(
            self.client.admin,
            sources,
            prune=prune,
            partial=partial,
            timeout=self.timeout,
            on_step=self.progress.now,
        )
        connected, compiled = found.connected, found.compiled
        outlook = await self.outlook(found.before, found.changes, how, connected)
        silent, absent = ((), ()) if connected is None else (connected.silent, connected.absent)
        planned = Planned(outlook, compiled.open, compiled.warnings, silent, absent)
        return planned, found.before, applied(found.before, found.changes)

    async def outlook(
        self, graph: Graph, changes: tuple[Any, ...], how: _Depth = _PLAIN, connected: Components | None = None
    ) -> Outlook:
        """What changes would do."""
        parents = await self._parents() if changes else {}
        places = await self._places(connected) if parents else {}
        self.progress.now(f"working out what {len(changes):,} changes would do")
        # It may take long, and the connection is to be kept alive meanwhile.
        return await asyncio.to_thread(
            plan_change, graph, changes, by_client=how.by_client, parents=parents, places=places, effort=how.effort
        )

    async def _parents(self) -> Mapping[str, str | None]:
        """The tree of brokers, each with the next one towards this one; {} for those who may not know it."""
        self.progress.now("asking for the tree of brokers")
        try:
            status = await self.client.status()
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

    async def _places(self, connected: Components | None) -> Mapping[str, str]:
        """Where clients are connected, as far as this one may know."""
        self.progress.now("asking all brokers which clients are connected")
        try:
            if connected is None:
                connected = await self.client.admin.components(attributes=(), partial=True, timeout=self.timeout)
        except ScopeError:
            return {}
        return {one.node: one.broker for one in connected}


def _plan_in(data: bytes, name: str) -> Outlook | None:
    """The plan in a file, if it is one; files of the language never begin with a brace."""
    if not data[:100].lstrip().startswith(b"{"):
        return None
    if len(data) > MAX_PLAN:
        raise ScopeError(f"{name} is larger than {MAX_PLAN:,} bytes, the most of a plan; apply its files in parts")
    try:
        return decode_outlook(data)
    except ScopeError as error:
        raise ScopeError(f"{name}: {error}") from None


def _check_plan(outlook: Outlook, graph: Graph, name: str) -> None:
    """Raise `StaleGraph` unless the graph is the one that a plan was made for."""
    if digest(graph) == outlook.digest:
        return
    if graph.version <= outlook.version:
        raise StaleGraph(
            f"{name} was made for another network: its graph of version {outlook.version} is not the one here, "
            f"which is at version {graph.version}; plan anew"
        )
    raise StaleGraph(
        f"{name} was made for version {outlook.version} of the scope graph, which is at version {graph.version} "
        "and says something else now; plan anew"
    )


# --- carrying out ---------------------------------------------------------------------------------------


async def _carry_out(
    planning: _Planning, make: _Make, yes: bool, as_json: bool, all: bool, *, mode: Mode, credentials: Any
) -> Changed | None:
    """Show what would happen, ask, and make the change; None if there is nothing to change."""
    shown: Planned | None = None
    for _ in range(MAX_ATTEMPTS):
        planned = await make()
        if planned.is_empty:
            if not as_json:
                _show(planned, as_json, all)
            return None
        if shown is None or shown.outlook.changes != planned.outlook.changes:
            if shown is not None:
                complain("the graph, or what is connected, has changed meanwhile, and with it the plan:")
            if not as_json:
                _show(planned, as_json, all)
            elif not yes:
                complain(plan_text(planned, all=all))
            if not yes:
                planning.progress.now("")
                await asyncio.to_thread(_ask)  # whoever is asked takes time, and the connection is to be kept alive
                shown = planned
                continue
        planning.progress.now("waiting until the change has taken effect everywhere")
        try:
            return await planning.client.admin.change(
                *planned.outlook.changes,
                mode=mode,
                credentials=credentials,
                expected=planned.outlook.version,
                timeout=planning.timeout,
            )
        except StaleGraph:
            shown = planned
    raise StaleGraph(f"the scope graph changes all the time: {MAX_ATTEMPTS} plans were out of date; try again later")


def at_a_terminal() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty()


def _ask() -> None:
    if not at_a_terminal():
        raise UsageError("standard input is no terminal; give --yes to make the change without a question")
    if not typer.confirm("Make this change?", err=True):
        raise ScopeError("nothing was changed")


def _show(planned: Planned, as_json: bool, all: bool) -> None:
    if as_json:
        print(printable_json(json.dumps(plan_words(planned))))
    else:
        print(printable_lines(plan_text(planned, all=all)))


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
