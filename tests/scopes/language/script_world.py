"""What the tests of the scope language share: scripts carried out on graphs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tidings.model import Filter
from tidings.scopes import Attributes, Component, Graph, apply
from tidings.scopes.language import Asked, Compiled, Extensions, ScriptError, Source, World, asks, compile_script


def connected(**clients: Mapping[str, object]) -> list[Component]:
    """Clients that are connected, with their attributes."""
    return [Component(f"@{name}", "b1", Attributes(attributes)) for name, attributes in clients.items()]


def compiled(
    text: str,
    graph: Graph | None = None,
    clients: list[Component] | None = None,
    *,
    extensions: Extensions | None = None,
    command: bool = False,
    prune: bool = False,
    asked: Asked | None = None,
) -> Compiled:
    world = World.of(graph or Graph(), clients or [], asked)
    return compile_script([Source(text, "t.scopes")], world, extensions=extensions, command=command, prune=prune)


def carried_out(text: str, graph: Graph | None = None, clients: list[Component] | None = None, **how: object) -> Graph:
    """The graph after a script; its transaction is applied as the authority would."""
    before = graph or Graph()
    return apply(before, compiled(text, before, clients, **how).changes)  # type: ignore[arg-type]


def refusal(text: str, graph: Graph | None = None, clients: list[Component] | None = None, **how: object) -> str:
    """The whole message with which a script is refused."""
    with pytest.raises(ScriptError) as caught:
        compiled(text, graph, clients, **how)  # type: ignore[arg-type]
    return str(caught.value)


def members(graph: Graph, scope: str) -> set[str]:
    return set(graph.members(scope))


def supers(graph: Graph, node: str) -> set[str]:
    return set(graph.superscopes(node))


def passes(filter: Filter, **attributes: object) -> bool:
    return bool(filter.matches(attributes))


__all__ = ["asks", "carried_out", "compiled", "connected", "members", "passes", "refusal", "supers"]
