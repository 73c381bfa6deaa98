"""Scripts of the scope language at a client: it asks what they need to know, and works out what they come to.

That takes as long as it takes, so it happens here, and not at a broker, which has traffic to carry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidings.model import Filter
from tidings.scopes import AnyChange, Graph

from ._admin_looks import Components

if TYPE_CHECKING:
    from tidings.scopes.language import Compiled, Extensions, Source


class _Asks(Protocol):
    async def graph(self, *, timeout: float) -> Graph: ...

    async def components(
        self,
        *,
        inputs: Iterable[Filter | str],
        outputs: Iterable[Filter | str],
        attributes: Iterable[str] | None,
        partial: bool,
        timeout: float,
    ) -> Components: ...


@dataclass(frozen=True)
class WorkedOut:
    """What scripts come to, on the graph of now."""

    before: Graph
    compiled: Compiled
    connected: Components | None = None
    """The clients that were connected, if what the scripts come to depends on it."""

    @property
    def changes(self) -> tuple[AnyChange, ...]:
        """One transaction."""
        return self.compiled.changes

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed and should be written in another way."""
        return self.compiled.warnings


async def work_out(
    admin: _Asks,
    sources: Sequence[Source],
    *,
    extensions: Extensions | None = None,
    command: bool = False,
    prune: bool = False,
    partial: bool = False,
    timeout: float,
    on_step: Callable[[str], None] = lambda what: None,
) -> WorkedOut:
    """The changes that scripts ask for; raises `ScriptError`. The loop goes on meanwhile.

    `on_step` is told what is done now, when that changes.
    """
    on_step("asking for the scope graph")
    graph = await admin.graph(timeout=timeout)
    from tidings.scopes.language import World, asks, compile_script  # noqa: PLC0415 - who writes no scripts does not pay for it

    asked = await asyncio.to_thread(asks, sources, graph, extensions)
    connected: Components | None = None
    if asked is not None:
        on_step("asking all brokers which clients are connected")
        connected = await admin.components(
            inputs=asked.inputs, outputs=asked.outputs, attributes=asked.attributes, partial=partial, timeout=timeout
        )
    on_step("working out what the statements come to")
    world = World.of(graph, connected or (), asked)
    compiled = await asyncio.to_thread(
        compile_script, sources, world, extensions=extensions, command=command, prune=prune, twice=not command
    )
    return WorkedOut(graph, compiled, connected)
